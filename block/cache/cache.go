// Package cache keeps loaded values in the memory of one process, bounded by
// bytes, in front of a loader.
//
// It is not a store: it may forget anything at any time, and it knows nothing
// that the loader does not know. It is not shared between processes. Errors are
// not cached, and "not found" is an error here: every look-up of a missing key
// asks the loader.
//
// The cache owns its values: what a loader returns must not lie in memory that
// somebody else will reuse or unmap, and nobody may modify it afterwards.
//
// It fails open. A value that is too large is returned and not kept. A loader's
// error reaches the callers that waited for it and nobody else.
package cache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"
	"github.com/prometheus/client_golang/prometheus"
)

// Config describes a cache. All fields are required.
type Config[K comparable, V any] struct {
	// Name tells this cache's metrics from those of others in the process.
	Name string
	// MaxBytes bounds the memory for entries: the sum over all of Bytes plus
	// EntryOverhead. While entries are written faster than the evicting
	// goroutine runs, the sum may be over it by what has just been written.
	MaxBytes int64
	// MaxAge is how long after its load an entry is forgotten. It is the
	// longest time for which a change behind the loader can stay unseen.
	MaxAge time.Duration
	// LoadTimeout bounds one load. A load serves everybody who waits for its
	// key, so no caller's deadline can: see Get.
	LoadTimeout time.Duration
	// Bytes is the size of an entry's key and value in memory, without what
	// EntryOverhead covers.
	Bytes func(key K, value V) int
	// Load gets a value that is not in the cache. Its context ends after
	// LoadTimeout; it must return soon after that.
	Load func(ctx context.Context, key K) (V, error)
	// Registerer receives the metrics, see Metrics.
	Registerer prometheus.Registerer
}

// EntryOverhead is what the cache adds to each entry, in bytes: what its node
// holds besides key and value, its share of the hash table and of the frequency
// sketch. TestEntryOverhead measures it: 87 to 119 bytes, by the number of
// entries; rounded up to what allocators round to.
const EntryOverhead = 128

// maxShare is the part of MaxBytes that one entry may take. A larger one would
// push out a good part of all others to be kept for one key.
const maxShare = 8

// ErrLoadPanicked is wrapped by what every waiter gets when a load panicked; the
// text has the stack.
var ErrLoadPanicked = errors.New("load panicked")

// Cache is a cache. It is safe for concurrent use.
//
// An otter cache behind a pointer does the work: what stays and what goes
// (W-TinyLFU), expiry, and one load per key at a time. Clear replaces the whole
// otter cache, for two reasons. It takes the same time for any size. And a load
// that began before Clear writes into the cache that nobody reads any more;
// emptying the cache in place would let it put an outdated value back.
type Cache[K comparable, V any] struct {
	cfg     Config[K, V]
	metrics *metrics
	events  *stats.Counter // shared by all generations: counters only grow
	loader  otter.Loader[K, V]

	changing sync.Mutex // held by Clear and Close
	current  atomic.Pointer[otter.Cache[K, V]]
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config[K, V]) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("cache: "+format, args...)) }
	if c.Name == "" {
		bad("there is no name")
	}
	if c.MaxBytes < MinBytes {
		bad("max bytes is %d, must be at least %d", c.MaxBytes, MinBytes)
	}
	if c.MaxAge <= 0 {
		bad("max age is %v, must be positive", c.MaxAge)
	}
	if c.LoadTimeout <= 0 {
		bad("load timeout is %v, must be positive", c.LoadTimeout)
	}
	if c.Bytes == nil || c.Load == nil {
		bad("a function for the size or the load is missing")
	}
	if c.Registerer == nil {
		bad("there is no metrics registerer")
	}
	return errors.Join(errs...)
}

// MinBytes is the smallest bound that makes sense: below it, the overhead of a
// few entries is all there is.
const MinBytes = 64 << 10

// New returns an empty cache and registers its metrics. The caller must Close it.
func New[K comparable, V any](cfg Config[K, V]) (*Cache[K, V], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Cache[K, V]{cfg: cfg, metrics: newMetrics(cfg.Name), events: stats.NewCounter()}
	c.loader = otter.LoaderFunc[K, V](c.load)
	first, err := c.generation()
	if err != nil {
		return nil, err
	}
	c.current.Store(first)
	c.metrics.read = func() reading {
		now := c.current.Load()
		events := c.events.Snapshot()
		return reading{
			hits: events.Hits, misses: events.Misses, evictions: events.Evictions,
			bytes: now.WeightedSize(), entries: now.EstimatedSize(), limit: cfg.MaxBytes,
		}
	}
	if err := cfg.Registerer.Register(c.metrics); err != nil {
		first.StopAllGoroutines()
		return nil, fmt.Errorf("register metrics of cache %q: %w", cfg.Name, err)
	}
	return c, nil
}

// generation is a new, empty otter cache.
func (c *Cache[K, V]) generation() (*otter.Cache[K, V], error) {
	next, err := otter.New(&otter.Options[K, V]{
		MaximumWeight:    uint64(c.cfg.MaxBytes),                                              // #nosec G115 -- Validate has seen to it
		Weigher:          func(key K, value V) uint32 { return uint32(c.weight(key, value)) }, // #nosec G115 -- load keeps larger ones out
		ExpiryCalculator: otter.ExpiryWriting[K, V](c.cfg.MaxAge),
		StatsRecorder:    c.events,
	})
	if err != nil {
		return nil, fmt.Errorf("make cache %q: %w", c.cfg.Name, err)
	}
	return next, nil
}

// Get returns the value of key, loading it if need be.
//
// Callers that miss the same key at the same time share one load. It runs on
// the first caller's goroutine, under a context that ends after LoadTimeout and
// not with the first caller's own: a caller that gives up must not fail the
// others. So the first caller stays until the load is over; the others
// leave when their ctx ends, with its error.
//
// A load's error, or its panic as an error that wraps ErrLoadPanicked, is
// returned to all who waited for it, as it is.
func (c *Cache[K, V]) Get(ctx context.Context, key K) (V, error) {
	value, err := c.current.Load().Get(ctx, key, c.loader)
	if err == nil {
		return value, nil
	}
	if large, ok := errors.AsType[*unkept[V]](err); ok {
		return large.value, nil
	}
	return value, err // the loader's error, as promised
}

// Clear forgets everything at once. A load that is under way is not kept.
func (c *Cache[K, V]) Clear() error {
	c.changing.Lock()
	defer c.changing.Unlock()
	next, err := c.generation()
	if err != nil {
		return err
	}
	c.current.Swap(next).StopAllGoroutines()
	return nil
}

// Close ends the cache's goroutine. It does not wait for loads: those belong to
// the callers of Get, which must have returned.
func (c *Cache[K, V]) Close() error {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.current.Load().StopAllGoroutines()
	return nil
}

// unkept carries a value that is not to be cached past otter, which keeps
// whatever comes without an error and hands an error to every waiter.
type unkept[V any] struct{ value V }

func (*unkept[V]) Error() string { return "too large to be kept" }

// load is what otter calls on a miss.
func (c *Cache[K, V]) load(ctx context.Context, key K) (value V, err error) {
	outcome := panicked
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrLoadPanicked, r, debug.Stack())
		}
		c.metrics.loads[outcome].Inc()
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.LoadTimeout)
	defer cancel()
	value, err = c.cfg.Load(ctx, key)
	switch {
	case err != nil:
		outcome = failed
		return value, err // callers get the loader's error as it is
	case c.weight(key, value) > c.maxWeight():
		outcome = tooLarge
		return value, &unkept[V]{value}
	default:
		outcome = kept
		return value, nil
	}
}

func (c *Cache[K, V]) weight(key K, value V) int64 {
	return int64(c.cfg.Bytes(key, value)) + EntryOverhead
}

// maxWeight also keeps weights within what otter counts with.
func (c *Cache[K, V]) maxWeight() int64 {
	return min(c.cfg.MaxBytes/maxShare, math.MaxUint32)
}
