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
	"loadstone/system/results"
)

// loadTimeout bounds a load into the cache for stores that heed it; see load.
const loadTimeout = 5 * time.Second

// entryBytes is the size of a cached page's key and Page in memory, without the
// bytes that the Page points to.
const entryBytes = 16 + 72

const (
	// syncWait is how long a request waits for a page that is due to be looked up
	// again: a hundred look-ups. A database that is gone without a word
	// costs a request no more than this, once in refreshBackoff for each page.
	syncWait       = 100 * time.Millisecond
	refreshBackoff = 5 * time.Second
	// absentAge is how long an id is remembered as unknown. Ids that exist are
	// few, others are endless: so they must not fill the shared tier for long.
	absentAge = time.Minute
	// shedQueue and shedWait bound the look-ups that wait for the database while
	// the shared tier is lost: as many as a replica's share of the connections that a
	// service like this has, and as long as somebody may be kept waiting.
	shedQueue = 4096
	shedWait  = 2 * time.Second
	// otherRefreshes is how many refreshes are under way behind callers for stores
	// that have no pool.
	otherRefreshes = 2
)

// Backing is the store behind the caches.
type Backing interface {
	results.Store
	// Set is the data set that the store has now. It must be fast.
	Set() Set
	// Pool is how many look-ups the store does best at one time; 0 if it does not
	// matter, for files.
	Pool() int
}

// Cached is a store behind caches.
//
// A page's key names its data set, so a new snapshot's pages and the old one's never
// meet, here or in the tier that is shared. What makes that true is in load.
type Cached struct {
	store  Backing
	pages  *cache.Cache[Key, results.Page]
	shared *Shared       // nil without one
	set    atomic.Uint64 // the Set that is served
	closed atomic.Bool
	// Switches turn the tiers on and off.
	Switches *cache.Switches
}

// Open puts the caches that the configuration names before a store. Cached must be
// closed before the store is.
func Open(ctx context.Context, cfg Tiers, store Backing, registerer prometheus.Registerer) (*Cached, error) {
	c := &Cached{store: store}
	c.set.Store(uint64(store.Set()))
	cc := c.config(cfg, registerer)
	var useMemory, useShared func(on bool)
	if cfg.hasMemory() {
		useMemory = func(on bool) { c.pages.UseMemory(on) }
		cc.Memory = &cache.Memory[Key, results.Page]{MaxBytes: cfg.CacheBytes, Bytes: pageBytes}
	}
	var err error
	if cfg.hasRedis() {
		if c.shared, err = OpenShared(ctx, cfg.Redis, registerer); err != nil {
			return nil, err
		}
		useShared = func(on bool) { c.pages.UseShared(on) }
		cc.Shared = &cache.Shared[Key, results.Page]{
			Remote: c.shared, KeyText: Key.Text, ParseKey: ParseKey, Encode: Encode, Decode: Decode,
		}
	}
	if c.pages, err = cache.New(cc); err != nil {
		return nil, errors.Join(fmt.Errorf("make the cache: %w", err), c.closeShared())
	}
	c.Switches = cache.NewSwitches(useMemory, useShared)
	return c, nil
}

// config is the configuration of both tiers and what is between them and the store.
func (c *Cached) config(cfg Tiers, registerer prometheus.Registerer) cache.Config[Key, results.Page] {
	cc := cache.Config[Key, results.Page]{
		Name:        CacheName,
		MaxAge:      cfg.CacheMaxAge,
		LoadTimeout: loadTimeout,
		Load:        c.load,
		Registerer:  registerer,
		Absent:      &cache.Absent{Err: results.ErrNotFound, Age: min(absentAge, cfg.CacheMaxAge)},
		Jitter:      cache.Jitter{Fraction: Jitter, Seed: uint64(time.Now().UnixNano())},
		// Half of the time is for refreshes that nobody waits for.
		Refresh: &cache.Refresh{
			After: cfg.CacheRefresh / 2, SyncAfter: cfg.CacheRefresh, SyncWait: syncWait,
			Backoff: refreshBackoff, Concurrent: otherRefreshes,
		},
	}
	if pool := c.store.Pool(); pool > 0 {
		cc.Shed = &cache.Shed{Concurrent: pool, Queue: shedQueue, Wait: shedWait}
		// Refreshes leave room for those who have nothing yet.
		cc.Refresh.Concurrent = max(1, pool/2)
	}
	return cc
}

func pageBytes(_ Key, p results.Page) int {
	return entryBytes + len(p.Body) + len(p.Code) + Overhead
}

// errSwitched says that the store moved to another data set during a load.
var errSwitched = errors.New("the data set was replaced meanwhile")

// Lookup implements results.Store.
func (c *Cached) Lookup(ctx context.Context, id int64) (results.Page, error) {
	if c.closed.Load() {
		return results.Page{}, results.ErrUnavailable
	}
	page, err := c.pages.Get(ctx, c.key(id))
	if err == nil {
		return page, nil
	}
	if errors.Is(err, errSwitched) {
		// Data sets are replaced by people: once is enough.
		c.set.Store(uint64(c.store.Set()))
		page, err = c.pages.Get(ctx, c.key(id))
	}
	if over, ok := errors.AsType[*cache.OverloadError](err); ok {
		return results.Page{}, &results.BusyError{RetryAfter: over.RetryAfter, Err: err}
	}
	return page, err // the store's error, which says what was tried
}

func (c *Cached) key(id int64) Key {
	return Key{Set: Set(c.set.Load()), ID: id}
}

// load gets a page from the store, in memory of its own: a page that pointed
// into a snapshot would keep all of the snapshot mapped.
//
// A page is loaded only if the store has the key's data set before and after. In
// between it had no other: data sets are not swapped back and forth in
// microseconds.
func (c *Cached) load(ctx context.Context, key Key) (results.Page, error) {
	if c.store.Set() != key.Set {
		return results.Page{}, errSwitched
	}
	// Without the deadline. PostgreSQL's store has shorter ones of its own. The
	// others look up in microseconds in a mapped file, and cannot interrupt a
	// disk that hangs; a context that can end makes database/sql start
	// goroutines, for half of a query's time again.
	page, err := c.store.Lookup(context.WithoutCancel(ctx), key.ID)
	if err != nil && !errors.Is(err, results.ErrNotFound) {
		return results.Page{}, err
	}
	if c.store.Set() != key.Set {
		return results.Page{}, errSwitched
	}
	if err != nil {
		return results.Page{}, err
	}
	n := len(page.Body)
	own := make([]byte, n+len(page.Code))
	copy(own, page.Body)
	copy(own[n:], page.Code)
	runtime.KeepAlive(page.Owner)
	return results.Page{Body: own[:n:n], Code: own[n:], Tag: page.Tag}, nil
}

// Switch moves to the data set that the store has now and forgets the pages of the
// one before.
func (c *Cached) Switch() error {
	c.set.Store(uint64(c.store.Set()))
	if err := c.pages.Clear(); err != nil {
		return fmt.Errorf("clear the cache: %w", err)
	}
	return nil
}

// Run reads the journal of the shared tier until ctx ends, see Shared.
func (c *Cached) Run(ctx context.Context) error {
	if c.shared == nil {
		<-ctx.Done()
		return nil
	}
	return c.shared.Run(ctx)
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
