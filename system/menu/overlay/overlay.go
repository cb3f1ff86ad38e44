// Package overlay keeps the availability of menus in memory for a moment, for pages that
// are asked for often.
//
// It fails open: what cannot be found out in time is what was known a minute ago at the most, or
// nothing, and the page is shown without. While its source answers, what it says is
// at most 4 seconds old.
package overlay

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/cache"
	"loadstone/system/menu"
)

const (
	// wait is how long a page waits for what it can be shown without.
	wait = 250 * time.Millisecond
	// rest is how long a source that failed is not asked: a page a second pays for finding
	// out whether it is back.
	rest = time.Second
)

// Overlays are those of all menus. They are safe for concurrent use.
type Overlays struct {
	cache *cache.Cache[int64, kept]
	load  func(ctx context.Context, id int64) ([]byte, error)
	until atomic.Int64 // when the source is asked again, Unix nanoseconds
}

// kept is what is known of one menu; without an overlay, that there is none.
type kept struct {
	overlay *menu.Overlay
	bytes   int
}

// New returns overlays that load finds: the JSON of one, or an error, which wraps
// menu.ErrNotFound if there is none. It must end with its context. The metrics are those of
// package cache, named availability. The caller must Close it.
func New(load func(ctx context.Context, id int64) ([]byte, error), to prometheus.Registerer) (*Overlays, error) {
	o := &Overlays{load: load}
	var err error
	o.cache, err = cache.New(cache.Config[int64, kept]{
		Name: "availability", Registerer: to, Load: o.ask,
		MaxAge: time.Minute, LoadTimeout: time.Second,
		// What is in memory is several times its JSON; that there is none takes nothing.
		Memory:  &cache.Memory[int64, kept]{MaxBytes: 16 << 20, Bytes: func(_ int64, k kept) int { return 8 + 4*k.bytes }},
		Refresh: &cache.Refresh{After: 2 * time.Second, SyncAfter: 4 * time.Second, SyncWait: wait, Backoff: rest, Concurrent: 8},
		// Beyond this many pages of menus that nobody asked for of late, the others do without.
		Shed:   &cache.Shed{Concurrent: 16, Queue: 64, Wait: wait},
		Jitter: cache.Jitter{Fraction: 0.2},
	})
	if err != nil {
		return nil, fmt.Errorf("keep availability: %w", err)
	}
	return o, nil
}

// errResting: the source failed a moment ago.
var errResting = errors.New("the source of availability failed a moment ago")

func (o *Overlays) ask(ctx context.Context, id int64) (kept, error) {
	if time.Now().UnixNano() < o.until.Load() {
		return kept{}, errResting
	}
	body, err := o.load(ctx, id)
	if errors.Is(err, menu.ErrNotFound) {
		return kept{}, nil
	}
	if err != nil {
		o.until.Store(time.Now().Add(rest).UnixNano())
		return kept{}, err
	}
	overlay, err := menu.ParseOverlay(body)
	return kept{overlay, len(body)}, err
}

// Find is the overlay of a menu; nil if there is none, or none is known.
func (o *Overlays) Find(ctx context.Context, id int64) *menu.Overlay {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	known, err := o.cache.Get(ctx, id)
	if err != nil {
		return nil // counted by the cache
	}
	return known.overlay
}

// Close ends what is under way.
func (o *Overlays) Close() error { return o.cache.Close() }
