package cache

import (
	"context"
	"time"
)

// refreshBehind starts a refresh that nobody waits for, if there is a place.
func (c *Cache[K, V]) refreshBehind(ctx context.Context, key K, old *entry[V], from Source) {
	select {
	case c.refreshing <- struct{}{}:
	default:
		c.metrics.refreshes[skipped].Inc()
		return
	}
	f, leader, err := c.join(key, old, from)
	if err != nil || !leader {
		<-c.refreshing // closed, or it is being refreshed
		return
	}
	go func() {
		defer func() { <-c.refreshing }()
		c.refresh(context.WithoutCancel(ctx), key, f)
	}()
}

// refreshNow makes the caller wait for a refresh until SyncWait, its own ctx or
// the refresh's failure; then there is only the old entry.
func (c *Cache[K, V]) refreshNow(ctx context.Context, key K, old *entry[V], from Source) (*entry[V], Source, bool) {
	f, leader, err := c.join(key, old, from)
	if err != nil {
		return nil, 0, false
	}
	if leader {
		go c.refresh(context.WithoutCancel(ctx), key, f)
	} else if c.isLate(f) {
		return nil, 0, false
	}
	limit := time.NewTimer(c.cfg.Refresh.SyncWait)
	defer limit.Stop()
	select {
	case <-f.done:
		return f.entry, f.from, f.err == nil
	case <-ctx.Done():
	case <-limit.C:
		c.mu.Lock()
		f.late = true
		c.mu.Unlock()
	}
	return nil, 0, false
}

func (c *Cache[K, V]) isLate(f *flight[V]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return f.late
}

// refresh runs a flight that refreshes an entry.
func (c *Cache[K, V]) refresh(ctx context.Context, key K, f *flight[V]) {
	c.run(ctx, key, f)
	if f.err == nil {
		c.metrics.refreshes[done].Inc()
	} else {
		c.metrics.refreshes[undone].Inc()
	}
}
