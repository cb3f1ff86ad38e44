package lookaside

import (
	"context"
	"errors"
	"sync"
	"time"

	"loadstone/block/pause"
)

// owed are the keys of writes whose end Redis has not heard: those under way, those of which it
// could not be told, and those of which nobody knows whether they took place. As long as Redis
// keeps its data, a marker stands for each. If it has lost them, somebody may have filled in what was
// there before the write, which would then be served for as long as it is fresh. So Redis is told
// again, as soon as it answers, to forget what it has; see settle.
type owed struct {
	mu      sync.Mutex
	keys    map[string]debt
	telling int // that take has taken out
}

// debt is what is owed of one key.
type debt struct {
	writers int       // under way
	late    bool      // one has ended, and Redis was not told
	due     time.Time // when all have ended
}

const (
	// mostOwed bounds the keys, and with them the memory. Redis has answered when each was
	// begun, so there are many only if it fails just behind that, time and again.
	mostOwed = 10_000
	// retellEvery is how soon Redis is told again at first, and how often.
	retellEvery = time.Second
	// lastTelling bounds the last time, at the end: a server that stops must not be killed for it.
	lastTelling = 2 * time.Second
)

var errOwed = errors.New("redis has not heard the end of too many changes")

// begin notes a write that ends before due.
func (o *owed) begin(key string, due time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	d, there := o.keys[key]
	if !there && len(o.keys) >= mostOwed {
		return errOwed
	}
	d.writers++
	d.due = due
	o.keys[key] = d
	return nil
}

// end notes that a write has ended, and whether Redis was told.
func (o *owed) end(key string, told bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d := o.keys[key]
	d.writers = max(0, d.writers-1)
	d.late = d.late || !told
	o.put(key, d)
}

func (o *owed) put(key string, d debt) {
	if d.writers == 0 && !d.late {
		delete(o.keys, key)
		return
	}
	o.keys[key] = d
}

// unpaid reports whether Redis is to be told again.
func (d debt) unpaid(now time.Time) bool { return d.late || d.writers > 0 && now.After(d.due) }

// take takes out the keys that Redis is to be told of again.
func (o *owed) take(now time.Time) (keys []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, d := range o.keys {
		if !d.unpaid(now) {
			continue
		}
		keys = append(keys, key)
		if d.late = false; now.After(d.due) {
			d.writers = 0
		}
		o.put(key, d)
	}
	o.telling = len(keys)
	return keys
}

// told notes that Redis was told of one that was taken out.
func (o *owed) told() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.telling--
}

// back puts keys back that were taken out.
func (o *owed) back(keys []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.telling = 0
	for _, key := range keys {
		d := o.keys[key]
		d.late = true
		o.keys[key] = d
	}
}

// count is how many keys Redis is to be told of again.
func (o *owed) count() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	for _, d := range o.keys {
		if d.unpaid(now) {
			n++
		}
	}
	return n + o.telling
}

// settle tells Redis again until the cache is closed, and once more then.
func (c *Cache) settle() {
	for pause.For(c.life, retellEvery) {
		c.retell(c.life)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.life), lastTelling)
	defer cancel()
	c.retell(ctx)
}

func (c *Cache) retell(ctx context.Context) {
	keys := c.owed.take(time.Now())
	for i, key := range keys {
		if _, err := c.write(ctx, key, c.scripts.forget); err != nil {
			c.owed.back(keys[i:])
			return
		}
		c.owed.told()
		c.metrics.changes[changeRetold].Inc()
	}
}
