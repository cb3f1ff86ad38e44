package analyst

import (
	"encoding/json"

	"loadstone/system/chat/analysis"
)

// Totals is what a stream's messages are so far.
type Totals struct {
	Type string `json:"type"`
	// Next is the offset of the first message that is not counted.
	Next   uint64 `json:"next"`
	Labels Labels `json:"labels"`
	// Deleted were taken back before they could be read, and Dead are messages that nobody can read:
	// with the labels they are all before Next.
	Deleted uint64 `json:"deleted"`
	Dead    uint64 `json:"dead"`
}

// Labels are counts by the names of labels.
type Labels struct {
	Praise    uint64 `json:"praise"`
	Criticism uint64 `json:"criticism"`
	Laughter  uint64 `json:"laughter"`
	Question  uint64 `json:"question"`
	Advice    uint64 `json:"advice"`
}

func named(c *analysis.Counts) Labels {
	return Labels{c[analysis.Praise], c[analysis.Criticism], c[analysis.Laughter], c[analysis.Question], c[analysis.Advice]}
}

// Summary is what stands for the messages of two offsets, from From to before Next.
type Summary struct {
	Type string `json:"type"`
	From uint64 `json:"from"`
	Next uint64 `json:"next"`
	// Lines are messages that stand for all.
	Lines []Line `json:"lines"`
	// Text is a language model's, and empty if there is none. Whoever shows it trusts it as little
	// as a message.
	Text string `json:"text"`
}

// Line is a message of a summary.
type Line struct {
	Offset uint64 `json:"offset"`
	Name   string `json:"name"`
	Text   string `json:"text"`
}

// Highlight is a moment of the show, as it is on the wire.
type Highlight struct {
	Type string `json:"type"`
	analysis.Highlight
}

// encode is a value on the wire. Those of this package cannot fail.
func encode(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}
