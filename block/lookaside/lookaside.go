// Package lookaside is a cache in Redis of values that have versions, beside the database
// that they come from: whoever reads looks here first and fills what is missing, and whoever
// writes says so before and after.
//
//	Get ─► GET ─► hit ──────────────────────────────► the value; refreshed behind, once it is due
//	               │ miss
//	               ▼
//	       flight, one per key ─► lease, one per key of all processes ─► shedder ─► Load ─► fill
//
// Redis holds one string per key, and a journal of what was written of late, see Spare. The string is one of
//
//	an entry   a value, or that there is none, with the version
//	a lease    somebody loads the value and will fill it in
//	a marker   writes are under way: go past the cache
//
// so that one command reads the state, and each script below moves one key atomically from
// one state to the next. The connection with its deadlines and its breaker is
// block/cache/rediscache's; flights, and the bound of loads, are block/cache's.
//
// # The races
//
// A reader that loads a value, is held up, and fills it in after the value was changed would
// bring the old one back for as long as entries live. A lease is permission to fill, taken
// before the load begins, and a fill takes place only while Redis still has that very lease:
//
//	reader   claim ────────── load (old) ───────────────────────── fill: the lease is gone
//	writer            Changing ────────── write ──── Changed
//
// Changing puts a marker in place of whatever is there, the lease included; while there is a
// marker nobody gets a lease. So whatever fills has read after the last Changing before it,
// and before the next: there was no write in between. This holds however long anybody is
// held up, on no clock. Who has waited for another's lease in vain loads and does not fill: it took
// too long, or was lost, which is known when somebody else has it.
//
// Who asks while somebody of the same process loads waits for that load, and may have come after a
// change that it did not see. So he looks again then: at Redis, and if nothing is there, for
// another load, which began after he came.
//
// A refresh replaces an entry that is served meanwhile, so it has no lease: it takes place
// only where there is an entry whose version is not newer. Versions only go up, also over
// deletions, so that is the value or what replaced it. A miss in between, a marker or a lease
// refuses it.
//
// Writers of one key may overlap: the marker has the id of the process of each, and the
// highest version that one of them ended with. Only the last to end puts its value there, and
// only if no other was newer; else it leaves a miss.
//
// A writer that is killed, or does not know whether its write took place, leaves its marker.
// It expires after Config.ChangeLife, which is longer than a write may take; then a fill reads
// what is true. If the marker is lost before the writer is done (Redis restarted), Changed
// deletes what is there unless that is newer, because it may have been filled
// meanwhile. If that fails as well, or nobody knows whether the write took place, Redis is told to
// forget the key as soon as it answers, see owed. Only if the writer is killed, too, or stops within
// ChangeLife of a write of which nobody knows, can an old value stay, until it is refreshed.
//
// # When Redis is lost
//
// Reads go to the database, as many as the shedder lets; the others get a
// *cache.OverloadError with the time to come back. With a Spare, what the process has found of late
// is served before, also for a while when Redis is back with nothing in it. A look-up that Redis does not
// answer in time costs ReadTimeout; after a few, the breaker opens and none is asked until a probe is
// answered. Writes fail closed: Changing returns an error, because a cache that is not
// told would go on serving the old value when it is back.
//
// Bytes in Redis that are not an entry with a right checksum are a miss, and replaced.
package lookaside

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"loadstone/block/cache"
	"loadstone/block/cache/rediscache"
)

// Value is what the database has for a key.
type Value struct {
	// Bytes are nobody's to modify. None if Absent.
	Bytes []byte
	// Version is at least 0 and goes up with each change of the key, also over deletions.
	// Of values that are never written it may be 0 always.
	Version int64
	// Tag comes back as it was given.
	Tag uint64
	// Absent: there is no value. Version is that of the deletion, 0 if there never was one.
	Absent bool
}

// Config describes a cache. Start from DefaultConfig.
type Config struct {
	// Redis says where and how; the registerer, name and prefix are also this cache's.
	Redis rediscache.Config
	// Load asks the database. That there is no value is no error. Its context ends after
	// LoadTimeout; it must return soon after that.
	Load        func(ctx context.Context, key string) (Value, error)
	LoadTimeout time.Duration
	// Usable reports whether what Load returned, for whichever process, is of use to this one: as
	// foreign bytes, what is not is loaded again and replaced. Nil if everything is.
	Usable func(Value) bool
	// Shed bounds the loads at one time.
	Shed cache.Shed
	// Spare is for while Redis does not answer, and just after that; nil: nothing.
	Spare *Spare
	// Life is how old an entry gets, AbsentLife one that says that there is no value. Each
	// gets older or less old by up to the share Jitter, or what was filled together would
	// expire together. From the age Fresh, counted in the same way, a look-up has the entry
	// refreshed behind it.
	Life, AbsentLife, Fresh time.Duration
	Jitter                  float64
	// Refreshes bounds those under way; one more is left to a later look-up.
	Refreshes int
	// LeaseWait is how long a miss waits for who has the lease before it loads by itself;
	// LeasePoll is the time between two looks, and doubles up to eight times that.
	LeaseWait, LeasePoll time.Duration
	// ChangeLife is how long a marker lives whose writer is not heard of again: longer than
	// a write takes at most, from before Changing until the database has done it or never
	// will.
	ChangeLife time.Duration
}

// DefaultConfig returns a configuration for a database nearby; Load is for the caller.
func DefaultConfig(redis rediscache.Config) Config {
	return Config{
		Redis: redis,
		// A look-up takes milliseconds; one that takes longer than this is of no use to
		// who waits.
		LoadTimeout: 2 * time.Second,
		// What a database does well at a time; queued for at most what a reader accepts.
		Shed: cache.Shed{Concurrent: 32, Queue: 256, Wait: 250 * time.Millisecond},
		Life: time.Hour, Jitter: 0.1, Fresh: 30 * time.Minute,
		// Short: anybody can ask for ids that nobody has, and each takes room.
		AbsentLife: time.Minute,
		Refreshes:  8,
		// A load takes a few milliseconds when all is well; else waiting is no better
		// than asking.
		LeaseWait: 100 * time.Millisecond, LeasePoll: 2 * time.Millisecond,
		ChangeLife: 10 * time.Second,
	}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	errs := []error{c.Redis.Validate()}
	unless := func(fine bool, format string, args ...any) {
		if !fine {
			errs = append(errs, fmt.Errorf("look-aside cache: "+format, args...))
		}
	}
	unless(c.Load != nil && c.LoadTimeout > 0, "the function to load or its timeout is missing")
	unless(c.Shed.Concurrent >= 1 && c.Shed.Queue >= 0 && c.Shed.Wait > 0,
		"%d loads at one time, %d more waiting for %v: write at least 1, 0 and a positive duration", c.Shed.Concurrent, c.Shed.Queue, c.Shed.Wait)
	unless(c.Spare == nil || c.Spare.MaxBytes > 0 && c.Spare.MaxBytes <= math.MaxUint32 && c.Spare.Age >= 10*time.Millisecond,
		"the spare is %+v: write from 1 byte to 4 GiB, and at least 10ms", c.Spare)
	unless(c.Jitter >= 0 && c.Jitter < 1, "jitter is %v: write a share from 0 to less than 1", c.Jitter)
	unless(c.Fresh >= 10*time.Millisecond && c.Fresh < c.Life && c.AbsentLife >= 10*time.Millisecond,
		"entries are fresh for %v and live for %v, absent ones for %v: write at least 10ms, and more life than freshness", c.Fresh, c.Life, c.AbsentLife)
	unless(c.Refreshes >= 1, "%d refreshes at one time: write at least 1", c.Refreshes)
	unless(c.LeaseWait > 0 && c.LeasePoll > 0, "waiting for a lease is %v, looking every %v: write positive durations", c.LeaseWait, c.LeasePoll)
	unless(c.ChangeLife >= 10*time.Millisecond, "a marker lives for %v: write more than a write takes", c.ChangeLife)
	return errors.Join(errs...)
}

// hold is how long a lease lives: longer than its holder takes, with a look into Redis before and a
// write after.
func (c Config) hold() time.Duration {
	return c.Redis.ReadTimeout + c.Shed.Wait + c.LoadTimeout + c.Redis.WriteTimeout + time.Second
}

// Cache is a cache. It is safe for concurrent use.
type Cache struct {
	cfg     Config
	id      string // of this process, in markers; idBytes long
	tier    *rediscache.Tier
	flights *cache.Cache[string, Value]
	spare   *spare
	metrics *metrics
	scripts scripts
	off     atomic.Bool
	slots   chan struct{} // one for each refresh
	owed    owed
	losses  atomic.Int64              // of Redis
	began   atomic.Pointer[time.Time] // when Redis began that is back after the last of them; nil if that is not known

	life    context.Context //nolint:containedctx // it ends with Close, and refreshes with it
	end     context.CancelFunc
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // settle, and refreshes; Add under mu while not closed
}

// New returns a cache and registers its metrics: see metrics, and those of block/cache and
// block/cache/rediscache under the same name. Redis need not answer yet. The caller must
// Close the cache.
func New(ctx context.Context, cfg Config) (*Cache, error) {
	cfg.Redis.Synchronous, cfg.Redis.Lease = true, nil
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Cache{cfg: cfg, id: rand.Text()[:idBytes], scripts: newScripts(), slots: make(chan struct{}, cfg.Refreshes), owed: owed{keys: map[string]debt{}}}
	c.metrics = newMetrics(cfg.Redis.Name, cfg.Redis.Registerer, c.owed.count)
	var err error
	if c.spare, err = newSpare(cfg.Spare); err != nil {
		return nil, err
	}
	cfg.Redis.Switched = c.switched(cfg.Redis.Switched)
	if c.spare != nil {
		cfg.Redis.Returning = c.returning
	}
	if c.tier, err = rediscache.New(ctx, cfg.Redis); err != nil {
		c.spare.close()
		return nil, err
	}
	c.flights, err = cache.New(cache.Config[string, Value]{
		Name: cfg.Redis.Name, Registerer: cfg.Redis.Registerer, MaxAge: cfg.Life, Shed: &cfg.Shed,
		Load: c.load, LoadTimeout: cfg.LoadTimeout,
		Shared: &cache.Shared[string, Value]{
			Remote: remote{c}, KeyText: func(key string) string { return key }, Encode: c.encode, Decode: decode, Counted: true,
		},
	})
	if err != nil {
		c.spare.close()
		return nil, errors.Join(err, c.tier.Close())
	}
	c.life, c.end = context.WithCancel(context.WithoutCancel(ctx))
	c.running.Go(c.settle)
	return c, nil
}

// Get returns the value of a key, from Redis or the database; while Redis does not answer, or has nothing
// because it is new, from the spare before the database.
//
// Redis bounds its own time, and so do the lease, the shedder and the load, so a ctx
// without a deadline waits for at most twice the sum, and one that cannot be cancelled costs less.
// The value was true at some time since the call, but for the spare's: what a load brings that was under way then
// may be older, so who has waited for that looks again.
//
// The error is a *cache.OverloadError if the database must not be asked now, cache.ErrClosed
// after Close, or Load's.
func (c *Cache) Get(ctx context.Context, key string) (Value, error) {
	v, current, err := c.get(ctx, key)
	if err == nil && !current {
		v, _, err = c.get(ctx, key) // a load that is under way now began after that one had ended
	}
	return v, err
}

// get looks once. Current says that the value is not of a load that was under way before.
func (c *Cache) get(ctx context.Context, key string) (v Value, current bool, err error) {
	t, keep := &ticket{past: true}, false
	if !c.off.Load() {
		e, err := c.look(ctx, key)
		if e.entry() {
			c.metrics.gets[e.kind].Inc()
			c.spare.keep(key, e.value)
			if time.Now().UnixMilli() >= e.soft {
				c.refresh(key, e.soft) //nolint:contextcheck // it outlives the caller
			}
			return e.value, true, nil
		}
		if err != nil {
			if v, ok := c.unanswered(key, err); ok {
				return v, true, nil
			}
		} else {
			c.metrics.gets[e.kind].Inc()
			if e.kind == kindNone {
				if v, ok := c.instead(ctx, key); ok {
					return v, true, nil
				}
			}
			c.spare.drop(key)
			t.past, t.foreign = e.kind == kindMarker, e.head
		}
		keep = e.kind != kindMarker
	}
	v, err = c.flights.Get(context.WithValue(ctx, ticketKey{}, t), key)
	if err == nil && keep && t.led {
		c.spare.keep(key, v)
	}
	return v, err == nil && t.led, err
}

// unanswered is for a look-up that Redis did not answer: what the process found of late.
func (c *Cache) unanswered(key string, err error) (Value, bool) {
	if errors.Is(err, cache.ErrDown) {
		c.metrics.down.Inc()
	} else {
		c.metrics.failed.Inc()
	}
	v, ok := c.spare.find(key)
	if ok {
		c.metrics.spared.Inc()
	}
	return v, ok
}

// look reads the state of a key.
func (c *Cache) look(ctx context.Context, key string) (state, error) {
	return c.stateOf(c.tier.Bytes(ctx, c.cfg.Redis.Prefix+key))
}

// load calls Load.
func (c *Cache) load(ctx context.Context, key string) (Value, error) {
	v, err := c.cfg.Load(ctx, key)
	if err == nil && (v.Version < 0 || v.Absent && len(v.Bytes) > 0) {
		err = fmt.Errorf("load %.80q: version %d, absent %v, %d bytes: versions are not negative, and what is absent has no bytes", key, v.Version, v.Absent, len(v.Bytes))
	}
	return v, err
}

// Use turns reading and filling on or off, for cache.Switches. Changing and Changed work
// either way: others may read.
func (c *Cache) Use(on bool) { c.off.Store(!on) }

// Close ends the loads and refreshes under way, and waits for them. Writers must have ended.
func (c *Cache) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end()
	err := c.flights.Close()
	c.running.Wait()
	c.spare.close()
	return errors.Join(err, c.tier.Close())
}
