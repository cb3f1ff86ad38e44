package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loadstone/block/pause"
)

// Retry says how often and how fast a handler is asked again.
type Retry struct {
	// Tries is how often a message may be refused before it is put aside.
	Tries int
	// First is the pause after the first failure; it doubles up to Most.
	First, Most time.Duration
	// HandleTimeout bounds one call of the handler.
	HandleTimeout time.Duration
}

// DefaultRetry puts a message aside after three refusals, half a second apart in
// all, and asks a handler that cannot work again at least every two seconds.
func DefaultRetry() Retry {
	return Retry{
		Tries: 3, First: 100 * time.Millisecond, Most: 2 * time.Second,
		// A batch is a transaction with one flush of the disk: a hundred times of
		// what that takes on a slow one.
		HandleTimeout: 10 * time.Second,
	}
}

// Validate returns all problems, joined, or nil.
func (r Retry) Validate() error {
	var errs []error
	if r.Tries < 1 {
		errs = append(errs, fmt.Errorf("tries is %d, must be at least 1", r.Tries))
	}
	if r.First <= 0 || r.Most < r.First {
		errs = append(errs, fmt.Errorf("the pause begins at %v and ends at %v, must be positive and not fall", r.First, r.Most))
	}
	if r.HandleTimeout <= 0 {
		errs = append(errs, fmt.Errorf("handle timeout is %v, must be positive", r.HandleTimeout))
	}
	return errors.Join(errs...)
}

// Delivery is how a driver has batches handled.
type Delivery struct {
	Retry  Retry
	Handle Handler
	// Bury puts one message aside, durably, with the reason.
	Bury    func(ctx context.Context, m Message, reason error) error
	Metrics *Metrics
}

// Deliver returns nil when every message was handled or put aside: only then may
// the driver acknowledge the batch. It returns an error only when ctx ends.
//
// A batch that is refused is tried again message by message, in order, so that one
// bad message does not take the others with it. A handler that fails otherwise is
// asked again with the same messages, without an end: what it cannot store now
// stays in the queue, the queue fills, and its producers get to know.
func (d *Delivery) Deliver(ctx context.Context, batch []Message) error {
	err := d.attempt(ctx, batch)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	for i := range batch {
		if err := d.one(ctx, batch[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// attempt hands over a batch until it is done or refused.
func (d *Delivery) attempt(ctx context.Context, batch []Message) error {
	for wait := d.Retry.First; ; wait = min(2*wait, d.Retry.Most) {
		err := d.call(ctx, batch)
		if err == nil || errors.Is(err, ErrRefused) || ctx.Err() != nil {
			return err
		}
		if !pause.For(ctx, wait) {
			return ctx.Err()
		}
		d.Metrics.redelivered(len(batch))
	}
}

// one hands over a single message until it is done or put aside.
func (d *Delivery) one(ctx context.Context, single []Message) error {
	wait := d.Retry.First
	for try := 1; ; try++ {
		d.Metrics.redelivered(1)
		err := d.attempt(ctx, single)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if try == d.Retry.Tries {
			return d.bury(ctx, single[0], err)
		}
		if !pause.For(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, d.Retry.Most)
	}
}

func (d *Delivery) call(ctx context.Context, batch []Message) error {
	ctx, cancel := context.WithTimeout(ctx, d.Retry.HandleTimeout)
	defer cancel()
	err := d.Handle(ctx, batch)
	if err == nil {
		d.Metrics.handled(len(batch))
	}
	return err
}

// bury puts a message aside; while that fails, the queue stands still.
func (d *Delivery) bury(ctx context.Context, m Message, reason error) error {
	for wait := d.Retry.First; ; wait = min(2*wait, d.Retry.Most) {
		err := d.Bury(ctx, m, reason)
		if err == nil {
			d.Metrics.buried()
			return nil
		}
		if !pause.For(ctx, wait) {
			return ctx.Err()
		}
	}
}
