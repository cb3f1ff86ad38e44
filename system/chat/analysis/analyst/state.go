package analyst

import (
	"encoding/json"
	"fmt"
	"math"

	"loadstone/system/chat"
	"loadstone/system/chat/analysis"
)

// state is how far a stream is analysed. It is stored with what was found, all or nothing:
// whoever starts again from it finds the same, and counts nothing twice.
type state struct {
	// Model is the analysis.Version by which all of it was counted.
	Model string `json:"model"`
	// Before is the offset before which another model had analysed the stream: its summaries are
	// there, and its highlights were told.
	Before   uint64            `json:"before,omitempty"`
	Next     uint64            `json:"next"`
	Counts   analysis.Counts   `json:"counts"`
	Deleted  uint64            `json:"deleted"`
	Dead     uint64            `json:"dead"`
	Timeline analysis.Timeline `json:"timeline"`
}

func (s *state) totals() *Totals {
	return &Totals{Type: "totals", Next: s.Next, Labels: named(&s.Counts), Deleted: s.Deleted, Dead: s.Dead}
}

// loadState returns how far a stream is analysed: not at all where another model did it.
func loadState(log Notes, stream int64) (*state, error) {
	found, err := log.Notes(stream, chat.NoteRange{Topic: chat.NoteState, To: 1, Most: 1})
	s := &state{Model: analysis.Version()}
	if err != nil || len(found) == 0 {
		return s, err
	}
	was := &state{}
	if err := json.Unmarshal(found[0].Value, was); err != nil {
		return nil, fmt.Errorf("read how far stream %d is analysed: %w", stream, err)
	}
	if was.Model != s.Model {
		s.Before = max(was.Next, was.Before)
		return s, nil
	}
	return was, nil
}

// LoadTotals returns what the messages of a stream are, as far as it is analysed.
func LoadTotals(log Notes, stream int64) (*Totals, error) {
	s, err := loadState(log, stream)
	if err != nil {
		return nil, err
	}
	return s.totals(), nil
}

// forget returns notes that take away what another model has found. Summaries stay: they are
// made of what messages have in common, and a language model's text is not asked for twice.
func forget(log Notes, stream int64) (all []chat.Note, err error) {
	for _, topic := range []chat.Topic{chat.NoteSpan, chat.NoteHighlight, chat.NoteDead} {
		found, err := log.Notes(stream, chat.NoteRange{Topic: topic, To: math.MaxUint64, Most: math.MaxInt})
		if err != nil {
			return nil, err
		}
		for _, n := range found {
			all = append(all, chat.Note{Topic: topic, Number: n.Number})
		}
	}
	return all, nil
}

// LoadSpans returns the spans of a stream with messages, the first ones.
func LoadSpans(log Notes, stream int64, most int) ([]analysis.Span, error) {
	return load[analysis.Span](log, stream, chat.NoteRange{Topic: chat.NoteSpan, To: math.MaxUint64, Most: most})
}

// LoadHighlights returns the highlights of a stream, the newest first.
func LoadHighlights(log Notes, stream int64, most int) ([]analysis.Highlight, error) {
	return load[analysis.Highlight](log, stream, chat.NoteRange{Topic: chat.NoteHighlight, To: math.MaxUint64, Most: most, Newest: true})
}

func load[T any](log Notes, stream int64, which chat.NoteRange) ([]T, error) {
	found, err := log.Notes(stream, which)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(found))
	for i, n := range found {
		if err := json.Unmarshal(n.Value, &all[i]); err != nil {
			return nil, fmt.Errorf("read a note of stream %d: %w", stream, err)
		}
	}
	return all, nil
}

// stored is a summary as it is kept: the texts stay in the log, where they can be deleted.
type stored struct {
	From    uint64   `json:"from"`
	Offsets []uint64 `json:"offsets"`
	Text    string   `json:"text"`
}

// LoadSummary returns the newest summary of a stream, without messages that were deleted, or nil.
func LoadSummary(log Log, stream int64) (*Summary, error) {
	found, err := log.Notes(stream, chat.NoteRange{Topic: chat.NoteSummary, To: math.MaxUint64, Most: 1, Newest: true})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	var s stored
	if err := json.Unmarshal(found[0].Value, &s); err != nil {
		return nil, fmt.Errorf("read a summary of stream %d: %w", stream, err)
	}
	return tell(log, stream, found[0].Number, &s)
}

// tell makes a summary of what is kept of it. A language model's text goes with the first of
// its messages that is deleted: it may quote it.
func tell(log Log, stream int64, next uint64, s *stored) (*Summary, error) {
	told := &Summary{Type: "summary", From: s.From, Next: next, Lines: []Line{}, Text: s.Text}
	if s.Text != "" {
		all, err := read(log, stream, s.From, next)
		if err != nil {
			return nil, err
		}
		for i := range all {
			if all[i].Deleted {
				told.Text = ""
			}
		}
	}
	for _, offset := range s.Offsets {
		all, err := read(log, stream, offset, offset+1)
		if err != nil {
			return nil, err
		}
		for i := range all {
			if m := &all[i]; !m.Deleted {
				told.Lines = append(told.Lines, Line{m.Offset, m.Name, m.Text})
			}
		}
	}
	return told, nil
}

// read returns the messages between two offsets that can be read.
func read(log Log, stream int64, from, to uint64) (all []chat.Message, err error) {
	for from < to {
		found, err := log.Read(stream, from, int(to-from))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return all, nil
		}
		for _, f := range found {
			if m, err := chat.ParseMessage(f.Bytes); err == nil && f.Offset < to {
				m.Offset = f.Offset
				all = append(all, m)
			}
		}
		from = found[len(found)-1].Offset + 1
	}
	return all, nil
}
