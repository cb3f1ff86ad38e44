// Package ratelimit bounds how often something may be done by whom: so many times at once,
// and then once in a while.
package ratelimit

import (
	"sync"
	"time"
)

// Limiter bounds attempts by key. When it is full it forgets: who has that many keys is left
// to other bounds, and does not lock others out. It is safe for concurrent use.
type Limiter struct {
	max int

	mu   sync.Mutex
	keys map[string]bucket
}

// New returns a limiter that remembers so many keys at most, of some 200 bytes each.
func New(maxKeys int) *Limiter { return &Limiter{max: maxKeys, keys: map[string]bucket{}} }

// bucket fills again with time.
type bucket struct {
	spent float64 // at the time at
	at    time.Time
	again time.Duration
}

func (b bucket) spentAt(now time.Time) float64 {
	return max(0, b.spent-float64(now.Sub(b.at))/float64(b.again))
}

// Take reports whether one more attempt is within what is allowed, most at once and one more
// after each again, and counts it if so.
func (l *Limiter) Take(key string, most int, again time.Duration) bool {
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

// makeRoom frees half of the keys at least if there are too many, so that it is not looked for
// one at a time.
func (l *Limiter) makeRoom(now time.Time) {
	if len(l.keys) < l.max {
		return
	}
	for key, b := range l.keys {
		if b.spentAt(now) == 0 {
			delete(l.keys, key)
		}
	}
	if len(l.keys) > l.max/2 {
		clear(l.keys)
	}
}

// Forget is for whose attempts shall not count any more.
func (l *Limiter) Forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.keys, key)
}
