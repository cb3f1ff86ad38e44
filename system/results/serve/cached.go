package serve

import (
	"context"
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
const entryBytes = 8 + 72

// cached is a store behind a memory cache. It keeps pages, not their absence.
type cached struct {
	store  results.Store
	pages  *cache.Cache[int64, results.Page]
	closed atomic.Bool
}

func newCached(store results.Store, cfg Config, registerer prometheus.Registerer) (*cached, error) {
	c := &cached{store: store}
	var err error
	c.pages, err = cache.New(cache.Config[int64, results.Page]{
		Name:        "results",
		MaxAge:      cfg.CacheMaxAge,
		LoadTimeout: loadTimeout,
		Load:        c.load,
		Registerer:  registerer,
		Memory: &cache.Memory[int64, results.Page]{
			MaxBytes: cfg.CacheBytes,
			Bytes:    func(_ int64, p results.Page) int { return entryBytes + len(p.Body) + len(p.Code) },
		},
	})
	if err != nil {
		return nil, fmt.Errorf("make the cache: %w", err)
	}
	return c, nil
}

// Lookup implements results.Store.
func (c *cached) Lookup(ctx context.Context, id int64) (results.Page, error) {
	if c.closed.Load() {
		return results.Page{}, results.ErrUnavailable
	}
	return c.pages.Get(ctx, id) // the store's error, which says what was tried
}

// load gets a page from the store, in memory of its own: a page that pointed
// into a snapshot would keep all of the snapshot mapped.
func (c *cached) load(ctx context.Context, id int64) (results.Page, error) {
	// Without the deadline. PostgreSQL's store has shorter ones of its own. The
	// others look up in microseconds in a mapped file, and cannot interrupt a
	// disk that hangs; a context that can end makes database/sql start
	// goroutines, for half of a query's time again.
	page, err := c.store.Lookup(context.WithoutCancel(ctx), id)
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

// Clear forgets all pages.
func (c *cached) Clear() error {
	if err := c.pages.Clear(); err != nil {
		return fmt.Errorf("clear the cache: %w", err)
	}
	return nil
}

// Close ends the cache. The store behind it is closed by whoever opened it.
func (c *cached) Close() error {
	c.closed.Store(true)
	if err := c.pages.Close(); err != nil {
		return fmt.Errorf("close the cache: %w", err)
	}
	return nil
}
