package chat

// Topic is what a Note is about.
type Topic uint64

// The topics of notes. Their numbers are in stored keys: none is ever given again.
const (
	// NoteState is how far a stream is analysed, and what was counted; number 0 alone.
	NoteState Topic = iota
	// NoteSpan is what was said in a span of the show; the number is the span's.
	NoteSpan
	// NoteSummary is a summary; the number is the offset of the message after those it is of.
	NoteSummary
	// NoteHighlight is a moment of the show; the number is its time in milliseconds.
	NoteHighlight
	// NoteDead is a message that could not be analysed; the number is its offset.
	NoteDead
)

// Note is something that was found out about a stream's messages, and can be found out again.
// One that is stored without a Value is taken away.
type Note struct {
	Topic  Topic
	Number uint64
	Value  []byte
}

// NoteRange are a stream's notes of a topic with the numbers From to before To, Most at most:
// the first, or with Newest the last, and those then from the last on.
type NoteRange struct {
	Topic    Topic
	From, To uint64
	Most     int
	Newest   bool
}
