// Package event is the pattern "sync to async": POST /handle takes an event and
// passes it on to the log service, whose work it is to store it.
//
//	sync    the log service is called, and the caller waits for its answer: 200
//	async   the event goes to a durable queue, and the caller waits only for that: 202.
//	        The log service takes events from the queue at its own pace.
//
// Either way an event that was answered 2xx is stored once, whichever process is
// killed meanwhile. The one exception is an id that is used again, with another key or
// body: a call is answered 422; what came by the queue had to be answered before anyone
// knew, and is put aside among its dead letters, never dropped. Package eventlog, below this one, is the log service;
// reconcile checks from outside that accepted and stored are the same.
//
// An event's id is the caller's (header Idempotency-Key), so that whoever got no
// answer can send it again, or is made here. Events with one Event-Key are stored in
// the order in which they were accepted, if the caller waits for one before the next.
package event

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"loadstone/block/queue"
)

// The headers of an event, here and at the log service. Accepted has nanoseconds
// since 1970, and is written between the two only.
const (
	IDHeader       = "Idempotency-Key"
	KeyHeader      = "Event-Key"
	AcceptedHeader = "Event-Accepted"
)

// MaxBody bounds an event's body, in bytes.
const MaxBody = 16 << 10

// Event is something that happened and must not be lost.
type Event struct {
	ID, Key  string
	Body     []byte    // JSON
	Accepted time.Time // when the service took it, by its own clock
}

// ErrBad is what is wrong with an event that nobody will ever store.
var ErrBad = errors.New("no event")

// Validate says what is wrong with an event.
func (e *Event) Validate() error {
	if len(e.Body) > MaxBody {
		return fmt.Errorf("%w: its body has %d bytes, and the most is %d", ErrBad, len(e.Body), MaxBody)
	}
	if !utf8.Valid(e.Body) { // json.Valid does not look into strings
		return fmt.Errorf("%w: its body is not UTF-8, as JSON is", ErrBad)
	}
	if !json.Valid(e.Body) {
		return fmt.Errorf("%w: its body is not JSON", ErrBad)
	}
	m := queue.Message{ID: e.ID, Key: e.Key}
	if err := m.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrBad, err)
	}
	return nil
}

// NewID makes an id for an event that came without one: 128 random bits or more.
func NewID() string { return rand.Text() }

// ErrForm is returned by Open for what is no message of this package.
var ErrForm = errors.New("no event of this service")

// The form of an event in a queue: a version, the instant of its acceptance in
// nanoseconds since 1970, and its body. Id and key are the message's own.
const (
	formVersion = 1
	formHead    = 1 + 8
)

// Message packs an event for a queue.
func (e *Event) Message() queue.Message {
	body := make([]byte, 0, formHead+len(e.Body))
	body = append(body, formVersion)
	body = binary.BigEndian.AppendUint64(body, uint64(e.Accepted.UnixNano()))
	return queue.Message{ID: e.ID, Key: e.Key, Body: append(body, e.Body...)}
}

// Open unpacks a message. Its error wraps queue.ErrRefused: trying again will not
// help. The event's body is the message's.
func Open(m queue.Message) (Event, error) {
	refuse := func(err error) (Event, error) {
		return Event{}, fmt.Errorf("message %.40q: %w: %w", m.ID, queue.ErrRefused, err)
	}
	if len(m.Body) < formHead || m.Body[0] != formVersion {
		return refuse(fmt.Errorf("%w: it does not begin as one of version %d does", ErrForm, formVersion))
	}
	accepted := int64(binary.BigEndian.Uint64(m.Body[1:formHead]))
	e := Event{ID: m.ID, Key: m.Key, Body: m.Body[formHead:], Accepted: time.Unix(0, accepted)}
	if err := e.Validate(); err != nil {
		return refuse(err)
	}
	return e, nil
}
