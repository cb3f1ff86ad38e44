package backoffice

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// How often one may try to sign in: so many times at once, and then once in a while.
const (
	triesOfName    = 5 // one account from one address
	triesOfAddress = 30
	nameAgain      = time.Minute
	addressAgain   = 10 * time.Second
)

// maxKeys bounds those that a limiter remembers, some 2 MB.
const maxKeys = 10_000

// limiter bounds attempts by key. When it is full it forgets: who has that many addresses
// is left to what hashing bounds, and does not lock others out.
type limiter struct {
	mu   sync.Mutex
	keys map[string]bucket
}

// bucket fills again with time.
type bucket struct {
	spent float64 // at the time at
	at    time.Time
	again time.Duration
}

func (b bucket) spentAt(now time.Time) float64 {
	return max(0, b.spent-float64(now.Sub(b.at))/float64(b.again))
}

// take reports whether one more attempt is within what is allowed, and counts it if so.
func (l *limiter) take(key string, most int, again time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	b, known := l.keys[key]
	if !known {
		l.makeRoom(now)
		b = bucket{at: now, again: again}
	}
	spent := b.spentAt(now) + 1
	if spent > float64(most) {
		return false
	}
	l.keys[key] = bucket{spent, now, again}
	return true
}

func (l *limiter) makeRoom(now time.Time) {
	if len(l.keys) < maxKeys {
		return
	}
	for key, b := range l.keys {
		if b.spentAt(now) == 0 {
			delete(l.keys, key)
		}
	}
	if len(l.keys) >= maxKeys {
		clear(l.keys)
	}
}

// forget is for who was let in.
func (l *limiter) forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.keys, key)
}

// network is what counts as one address: an IPv6 host has all of its /64.
func network(address netip.Addr) string {
	if address.Is6() {
		if prefix, err := address.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return address.String()
}

// Checking a password takes a core for a quarter of a second: few are checked at a time, and
// a few more may wait, not for longer than hashTimeout.
const (
	hashing     = 2
	mayWait     = 16
	hashTimeout = 4 * time.Second
)

var errBusy = &Refusal{http.StatusServiceUnavailable, "Nothing was changed: too much is under way. Go back and try again in a moment."}

// turns lets few do at a time what takes long.
type turns struct{ waiting, working chan struct{} }

func newTurns() turns {
	return turns{make(chan struct{}, hashing+mayWait), make(chan struct{}, hashing)}
}

// do calls f when it is its turn; if that does not come, the error is errBusy.
func (t turns) do(ctx context.Context, f func()) error {
	select {
	case t.waiting <- struct{}{}:
	default:
		return errBusy
	}
	defer func() { <-t.waiting }()
	ctx, cancel := context.WithTimeout(ctx, hashTimeout)
	defer cancel()
	select {
	case t.working <- struct{}{}:
	case <-ctx.Done():
		return errBusy
	}
	defer func() { <-t.working }()
	f()
	return nil
}
