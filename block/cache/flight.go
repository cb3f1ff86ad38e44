package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// flight is one fetch of a key that several callers wait for. entry, from and
// err are written before done is closed and only read afterwards.
type flight[V any] struct {
	done  chan struct{}
	entry *entry[V]
	from  Source
	err   error
	fits  bool // into the memory tier
	// old is the entry that is being refreshed, and oldFrom where it was found;
	// nil for a miss. They are there from the start.
	old     *entry[V]
	oldFrom Source
	// landed: it ended, with an entry, between the caller's look into memory and its joining.
	landed bool
	// outdated: the cache was cleared meanwhile; the callers get the result and
	// memory does not. late: a caller waited for SyncWait in vain;
	// the next ones need not. Both under Cache.mu.
	outdated, late bool
}

// wait returns the flight's error, or ctx's if that ends first.
func (f *flight[V]) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errGone is what waiters get when a load ended its goroutine (runtime.Goexit).
var errGone = fmt.Errorf("%w: it ended its goroutine", ErrLoadPanicked)

// join returns the flight of key; the leader has to run it. old is the entry that
// the leader is to refresh, or nil. Without one, memory is looked into once more: a flight
// may have landed since the caller did, and a second would load the same again.
func (c *Cache[K, V]) join(key K, old *entry[V], from Source) (f *flight[V], leader bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false, ErrClosed
	}
	if f, ok := c.flights[key]; ok {
		return f, false, nil
	}
	if old == nil && c.memoryOn.Load() {
		if e, ok := c.memory.peek(key); ok && c.valid(key, e) {
			return &flight[V]{entry: e, landed: true}, false, nil
		}
	}
	f = &flight[V]{done: make(chan struct{}), from: FromLoader, err: errGone, old: old, oldFrom: from}
	c.flights[key] = f
	c.running.Add(1)
	return f, true, nil
}

// run makes a flight, on the goroutine of the leader or one of its own. It ends with
// the cache: nobody is left to whom it could bring something.
func (c *Cache[K, V]) run(ctx context.Context, key K, f *flight[V]) {
	defer c.running.Done()
	defer close(f.done)
	defer func() {
		if r := recover(); r != nil {
			f.err = fmt.Errorf("%w: %v\n%s", ErrLoadPanicked, r, debug.Stack())
		}
		c.land(key, f)
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)() //nolint:contextcheck // this joins the two
	e, from, err := c.fetch(ctx, key, f.old)
	if err != nil && c.life.Err() != nil {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	f.fits = err == nil && c.memory != nil && c.memory.fits(key, e.value)
	f.entry, f.from, f.err = e, from, err
}

// land writes what a flight brought into memory, unless it is outdated.
func (c *Cache[K, V]) land(key K, f *flight[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[key] == f {
		delete(c.flights, key)
	}
	if f.outdated || !c.memoryOn.Load() {
		return
	}
	if f.err == nil {
		if f.fits {
			c.memory.set(key, f.entry)
		} else {
			c.memory.drop(key) // what is there is older
		}
		return
	}
	if f.old != nil {
		if kept, ok := c.memory.peek(key); ok && kept.born == f.old.born {
			later := *kept
			later.retry = micros(time.Now().Add(c.cfg.Refresh.Backoff))
			c.memory.set(key, &later)
		}
	}
}

// fetch asks the shared tier and then the loader.
func (c *Cache[K, V]) fetch(ctx context.Context, key K, old *entry[V]) (*entry[V], Source, error) {
	if !c.sharedOn.Load() {
		e, err := c.load(ctx, key, old)
		return e, FromLoader, err
	}
	var after int64
	if old != nil {
		after = old.born
	}
	e, said := c.fromShared(ctx, key)
	if e != nil && (old == nil || c.better(e, after)) {
		return e, FromShared, nil
	}
	grant := c.cfg.Shared.Remote.Lease(ctx, c.cfg.Shared.KeyText(key), after)
	if grant.Release != nil {
		defer grant.Release()
	}
	if grant.Found {
		if e, err := c.decode(key, grant.Item); err == nil {
			return e, FromShared, nil
		}
	}
	e, err := c.load(ctx, key, old)
	if err == nil {
		c.put(ctx, key, e)
		return e, FromLoader, nil
	}
	// A shared tier that gave no answer may have one after all: it was slow, or
	// a packet was lost. With the loader gone it is the only one left to ask.
	if !said && old == nil {
		if again, _ := c.fromShared(ctx, key); again != nil {
			return again, FromShared, nil
		}
	}
	return nil, FromLoader, err
}

// better: another process has refreshed the entry.
func (c *Cache[K, V]) better(e *entry[V], after int64) bool {
	return e.born > after && (e.absent || e.age(micros(time.Now())) < e.scaled(c.ages.refresh))
}

// load calls the loader, if the shedder lets it.
func (c *Cache[K, V]) load(ctx context.Context, key K, old *entry[V]) (e *entry[V], err error) {
	if c.shed != nil {
		// A refresh has something to serve meanwhile, so it does not queue.
		leave, err := c.shed.enter(ctx, old == nil)
		if err != nil {
			c.metrics.rejected(err)
			return nil, err
		}
		defer leave()
	}
	outcome := panicked
	defer func() { c.metrics.loads[outcome].Inc() }()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.LoadTimeout)
	defer cancel()
	e = &entry[V]{born: micros(time.Now()), scale: c.scale()}
	e.value, err = c.cfg.Load(ctx, key)
	switch {
	case err != nil && c.cfg.Absent != nil && errors.Is(err, c.cfg.Absent.Err):
		var none V
		e.value, e.absent, outcome = none, true, absent
		return e, nil
	case err != nil:
		outcome = failed
		return nil, err // callers get the loader's error as it is
	case c.memory != nil && !c.memory.fits(key, e.value):
		outcome = tooLarge
	default:
		outcome = kept
	}
	return e, nil
}
