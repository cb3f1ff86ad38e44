package cache

import (
	"context"
	"fmt"
	"time"
)

// afterLoad is how much longer than a load the mark of a deletion stays in the
// shared tier: the time that what was loaded before may wait to be written.
const afterLoad = time.Minute

// Delete forgets one key in all tiers, after what it stands for has changed
// behind the loader. When it returns nil, no look-up in this process that begins
// from then on is answered with the old value. Other processes have been told,
// and drop it when the message arrives: milliseconds on a healthy network. If
// the message is lost, MaxAge bounds how long they serve the old value.
//
// With an error the shared tier may still have the old value: try again.
func (c *Cache[K, V]) Delete(ctx context.Context, key K) error {
	item := Item{Kind: Deleted, Born: micros(time.Now())}
	c.drop(key) // at once, however long the shared tier takes
	if err := c.correct(ctx, key, item, c.cfg.LoadTimeout+afterLoad); err != nil {
		return fmt.Errorf("delete a key in the shared tier: %w", err)
	}
	c.drop(key) // and what was read from the shared tier before it knew
	return nil
}

// Replace puts a value into all tiers in place of what they have, with the
// promises of Delete.
func (c *Cache[K, V]) Replace(ctx context.Context, key K, value V) error {
	e := &entry[V]{value: value, born: micros(time.Now()), scale: c.scale()}
	c.drop(key)
	var err error
	if c.cfg.Shared != nil {
		err = c.correct(ctx, key, c.item(e), c.ages.rest(e.born, e.scale, false))
	}
	fits := c.memory != nil && c.memory.fits(key, value)
	c.mu.Lock()
	c.outdate(key)
	if fits && c.memoryOn.Load() && !c.closed {
		c.memory.set(key, e)
	}
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("replace a value in the shared tier: %w", err)
	}
	return nil
}

func (c *Cache[K, V]) correct(ctx context.Context, key K, item Item, life time.Duration) error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case c.cfg.Shared == nil:
		return nil
	default:
		return c.cfg.Shared.Remote.Correct(ctx, c.cfg.Shared.KeyText(key), item, life)
	}
}

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

// drop forgets a key in this process, flights under way included.
func (c *Cache[K, V]) drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outdate(key)
	if c.memory != nil {
		c.memory.drop(key)
	}
}

// outdate makes the next look-up of a key start a flight of its own. The caller
// holds mu.
func (c *Cache[K, V]) outdate(key K) {
	if f, ok := c.flights[key]; ok {
		f.outdated = true
		delete(c.flights, key)
	}
}

// dropText is called when another process has corrected a key.
func (c *Cache[K, V]) dropText(text string) {
	key, err := c.cfg.Shared.ParseKey(text)
	if err != nil {
		c.metrics.failures[garbage].Inc()
		return
	}
	c.metrics.dropped.Inc()
	c.drop(key)
}
