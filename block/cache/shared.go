package cache

import (
	"context"
	"errors"
	"time"
)

// Shared is the tier that processes share.
type Shared[K comparable, V any] struct {
	// Remote does the work. It serves this cache alone in this process and
	// belongs to whoever made it, who closes it after the cache.
	Remote Remote
	// KeyText is the key as text; different keys have different texts.
	KeyText func(key K) string
	// Encode appends the value to dst.
	Encode func(dst []byte, value V) []byte
	// Decode is the inverse of Encode. It gets what came over the network and
	// owns data. What it cannot read is a miss.
	Decode func(data []byte) (V, error)
	// Counted says that its owner counts look-ups: the cache has no cache_gets_total.
	Counted bool
}

// Kind tells what an Item says about its key.
type Kind byte

// The kinds. Their numbers are part of what is stored.
const (
	Present Kind = 1 // the key has a value
	Missing Kind = 2 // the loader knows no such key
)

// Item is an entry on its way to or from the shared tier.
type Item struct {
	Kind Kind
	// Born is when its load began, in microseconds since 1970. Its age counts from
	// then: what is written in advance may say a moment that is to come.
	Born int64
	// Value is the encoded value of a Present item.
	Value []byte
}

// Grant is the answer to Remote.Lease.
type Grant struct {
	// Item is what somebody else has loaded meanwhile, if Found.
	Item  Item
	Found bool
	// Release gives the lease back; nil without a lease.
	Release func()
}

var (
	// ErrMiss says that the shared tier has no item for the key.
	ErrMiss = errors.New("not in the shared tier")
	// ErrGarbage says that what the shared tier has is nothing that this program wrote.
	ErrGarbage = errors.New("unreadable item in the shared tier")
	// ErrDown says that the shared tier is known to be unreachable and was not asked.
	ErrDown = errors.New("the shared tier is down")
)

// Remote is a tier that processes share. Every method bounds its own time, the
// shorter of that and ctx counts. The last item that was put is kept.
type Remote interface {
	// Get returns the item of key, or an error that wraps ErrMiss, ErrGarbage or
	// ErrDown, or another one that says what failed.
	Get(ctx context.Context, key string) (Item, error)
	// Put keeps an item for life, or fails to without saying so: it counts. It
	// may return before the item is kept.
	Put(ctx context.Context, key string, item Item, life time.Duration)
	// Lease makes one process load a key while others wait for what it puts. It
	// returns an empty Grant when the caller should load by itself. An item must
	// have been born after the moment after to be returned.
	Lease(ctx context.Context, key string, after int64) Grant
}

// fromShared looks a key up in the shared tier; the entry is nil for a miss. said
// is false if the tier could not say whether it has the key.
func (c *Cache[K, V]) fromShared(ctx context.Context, key K) (e *entry[V], said bool) {
	item, err := c.cfg.Shared.Remote.Get(ctx, c.cfg.Shared.KeyText(key))
	if err == nil {
		if e, err = c.decode(key, item); err == nil {
			return e, true
		}
	}
	c.metrics.misses[FromShared].Add(1)
	switch {
	case errors.Is(err, ErrMiss):
	case errors.Is(err, ErrGarbage):
		c.metrics.failures[garbage].Inc()
	case errors.Is(err, ErrDown):
		c.metrics.failures[down].Inc()
	default:
		c.metrics.failures[broken].Inc()
	}
	return nil, errors.Is(err, ErrMiss) || errors.Is(err, ErrGarbage)
}

// decode makes an entry of an item. An item that is too old by this process's
// reckoning is a miss: another process may have a longer MaxAge. So is one that is not
// valid any more.
func (c *Cache[K, V]) decode(key K, item Item) (*entry[V], error) {
	e := &entry[V]{born: item.Born, scale: c.scale()}
	switch {
	case item.Kind == Missing && c.cfg.Absent != nil:
		e.absent = true
	case item.Kind == Present:
		var err error
		if e.value, err = c.cfg.Shared.Decode(item.Value); err != nil {
			return nil, errors.Join(ErrGarbage, err)
		}
	default:
		return nil, ErrMiss
	}
	if c.ages.rest(e.born, e.scale, e.absent) <= 0 || !c.valid(key, e) {
		return nil, ErrMiss
	}
	return e, nil
}

// put sends an entry to the shared tier, for the rest of its life.
func (c *Cache[K, V]) put(ctx context.Context, key K, e *entry[V]) {
	if life := c.ages.rest(e.born, e.scale, e.absent); life > 0 {
		c.cfg.Shared.Remote.Put(ctx, c.cfg.Shared.KeyText(key), c.item(e), life)
	}
}

func (c *Cache[K, V]) item(e *entry[V]) Item {
	if e.absent {
		return Item{Kind: Missing, Born: e.born}
	}
	return Item{Kind: Present, Born: e.born, Value: c.cfg.Shared.Encode(nil, e.value)}
}

func (c *Cache[K, V]) scale() float32 { return c.cfg.Jitter.scale(c.draws.Add(1)) }
