package lookaside

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/maypok86/otter/v2"
	"github.com/redis/rueidis"
)

// Spare is what a process keeps of what it has found of late, for while Redis does not answer, and for
// when it is back with nothing in it. Only the rest goes to the database then. It is for who can bear an
// old value more easily than a database that gets all look-ups at once: stale-if-error, in the words of
// RFC 5861.
//
// Writers are refused while Redis is lost, so what is served is what is true, but for three
// changes, which may stay unseen for Age: one that took place within Age before Redis was lost, of
// a key that this process has not looked up since; one that was under way; and one of a writer
// that still reaches Redis when this process does not, which a machine without time to spare is enough
// for. Of a write that is not announced nobody is told either; such is the first of a key, so that
// there never was a value is not kept.
//
// A Redis that this process has lost, and that began less than two minutes ago, is new. What a new one has
// nothing of is served from the spare until it is the key's turn, some time in those two minutes; from
// then on it is loaded and filled in as ever. So nothing from a spare gets into Redis, and the database is
// asked for a few keys after the other. A Redis that went on while this process did not reach it is not new, nor is one
// that was emptied while it answered: whoever does that wants what is true. One that was started again with its data is new,
// and what it has is served.
//
// There is nothing of a key, too, because it was written: writers that overlap leave nothing, nor does a
// marker that expires, or an entry, or one that is evicted. So Redis has a journal, a set in which writers
// note the key before they write and after. A process that finds Redis new notes itself there as well, before it
// asks for anything, and serves what it finds no note of, as long as it finds its own: who is in a journal that was
// lost or evicted is not in the next. The journal lives for twice as long as Redis is new, counted from its first note,
// so a process that finds Redis new late finds all that was written to it.
type Spare struct {
	// MaxBytes bounds the memory: keys, values and spareOverhead.
	MaxBytes int64
	// Age is how long after it was found a value may be served.
	Age time.Duration
}

// renewing is for how long Redis is new: long enough for a database that bears twice the look-ups that the
// cache leaves over in the steady state. It gets these, and each key that is asked for once more. With a thousand
// look-ups a second in three processes, Zipf's distribution over 100,000 keys and a seventh left over, that was
// up to 1.9 times as many, and 3.9 times without; a simulation has 2.0 for one minute and 2.5 for half of one.
const renewing = 2 * time.Minute

const (
	// journal is its key, behind the prefix. Keys of the cache do not begin with a zero byte.
	journal = "\x00written"
	// journalLife bounds it to the keys that are written in that time.
	journalLife = 2 * renewing
)

// spareOverhead is what an entry takes beside its key and bytes: otter's node, its places in the hash
// table and the sketch, the Value and the headers of both. Rounded up.
const spareOverhead = 256

// spare is the memory; nil, it keeps nothing.
type spare struct {
	age     time.Duration
	window  atomic.Int64 // renewing
	entries *otter.Cache[string, Value]
}

func newSpare(cfg *Spare) (*spare, error) {
	if cfg == nil {
		return nil, nil //nolint:nilnil // a nil spare is one that keeps nothing
	}
	entries, err := otter.New(&otter.Options[string, Value]{
		MaximumWeight:    uint64(cfg.MaxBytes),
		Weigher:          func(key string, v Value) uint32 { return uint32(len(key) + len(v.Bytes) + spareOverhead) },
		ExpiryCalculator: otter.ExpiryWriting[string, Value](cfg.Age),
	})
	if err != nil {
		return nil, fmt.Errorf("make the spare of the look-aside cache: %w", err)
	}
	s := &spare{age: cfg.Age, entries: entries}
	s.window.Store(int64(renewing))
	return s, nil
}

// find returns what was found of late.
func (s *spare) find(key string) (Value, bool) {
	if s == nil {
		return Value{}, false
	}
	return s.entries.GetIfPresent(key)
}

// keep notes what was found. Of a key that is asked for all the time that costs a look-up: the same
// version is only noted again once a quarter of its time is over. An older one takes no newer one's place.
func (s *spare) keep(key string, v Value) {
	if s == nil {
		return
	}
	if v.Absent && v.Version == 0 { // its first write is not announced
		s.drop(key)
		return
	}
	old, ok := s.entries.GetEntry(key)
	if ok && old.Value.Version == v.Version && old.Value.Tag == v.Tag && old.ExpiresAfter() >= s.age/4*3 {
		return
	}
	s.entries.Compute(key, func(now Value, found bool) (Value, otter.ComputeOp) {
		if found && now.Version > v.Version {
			return now, otter.CancelOp // somebody else was told of a change meanwhile
		}
		return v, otter.WriteOp
	})
}

// drop forgets a key: Redis has nothing of it, or it is being changed.
func (s *spare) drop(key string) {
	if s != nil {
		s.entries.Invalidate(key)
	}
}

// switched counts the losses of Redis, and tells next.
func (c *Cache) switched(next func(error)) func(error) {
	return func(why error) {
		if why != nil {
			c.losses.Add(1)
		}
		if next != nil {
			next(why)
		}
	}
}

// instead returns what is to be served of a key of which a new Redis has nothing.
func (c *Cache) instead(ctx context.Context, key string) (Value, bool) {
	v, ok := c.spare.find(key)
	if !ok || !c.early(key) || !c.unwritten(ctx, key) {
		return Value{}, false
	}
	c.metrics.spared.Inc()
	return v, true
}

// returning notes this process in the journal of a new Redis, before it asks that for anything: what is written
// from then on is in the same journal, and what was before is a write of when this process did not reach Redis.
func (c *Cache) returning(ctx context.Context, client rueidis.Client) error {
	if c.losses.Load() == 0 {
		return nil // it has just begun
	}
	up, err := c.scripts.grant.Exec(ctx, client, []string{c.cfg.Redis.Prefix + journal}, []string{c.id, ms(time.Duration(c.spare.window.Load()))}).AsInt64()
	if _, refused := errors.AsType[*rueidis.RedisError](err); refused {
		c.began.Store(nil)
		return nil
	}
	if err == nil {
		began := time.Now().Add(-time.Duration(up) * time.Second)
		c.began.Store(&began)
	}
	return err
}

// early reports whether Redis is new, and it is not this key's turn yet.
func (c *Cache) early(key string) bool {
	began := c.began.Load()
	return began != nil && time.Since(*began) < turn(key, time.Duration(c.spare.window.Load()))
}

// turn is how old Redis is when a key is loaded, evenly distributed and the same in all processes: what one
// of them fills in, all have.
func turn(key string, window time.Duration) time.Duration {
	return time.Duration(float64(window) * float64(xxhash.Sum64String(key)>>11) / (1 << 53))
}

// unwritten reports whether the journal is the one that this process is in, and the key is not.
func (c *Cache) unwritten(ctx context.Context, key string) bool {
	var in []int64
	err := c.tier.Read(ctx, func(ctx context.Context, client rueidis.Client) (err error) {
		in, err = client.Do(ctx, client.B().Smismember().Key(c.cfg.Redis.Prefix+journal).Member(c.id, c.cfg.Redis.Prefix+key).Build()).AsIntSlice()
		return err
	})
	return err == nil && len(in) == 2 && in[0] == 1 && in[1] == 0
}

func (s *spare) close() {
	if s != nil {
		s.entries.StopAllGoroutines()
	}
}
