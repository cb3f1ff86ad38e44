package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"loadstone/lab/host"
)

const (
	// mostWaiting bounds the samples that wait to be asked for: 20 s of them. A lab that is
	// further behind has lost the connection, or the machine is overloaded; watching ends then,
	// because what would be missing is the time that matters.
	mostWaiting = 200
	// leastBetween is the time between two samples at the least: reading a hundred instances takes as long.
	leastBetween = time.Millisecond
)

// watch is what one call of Watch has begun.
type watch struct {
	samples chan *host.Sample
	stop    context.CancelFunc
	err     error // once samples is closed
}

// Watch begins to take samples, each of them after so many nanoseconds, and ends those of a call before.
func (c *calls) Watch(every time.Duration, _ *struct{}) error {
	if every < leastBetween {
		return fmt.Errorf("samples cannot be taken every %v, but every %v at the most", every, leastBetween)
	}
	a := c.a
	ctx, stop := context.WithCancel(a.gone)
	w := &watch{samples: make(chan *host.Sample, mostWaiting), stop: stop}
	go func() {
		defer close(w.samples)
		w.err = a.local.Watch(ctx, every, func(s *host.Sample) error {
			select {
			case w.samples <- s:
				return nil
			default:
				return fmt.Errorf("nobody has asked for %d samples", mostWaiting)
			}
		})
	}()
	_ = a.turnTo(w) // how the one before ended is told to who asks for its samples
	return nil
}

// turnTo has samples be those of a watch, nil for none, and waits for the end of the one before.
func (a *agent) turnTo(w *watch) error {
	a.mu.Lock()
	before := a.watch
	a.watch = w
	a.mu.Unlock()
	if before == nil {
		return nil
	}
	before.stop()
	for range before.samples { // nobody asks for those that are left
	}
	return before.err
}

// Next waits for the next sample.
func (c *calls) Next(_ struct{}, to *host.Sample) error {
	a := c.a
	a.mu.Lock()
	w := a.watch
	a.mu.Unlock()
	if w == nil {
		return errors.New("nothing is watched")
	}
	s, ok := <-w.samples
	if !ok {
		return cmp.Or(w.err, errors.New("watching has ended"))
	}
	*to = *s
	to.At = a.at(s.At)
	return nil
}

// Stop ends the samples.
func (c *calls) Stop(struct{}, *struct{}) error { return c.a.turnTo(nil) }
