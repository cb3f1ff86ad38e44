package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"loadstone/block/pause"
	"loadstone/block/queue"
)

const (
	// sessionTimeout is how long a consumer that was killed keeps its partitions from
	// the others: the shortest that Kafka's default configuration allows.
	sessionTimeout = 6 * time.Second
	heartbeat      = 2 * time.Second
	// commitTimeout bounds one commit. One that fails is made good by the next.
	commitTimeout = 5 * time.Second
	// pollPause is after a poll that failed as a whole.
	pollPause = 200 * time.Millisecond
)

// Consume gives the queue's messages to handle, batch by batch, until ctx ends. Then it
// returns nil: what was not committed comes again to the next consumer. While a batch
// is handled, none of its partitions is given to another consumer.
func (c *Client) Consume(ctx context.Context, handle queue.Handler, m *queue.Metrics) error {
	d := &queue.Delivery{Retry: c.cfg.Retry, Handle: handle, Metrics: m, Bury: func(ctx context.Context, m queue.Message, reason error) error {
		return c.put(ctx, c.dead(), m, reason)
	}}
	group, err := kgo.NewClient(
		kgo.SeedBrokers(c.cfg.Brokers...), kgo.ClientID("loadstone"),
		kgo.ConsumerGroup(c.cfg.Name), kgo.ConsumeTopics(c.cfg.Name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.FetchMinBytes(lingerBytes), kgo.FetchMaxWait(c.cfg.Linger),
		kgo.SessionTimeout(sessionTimeout), kgo.HeartbeatInterval(heartbeat),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { m.Session() }),
	)
	if err != nil {
		return fmt.Errorf("join the queue %s: %w", c.cfg.Name, err)
	}
	defer group.CloseAllowingRebalance()
	for ctx.Err() == nil {
		fetched := group.PollRecords(ctx, c.cfg.Batch)
		if err := c.take(ctx, group, fetched, d); err != nil {
			pause.For(ctx, pollPause)
		}
		group.AllowRebalance()
	}
	return nil
}

// take delivers what was fetched, and commits it. An error means that nothing was.
func (c *Client) take(ctx context.Context, group *kgo.Client, fetched kgo.Fetches, d *queue.Delivery) error {
	records := fetched.Records()
	if len(records) == 0 {
		return fetched.Err()
	}
	batch := make([]queue.Message, len(records))
	for i, r := range records {
		batch[i] = message(r)
	}
	if err := d.Deliver(ctx, batch); err != nil {
		return err // ctx has ended: the rest is for the next consumer
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	// A lost commit is no loss: the batch comes again, or the next commit is further.
	_ = group.CommitRecords(ctx, records...)
	return nil
}

func message(r *kgo.Record) queue.Message {
	m := queue.Message{Key: string(r.Key), Body: r.Value, At: r.Timestamp}
	for _, h := range r.Headers {
		if h.Key == idHeader {
			m.ID = string(h.Value)
		}
	}
	return m
}
