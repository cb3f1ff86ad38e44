package chat

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"loadstone/block/encode"
)

// What the contract allows, in characters and bytes.
const (
	MaxText = 500
	MaxName = 40
	MaxID   = 64
	// MaxMentions bounds the users that a message mentions.
	MaxMentions = 5
	// MaxRequest bounds what a viewer sends at once, in bytes: the longest text with all of
	// its characters escaped, as surrogates, and more than the rest.
	MaxRequest = 8 << 10
	// MaxMessage is more than a message has on the wire, in bytes: its text and its name
	// where each character is escaped, and the rest with all mentions.
	MaxMessage = 4 << 10
)

// Message is what somebody said. Text and Name are as they were sent, byte for byte: what
// looks the same may differ (NFC, NFD).
type Message struct {
	// Offset is the message's number in its room, from 0 without gaps.
	Offset uint64 `json:"offset"`
	// At is when it was accepted, in milliseconds since 1970, by the clock of the show, which
	// nobody sets. It may go back by what it took to store it; the order is the offsets'.
	At int64 `json:"at"`
	// Sender is the user's id, and Name what it was called then.
	Sender string `json:"sender"`
	Name   string `json:"name"`
	// ID is the sender's own for this message. A second message with the same is the
	// first sent again.
	ID   string `json:"id"`
	Text string `json:"text"`
	// Mentions are the ids of users whom the text mentions, MaxMentions at most.
	Mentions []string `json:"mentions"`
	// Deleted says that a moderator has taken it back: it has no Name, Text and Mentions any more.
	Deleted bool `json:"deleted"`
}

// Delete takes back what the message says.
func (m *Message) Delete() { m.Name, m.Text, m.Mentions, m.Deleted = "", "", nil, true }

// Append appends the message as it is on the wire. Deleted it is shorter than it was.
func (m *Message) Append(dst []byte) []byte {
	return m.AppendUnplaced(strconv.AppendUint(append(dst, `{"offset":`...), m.Offset, 10))
}

// AppendUnplaced appends the message as it is on the wire from behind its offset on, with the comma.
func (m *Message) AppendUnplaced(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `,"at":`...), m.At, 10)
	dst = encode.String(append(dst, `,"sender":`...), m.Sender)
	if m.Deleted {
		dst = encode.String(append(dst, `,"id":`...), m.ID)
		return append(dst, `,"deleted":true}`...)
	}
	dst = encode.String(append(dst, `,"name":`...), m.Name)
	dst = encode.String(append(dst, `,"id":`...), m.ID)
	dst = encode.String(append(dst, `,"text":`...), m.Text)
	for i, user := range m.Mentions {
		if i == 0 {
			dst = append(dst, `,"mentions":[`...)
		}
		dst = append(encode.String(dst, user), ',')
	}
	if len(m.Mentions) > 0 {
		dst[len(dst)-1] = ']'
	}
	return append(dst, '}')
}

// ParseMessage reads a message that Append wrote. Members that are unknown are left out, so
// that an older reader reads what a newer writer wrote.
func ParseMessage(data []byte) (Message, error) {
	var m Message
	err := json.Unmarshal(data, &m)
	return m, err
}

// Send is a viewer's wish to say something.
type Send struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// ParseSend reads what a viewer sent, and checks it. Members that are unknown are left out.
// Where the error is an *Error, the result has the id that was sent, if there was one that can be, for the answer.
func ParseSend(data []byte) (Send, error) {
	var request struct {
		Type string `json:"type"`
		Send `json:",inline"`
	}
	if err := json.Unmarshal(data, &request); err != nil || request.Type != "send" {
		return Send{}, ErrRequest
	}
	if !ValidID(request.ID) {
		return Send{}, ErrID
	}
	return request.Send, checkText(request.Text)
}

// ValidID reports whether a text can be an id of a user or of a message.
func ValidID(id string) bool {
	if id == "" || len(id) > MaxID {
		return false
	}
	for i := range len(id) {
		c := id[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func checkText(text string) error {
	switch {
	case utf8.RuneCountInString(text) > MaxText:
		return ErrTooLong
	case !readable(text):
		return ErrText
	}
	return nil
}

// CheckName checks a user's name.
func CheckName(name string) error {
	if utf8.RuneCountInString(name) > MaxName || !readable(name) {
		return ErrName
	}
	return nil
}

// readable reports whether there is something to read in a text, and nothing that is an
// instruction to a terminal. Marks of direction and joiners stay: there are languages and
// emoji that need them.
func readable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl) &&
		strings.ContainsFunc(text, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) })
}
