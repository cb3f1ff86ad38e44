package rediscache_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/cache"
	"loadstone/block/cache/rediscache"
	"loadstone/block/servertest"
)

func present(born time.Time, value string) cache.Item {
	return cache.Item{Kind: cache.Present, Born: born.UnixMicro(), Value: []byte(value)}
}

// has waits until the tier answers with value.
func has(t *testing.T, tier *rediscache.Tier, key, value string) {
	t.Helper()
	eventually(t, key+" is "+value, func() bool {
		item, err := tier.Get(t.Context(), key)
		return err == nil && string(item.Value) == value
	})
}

// untilDown asks until the breaker is open, and returns how often.
func untilDown(ctx context.Context, t *testing.T, tier *rediscache.Tier) (asked int) {
	t.Helper()
	eventually(t, "the breaker opens", func() bool {
		asked++
		_, err := tier.Get(ctx, "1")
		return errors.Is(err, cache.ErrDown)
	})
	return asked
}

func TestValidate(t *testing.T) {
	t.Parallel()
	_, err := rediscache.New(t.Context(), rediscache.Config{Addr: "nowhere", Lease: &rediscache.Lease{}})
	for _, want := range []string{
		"no name", `address is "nowhere"`, "no prefix", "timeouts are 0s and 0s", "queue holds 0 items", "breaker is 0",
		"probe interval is 0s", "registerer", "lease needs synchronous", "lease hold, wait and poll",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %q", err, want)
		}
	}
}

func TestPutAndGet(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	for _, synchronous := range []bool{false, true} {
		cfg := tierConfig(t, s.Addr())
		cfg.Synchronous = synchronous
		cfg.Prefix = fmt.Sprint(synchronous, ":")
		tier := openTier(t, cfg)
		now := time.Now()
		tier.Put(t.Context(), "1", present(now, "v"), time.Minute)
		if _, err := tier.Get(t.Context(), "1"); synchronous && err != nil {
			t.Errorf("right after a synchronous Put: %v", err)
		}
		has(t, tier, "1", "v")
		item, err := tier.Get(t.Context(), "1")
		if err != nil || item.Kind != cache.Present || item.Born != now.UnixMicro() {
			t.Errorf("got %+v and %v, want it as it was put", item, err)
		}
		life, err := strconv.Atoi(s.Command("PTTL", cfg.Prefix+"1"))
		if err != nil || life <= 30_000 || life > 60_000 {
			t.Errorf("got a life of %d ms and %v, want the rest of a minute", life, err)
		}
		tier.Put(t.Context(), "1", present(now.Add(-time.Second), "the last one"), time.Minute)
		has(t, tier, "1", "the last one")
		tier.Put(t.Context(), "1", present(now, "has no life left"), 0)
		eventually(t, "the outdated write is counted", func() bool {
			return metric(t, cfg.Registerer, "cache_redis_writes_total", "outcome:outdated") == 1
		})
		has(t, tier, "1", "the last one")
	}
}

func TestGarbageIsTold(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	cfg := tierConfig(t, s.Addr())
	tier := openTier(t, cfg)
	s.Command("SET", "results:1", "somebody else's")
	s.Command("SET", "results:2", "\x02\x01\x00\x00\x00\x00\x00\x00\x00\x01of the next version")
	for _, key := range []string{"1", "2"} {
		if _, err := tier.Get(t.Context(), key); !errors.Is(err, cache.ErrGarbage) {
			t.Errorf("key %s: got %v, want %v", key, err, cache.ErrGarbage)
		}
		tier.Put(t.Context(), key, present(time.Now(), "v"), time.Minute)
		has(t, tier, key, "v")
	}
	s.Command("LPUSH", "results:3", "a list")
	if _, err := tier.Get(t.Context(), "3"); err == nil || errors.Is(err, cache.ErrMiss) {
		t.Errorf("a list: got %v, want a failure", err)
	}
	if got := metric(t, cfg.Registerer, "cache_redis_errors_total", "op:get"); got != 1 {
		t.Errorf("errors: got %v, want 1", got)
	}
}

func TestLostRedisOpensTheBreakerAndIsFoundAgain(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct{ lose, restore func(*servertest.RedisServer) }{
		"killed": {(*servertest.RedisServer).Kill, (*servertest.RedisServer).Start},
		"paused": {(*servertest.RedisServer).Pause, (*servertest.RedisServer).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Redis(t)
			cfg := tierConfig(t, s.Addr())
			cfg.ReadTimeout = 100 * time.Millisecond
			tier := openTier(t, cfg)
			// Again until Redis has it: on a busy machine that may be late, and given up for a while.
			put := func(key string) {
				t.Helper()
				eventually(t, key+" is there", func() bool {
					tier.Put(t.Context(), key, present(time.Now(), "v"), time.Minute)
					_, err := tier.Get(t.Context(), key)
					return err == nil
				})
			}
			put("1")

			fault.lose(s)
			if asked := untilDown(t.Context(), t, tier); asked > cfg.Failures+1 {
				t.Errorf("%d calls until the breaker was open, want %d at most", asked, cfg.Failures+1)
			}
			before := metric(t, cfg.Registerer, "cache_redis_writes_total", "outcome:down")
			tier.Put(t.Context(), "2", present(time.Now(), "v"), time.Minute)
			if got := metric(t, cfg.Registerer, "cache_redis_writes_total", "outcome:down") - before; got < 1 {
				t.Errorf("writes while down: got %v, want that one", got)
			}
			if got := metric(t, cfg.Registerer, "cache_redis_breaker_open"); got != 1 {
				t.Errorf("breaker: got %v, want 1", got)
			}

			fault.restore(s)
			eventually(t, "Redis is asked again", func() bool {
				_, err := tier.Get(t.Context(), "1")
				return err == nil || errors.Is(err, cache.ErrMiss)
			})
			put("3")
		})
	}
}

func TestRedisNeedNotRunAtTheStart(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	s.Kill()
	cfg := tierConfig(t, s.Addr())
	told := make(chan error, 10)
	cfg.Switched = func(why error) { told <- why }
	tier := openTier(t, cfg)
	if _, err := tier.Get(t.Context(), "1"); !errors.Is(err, cache.ErrDown) {
		t.Errorf("got %v, want %v", err, cache.ErrDown)
	}
	if why := <-told; why == nil {
		t.Error("it is said that Redis answers")
	}
	s.Start()
	if why := <-told; why != nil {
		t.Errorf("got %v, want that Redis answers", why)
	}
	eventually(t, "Redis is found", func() bool {
		_, err := tier.Get(t.Context(), "1")
		return errors.Is(err, cache.ErrMiss)
	})
}

func TestFullQueueDrops(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	cfg := tierConfig(t, s.Addr())
	cfg.QueueItems, cfg.QueueBytes = 1000, 500
	tier := openTier(t, cfg)
	s.Pause()
	for i := range 300 { // the writer takes some of them before it waits
		tier.Put(t.Context(), strconv.Itoa(i), present(time.Now(), strings.Repeat("x", 100)), time.Minute)
	}
	dropped := metric(t, cfg.Registerer, "cache_redis_writes_total", "outcome:dropped")
	if queued := metric(t, cfg.Registerer, "cache_redis_queue_bytes"); dropped < 250 || queued > 500 {
		t.Errorf("got %v dropped and %v bytes queued, want 250 at least and 500 at most", dropped, queued)
	}
	s.Resume()
	eventually(t, "all writes are accounted for", func() bool {
		var sum float64
		for _, outcome := range []string{"written", "dropped", "failed", "down"} {
			sum += metric(t, cfg.Registerer, "cache_redis_writes_total", "outcome:"+outcome)
		}
		return sum == 300
	})
}

func TestLease(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	cfg := tierConfig(t, s.Addr())
	cfg.Synchronous = true
	cfg.Lease = &rediscache.Lease{Hold: 60 * time.Second, Wait: patience, Poll: time.Millisecond}
	a := openTier(t, cfg)
	cfg.Registerer = prometheus.NewRegistry()
	b := openTier(t, cfg)

	held := a.Lease(t.Context(), "1", 0)
	if held.Release == nil || held.Found {
		t.Fatalf("got %+v, want the lease", held)
	}
	waits := make(chan cache.Grant)
	go func() { waits <- b.Lease(context.Background(), "1", 0) }()
	a.Put(t.Context(), "1", present(time.Now(), "v"), time.Minute)
	if got := <-waits; !got.Found || string(got.Item.Value) != "v" || got.Release != nil {
		t.Errorf("got %+v, want the item that the holder put", got)
	}
	held.Release()
	if got := s.Command("EXISTS", "!results:1"); got != "0" {
		t.Errorf("the lease is still there")
	}

	// A holder that ends without an item lets the next one try.
	held = a.Lease(t.Context(), "2", 0)
	go func() { waits <- b.Lease(context.Background(), "2", 0) }()
	held.Release()
	next := <-waits
	if next.Release == nil {
		t.Fatalf("got %+v, want the lease", next)
	}
	held.Release() // too late: it is somebody else's
	if got := s.Command("EXISTS", "!results:2"); got != "1" {
		t.Errorf("a lease was taken from its holder")
	}
	next.Release()

	// A holder that dies is replaced after Hold.
	s.Command("SET", "!results:3", "the dead's", "PX", "300")
	took := b.Lease(t.Context(), "3", 0)
	if took.Release == nil {
		t.Errorf("got %+v, want the lease of the dead", took)
	} else {
		took.Release()
	}

	// A holder whose time has ended gives it back all the same.
	ended, cancel := context.WithCancel(t.Context())
	held = a.Lease(ended, "6", 0)
	cancel()
	held.Release()
	if got := s.Command("EXISTS", "!results:6"); got != "0" {
		t.Errorf("a lease outlived its holder")
	}

	// For a refresh, the old item is not what it waits for.
	now := time.Now()
	a.Put(t.Context(), "4", present(now, "old"), time.Minute)
	if got := b.Lease(t.Context(), "4", now.UnixMicro()); got.Found || got.Release == nil {
		t.Errorf("got %+v, want the lease", got)
	} else {
		got.Release()
	}

	s.Kill()
	if got := b.Lease(t.Context(), "5", 0); got.Found || got.Release != nil {
		t.Errorf("without Redis: got %+v, want nothing", got)
	}
}

func TestWaitForALeaseIsBounded(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	cfg := tierConfig(t, s.Addr())
	cfg.Synchronous = true
	cfg.Lease = &rediscache.Lease{Hold: time.Minute, Wait: 20 * time.Millisecond, Poll: time.Millisecond}
	tier := openTier(t, cfg)
	s.Command("SET", "!results:1", "somebody's")
	if got := tier.Lease(t.Context(), "1", 0); got.Found || got.Release != nil {
		t.Errorf("got %+v, want nothing", got)
	}
	if got := metric(t, cfg.Registerer, "cache_redis_leases_total", "outcome:waited_out"); got != 1 {
		t.Errorf("got %v, want 1", got)
	}
}

// TestLookUpsTogether has look-ups that cannot be cancelled, which are made together: each
// gets its own value, and a failure is only its own.
func TestLookUpsTogether(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	cfg := tierConfig(t, s.Addr())
	cfg.Synchronous = true
	tier := openTier(t, cfg)
	const readers = 300 // more than one batch takes
	for i := range readers {
		if i%3 > 0 {
			tier.Put(t.Context(), strconv.Itoa(i), present(time.Now(), fmt.Sprint("value ", i)), time.Minute)
		}
	}
	s.Command("LPUSH", cfg.Prefix+"0", "a list")

	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range readers {
		group.Go(func() {
			<-start
			for range 20 {
				item, err := tier.Get(context.Background(), strconv.Itoa(i))
				switch {
				case i == 0 && (err == nil || errors.Is(err, cache.ErrMiss)):
					t.Errorf("a list: got %v, want a failure", err)
				case i > 0 && i%3 == 0 && !errors.Is(err, cache.ErrMiss):
					t.Errorf("key %d: got %v, want a miss", i, err)
				case i%3 > 0 && (err != nil || string(item.Value) != fmt.Sprint("value ", i)):
					t.Errorf("key %d: got %q and %v", i, item.Value, err)
				}
			}
		})
	}
	close(start)
	group.Wait()
	if got := metric(t, cfg.Registerer, "cache_redis_errors_total", "op:get"); got != 20 {
		t.Errorf("errors: got %v, want those 20 of the list", got)
	}
}

func TestLookUpsTogetherEndInTime(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	cfg := tierConfig(t, s.Addr())
	cfg.ReadTimeout = 100 * time.Millisecond
	tier := openTier(t, cfg)
	eventually(t, "Redis is asked", func() bool {
		_, err := tier.Get(context.Background(), "1")
		return errors.Is(err, cache.ErrMiss)
	})
	s.Pause()
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			if _, err := tier.Get(context.Background(), strconv.Itoa(i)); err == nil || errors.Is(err, cache.ErrMiss) {
				t.Errorf("got %v of a Redis that does not answer", err)
			}
		})
	}
	group.Wait()
	// All 50 may have been under way together, which is one failure.
	if asked := untilDown(context.Background(), t, tier); asked > cfg.Failures {
		t.Errorf("%d calls more until the breaker was open, want %d at most", asked, cfg.Failures)
	}
	s.Resume()
	eventually(t, "Redis is asked again", func() bool {
		_, err := tier.Get(context.Background(), "1")
		return errors.Is(err, cache.ErrMiss)
	})
}
