// Package rediscache is the tier of block/cache that processes share: items in
// Redis, each under one key, as plain strings with a time to live.
//
// It is not a general Redis client and not a store: Redis may lose anything at
// any time. It speaks to one Redis (or to the primary behind one address), not to
// a Redis Cluster.
//
// It fails open. Every call has a deadline. After a few failures in a row a
// circuit breaker stops asking, so that a dead Redis costs nothing per request;
// one goroutine probes and closes the breaker when Redis answers again. Redis
// need not run when a Tier is made.
//
// A Tier owns its connections and two goroutines beside rueidis's own: one tends
// the connection, one writes (unless writes are synchronous).
package rediscache

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"loadstone/block/cache"
	"loadstone/block/socket"
)

// Config describes a tier. Start from DefaultConfig.
type Config struct {
	// Name is the cache's name in metrics.
	Name string
	// Addr is Redis's host and port; Username and Password may be empty.
	Addr, Username, Password string
	// Prefix begins all keys of this cache in Redis. Different caches in one
	// Redis have prefixes of which none begins another.
	Prefix string
	// ReadTimeout bounds a look-up, WriteTimeout a write.
	ReadTimeout, WriteTimeout time.Duration
	// Synchronous makes Put return when Redis has the item. Else a goroutine
	// writes; what its queue has no room for is dropped and counted.
	Synchronous bool
	// QueueItems and QueueBytes bound the queue of writes.
	QueueItems int
	QueueBytes int64
	// Failures in a row open the breaker; then Redis is probed every ProbeEvery. Calls that
	// were under way together fail once.
	Failures   int
	ProbeEvery time.Duration
	// Switched is told why Redis is not asked any more, and nil when it answers, the first time
	// as well. It must not block. Nil if nobody wants to know.
	Switched func(why error)
	// Returning gets a Redis that answers again, the first time as well, before it is asked for anything: as
	// long as that fails it is not. ctx ends after ReadTimeout. Nil if nobody has anything to do first.
	Returning func(ctx context.Context, client rueidis.Client) error
	// Lease, if not nil, makes one process load a key for all.
	Lease *Lease
	// Registerer receives the metrics.
	Registerer prometheus.Registerer
}

// Lease makes one process load a key while the others wait for what it puts. It
// needs Synchronous: those who wait look for the item when the lease is given back.
type Lease struct {
	// Hold is how long a holder may take. When it has died, somebody else takes
	// over after that. Choose the cache's LoadTimeout and a little more.
	Hold time.Duration
	// Wait is how long a process waits for the holder before it loads by itself.
	// Choose Hold, the cache's LoadTimeout and two looks: who takes over from a
	// holder that has died still has to load. With less, all who wait reach their end
	// just as the lease does, and load at once.
	Wait time.Duration
	// Poll is the time between two looks; it doubles up to eight times that.
	Poll time.Duration
}

// ReadTimeout is that of DefaultConfig, and for whoever else asks a Redis nearby. Redis answers
// within 1 ms there, but it is this process that reads the answer. With a CPU limit of a tenth of a core it
// runs for 10 ms in every 100, and a burst, or collecting garbage, takes several of those periods. To
// give Redis up then sends requests to the loader, which costs this process more than Redis
// does, so that it falls behind further. Hence five periods.
const ReadTimeout = 500 * time.Millisecond

// DefaultConfig returns a configuration whose numbers suit a Redis on the same
// host or in the same rack.
func DefaultConfig(name, addr string, registerer prometheus.Registerer) Config {
	return Config{
		Name: name, Addr: addr, Prefix: name + ":", Registerer: registerer,
		ReadTimeout: ReadTimeout,
		// Nobody waits for a write.
		WriteTimeout: 500 * time.Millisecond,
		// A second of misses at 4,096 a second; at most what 4,096 pages of 4 kB take.
		QueueItems: 4096, QueueBytes: 16 << 20,
		// Two: one lost connection, or a long pause of this process, fails whatever is under
		// way, which is no reason to stop asking. What is asked after that tells.
		Failures: 2, ProbeEvery: 250 * time.Millisecond,
	}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	unless := func(fine bool, format string, args ...any) {
		if !fine {
			errs = append(errs, fmt.Errorf("redis cache: "+format, args...))
		}
	}
	unless(c.Name != "", "there is no name")
	_, _, err := net.SplitHostPort(c.Addr)
	unless(err == nil, "address is %q, must be host:port", c.Addr)
	unless(c.Prefix != "", "there is no prefix for keys")
	unless(c.ReadTimeout > 0 && c.WriteTimeout > 0, "timeouts are %v and %v, must be positive", c.ReadTimeout, c.WriteTimeout)
	unless(c.QueueItems >= 1 && c.QueueBytes >= 1, "the queue holds %d items and %d bytes, must be at least 1", c.QueueItems, c.QueueBytes)
	unless(c.Failures >= 1, "failures that open the breaker is %d, must be at least 1", c.Failures)
	unless(c.ProbeEvery > 0, "probe interval is %v, must be positive", c.ProbeEvery)
	unless(c.Registerer != nil, "there is no metrics registerer")
	if l := c.Lease; l != nil {
		unless(c.Synchronous, "a lease needs synchronous writes")
		unless(l.Hold >= time.Millisecond && l.Wait > 0 && l.Poll > 0,
			"lease hold, wait and poll are %v, %v and %v, must be at least 1ms and positive", l.Hold, l.Wait, l.Poll)
	}
	return errors.Join(errs...)
}

// Tier is a shared tier for one cache. It implements cache.Remote and is safe for
// concurrent use.
type Tier struct {
	cfg     Config
	metrics *metrics
	breaker *breaker
	client  atomic.Pointer[rueidis.Client] // nil until Redis answered for the first time
	queue   chan write
	queued  atomic.Int64 // bytes in the queue
	batches batches
	probing sync.Mutex // held by who probes

	stop    context.CancelFunc
	running sync.WaitGroup
}

var _ cache.Remote = (*Tier)(nil)

// New returns a tier and registers its metrics. It tries to connect once, within
// WriteTimeout, and goes on trying afterwards. The caller must Close it, after the
// cache.
func New(ctx context.Context, cfg Config) (*Tier, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t := &Tier{cfg: cfg, breaker: newBreaker(cfg.Failures), queue: make(chan write, cfg.QueueItems)}
	t.metrics = newMetrics(cfg.Name, t)
	cfg.Registerer.MustRegister(t.metrics)
	life, stop := context.WithCancel(context.WithoutCancel(ctx)) // the tier's own lifetime, until Close
	t.stop = stop
	t.breaker.trip()
	if err := t.probe(ctx); err != nil {
		t.switched(err)
	}
	t.running.Go(func() { t.tend(life) })
	if !cfg.Synchronous {
		t.running.Go(func() { t.write(life) })
	}
	return t, nil
}

func (t *Tier) switched(why error) {
	if t.cfg.Switched != nil {
		t.cfg.Switched(why)
	}
}

// Reach asks Redis whether it is there, whatever the breaker says, and says why not: for who can do
// nothing without it.
func (t *Tier) Reach(ctx context.Context) error { return t.probe(ctx) }

// Close ends the tier. Writes that are still queued are dropped and counted.
func (t *Tier) Close() error {
	t.stop()
	t.running.Wait()
	if client := t.client.Load(); client != nil {
		(*client).Close()
	}
	return nil
}

// options are how to speak to Redis.
func options(cfg Config) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{cfg.Addr}, Username: cfg.Username, Password: cfg.Password,
		ForceSingleClient: true,
		// The memory tier is our client-side cache.
		DisableCache: true,
		// The loader is our second attempt.
		DisableRetry: true,
		// Without a delay, each flush carries the command or two that came
		// since the last one, and most of both sides' CPU goes into system
		// calls. The delay bounds how long a command waits for company; it is
		// paid only while others are under way.
		MaxFlushDelay: flushDelay,
		// A dial is to the same rack; it may not outlast a write.
		Dialer: net.Dialer{Timeout: cfg.WriteTimeout},
		DialCtxFn: func(ctx context.Context, address string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return socket.Dialing(d.DialContext)(ctx, "tcp", address)
		},
		// A connection that has not answered for this long is dead; above the
		// longest deadline, so that a slow command ends by its own.
		ConnWriteTimeout: 4 * max(cfg.WriteTimeout, cfg.ReadTimeout),
		// Items are small: half a MiB for each direction of each connection
		// would only be touched, never needed.
		ReadBufferEachConn: 64 << 10, WriteBufferEachConn: 64 << 10,
	}
}

// flushDelay is the best of those that BenchmarkFlushDelay tried: with 64 readers it
// halves the CPU of a read on both sides, and reads are faster for it; 100 µs makes
// them slower.
const flushDelay = 20 * time.Microsecond

// Get implements cache.Remote.
func (t *Tier) Get(ctx context.Context, key string) (cache.Item, error) {
	data, err := t.Bytes(ctx, t.cfg.Prefix+key)
	switch {
	case rueidis.IsRedisNil(err):
		return cache.Item{}, cache.ErrMiss
	case err != nil:
		return cache.Item{}, err
	}
	return decode(data)
}

// Read asks Redis on behalf of a cache that keeps items in a form of its own, within
// ReadTimeout and as the breaker lets it. The error is Redis's nil as it is, one that wraps
// cache.ErrDown, or another one that says what failed. Keys need a prefix of their own.
func (t *Tier) Read(ctx context.Context, ask func(context.Context, rueidis.Client) error) error {
	return t.ask(ctx, opGet, t.cfg.ReadTimeout, ask)
}

// Write is Read for what changes items, within WriteTimeout. After an error nobody knows
// whether it took place, unless that wraps cache.ErrDown.
func (t *Tier) Write(ctx context.Context, ask func(context.Context, rueidis.Client) error) error {
	return t.ask(ctx, opPut, t.cfg.WriteTimeout, ask)
}

func (t *Tier) ask(ctx context.Context, op operation, limit time.Duration, ask func(context.Context, rueidis.Client) error) error {
	client, ok := t.up()
	if !ok {
		return cache.ErrDown
	}
	began := time.Now()
	timed, cancel := context.WithTimeout(ctx, limit) // see DefaultConfig
	defer cancel()
	return t.end(ctx, op, began, ask(timed, client))
}

// end tells the breaker how a call ended that began then, and returns its error.
func (t *Tier) end(ctx context.Context, op operation, began time.Time, err error) error {
	if err != nil && !rueidis.IsRedisNil(err) {
		return t.failed(ctx, op, began, err)
	}
	t.breaker.succeed()
	return err
}

// up returns the client while the breaker is closed.
func (t *Tier) up() (rueidis.Client, bool) {
	client := t.client.Load()
	if client == nil || t.breaker.isOpen() {
		return nil, false
	}
	return *client, true
}

// failed counts a failure, against Redis unless it was the caller's own doing.
func (t *Tier) failed(ctx context.Context, op operation, began time.Time, err error) error {
	t.metrics.errors[op].Inc()
	if _, answered := rueidis.IsRedisErr(err); answered {
		t.breaker.succeed() // an answer, though not the one that was hoped for
	} else if ctx.Err() == nil && t.breaker.fail(began) {
		t.metrics.opened.Inc()
		t.switched(err)
	}
	return fmt.Errorf("redis %s: %w", op, err)
}
