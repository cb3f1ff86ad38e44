package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loadstone/block/pause"
	"loadstone/block/queue"
)

const (
	// ackWait is when the broker would send a batch again to a consumer that still
	// has it: longer than a handler may take, because only sessions that are over
	// should see messages again.
	ackWait = 10 * time.Minute
	// sessionPause is between two sessions, so that a broker that refuses, or another
	// consumer that takes the queue away, is not asked in a circle.
	sessionPause = 100 * time.Millisecond
	// idleBeat bounds how long a session without messages takes to notice that its
	// broker is gone or knows it no more: two of them.
	idleBeat = time.Second
	// joinTimeout bounds the questions that begin a session.
	joinTimeout = 5 * time.Second
)

// errSession is why a session ended that has to begin again.
var errSession = errors.New("the session is over")

// Consume gives the queue's messages to handle, batch by batch, until ctx ends. Then it
// returns nil: what was not acknowledged comes again to the next consumer. It goes on
// without a broker, and joins the queue again when there is one.
func (c *Client) Consume(ctx context.Context, handle queue.Handler, m *queue.Metrics) error {
	d := &queue.Delivery{Retry: c.cfg.Retry, Handle: handle, Metrics: m, Bury: func(ctx context.Context, m queue.Message, reason error) error {
		return c.put(ctx, c.dead(), m, reason)
	}}
	for ctx.Err() == nil {
		// Whatever ended the session: the next one begins with what is left.
		_ = c.session(ctx, d)
		pause.For(ctx, sessionPause)
	}
	return nil
}

// session takes messages until something is lost.
func (c *Client) session(ctx context.Context, d *queue.Delivery) error {
	consumer, err := c.join(ctx)
	if err != nil {
		return err
	}
	d.Metrics.Session()
	ctx, over := context.WithCancelCause(ctx)
	defer over(nil)
	// A full channel stops the client from asking for more: what is under way is
	// bounded by it and by PullMaxMessages.
	arrived := make(chan jetstream.Msg, c.cfg.Batch)
	consuming, err := consumer.Consume(
		func(m jetstream.Msg) {
			select {
			case arrived <- m:
			case <-ctx.Done():
			}
		},
		jetstream.PullMaxMessages(2*c.cfg.Batch),
		jetstream.PullHeartbeat(idleBeat), jetstream.PullExpiry(2*idleBeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { over(fmt.Errorf("%w: %w", errSession, err)) }),
	)
	if err != nil {
		return fmt.Errorf("take from the queue %s: %w", c.name, err)
	}
	err = c.take(ctx, arrived, d)
	over(nil)
	consuming.Stop()
	<-consuming.Closed()
	return err
}

// join makes this the queue's only consumer, before its first message.
func (c *Client) join(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	s, err := c.js.Stream(ctx, c.name)
	if err != nil {
		return nil, fmt.Errorf("ask for the queue %s: %w", c.name, err)
	}
	names := s.ConsumerNames(ctx)
	for name := range names.Name() {
		if err := s.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return nil, fmt.Errorf("end the consumer before this one: %w", err)
		}
	}
	if err := names.Err(); err != nil {
		return nil, fmt.Errorf("ask who consumes %s: %w", c.name, err)
	}
	consumer, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{
		// A name of its own, so that a consumer that lost the queue cannot
		// acknowledge in the name of the one that has it.
		Name:      fmt.Sprintf("c%d", time.Now().UnixNano()),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: 4 * c.cfg.Batch,
		// Forgotten by the broker some time after the last that was heard of it.
		InactiveThreshold: time.Minute,
	})
	if err != nil {
		return nil, fmt.Errorf("join the queue %s: %w", c.name, err)
	}
	return consumer, nil
}

// take delivers what arrives, and acknowledges it.
func (c *Client) take(ctx context.Context, arrived <-chan jetstream.Msg, d *queue.Delivery) error {
	taken := make([]jetstream.Msg, 0, c.cfg.Batch)
	batch := make([]queue.Message, 0, c.cfg.Batch)
	next := uint64(1) // the delivery that must come next
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case m := <-arrived:
			taken = append(taken[:0], m)
		}
		taken = c.gather(ctx, arrived, taken)
		batch = batch[:0]
		for _, t := range taken {
			m, delivery, err := message(t)
			if err != nil {
				return err
			}
			if delivery != next {
				return fmt.Errorf("%w: delivery %d came where %d should have", errSession, delivery, next)
			}
			next++
			batch = append(batch, m)
		}
		if err := d.Deliver(ctx, batch); err != nil {
			return err
		}
		// A lost acknowledgement is no loss: the message comes again, and is known. A
		// queue whose messages go when they are done takes one for each.
		for _, t := range taken {
			if err := t.Ack(); err != nil {
				return fmt.Errorf("%w: acknowledge: %w", errSession, err)
			}
		}
	}
}

// gather adds what arrives within the linger, until the batch is full.
func (c *Client) gather(ctx context.Context, arrived <-chan jetstream.Msg, taken []jetstream.Msg) []jetstream.Msg {
	timer := time.NewTimer(c.cfg.Linger)
	defer timer.Stop()
	for len(taken) < c.cfg.Batch {
		select {
		case m := <-arrived:
			taken = append(taken, m)
		case <-timer.C:
			return taken
		case <-ctx.Done():
			return taken // Deliver notices
		}
	}
	return taken
}

// message reads what came from the broker.
func message(m jetstream.Msg) (out queue.Message, delivery uint64, err error) {
	meta, err := m.Metadata()
	if err != nil {
		return out, 0, fmt.Errorf("%w: a message without its place: %w", errSession, err)
	}
	h := m.Headers()
	return queue.Message{
		// What brokers of the first version kept had its id in their own header.
		ID: cmp.Or(h.Get(idHeader), h.Get(jetstream.MsgIDHeader)), Key: h.Get(keyHeader), Body: m.Data(), At: meta.Timestamp,
	}, meta.Sequence.Consumer, nil
}
