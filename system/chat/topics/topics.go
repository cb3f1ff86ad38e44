// Package topics writes and reads the topics of a chat that several servers serve together, in Kafka.
//
//	raw-chats             messages that were accepted, see chat.Raw: their log. The key is the lane of
//	                      the room, so that a hot room is on many partitions, and what one sender says is in order
//	analysis-result       what was found in them, by stream, see ParseResult
//	summary-requests      what a summary is to be of, see Client.Request
//	summary-results       summaries, as analysis-result
//
// Of each, records that are none are put aside, with the reason, to the topic of its name and -dead.
//
// A record is accepted when all replicas in sync have it (acks=all, idempotent producer), two at
// least where there are three brokers. Readers hand on what they read before they commit it: after a
// crash it comes again, so they know a message by its stream, sender and id.
package topics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"loadstone/block/queue/kafka"
	"loadstone/system/chat"
)

// The topics.
const (
	Raw           = "raw-chats"
	Dead          = Raw + deadSuffix
	Analysis      = "analysis-result"
	DeadAnalysis  = Analysis + deadSuffix
	Requests      = "summary-requests"
	DeadRequests  = Requests + deadSuffix
	Summaries     = "summary-results"
	DeadSummaries = Summaries + deadSuffix

	deadSuffix = "-dead"

	// summaryPartitions are those of the topics about summaries, of which there are few.
	summaryPartitions = 4
)

// Config says where Kafka is. Start from DefaultConfig.
type Config struct {
	// Brokers are some of them, host:port.
	Brokers []string
	// Partitions is of topics that are made.
	Partitions int32
	// Linger is how long a record waits for others to go with it.
	Linger time.Duration
	// Buffered bounds the records under way. One more is chat.ErrOverloaded.
	Buffered int
	// Timeout is when a record fails that no broker takes.
	Timeout time.Duration
	// Registerer receives the metrics, see newMetrics. It may be nil.
	Registerer prometheus.Registerer
}

// DefaultConfig leaves Brokers for the caller. Nothing lingers: what comes while a request is under
// way goes together in the next one.
func DefaultConfig() Config {
	return Config{Partitions: 8, Buffered: 1024, Timeout: 10 * time.Second}
}

// Validate returns all problems, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if len(c.Brokers) == 0 {
		errs = append(errs, errors.New("there are no brokers of Kafka: write host:port"))
	}
	if c.Partitions < 1 {
		errs = append(errs, fmt.Errorf("topics have %d partitions: write 1 or more", c.Partitions))
	}
	if c.Linger < 0 || c.Linger > time.Second {
		errs = append(errs, fmt.Errorf("records linger for %v: write 0 to 1s", c.Linger))
	}
	if c.Buffered < 1 {
		errs = append(errs, fmt.Errorf("%d records under way: write 1 or more", c.Buffered))
	}
	if c.Timeout < time.Second {
		errs = append(errs, fmt.Errorf("a record may take %v: write 1s or more", c.Timeout))
	}
	return errors.Join(errs...)
}

// Client writes to the topics. It is safe for concurrent use.
type Client struct {
	cfg   Config
	inner *kgo.Client
}

// Open connects, and makes the topics that are not there. It waits for Kafka until ctx ends.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	inner, err := kgo.NewClient(
		kgo.SeedBrokers(cfg.Brokers...), kgo.ClientID("chat"), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.ProducerLinger(cfg.Linger),
		kgo.MaxBufferedRecords(cfg.Buffered), kgo.RecordDeliveryTimeout(cfg.Timeout), kgo.WithHooks(newMetrics(cfg.Registerer)),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to Kafka: %w", err)
	}
	t := kafka.Topics{Names: []string{Raw, Dead, Analysis, DeadAnalysis}, Partitions: cfg.Partitions, Replicas: kafka.ByBrokers, Brokers: cfg.Brokers}
	few := t
	few.Names, few.Partitions = []string{Requests, DeadRequests, Summaries, DeadSummaries}, summaryPartitions
	for _, some := range []kafka.Topics{t, few} {
		if err := some.Make(ctx, kadm.NewClient(inner)); err != nil {
			inner.Close()
			return nil, err
		}
	}
	return &Client{cfg, inner}, nil
}

// Close ends the connections. What is under way is not known to be stored.
func (c *Client) Close() { c.inner.Close() }

// Flush waits until nothing is under way, or ctx ends.
func (c *Client) Flush(ctx context.Context) error { return c.inner.Flush(ctx) }

// Ready asks whether a broker answers.
func (c *Client) Ready(ctx context.Context) error { return c.inner.Ping(ctx) }

// Say has a message written. Unless it returns an error, done is told once whether the message is
// accepted, by a goroutine that it must not block: after an error it may be, or not.
func (c *Client) Say(r *chat.Raw, done func(error)) error {
	if c.inner.BufferedProduceRecords() >= int64(c.cfg.Buffered) {
		return chat.ErrOverloaded
	}
	record := &kgo.Record{Topic: Raw, Key: []byte(r.Lane()), Value: r.Append(nil)}
	c.inner.TryProduce(context.Background(), record, func(_ *kgo.Record, err error) {
		switch {
		case errors.Is(err, kgo.ErrMaxBuffered):
			err = chat.ErrOverloaded
		case err != nil:
			err = fmt.Errorf("%w: %w", chat.ErrUnavailable, err)
		}
		done(err)
	})
	return nil
}

// Request asks for a summary of messages of a stream, which follow each other, as they are on the wire.
func (c *Client) Request(ctx context.Context, stream int64, messages []chat.Encoded) error {
	all := make([]json.RawMessage, len(messages))
	for i, m := range messages {
		all[i] = m.Bytes
	}
	value, err := json.Marshal(map[string]any{"stream": stream, "messages": all})
	if err != nil {
		return fmt.Errorf("ask for a summary of stream %d: %w", stream, err)
	}
	record := &kgo.Record{Topic: Requests, Key: strconv.AppendInt(nil, stream, 10), Value: value} // a stream's are in order
	if err := c.inner.ProduceSync(ctx, record).FirstErr(); err != nil {
		return fmt.Errorf("ask for a summary of stream %d: %w", stream, err)
	}
	return nil
}
