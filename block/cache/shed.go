package cache

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Shed bounds the loads at one time, so that a lost tier does not become a lost
// loader. When all places are taken, loads queue; when the queue is full or the
// wait too long, they are refused. A load that finds the loader idle is always
// admitted.
type Shed struct {
	// Concurrent is how many loads run at one time: what the loader does best.
	Concurrent int
	// Queue is how many wait for a place.
	Queue int
	// Wait is how long one waits at most.
	Wait time.Duration
}

// OverloadError says that the shedder refused a load.
type OverloadError struct {
	// RetryAfter is when the queue should have drained, by the mean duration of
	// recent loads; at least Shed.Wait.
	RetryAfter time.Duration
	// Full tells a full queue from a wait that was too long.
	Full bool
}

// Error implements error.
func (e *OverloadError) Error() string {
	why := "no place within the time to wait"
	if e.Full {
		why = "the queue is full"
	}
	return fmt.Sprintf("too many loads: %s; try again after %v", why, e.RetryAfter)
}

// shedder is a counting semaphore with a bounded queue.
type shedder struct {
	cfg     Shed
	places  chan struct{}
	waiting atomic.Int64
	mean    atomic.Int64 // of a load's duration, nanoseconds, moving
}

func newShedder(cfg Shed) *shedder {
	return &shedder{cfg: cfg, places: make(chan struct{}, cfg.Concurrent)}
}

// enter waits for a place if patient, until ctx ends. leave gives it back.
func (s *shedder) enter(ctx context.Context, patient bool) (leave func(), err error) {
	select {
	case s.places <- struct{}{}:
		return s.leave(time.Now()), nil
	default:
	}
	if !patient {
		return nil, &OverloadError{RetryAfter: s.drained(), Full: true}
	}
	if s.waiting.Add(1) > int64(s.cfg.Queue) {
		s.waiting.Add(-1)
		return nil, &OverloadError{RetryAfter: s.drained(), Full: true}
	}
	defer s.waiting.Add(-1)
	limit := time.NewTimer(s.cfg.Wait)
	defer limit.Stop()
	select {
	case s.places <- struct{}{}:
		return s.leave(time.Now()), nil
	case <-limit.C:
		return nil, &OverloadError{RetryAfter: s.drained()}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *shedder) leave(began time.Time) func() {
	return func() {
		took, mean := int64(time.Since(began)), s.mean.Load()
		s.mean.Store(mean + (took-mean)/8) // a lost update between two loads does not matter
		<-s.places
	}
}

// drained is how long those who run and wait will take.
func (s *shedder) drained() time.Duration {
	ahead := s.waiting.Load() + int64(s.cfg.Concurrent)
	return max(s.cfg.Wait, time.Duration(s.mean.Load()*ahead/int64(s.cfg.Concurrent)))
}
