// Package cache keeps loaded values in front of a loader, in up to two tiers:
// the memory of this process, bounded by bytes, and a store that processes
// share (block/cache/rediscache). A system configures the tiers and the
// behaviour that it wants; what it leaves out costs nothing.
//
//	Get ─► memory ─► flight, one per key ─► shared tier ─► lease ─► shedder ─► Load
//	         │ old                            │ old
//	         └──► refresh behind, or wait for it a little, by age
//
// It is not a store: it may forget anything at any time, and it knows nothing
// that the loader does not know.
//
// The age of an entry counts from the moment its load began, by the wall clock,
// because processes share entries: hosts that share a tier must have clocks that
// agree better than the ages that are configured. By age, an entry is
//
//	0 ────────── Refresh.After ─────────── Refresh.SyncAfter ────────── MaxAge
//	  served        served, and refreshed      load awaited for           gone
//	                behind the caller          Refresh.SyncWait; else
//	                                           served and called stale
//
// so MaxAge bounds what anybody sees, however the loader and the network fail. What changes
// behind the loader before that is for Config.Valid to notice.
//
// The cache owns its values: what a loader returns must not lie in memory that
// somebody else will reuse or unmap, and nobody may modify it afterwards.
//
// It fails open. A value too large for the memory tier is returned and not kept
// there. A shared tier that fails is a miss. A loader's error reaches the callers
// that waited for it and nobody else. It fails closed in one place: the
// shedder, which protects the loader.
package cache

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrLoadPanicked is wrapped by what every waiter gets when a load panicked;
	// the text has the stack.
	ErrLoadPanicked = errors.New("load panicked")
	// ErrClosed is what Get and Find return after Close. What Close ended wraps it.
	ErrClosed = errors.New("the cache is closed")
)

// Source says where a value came from.
type Source int

// The sources, nearest first.
const (
	FromMemory Source = iota
	FromShared
	FromLoader
)

// sources are the values of the label tier.
var sources = [...]string{FromMemory: "memory", FromShared: "shared", FromLoader: "loader"}

// String is the source's name in metrics.
func (s Source) String() string { return sources[s] }

// Found is a value and what is known about it.
type Found[V any] struct {
	Value V
	// Age is the time since the value's load began.
	Age time.Duration
	// From is where it was found.
	From Source
	// Stale is true for a value older than Refresh.SyncAfter: its refresh failed
	// or took too long.
	Stale bool
}

// Cache is a cache. It is safe for concurrent use.
//
// The mutex mu orders what may not cross: the end of a flight, which writes into
// memory, and Clear, which calls the flights under way outdated. Hits do not take mu.
type Cache[K comparable, V any] struct {
	cfg     Config[K, V]
	metrics *metrics
	memory  *memory[K, V] // nil: no such tier
	shed    *shedder      // nil: loads are not bounded
	ages    ages
	draws   atomic.Uint64 // entries that drew a share of the jitter

	memoryOn, sharedOn atomic.Bool

	refreshing chan struct{} // one slot for each refresh behind callers

	life context.Context //nolint:containedctx // it ends with Close, and all flights with it
	end  context.CancelFunc

	mu      sync.Mutex
	flights map[K]*flight[V]
	closed  bool
	running sync.WaitGroup // flights; Add under mu while not closed
}

// New returns an empty cache and registers its metrics. The caller must Close it.
func New[K comparable, V any](cfg Config[K, V]) (*Cache[K, V], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Cache[K, V]{cfg: cfg, ages: cfg.ages(), flights: make(map[K]*flight[V])}
	c.metrics = newMetrics(cfg.Name)
	c.metrics.counted = cfg.Shared != nil && cfg.Shared.Counted
	if cfg.Shed != nil {
		c.shed = newShedder(*cfg.Shed)
	}
	if cfg.Refresh != nil {
		c.refreshing = make(chan struct{}, cfg.Refresh.Concurrent)
	}
	c.memoryOn.Store(cfg.Memory != nil)
	c.sharedOn.Store(cfg.Shared != nil)
	if cfg.Memory != nil {
		m, err := newMemory(cfg.Name, *cfg.Memory, c.ages)
		if err != nil {
			return nil, err
		}
		c.memory = m
		c.metrics.memory = m.reading
	}
	cfg.Registerer.MustRegister(c.metrics)
	c.life, c.end = context.WithCancel(context.Background()) //nolint:gosec // Close calls it
	return c, nil
}

// Get returns the value of key, loading it if need be. It is Find without what
// is known about the value.
func (c *Cache[K, V]) Get(ctx context.Context, key K) (V, error) {
	found, err := c.Find(ctx, key)
	return found.Value, err
}

// Find returns the value of key, loading it if need be.
//
// Callers that miss the same key at the same time share one load. It does not
// end with any caller's ctx: a caller that gives up must not fail the others. A
// caller leaves when its ctx ends, with that error, or with the stale value if
// there is one.
//
// A load's error, or its panic as an error that wraps ErrLoadPanicked, is
// returned to all who waited for it, as it is. Absent.Err is returned for as
// long as Absent says. An *OverloadError says that the shedder refused the load.
func (c *Cache[K, V]) Find(ctx context.Context, key K) (Found[V], error) {
	if c.memoryOn.Load() {
		if e, now, ok := c.memory.get(key); ok && c.valid(key, e) {
			return c.settle(ctx, key, e, at{now, FromMemory})
		}
	}
	found, err := c.board(ctx, key, true)
	if errors.Is(err, errOutdated) {
		found, err = c.board(ctx, key, false) // a flight that began later
	}
	return found, err
}

// errOutdated says that a flight began before this caller came, and brought what was known
// not to be valid when it came.
var errOutdated = errors.New("the load began too early")

// board joins the flight for a key, or makes it. Only the first time may it fail with
// errOutdated.
func (c *Cache[K, V]) board(ctx context.Context, key K, first bool) (Found[V], error) {
	f, leader, err := c.join(key, nil, FromLoader)
	if err != nil {
		return Found[V]{}, err
	}
	if f.landed {
		return c.settle(ctx, key, f.entry, at{micros(time.Now()), FromMemory})
	}
	if first && c.memoryOn.Load() {
		c.metrics.misses[FromMemory].Add(1)
	}
	switch {
	case !leader && c.servable(key, f.old):
		// Somebody found an entry a moment ago and refreshes it. Whether to wait
		// for that is for the entry's age to say, as for who found it.
		return c.settle(ctx, key, f.old, at{micros(time.Now()), f.oldFrom})
	case !leader:
	case ctx.Done() == nil:
		// Nobody can call this caller back, so it may as well do the work: it
		// saves a goroutine, about half of the cost of a miss.
		c.run(ctx, key, f)
	default:
		go c.run(context.WithoutCancel(ctx), key, f)
	}
	if err := f.wait(ctx); err != nil {
		return Found[V]{}, err
	}
	if !leader && first && !c.valid(key, f.entry) {
		return Found[V]{}, errOutdated
	}
	return c.settle(ctx, key, f.entry, at{micros(time.Now()), f.from})
}

// servable reports whether an entry that is being refreshed may be served meanwhile.
func (c *Cache[K, V]) servable(key K, old *entry[V]) bool {
	return old != nil && c.ages.rest(old.born, old.scale, false) > 0 && c.valid(key, old)
}

// valid reports whether an entry of a tier may be served.
func (c *Cache[K, V]) valid(key K, e *entry[V]) bool {
	return c.cfg.Valid == nil || e.absent || c.cfg.Valid(key, e.value)
}

// at is when and where an entry was found.
type at struct {
	now  int64 // microseconds since 1970
	from Source
}

// settle serves an entry, refreshing it as its age demands.
func (c *Cache[K, V]) settle(ctx context.Context, key K, e *entry[V], at at) (Found[V], error) {
	if c.cfg.Refresh == nil || e.absent || at.from == FromLoader {
		return c.serve(e, at, false)
	}
	age := e.age(at.now)
	switch due := e.retry <= at.now; {
	case age < e.scaled(c.ages.refresh):
		return c.serve(e, at, false)
	case age < e.scaled(c.ages.sync):
		if due {
			c.refreshBehind(ctx, key, e, at.from)
		}
		return c.serve(e, at, false)
	case !due: // its refresh failed a moment ago
		return c.serve(e, at, true)
	}
	if fresh, from, ok := c.refreshNow(ctx, key, e, at.from); ok {
		at.now, at.from = micros(time.Now()), from
		return c.serve(fresh, at, fresh.age(at.now) >= fresh.scaled(c.ages.sync) && !fresh.absent)
	}
	return c.serve(e, at, true)
}

// serve counts and returns what was found.
func (c *Cache[K, V]) serve(e *entry[V], at at, stale bool) (Found[V], error) {
	age := e.age(at.now)
	c.metrics.served[at.from].observe(age)
	if e.absent {
		if at.from != FromLoader {
			c.metrics.negative[at.from].Add(1)
		}
		return Found[V]{}, c.cfg.Absent.Err
	}
	if stale {
		c.metrics.stale.Add(1)
	}
	return Found[V]{Value: e.value, Age: time.Duration(age) * time.Microsecond, From: at.from, Stale: stale}, nil
}

// UseMemory turns the memory tier on or off; without one it does nothing.
// Entries stay while it is off.
func (c *Cache[K, V]) UseMemory(on bool) { c.memoryOn.Store(on && c.memory != nil) }

// Clear forgets everything in the memory of this process at once. A load that is
// under way is not kept. The shared tier stays as it is.
func (c *Cache[K, V]) Clear() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.flights {
		f.outdated = true
	}
	clear(c.flights)
	if c.memory == nil || c.closed {
		return nil
	}
	return c.memory.clear()
}

// UseShared turns the shared tier on or off; without one it does nothing.
func (c *Cache[K, V]) UseShared(on bool) { c.sharedOn.Store(on && c.cfg.Shared != nil) }

// Close ends the context of the loads under way, waits for them and ends the
// cache's goroutines. It takes as long as the loader takes to heed its context. Who
// waits for such a load gets an error that wraps ErrClosed. The shared tier is closed
// afterwards, by whoever opened it.
func (c *Cache[K, V]) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end()
	c.running.Wait()
	if c.memory != nil {
		c.memory.stop()
	}
	return nil
}
