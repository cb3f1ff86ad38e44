package chat

import (
	"cmp"
	"errors"
	"time"
	"unicode/utf8"
)

// MaxStream is the largest id of a stream: all are exact in a browser's numbers.
const MaxStream = 1<<53 - 1

// Stream is a live show. Its chat is the room of the same id.
type Stream struct {
	ID    int64  `json:"id"`
	Title string `json:"title"`
	Host  string `json:"host"`
	// HostID is the user that started it; empty if an operator did.
	HostID string `json:"host_id,omitempty"`
	// Started is when it began, and Ended when it ended: zero while it is live.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
}

// Live reports whether the stream has not ended.
func (s *Stream) Live() bool { return s.Ended.IsZero() }

// CompareStreams orders streams as they are listed: those that are live first, and of them the newest first.
func CompareStreams(a, b Stream) int {
	if a.Live() != b.Live() {
		return map[bool]int{true: -1, false: 1}[a.Live()]
	}
	return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.ID, a.ID))
}

// MaxTitle bounds a stream's title, in characters.
const MaxTitle = 100

// CheckTitle checks a stream's title.
func CheckTitle(title string) error {
	if utf8.RuneCountInString(title) > MaxTitle || !readable(title) {
		return ErrTitle
	}
	return nil
}

// Draft is a message on its way into a log.
type Draft struct {
	Stream int64
	// Message has no Offset yet.
	Message Message
	// Done is called once, by the goroutine that writes the log, and must not block.
	Done func(*Said)
}

// Said is what became of a draft.
type Said struct {
	Stream int64
	// Offset is the message's; of a message that was sent again, that of the first.
	Offset uint64
	// Again says that the message was in the log already.
	Again bool
	// Unplaced says that the message is durable and has no Offset yet: all are told it when it has.
	Unplaced bool
	// Encoded is the message on the wire. Nil if it was sent again, and on failure.
	Encoded []byte
	// Err is why it is not known to be in the log: an *Error wrapped. It may be sent again.
	Err error
}

// Encoded is a message as it is on the wire, or another entry of a log, by its number.
type Encoded struct {
	Offset uint64
	Bytes  []byte
}

// Alteration is what is stored of a room beside new messages: all of it or nothing.
type Alteration struct {
	Stream int64
	// Records are what is kept by name. Nil takes one away.
	Records map[string][]byte
	// Delete is the offset of a message of which the text is taken back, or nil.
	Delete *uint64
	// Entry makes the next line of the room's log of who did what, of its number.
	Entry func(number uint64) ([]byte, error)
}

// Limit bounds what is read at once, in messages and bytes; there is one message if there is any.
type Limit struct{ Messages, Bytes int }

// ErrThere is returned where a stream's id is that of another.
var ErrThere = errors.New("there is a stream with that id: write another one")
