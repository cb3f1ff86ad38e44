// Package queue has what the drivers of a durable queue share: the message, the
// errors, how a batch is delivered again and when a message is given up, and the
// metrics. The drivers are block/queue/nats and block/queue/kafka; that both keep
// the contract below is checked by block/queue/queuetest.
//
// It is no broker and has no interface: whoever uses a queue declares what it
// needs of one.
//
// The contract
//
//	accepted      Publish returns nil only when the message is durable. After an error
//	              the message may be in the queue or not: publish it again, with its id.
//	at least once what was accepted is given to the handler until the handler has
//	              returned nil, also if broker, producer or consumer are killed meanwhile.
//	              So a handler must be idempotent by Message.ID. Two messages that have
//	              one ID and differ both come: the handler says which of them holds.
//	ordered       messages of one key come in the order in which they were accepted. A
//	              message may come again, never before one that precedes it for the first
//	              time.
//	bounded       a full queue refuses, or lets the producer wait until its context ends:
//	              ErrFull. Nothing that was accepted is dropped to make room.
//	dead letters  a message that the handler refuses (ErrRefused) Retry.Tries times is put
//	              aside, durably, and does not stop the ones behind it.
//
// A Message belongs to the queue until Publish returns, and to the handler while it
// runs: neither keeps the other's bytes.
package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Message is one message.
type Message struct {
	// ID is the producer's name for it, the same whenever it is published again.
	ID string
	// Key is what order is kept within.
	Key  string
	Body []byte
	// At is when the queue took it, by the broker's clock; set on delivery only.
	At time.Time
}

var (
	// ErrFull is returned by Publish when the queue has no room, and by then the
	// message is not in it.
	ErrFull = errors.New("the queue is full")
	// ErrRefused is what a handler's error wraps if the message itself is at fault:
	// another try will hardly help. Any other error of a handler means that it cannot
	// work now, and its messages wait for it as long as it takes.
	ErrRefused = errors.New("the message is refused")
	// ErrMessage is returned by Publish for a message that no queue takes.
	ErrMessage = errors.New("no message for a queue")
)

// WhenFull is what Publish does while the queue is full.
type WhenFull string

// The policies of a full queue.
const (
	Reject WhenFull = "reject" // return ErrFull at once
	Wait   WhenFull = "wait"   // try again until the context ends, then return ErrFull
)

// Config is what every driver is told about its queue.
type Config struct {
	Name     string
	Capacity int64 // messages, until it is full
	WhenFull WhenFull
	Batch    int // messages that a handler gets at most
	// Linger is how long a batch that is not full waits for more. A batch of a few
	// costs a handler nearly as much as one of hundreds; nobody waits for it.
	Linger time.Duration
	Retry  Retry
}

// DefaultConfig is a queue of a hundred thousand messages that refuses more. Its name
// and how long its batches linger are the driver's.
func DefaultConfig(name string, linger time.Duration) Config {
	return Config{
		Name: name, Capacity: 100_000, WhenFull: Reject,
		// Enough that a transaction costs each of them little, few enough that a
		// handler has them done in milliseconds.
		Batch: 256, Linger: linger, Retry: DefaultRetry(),
	}
}

// Validate returns all problems, joined, or nil. The name is the driver's to judge.
func (c Config) Validate() error {
	errs := []error{c.Retry.Validate()}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("queue: "+format, args...)) }
	if c.Capacity < 1 {
		bad("its capacity is %d, must be at least 1", c.Capacity)
	}
	if c.WhenFull != Reject && c.WhenFull != Wait {
		bad("when it is full it does %q; write %s or %s", c.WhenFull, Reject, Wait)
	}
	if c.Batch < 1 || c.Batch > 10_000 {
		bad("its batch is %d, must be 1 to 10000", c.Batch)
	}
	if c.Linger <= 0 {
		bad("its batches linger for %v, must be positive", c.Linger)
	}
	return errors.Join(errs...)
}

// Bounds of a message. They fit into both brokers' default limits.
const (
	MaxName = 256       // bytes of an id or a key
	MaxBody = 512 << 10 // bytes of a body
)

// Validate says what is wrong with a message that is to be published.
func (m *Message) Validate() error {
	switch {
	case m.ID == "" || len(m.ID) > MaxName || !plain(m.ID):
		return fmt.Errorf("%w: its id %.40q must be 1 to %d printable ASCII characters", ErrMessage, m.ID, MaxName)
	case len(m.Key) > MaxName || !plain(m.Key):
		return fmt.Errorf("%w: its key %.40q must be at most %d printable ASCII characters", ErrMessage, m.Key, MaxName)
	case len(m.Body) > MaxBody:
		return fmt.Errorf("%w: its body has %d bytes, and the most is %d", ErrMessage, len(m.Body), MaxBody)
	}
	return nil
}

// plain says whether s can be a header's value as it stands.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Handler stores or does what messages say. They come in order, all that were
// there up to the driver's batch size. It returns nil when all are done for good.
type Handler func(ctx context.Context, batch []Message) error

// Stats is how a queue stands.
type Stats struct {
	Depth    int64 // messages that were accepted and not yet handled
	Capacity int64 // at how many it is full
	Dead     int64 // messages put aside
	// Oldest is since when the oldest message waits, 0 if there is none. Not every
	// broker tells it: OldestKnown.
	Oldest      time.Duration
	OldestKnown bool
}
