// Package kafka is a durable queue on Apache Kafka, with block/queue's contract.
//
// It is not a client for Kafka in general: a queue is one topic and one consumer
// group of the same name, and a second topic for dead letters.
//
//	accepted   all in-sync replicas have the record (acks=all, idempotent producer), of
//	           which there are at least two where a topic has three replicas or more
//	           (see Config.Replicas). Kafka leaves flushing to the kernel: one broker's
//	           power loss can lose what it has accepted, the second replica is Kafka's
//	           answer to that. With one replica or two there may be none.
//	bounded    Kafka has no bound that refuses. The producers ask for the group's lag
//	           twice a second and refuse above Capacity, so the queue can exceed it by
//	           what is accepted in that time. They fail closed: what lag cannot be
//	           learnt for two seconds is taken for a full queue.
//	handled    the group's offset is committed
//
// A key's records are in one partition, and a partition has one consumer at a time:
// so several consumers may share the work. Records are kept for Kafka's own
// retention, which must be longer than the queue may grow old.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"loadstone/block/pause"
	"loadstone/block/queue"
)

// Config says which queue, and how it behaves.
type Config struct {
	// Its name is that of the topic and the group. A batch lingers at the broker, for
	// lingerBytes of messages at most.
	queue.Config

	Brokers    []string // host:port, some of them
	Partitions int32    // of a topic that is made
	// Replicas has a topic that is made, and at least as many one that is there: else
	// Open refuses it. ByBrokers is one for each broker that is named or known, at most
	// three.
	Replicas int16
}

// DefaultConfig is a queue on up to three brokers, which are left for the caller.
func DefaultConfig() Config {
	return Config{Config: queue.DefaultConfig("events", 20*time.Millisecond), Partitions: 4, Replicas: ByBrokers}
}

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)

// Validate returns all problems, joined, or nil.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("kafka queue: "+format, args...)) }
	if len(c.Brokers) == 0 {
		bad("there are no brokers; write host:port")
	}
	if !nameForm.MatchString(c.Name) {
		bad("its name is %q; write up to 64 lower-case letters, digits and -", c.Name)
	}
	if c.Partitions < 1 {
		bad("it has %d partitions, must be at least 1", c.Partitions)
	}
	if c.Replicas != ByBrokers && (c.Replicas < 1 || c.Replicas > MaxReplicas) {
		bad("it has %d replicas, must be 1 to %d", c.Replicas, MaxReplicas)
	}
	return errors.Join(errs...)
}

const (
	// lagPause is between two questions for the lag, and lagAge how old an answer
	// may be before the queue counts as full.
	lagPause = 500 * time.Millisecond
	lagAge   = 2 * time.Second
	// fullPause is between two looks at a full queue.
	fullPause = 20 * time.Millisecond
	// openPause is between two attempts to make the topics.
	openPause = 200 * time.Millisecond
	// recordTimeout is when a record that no broker takes fails: longer than what
	// callers wait, so that theirs is the deadline that counts.
	recordTimeout = 10 * time.Second
	// lingerBytes is about a batch of small messages.
	lingerBytes = 32 << 10
	// maxBuffered and maxBytes bound the records under way to the broker, those included
	// that nobody waits for any more. When they are reached, Publish waits for room.
	maxBuffered = 10_000
	maxBytes    = 64 << 20
)

// Client is a connection to a queue, for a producer or a consumer. It owns its
// connections and one goroutine, which asks for the lag.
type Client struct {
	cfg   Config
	inner *kgo.Client
	admin *kadm.Client

	stop context.CancelFunc
	done chan struct{}

	mu  sync.Mutex
	lag int64
	at  time.Time // of lag; zero before the first
}

// Open connects and makes the topics if they are not there. It waits for a broker
// until ctx ends.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	inner, err := kgo.NewClient(
		kgo.SeedBrokers(cfg.Brokers...), kgo.ClientID("loadstone"),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.MaxBufferedRecords(maxBuffered), kgo.MaxBufferedBytes(maxBytes), kgo.RecordDeliveryTimeout(recordTimeout),
		// The callers of Publish are many at once: what they bring while a request is
		// under way goes together into the next one. Nobody waits for company.
		kgo.ProducerLinger(0),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to Kafka: %w", err)
	}
	c := &Client{cfg: cfg, inner: inner, admin: kadm.NewClient(inner), done: make(chan struct{})}
	if err := c.create(ctx); err != nil {
		inner.Close()
		return nil, err
	}
	follow, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	go c.follow(follow)
	return c, nil
}

// follow asks for the lag until ctx ends.
func (c *Client) follow(ctx context.Context) {
	defer close(c.done)
	ticker := time.NewTicker(lagPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			own, cancel := context.WithTimeout(ctx, lagAge)
			_ = c.learn(own) // an answer that does not come makes the last one old
			cancel()
		}
	}
}

// learn asks for the lag.
func (c *Client) learn(ctx context.Context) error {
	s, err := c.Stats(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lag, c.at = s.Depth, time.Now()
	return nil
}

func (c *Client) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lag >= c.cfg.Capacity || time.Since(c.at) > lagAge
}

// Publish puts one message into the queue and returns when it is durable there, or
// with queue.ErrFull, or when ctx ends. What had been sent by then cannot be called
// back: it may be stored later, or never.
func (c *Client) Publish(ctx context.Context, m queue.Message) error {
	if err := m.Validate(); err != nil {
		return err
	}
	for c.full() {
		full := fmt.Errorf("%w: %s has %d messages or more, or does not say", queue.ErrFull, c.cfg.Name, c.cfg.Capacity)
		if c.cfg.WhenFull == queue.Reject {
			return full
		}
		if !pause.For(ctx, fullPause) {
			return full
		}
	}
	return c.put(ctx, c.cfg.Name, m, nil)
}

// The headers of a record.
const (
	idHeader     = "id"
	reasonHeader = "reason"
)

func (c *Client) put(ctx context.Context, topic string, m queue.Message, reason error) error {
	r := &kgo.Record{Topic: topic, Value: m.Body, Headers: []kgo.RecordHeader{{Key: idHeader, Value: []byte(m.ID)}}}
	if m.Key != "" {
		r.Key = []byte(m.Key) // without one, any partition will do
	}
	if reason != nil {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: reasonHeader, Value: []byte(reason.Error())})
	}
	// The bytes are the caller's again when this returns, and a record whose context
	// ended may still be under way.
	r.Value = append([]byte(nil), r.Value...)
	if err := c.produce(ctx, r); err != nil {
		return fmt.Errorf("put %s into the queue %s: %w", m.ID, topic, err)
	}
	return nil
}

// errUnknown is what is known of a record that was not answered in time.
var errUnknown = errors.New("it is not known whether it was stored")

// produce returns when the record is stored, or failed, or ctx ends. The client itself
// fails a record only while that is safe: not while it is on its way and, since the
// producer is idempotent, may still be repeated. So it is left to the client then, and
// counts as buffered until its fate is known.
func (c *Client) produce(ctx context.Context, r *kgo.Record) error {
	done := make(chan error, 1) // there may be nobody left to take it
	c.inner.Produce(ctx, r, func(_ *kgo.Record, err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done: // both at once: then it is known
		return err
	default:
		return fmt.Errorf("%w: %w", errUnknown, ctx.Err())
	}
}

// Stats asks for the group's lag and for the dead letters. Kafka does
// not tell the age of the oldest message without reading it.
func (c *Client) Stats(ctx context.Context) (queue.Stats, error) {
	ends, err := c.admin.ListEndOffsets(ctx, c.cfg.Name, c.dead())
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return queue.Stats{}, fmt.Errorf("ask for the end of %s: %w", c.cfg.Name, err)
	}
	starts, err := c.admin.ListStartOffsets(ctx, c.cfg.Name, c.dead())
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return queue.Stats{}, fmt.Errorf("ask for the beginning of %s: %w", c.cfg.Name, err)
	}
	committed, err := c.admin.FetchOffsets(ctx, c.cfg.Name)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return queue.Stats{}, fmt.Errorf("ask for the offsets of the group %s: %w", c.cfg.Name, err)
	}
	s := queue.Stats{Capacity: c.cfg.Capacity}
	ends.Each(func(end kadm.ListedOffset) {
		from := int64(0)
		if start, ok := starts.Lookup(end.Topic, end.Partition); ok {
			from = start.Offset
		}
		if end.Topic == c.dead() {
			s.Dead += end.Offset - from
			return
		}
		if at, ok := committed.Lookup(end.Topic, end.Partition); ok {
			from = max(from, at.At)
		}
		s.Depth += end.Offset - from
	})
	return s, nil
}

// Ready reports whether the lag was learnt lately, so that there is a broker.
func (c *Client) Ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.at) <= lagAge
}

// Close ends the connections. It waits for nothing: Publish has returned by then, and
// said of what is still under way that it is not known.
func (c *Client) Close() error {
	c.stop()
	<-c.done
	c.inner.Close()
	return nil
}
