package plant

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// cache keeps answers by key, within a number of bytes that are really there.
type cache struct {
	config       Cache
	hits, misses atomic.Int64

	mu      sync.Mutex
	order   *list.List // of *entry, the latest used in front
	entries map[uint64]*list.Element
}

type entry struct {
	key  uint64
	body []byte
}

func newCache(c Cache) *cache {
	return &cache{config: c, order: list.New(), entries: make(map[uint64]*list.Element)}
}

// get returns the answer for a key, if it is there.
func (c *cache) get(key uint64) (body []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok {
		c.misses.Add(1)
		return nil, false
	}
	c.hits.Add(1)
	c.order.MoveToFront(e)
	return e.Value.(*entry).body, true //nolint:forcetypeassert // the list holds nothing else
}

// put stores a key's answer and returns it. The memory of the one that makes room is used
// again, so that the cache costs no collection of garbage.
func (c *cache) put(key uint64) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[key]; ok { // somebody else was faster
		return e.Value.(*entry).body //nolint:forcetypeassert // as above
	}
	if (c.order.Len()+1)*c.config.EntryBytes > c.config.Bytes {
		last := c.order.Back()
		old := last.Value.(*entry) //nolint:forcetypeassert // as above
		delete(c.entries, old.key)
		old.key, c.entries[key] = key, last
		c.order.MoveToFront(last)
		return old.body
	}
	fresh := &entry{key: key, body: make([]byte, c.config.EntryBytes)}
	for i := range fresh.body {
		fresh.body[i] = 'x' // memory that is not written to is not there
	}
	c.entries[key] = c.order.PushFront(fresh)
	return fresh.body
}

// queue is work that was taken on and is not done. One consumer does it, each
// piece in the same time.
type queue struct {
	jobs chan struct{}
	each time.Duration
	done atomic.Int64
	busy seconds
}

func newQueue(c Queue) *queue {
	return &queue{jobs: make(chan struct{}, c.Capacity), each: millis(c.SleepMillis)}
}

// put takes a job on; false if the queue is full.
func (q *queue) put() bool {
	select {
	case q.jobs <- struct{}{}:
		return true
	default:
		return false
	}
}

// consume does jobs until ctx ends. As long as there is work the pace is exact:
// a job begins when the one before was due to end, however late the sleeper
// was woken.
func (q *queue) consume(ctx context.Context) {
	due := time.Now()
	for {
		select {
		case <-q.jobs:
		default:
			select {
			case <-q.jobs:
				due = time.Now()
			case <-ctx.Done():
				return
			}
		}
		due = due.Add(q.each)
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
			return
		}
		q.busy.add(q.each)
		q.done.Add(1)
	}
}
