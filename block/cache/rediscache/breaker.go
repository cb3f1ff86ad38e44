package rediscache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"loadstone/block/pause"
)

// breaker is open after too many failures in a row, each of a call that began after the
// failure before: calls that were under way together have met the same trouble, and fail
// together also when this process was paused. Only a probe closes it.
type breaker struct {
	limit int32
	fails atomic.Int32
	open  atomic.Bool
	wake  chan struct{} // of capacity 1: it has opened

	mu   sync.Mutex
	last time.Time // of the failures, when it was noticed
}

func newBreaker(limit int) *breaker {
	return &breaker{limit: int32(limit), wake: make(chan struct{}, 1)}
}

func (b *breaker) isOpen() bool { return b.open.Load() }

// succeed forgets failures. The load keeps the line shared among cores while all
// is well.
func (b *breaker) succeed() {
	if b.fails.Load() != 0 {
		b.fails.Store(0)
	}
}

// fail reports whether the failure of a call that began then opened the breaker.
func (b *breaker) fail(began time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if began.Before(b.last) {
		return false
	}
	b.last = time.Now()
	return b.fails.Add(1) >= b.limit && b.trip()
}

func (b *breaker) trip() bool {
	if !b.open.CompareAndSwap(false, true) {
		return false
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return true
}

// reset reports whether it was open.
func (b *breaker) reset() bool {
	b.fails.Store(0)
	return b.open.Swap(false)
}

// tend probes Redis while the breaker is open.
func (t *Tier) tend(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.breaker.wake:
		}
		for t.breaker.isOpen() {
			if !pause.For(ctx, t.cfg.ProbeEvery) {
				return
			}
			_ = t.probe(ctx) // as expected while Redis is down; the breaker stays open
		}
	}
}

// probe connects or pings, and closes the breaker if Redis answers.
func (t *Tier) probe(ctx context.Context) error {
	t.probing.Lock()
	defer t.probing.Unlock()
	client := t.client.Load()
	if client == nil {
		fresh, err := rueidis.NewClient(options(t.cfg))
		if err != nil {
			return err
		}
		client = &fresh
		t.client.Store(client)
	}
	// Redis must answer a probe as fast as a look-up, or it is not well yet.
	ctx, cancel := context.WithTimeout(ctx, t.cfg.ReadTimeout)
	defer cancel()
	err := (*client).Do(ctx, (*client).B().Ping().Build()).Error()
	if err == nil && t.cfg.Returning != nil && t.breaker.isOpen() {
		err = t.cfg.Returning(ctx, *client)
	}
	if err == nil && t.breaker.reset() {
		t.switched(nil)
	}
	return err
}
