package analysis

import "slices"

// Spans of a show.
const (
	// SpanMillis is the length of a span of the video's time.
	SpanMillis = 10_000
	// usualSpans is how many spans before one say what is usual, and leastSpans how many there must be.
	usualSpans, leastSpans = 30, 3
	// leastMessages is how many a span has in which something happened, and leastUsual how many those before it
	// have for their labels to be compared.
	leastMessages, leastUsual = 10, 20
	// restSpans is how many spans follow in which nothing is told again.
	restSpans = 3
)

// Span is what was said in one, with the offset of its first message.
type Span struct {
	At     int64  `json:"at"` // its number: the video's time divided by SpanMillis
	First  uint64 `json:"first"`
	Counts Counts `json:"counts"`
}

// Highlight is a span in which something happened.
type Highlight struct {
	// Video is when it began, in milliseconds since the show's start.
	Video int64 `json:"video"`
	// Offset is that of its first message.
	Offset uint64 `json:"offset"`
	// Messages were said in it, and Usual before it in as much time, rounded down.
	Messages uint64 `json:"count"`
	Usual    uint64 `json:"usual"`
	// Label is what most of them are.
	Label string `json:"label"`
	// Why is rate where three times as much was said as is usual, and else labels: half
	// or more are of the label, and that is twice as many as usual.
	Why string `json:"why"`
}

// Timeline is a show by spans, of which it remembers the last. The zero value is a show that
// has not begun.
type Timeline struct {
	// Video is the time of the last message: it does not go back where a clock does.
	Video int64  `json:"video"`
	Now   Span   `json:"now"`
	Past  []Span `json:"past"` // those with messages of the usualSpans before Now, in order
	// Rest is the number of the first span that may be a highlight.
	Rest int64 `json:"rest"`
}

// Add takes the next message: its time in milliseconds since the show's start, its offset and
// its label. The result is the highlight that the span before it turned out to be, or nil.
func (t *Timeline) Add(video int64, offset uint64, l Label) (found *Highlight) {
	t.Video = max(t.Video, video)
	if at := t.Video / SpanMillis; at > t.Now.At || t.Now.Counts.Sum() == 0 {
		if t.Now.Counts.Sum() > 0 {
			found = t.judge()
			t.Past = append(t.Past, t.Now)
		}
		t.Past = slices.DeleteFunc(t.Past, func(s Span) bool { return s.At < at-usualSpans })
		t.Now = Span{At: at, First: offset}
	}
	t.Now.Counts[l]++
	return found
}

// judge says whether something happened in the span that ends.
func (t *Timeline) judge() *Highlight {
	spans := uint64(min(t.Now.At, usualSpans))
	n := t.Now.Counts.Sum()
	if spans < leastSpans || n < leastMessages || t.Now.At < t.Rest {
		return nil
	}
	var usual Counts
	for i := range t.Past {
		for l, count := range t.Past[i].Counts {
			usual[l] += count
		}
	}
	before := usual.Sum()
	most := Praise
	for l := range Label(Labels) {
		if t.Now.Counts[l] > t.Now.Counts[most] {
			most = l
		}
	}
	h := &Highlight{Video: t.Now.At * SpanMillis, Offset: t.Now.First, Messages: n, Usual: before / spans, Label: most.String(), Why: "rate"}
	count := t.Now.Counts[most]
	switch {
	case n*spans >= 3*before:
	case before >= leastUsual && 2*count >= n && count*before >= 2*n*usual[most]:
		h.Why = "labels"
	default:
		return nil
	}
	t.Rest = t.Now.At + 1 + restSpans
	return h
}
