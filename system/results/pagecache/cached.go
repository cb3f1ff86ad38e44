package pagecache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/cache"
	"loadstone/block/cache/rediscache"
	"loadstone/system/results"
)

// loadTimeout bounds a load into the cache for stores that heed it; see load.
const loadTimeout = 5 * time.Second

// entryBytes is the size of a cached page's key and Page in memory, without the
// bytes that the Page points to.
const entryBytes = 16 + 80

const (
	// absentAge is how long an id is remembered as unknown. Ids that exist are
	// few, others are endless: so they must not fill the shared tier for long.
	absentAge = time.Minute
	// shedQueue and shedWait bound the look-ups that wait for the database while
	// the shared tier is lost: as many as a replica's share of the connections that a
	// service like this has, and as long as somebody may be kept waiting: as for a connection
	// where there is no cache, see pgstore.DefaultConfig.
	shedQueue = 4096
	shedWait  = time.Second
)

// Backing is the store behind the caches.
type Backing interface {
	results.Store
	// State is what the store is known to hold, and false if that is nothing. It must be
	// fast. What the store holds is that or newer.
	State() (results.State, bool)
	// Pool is how many look-ups the store does best at one time; 0 if it does not
	// matter, for files.
	Pool() int
}

// Cached is a store behind caches.
type Cached struct {
	store  Backing
	pages  *cache.Cache[Key, kept]
	shared *rediscache.Tier // nil without one
	closed atomic.Bool
	set    atomic.Uint64 // whose pages memory holds
	// Switches turn the tiers on and off.
	Switches *cache.Switches
}

// Open puts the caches that the configuration names before a store. Cached must be
// closed before the store is.
func Open(ctx context.Context, cfg Tiers, store Backing, registerer prometheus.Registerer) (*Cached, error) {
	c := &Cached{store: store}
	cc := c.config(cfg, registerer)
	var useMemory, useShared func(on bool)
	if cfg.hasMemory() {
		useMemory = func(on bool) { c.pages.UseMemory(on) }
		cc.Memory = &cache.Memory[Key, kept]{MaxBytes: cfg.CacheBytes, Bytes: pageBytes}
	}
	var err error
	if cfg.hasRedis() {
		tier, err := TierConfig(cfg.Redis, registerer)
		if err != nil {
			return nil, err
		}
		// No lease: it would add two round trips to every miss, and save at most one
		// query of a third of a millisecond for each server but one.
		if c.shared, err = rediscache.New(ctx, tier); err != nil {
			return nil, fmt.Errorf("open the shared cache: %w", err)
		}
		useShared = func(on bool) { c.pages.UseShared(on) }
		cc.Shared = &cache.Shared[Key, kept]{Remote: c.shared, KeyText: Key.Text, Encode: encode, Decode: decode}
	}
	if c.pages, err = cache.New(cc); err != nil {
		return nil, errors.Join(fmt.Errorf("make the cache: %w", err), c.closeShared())
	}
	c.Switches = cache.NewSwitches(useMemory, useShared)
	return c, nil
}

// config is the configuration of both tiers and what is between them and the store.
func (c *Cached) config(cfg Tiers, registerer prometheus.Registerer) cache.Config[Key, kept] {
	cc := cache.Config[Key, kept]{
		Name:        CacheName,
		MaxAge:      cfg.CacheMaxAge,
		LoadTimeout: loadTimeout,
		Load:        c.load,
		Valid:       c.valid,
		Registerer:  registerer,
		Absent:      &cache.Absent{Err: results.ErrNotFound, Age: min(absentAge, cfg.CacheMaxAge)},
		Jitter:      cache.Jitter{Fraction: Jitter, Seed: uint64(time.Now().UnixNano())},
	}
	if pool := c.store.Pool(); pool > 0 {
		cc.Shed = &cache.Shed{Concurrent: pool, Queue: shedQueue, Wait: shedWait}
	}
	return cc
}

func pageBytes(_ Key, p kept) int {
	return entryBytes + len(p.Body) + len(p.Code) + Overhead
}

// errUnknown is why there is no answer while the store is not known to hold anything.
var errUnknown = fmt.Errorf("it is not known which data set the store holds: %w", results.ErrUnavailable)

// errMoved is why a page is not kept: the store has moved to another data set.
var errMoved = fmt.Errorf("the data set was replaced meanwhile: %w", results.ErrUnavailable)

// Lookup implements results.Store.
func (c *Cached) Lookup(ctx context.Context, id int64) (results.Page, error) {
	page, err := c.lookup(ctx, id)
	if errors.Is(err, errMoved) {
		page, err = c.lookup(ctx, id) // data sets are replaced by people: once is enough
	}
	return page, err
}

func (c *Cached) lookup(ctx context.Context, id int64) (results.Page, error) {
	if c.closed.Load() {
		return results.Page{}, results.ErrUnavailable
	}
	state, ok := c.store.State()
	if !ok {
		return results.Page{}, errUnknown
	}
	page, err := c.pages.Get(ctx, Key{state.Set, id})
	if over, ok := errors.AsType[*cache.OverloadError](err); ok {
		return results.Page{}, &results.BusyError{RetryAfter: over.RetryAfter, Err: err}
	}
	if errors.Is(err, cache.ErrClosed) { // meanwhile
		return results.Page{}, fmt.Errorf("%w: %w", results.ErrUnavailable, err)
	}
	return page.Page, err // the store's error, which says what was tried
}

// valid reports whether a page of the tiers still is the student's.
func (c *Cached) valid(key Key, page kept) bool {
	state, ok := c.store.State()
	return ok && state.Set == key.Set && state.Fresh(key.ID, page.revision)
}

// load gets a page from the store, in memory of its own: a page that pointed
// into a snapshot would keep all of the snapshot in memory.
//
// The page is of the state that is known before, or of a newer one. If the store has moved
// to another data set meanwhile, it is not kept: the data set before may come back, as a
// file that was put aside does. A database tells of a move up to a second late, and then a
// page may be kept under a key that never comes back: a database's Set is drawn anew with
// each filling.
func (c *Cached) load(ctx context.Context, key Key) (kept, error) {
	state, ok := c.store.State()
	if !ok {
		return kept{}, errUnknown
	}
	// Without the deadline. PostgreSQL's store has shorter ones of its own. The
	// others look up in microseconds in a snapshot, and cannot interrupt a
	// disk that hangs; a context that can end makes database/sql start
	// goroutines, for half of a query's time again.
	page, err := c.store.Lookup(context.WithoutCancel(ctx), key.ID)
	if after, ok := c.store.State(); !ok || after.Set != key.Set {
		return kept{}, errMoved
	}
	if err != nil {
		return kept{}, err
	}
	n := len(page.Body)
	own := make([]byte, n+len(page.Code))
	copy(own, page.Body)
	copy(own[n:], page.Code)
	runtime.KeepAlive(page.Owner)
	return kept{results.Page{Body: own[:n:n], Code: own[n:], Tag: page.Tag}, state.Revision}, nil
}

// Switch forgets the pages in memory if the store has moved to another data set.
func (c *Cached) Switch() error {
	state, _ := c.store.State()
	if c.set.Swap(uint64(state.Set)) == uint64(state.Set) {
		return nil
	}
	if err := c.pages.Clear(); err != nil {
		return fmt.Errorf("clear the cache: %w", err)
	}
	return nil
}

// Close ends the cache and its connections.
func (c *Cached) Close() error {
	c.closed.Store(true)
	var err error
	if err = c.pages.Close(); err != nil {
		err = fmt.Errorf("close the cache: %w", err)
	}
	return errors.Join(err, c.closeShared())
}

func (c *Cached) closeShared() error {
	if c.shared == nil {
		return nil
	}
	return c.shared.Close()
}
