package lookaside

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"loadstone/block/pause"
)

// Warmed counts keys by what came of them.
type Warmed struct {
	Filled int64 // were loaded, and Redis has them
	There  int64 // Redis had them already
	Absent int64 // have no value, which Redis knows for AbsentLife
	Failed int64 // could not be loaded, or Redis does not have them
}

// Keys is how many were tried.
func (w Warmed) Keys() int64 { return w.Filled + w.There + w.Absent + w.Failed }

// A key that fails is tried again after firstPause, and after pauses four times as long up to
// lastPause: two seconds in all, in which whoever asks too much asks less. After givenUp keys in a row
// something is lost, and the others are left alone.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 1600 * time.Millisecond
	givenUp    = 32
)

// Warm fills in those of the keys that Redis lacks, as Get does, so many at one time. It counts what
// Redis has afterwards; the database is asked only while Redis answers. Progress, which may be nil, is
// told after each key, by one goroutine at a time.
//
// The error is the first one, once all keys were tried. Before that, it says that Redis cannot be
// reached, that one key after the other failed, or that ctx has ended.
func (c *Cache) Warm(ctx context.Context, keys iter.Seq[string], concurrent int, progress func(Warmed)) (Warmed, error) {
	if err := c.tier.Reach(ctx); err != nil {
		return Warmed{}, fmt.Errorf("redis at %s: %w", c.cfg.Redis.Addr, err)
	}
	w := &warming{cache: c, progress: progress}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(concurrent)
	for key := range keys {
		if within.Err() != nil {
			break
		}
		group.Go(func() error { return w.key(within, key) })
	}
	err := group.Wait()
	return w.did, cmp.Or(err, ctx.Err(), w.first)
}

// warming is one call of Warm.
type warming struct {
	cache    *Cache
	progress func(Warmed)

	mu    sync.Mutex
	did   Warmed
	row   int // failures since the last success
	first error
}

// key warms one. It returns an error if no others are to be tried.
func (w *warming) key(ctx context.Context, key string) error {
	kind, filled, err := w.cache.warm(ctx, key)
	for wait := firstPause; err != nil && wait <= lastPause && pause.For(ctx, wait); wait *= 4 {
		kind, filled, err = w.cache.warm(ctx, key)
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err() // neither tried to its end nor failed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(kind, filled, err)
	if w.progress != nil {
		w.progress(w.did)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%.80q: %w", key, err)
	if w.first == nil {
		w.first = err
	}
	if w.row < givenUp {
		return nil
	}
	return fmt.Errorf("given up after %d failures in a row, the last of %w", w.row, err)
}

func (w *warming) count(kind kind, filled bool, err error) {
	w.row++
	if err == nil {
		w.row = 0
	}
	switch {
	case err != nil:
		w.did.Failed++
	case kind == kindAbsent:
		w.did.Absent++
	case filled:
		w.did.Filled++
	default:
		w.did.There++
	}
}

// errNotKept is what is wrong with a key that was loaded and is not there.
var errNotKept = errors.New("redis does not have what was loaded: it is being changed, or there is no room")

// warm fills a key in if need be, and reports which entry Redis has. It looks before, for it is of no use
// to ask the database if Redis is lost, and behind, for whether a flight's fill took place nobody says.
func (c *Cache) warm(ctx context.Context, key string) (kind kind, filled bool, err error) {
	e, err := c.look(ctx, key)
	if err != nil || e.entry() {
		return e.kind, false, err
	}
	c.spare.drop(key) // what is found there Redis does not get
	if _, err := c.Get(ctx, key); err != nil {
		return e.kind, false, err
	}
	if e, err = c.look(ctx, key); err == nil && !e.entry() {
		err = errNotKept
	}
	return e.kind, true, err
}
