// Package nats is a durable queue on NATS JetStream, with block/queue's contract,
// and the broker for it, in this process or for other ones.
//
// It is not a client for NATS in general: a queue is one stream, taken from by one
// consumer at a time.
//
//	accepted   the stream's file has the message (see BrokerConfig.Flush)
//	bounded    the stream has at most Capacity messages and refuses further ones
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
// A Client owns its connection. Publish may be called by many goroutines.
package nats

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loadstone/block/queue"
)

// Config says which queue, and how it behaves.
type Config struct {
	URL      string // nats://host:port
	Name     string // of the queue: capitals, digits and _
	Capacity int64  // messages, until it is full
	WhenFull queue.WhenFull
	// Batch is how many messages a handler gets at most, and twice as many are under
	// way to it.
	Batch int
	// Linger is how long a batch that is not full waits for more. A transaction for a
	// few messages costs nearly as much as one for hundreds; nobody waits for it.
	Linger time.Duration
	Retry  queue.Retry
}

// DefaultConfig is a queue of a hundred thousand messages that refuses more. URL is
// left for the caller.
func DefaultConfig() Config {
	return Config{
		Name: "EVENTS", Capacity: 100_000, WhenFull: queue.Reject,
		// Enough that a transaction costs each of them little, few enough that a
		// handler has them done in milliseconds.
		Batch: 256, Linger: 50 * time.Millisecond, Retry: queue.DefaultRetry(),
	}
}

var nameForm = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,31}$`)

// Validate returns all problems, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("nats queue: "+format, args...)) }
	if !strings.HasPrefix(c.URL, "nats://") {
		bad("its address is %q; write nats://host:port", c.URL)
	}
	if !nameForm.MatchString(c.Name) {
		bad("its name is %q; write up to 32 capitals, digits and _", c.Name)
	}
	if c.Capacity < 1 {
		bad("its capacity is %d, must be at least 1", c.Capacity)
	}
	if c.WhenFull != queue.Reject && c.WhenFull != queue.Wait {
		bad("when it is full it does %q; write %s or %s", c.WhenFull, queue.Reject, queue.Wait)
	}
	if c.Batch < 1 || c.Batch > 10_000 {
		bad("its batch is %d, must be 1 to 10000", c.Batch)
	}
	if c.Linger <= 0 {
		bad("its batches linger for %v, must be positive", c.Linger)
	}
	if err := c.Retry.Validate(); err != nil {
		bad("%w", err)
	}
	return errors.Join(errs...)
}

// Client is a connection to a queue, for a producer or a consumer.
type Client struct {
	cfg  Config
	conn *natsgo.Conn
	js   jetstream.JetStream
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
	conn, err := natsgo.Connect(cfg.URL,
		natsgo.RetryOnFailedConnect(true), natsgo.MaxReconnects(-1),
		natsgo.ReconnectWait(reconnectPause), natsgo.ReconnectJitter(reconnectPause, reconnectPause),
		natsgo.Timeout(dialTimeout), natsgo.PingInterval(pingInterval), natsgo.MaxPingsOutstanding(maxPings),
		// What cannot be sent now fails now: the producer's caller waits for it.
		natsgo.ReconnectBufSize(-1),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to the broker %s: %w", cfg.URL, err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("use the broker %s: %w", cfg.URL, err)
	}
	c := &Client{cfg: cfg, conn: conn, js: js}
	if err := c.create(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *Client) dead() string { return c.cfg.Name + "_DEAD" }

// create makes the streams, or changes their bounds to the configured ones.
func (c *Client) create(ctx context.Context) error {
	base := jetstream.StreamConfig{
		Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, MaxMsgs: c.cfg.Capacity,
		MaxMsgSize: maxPayload, Replicas: 1,
		// A producer that repeats a message soon does not make two of it. Later ones
		// are for the handler to know by their id; longer would cost memory.
		Duplicates: 10 * time.Second,
	}
	main, dead := base, base
	main.Name, main.Subjects, main.Retention = c.cfg.Name, []string{c.cfg.Name}, jetstream.WorkQueuePolicy
	dead.Name, dead.Subjects, dead.Retention = c.dead(), []string{c.dead()}, jetstream.LimitsPolicy
	for {
		err := c.createBoth(ctx, main, dead)
		if err == nil {
			return nil
		}
		if _, refused := errors.AsType[*jetstream.APIError](err); refused {
			return fmt.Errorf("make the queue %s at %s: %w", c.cfg.Name, c.cfg.URL, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("make the queue %s at %s: %w", c.cfg.Name, c.cfg.URL, errors.Join(ctx.Err(), err))
		case <-time.After(openPause):
		}
	}
}

func (c *Client) createBoth(ctx context.Context, configs ...jetstream.StreamConfig) error {
	// A broker answers at once or is not there.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for i := range configs {
		if _, err := c.js.CreateOrUpdateStream(ctx, configs[i]); err != nil {
			return err
		}
	}
	return nil
}

// Publish puts one message into the queue and returns when it is durable there, or
// with queue.ErrFull, or when ctx ends.
func (c *Client) Publish(ctx context.Context, m queue.Message) error {
	if err := m.Validate(); err != nil {
		return err
	}
	for {
		err := c.put(ctx, c.cfg.Name, m, nil)
		if err == nil || !errors.Is(err, queue.ErrFull) || c.cfg.WhenFull == queue.Reject {
			return err
		}
		timer := time.NewTimer(fullPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// The headers of a message, beside the broker's own for its id.
const (
	keyHeader    = "Queue-Key"
	reasonHeader = "Queue-Reason"
	// storeFailed is the broker's code for a message that it could not keep.
	storeFailed jetstream.ErrorCode = 10077
)

func (c *Client) put(ctx context.Context, subject string, m queue.Message, reason error) error {
	msg := natsgo.NewMsg(subject)
	msg.Data = m.Body
	msg.Header[jetstream.MsgIDHeader] = []string{m.ID}
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
		return fmt.Errorf("%w: %s has %d messages", queue.ErrFull, c.cfg.Name, c.cfg.Capacity)
	}
	return fmt.Errorf("put %s into the queue %s: %w", m.ID, subject, err)
}

// Stats asks the broker how the queue stands.
func (c *Client) Stats(ctx context.Context) (queue.Stats, error) {
	s, err := c.js.Stream(ctx, c.cfg.Name)
	if err != nil {
		return queue.Stats{}, fmt.Errorf("ask for the queue %s: %w", c.cfg.Name, err)
	}
	dead, err := c.js.Stream(ctx, c.dead())
	if err != nil {
		return queue.Stats{}, fmt.Errorf("ask for the dead letters of %s: %w", c.cfg.Name, err)
	}
	state := s.CachedInfo().State
	stats := queue.Stats{Depth: int64(state.Msgs), Capacity: c.cfg.Capacity, OldestKnown: true, Dead: int64(dead.CachedInfo().State.Msgs)}
	if state.Msgs > 0 {
		stats.Oldest = max(0, time.Since(state.FirstTime))
	}
	return stats, nil
}

// Ready reports whether there is a connection to a broker.
func (c *Client) Ready() bool { return c.conn.IsConnected() }

// Close ends the connection.
func (c *Client) Close() error {
	c.conn.Close()
	return nil
}
