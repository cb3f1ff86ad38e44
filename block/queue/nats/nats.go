// Package nats is a durable queue on NATS JetStream, with block/queue's contract,
// and the broker for it, in this process or for other ones.
//
// It is not a client for NATS in general: a queue is one stream, taken from by one
// consumer at a time.
//
//	accepted   the stream's file has the message (see BrokerConfig.Flush)
//	bounded    the stream has at most Capacity messages and refuses further ones. The
//	           bound is the stream's and outlives who made it: see Config.SetCapacity
//	handled    the consumer acknowledges a batch, and the stream deletes it
//
// # Order, and what it costs
//
// JetStream sends again what was not acknowledged in time, between newer messages:
// after a consumer's death that would turn the order of a key around. So every
// session of a consumer makes a new consumer at the broker, and deletes the one
// before it: the new one begins with the first message that is left. A session ends
// whenever a connection or a delivery is lost, a gap in the deliveries included. The
// cost is that a queue has one consumer at a time: of two, the one that came later
// has it, and they are taking turns. Where several should share the work, use Kafka.
//
// # Published again
//
// A message that is published again as it was, within ten seconds, is one message to
// the broker. One that has the id of another but not its key and body is a message of
// its own and reaches the handler: which of the two holds is the handler's to say.
//
// A Client owns its connection. Publish may be called by many goroutines.
package nats

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loadstone/block/pause"
	"loadstone/block/queue"
)

// Config says which queue, and how it behaves.
type Config struct {
	// Its name is of capitals, digits and _; twice a batch is under way to a handler.
	queue.Config

	URL string // nats://host:port
	// SetCapacity makes Capacity the bound of a queue that is there with another one.
	// Without it that bound stays, so that only who states one on purpose changes it,
	// and of several the last. What lies in a queue above a lower bound stays there.
	SetCapacity bool
}

// DefaultConfig leaves URL for the caller.
func DefaultConfig() Config {
	return Config{Config: queue.DefaultConfig("EVENTS", 50*time.Millisecond)}
}

var nameForm = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,31}$`)

// Validate returns all problems, joined, or nil.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("nats queue: "+format, args...)) }
	if !strings.HasPrefix(c.URL, "nats://") {
		bad("its address is %q; write nats://host:port", c.URL)
	}
	if !nameForm.MatchString(c.Name) {
		bad("its name is %q; write up to 32 capitals, digits and _", c.Name)
	}
	return errors.Join(errs...)
}

// Client is a connection to a queue, for a producer or a consumer.
type Client struct {
	Observer

	cfg Config
}

const (
	// reconnectPause is short because a broker that was killed is back in a second,
	// and a client has one address to try.
	reconnectPause = 100 * time.Millisecond
	dialTimeout    = time.Second
	// A connection whose broker is gone without a word is given up after two pings.
	pingInterval = 2 * time.Second
	maxPings     = 2
	// openPause is between two attempts to make the queue.
	openPause = 100 * time.Millisecond
	// fullPause is between two attempts at a full queue.
	fullPause = 10 * time.Millisecond
)

// Open connects and makes the queue if it is not there. It waits for the broker
// until ctx ends. A Client survives its broker: while there is none, Publish fails.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	o, err := Observe(cfg.URL, cfg.Name)
	if err != nil {
		return nil, err
	}
	c := &Client{Observer: *o, cfg: cfg}
	if err := c.create(ctx); err != nil {
		c.conn.Close()
		return nil, err
	}
	return c, nil
}

// create makes the streams that are not there.
func (c *Client) create(ctx context.Context) error {
	base := jetstream.StreamConfig{
		Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, MaxMsgs: c.cfg.Capacity,
		MaxMsgSize: maxPayload, Replicas: 1,
		// A producer that repeats a message soon does not make two of it. Later ones
		// are for the handler to know by their id; longer would cost memory.
		Duplicates: 10 * time.Second,
	}
	main, dead := base, base
	main.Name, main.Subjects, main.Retention = c.name, []string{c.name}, jetstream.WorkQueuePolicy
	dead.Name, dead.Subjects, dead.Retention = c.dead(), []string{c.dead()}, jetstream.LimitsPolicy
	for {
		err := c.createBoth(ctx, main, dead)
		if err == nil {
			return nil
		}
		if _, refused := errors.AsType[*jetstream.APIError](err); refused {
			return fmt.Errorf("make the queue %s at %s: %w", c.name, c.cfg.URL, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("make the queue %s at %s: %w", c.name, c.cfg.URL, errors.Join(ctx.Err(), err))
		case <-time.After(openPause):
		}
	}
}

func (c *Client) createBoth(ctx context.Context, configs ...jetstream.StreamConfig) error {
	// A broker answers at once or is not there.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for i := range configs {
		if err := c.createOne(ctx, configs[i]); err != nil {
			return err
		}
	}
	return nil
}

// createOne makes a stream, or takes the one that is there: all of that but its bound
// is always the same. Who comes second of two that make it at once finds the other's.
func (c *Client) createOne(ctx context.Context, want jetstream.StreamConfig) error {
	_, err := c.js.CreateStream(ctx, want)
	if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return err
	}
	s, err := c.js.Stream(ctx, want.Name)
	if err != nil {
		return err
	}
	if !c.cfg.SetCapacity || s.CachedInfo().Config.MaxMsgs == want.MaxMsgs {
		return nil
	}
	_, err = c.js.UpdateStream(ctx, want)
	return err
}

// Publish puts one message into the queue and returns when it is durable there, or
// with queue.ErrFull, or when ctx ends.
func (c *Client) Publish(ctx context.Context, m queue.Message) error {
	if err := m.Validate(); err != nil {
		return err
	}
	for {
		err := c.put(ctx, c.name, m, nil)
		if err == nil || !errors.Is(err, queue.ErrFull) || c.cfg.WhenFull == queue.Reject {
			return err
		}
		if !pause.For(ctx, fullPause) {
			return err
		}
	}
}

// The headers of a message, beside the broker's own, which is what it knows a repeated
// message by.
const (
	idHeader     = "Queue-Id"
	keyHeader    = "Queue-Key"
	reasonHeader = "Queue-Reason"
	// storeFailed is the broker's code for a message that it could not keep.
	storeFailed jetstream.ErrorCode = 10077
)

func (c *Client) put(ctx context.Context, subject string, m queue.Message, reason error) error {
	msg := natsgo.NewMsg(subject)
	msg.Data = m.Body
	msg.Header[idHeader] = []string{m.ID}
	msg.Header[jetstream.MsgIDHeader] = []string{identity(m)}
	if m.Key != "" {
		msg.Header[keyHeader] = []string{m.Key}
	}
	if reason != nil {
		text := strings.NewReplacer("\r", " ", "\n", " ").Replace(reason.Error())
		msg.Header[reasonHeader] = []string{text[:min(len(text), queue.MaxName)]}
	}
	_, err := c.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
	if err == nil {
		return nil
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == storeFailed && strings.Contains(api.Description, "exceeded") {
		return fmt.Errorf("%w: %s has as many messages as it holds", queue.ErrFull, c.name)
	}
	return fmt.Errorf("put %s into the queue %s: %w", m.ID, subject, err)
}

// identity is what a message is known by when it is published again: its id, and 128
// bits of what its key and body are. By the id alone the broker would drop another
// message that has it, and say that it was accepted.
func identity(m queue.Message) string {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%d %s", len(m.Key), m.Key) // a hash takes everything
	_, _ = sum.Write(m.Body)
	return m.ID + "/" + hex.EncodeToString(sum.Sum(nil)[:16])
}
