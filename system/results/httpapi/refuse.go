package httpapi

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"loadstone/system/results"
)

// refusals is how all are answered who give a code and see no page: when, and with which
// error. It follows from how look-ups that opened nothing have fared of late, those for
// other ids and the pulse among them, and not from the request's own.
type refusals struct {
	least   time.Duration // of the delay; 0 if there is none at all
	waiting atomic.Int64  // requests whose look-up is done
	pulsing atomic.Int64  // since when the pulse waits for the store, in nanoseconds since 1970; 0 if it does not

	mu      sync.Mutex
	age     time.Time        // when longest[0] began
	longest [2]time.Duration // look-up since age, and in the time before
	trouble results.Decision
	until   atomic.Int64 // the trouble ends, in nanoseconds since 1970; written with mu

	sleepUntil func(time.Time)
}

const (
	// memory is for how long a look-up counts, its time up to twice that: longer than a
	// pulse takes to fail, and the next one.
	memory = 10 * time.Second
	// maxDelay is longer than a look-up takes at the worst, and shorter than a balancer waits.
	maxDelay = 4800 * time.Millisecond
	// pulseEvery is how often the store is asked for an id that nobody has, so that it is
	// known how such look-ups fare although nobody else asks.
	pulseEvery = time.Second
	// maxWaiting is how many are kept waiting; the others are refused after the least
	// delay. It leaves connections to those who see their page.
	maxWaiting = 2048
)

// delay returns how long after its arrival a request is refused: the least delay,
// doubled until it is longer than every look-up.
func (r *refusals) delay(now time.Time) time.Duration {
	r.mu.Lock()
	longest := max(r.longest[0], r.longest[1])
	r.mu.Unlock()
	if since := r.pulsing.Load(); since > 0 {
		longest = max(longest, now.Sub(time.Unix(0, since)))
	}
	delay := r.least
	for 0 < delay && delay < longest && delay < maxDelay {
		delay *= 2
	}
	return min(delay, maxDelay)
}

// looked notes a look-up that opened nothing, how long it took and what came of it.
func (r *refusals) looked(now time.Time, took time.Duration, trouble *results.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.age) >= memory {
		r.longest[1] = r.longest[0]
		if now.Sub(r.age) >= 2*memory {
			r.longest[1] = 0
		}
		r.longest[0], r.age = 0, now
	}
	r.longest[0] = max(r.longest[0], took)
	if trouble != nil {
		r.trouble = *trouble
		r.until.Store(now.Add(memory).UnixNano())
	}
}

// troubled reports whether look-ups fail.
func (r *refusals) troubled(now time.Time) bool { return now.UnixNano() < r.until.Load() }

// refuse waits until it is time and returns how a request that arrived then is answered.
func (r *refusals) refuse(arrived time.Time, crowded bool) results.Decision {
	if crowded {
		r.sleepUntil(arrived.Add(r.least))
		return results.Decision{Err: results.ErrOverloaded, RetryAfter: soon}
	}
	r.waiting.Add(1)
	defer r.waiting.Add(-1)
	now := time.Now()
	for due := arrived.Add(r.delay(now)); now.Before(due); due = arrived.Add(r.delay(now)) {
		r.sleepUntil(due)
		now = time.Now()
	}
	if !r.troubled(now) {
		return results.Decision{Err: results.ErrNotFound}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trouble
}

// Run looks up an id that nobody has, every second until ctx ends. It returns nil. Without
// it a delay that hides how long look-ups take is known only as far as requests tell.
func (a *API) Run(ctx context.Context) error {
	ticker := time.NewTicker(pulseEvery)
	defer ticker.Stop()
	for {
		if a.locked && a.refusals.least > 0 && a.publication().Out {
			a.pulse(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (a *API) pulse(ctx context.Context) {
	began := time.Now()
	a.refusals.pulsing.Store(began.UnixNano())
	// Another id each time, of this replica: caches remember ids that nobody has.
	_, err := a.store.Lookup(ctx, results.MaxID+1+rand.Int64N(results.MaxID))
	if ctx.Err() == nil {
		now := time.Now()
		a.refusals.looked(now, now.Sub(began), a.trouble(err))
	}
	a.refusals.pulsing.Store(0)
}

// trouble is what a failed look-up means to all who see no page; nil if it did not fail.
func (a *API) trouble(err error) *results.Decision {
	if err == nil || errors.Is(err, results.ErrNotFound) {
		return nil
	}
	d := a.failed(err)
	return &d
}
