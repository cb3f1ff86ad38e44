package rediscache_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/cache"
	"loadstone/block/cache/rediscache"
	"loadstone/block/servertest"
)

// database is a loader that says how hard it was asked.
type database struct {
	loads, version, now, most atomic.Int64
}

func (d *database) load(_ context.Context, key int) (string, error) {
	d.loads.Add(1)
	n := d.now.Add(1)
	defer d.now.Add(-1)
	for most := d.most.Load(); n > most && !d.most.CompareAndSwap(most, n); most = d.most.Load() {
	}
	return fmt.Sprint(key, " ", d.version.Load()), nil
}

// process is a cache with both tiers as a process would have it.
func process(t *testing.T, addr string, d *database, change func(*rediscache.Config, *cache.Config[int, string])) (*cache.Cache[int, string], prometheus.Registerer) {
	t.Helper()
	tierCfg := tierConfig(t, addr)
	cfg := cache.Config[int, string]{
		Name: "results", MaxAge: time.Minute, LoadTimeout: 10 * time.Second, Load: d.load, Registerer: tierCfg.Registerer,
		Memory: &cache.Memory[int, string]{MaxBytes: 1 << 20, Bytes: func(_ int, v string) int { return 8 + len(v) }},
		Shared: &cache.Shared[int, string]{
			KeyText: strconv.Itoa,
			Encode:  func(dst []byte, v string) []byte { return append(dst, v...) },
			Decode:  func(data []byte) (string, error) { return string(data), nil },
		},
	}
	change(&tierCfg, &cfg)
	cfg.Shared.Remote = openTier(t, tierCfg)
	c, err := cache.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, cfg.Registerer
}

// With readers all the time, Redis is killed, restarted, paused and flushed, and
// the tiers are turned off and on: no look-up fails, and the loader is never asked
// for more at a time than the shedder lets.
func TestNoLookupFailsWhateverHappensToRedis(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := &database{}
	c, reg := process(t, s.Addr(), d, func(tier *rediscache.Config, cfg *cache.Config[int, string]) {
		tier.ReadTimeout, tier.WriteTimeout = 500*time.Millisecond, 2*time.Second
		cfg.Memory.MaxBytes = cache.MinBytes // too small for all keys
		cfg.Shed = &cache.Shed{Concurrent: 4, Queue: 100, Wait: patience}
	})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	end := sync.OnceFunc(func() { close(stop); wg.Wait() })
	defer end()
	var served atomic.Int64
	for i := range 16 {
		wg.Go(func() {
			for n := i; ; n += 7 {
				select {
				case <-stop:
					return
				default:
				}
				key := n % 2000
				if got, err := c.Get(t.Context(), key); err != nil || got != fmt.Sprint(key, " 0") {
					t.Errorf("key %d: got %q and %v", key, got, err)
					return
				}
				served.Add(1)
			}
		})
	}
	more := func(what string) {
		t.Helper()
		want := served.Load() + 2000
		eventually(t, "served "+what, func() bool { return served.Load() >= want })
	}
	more("with Redis")
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"flushed", s.Flush}, {"killed", s.Kill}, {"restarted", s.Start}, {"paused", s.Pause}, {"resumed", s.Resume},
		{"Redis off", func() { c.UseShared(false) }}, {"Redis on", func() { c.UseShared(true) }},
		{"memory off", func() { c.UseMemory(false) }}, {"memory on", func() { c.UseMemory(true) }},
	} {
		step.do()
		more(step.what)
		if open, ok := map[string]float64{"killed": 1, "restarted": 0, "paused": 1, "resumed": 0}[step.what]; ok {
			eventually(t, "the breaker follows "+step.what, func() bool { return metric(t, reg, "cache_redis_breaker_open") == open })
		}
	}
	hits := func() float64 { return metric(t, reg, "cache_gets_total", "tier:shared", "result:hit") }
	before := hits()
	eventually(t, "Redis answers again", func() bool { return hits() > before })
	end()
	if got := d.most.Load(); got > 4 {
		t.Errorf("%d loads at one time, want 4 at most", got)
	}
	if got := metric(t, reg, "cache_redis_breaker_opened_total"); got < 2 {
		t.Errorf("the breaker opened %v times, want it for the kill and the pause", got)
	}
}

func TestOneLoadForAllProcesses(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := &database{}
	var all []*cache.Cache[int, string]
	for range 4 {
		c, _ := process(t, s.Addr(), d, func(tier *rediscache.Config, _ *cache.Config[int, string]) {
			tier.Synchronous = true
			tier.Lease = &rediscache.Lease{Hold: 20 * time.Second, Wait: patience, Poll: time.Millisecond}
		})
		all = append(all, c)
	}
	var wg sync.WaitGroup
	for _, c := range all {
		for range 8 {
			wg.Go(func() {
				for key := range 50 {
					if got, err := c.Get(t.Context(), key); err != nil || got != fmt.Sprint(key, " 0") {
						t.Errorf("got %q and %v", got, err)
					}
				}
			})
		}
	}
	wg.Wait()
	if got := d.loads.Load(); got != 50 {
		t.Errorf("got %d loads of 50 keys in 4 processes, want 50", got)
	}
}

func TestPreload(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	cfg := tierConfig(t, s.Addr())
	var last int64
	p := rediscache.DefaultPreload(cfg, time.Hour)
	p.Batch, p.Jitter = 64, 0.5
	p.Progress = func(now int64) {
		if now < last {
			t.Errorf("progress went back from %d to %d", last, now)
		}
		last = now
	}
	run := func(n int) {
		t.Helper()
		last = 0
		got, err := p.Run(t.Context(), entries(n))
		if err != nil || got != int64(n) || last != int64(n) {
			t.Errorf("got %d, last told %d, and %v; want %d", got, last, err, n)
		}
	}
	s.Command("SET", "results:10005", "of before")
	run(1000)
	if got := s.Command("GET", "results:10005"); got == "of before" {
		t.Error("what was there was not replaced")
	}
	run(5001)
	if got := s.Command("DBSIZE"); got != "5001" {
		t.Errorf("got %s keys, want 5001", got)
	}
	lives := map[string]bool{}
	for id := range 20 {
		ms, err := strconv.Atoi(s.Command("PTTL", "results:"+strconv.Itoa(first+100+id)))
		if err != nil || ms < 29*60_000 || ms > 3_600_000 {
			t.Errorf("a life of %d ms and %v, want half an hour to an hour", ms, err)
		}
		lives[strconv.Itoa(ms/10_000)] = true
	}
	if len(lives) < 10 {
		t.Errorf("20 items share %d lives, want them spread", len(lives))
	}
	// Those that are born later live on from then.
	later := p
	later.Prefix, later.Jitter, later.Born, later.Progress = "later:", 0, time.Now().Add(5*time.Hour), func(int64) {}
	if _, err := later.Run(t.Context(), entries(1)); err != nil {
		t.Fatal(err)
	}
	if ms, err := strconv.Atoi(s.Command("PTTL", "later:10000")); err != nil || ms < 5*3_600_000 || ms > 6*3_600_000 {
		t.Errorf("a life of %d ms and %v, want five hours and one", ms, err)
	}
	// A tier reads them.
	item, err := openTier(t, cfg).Get(t.Context(), "10000")
	if err != nil || string(item.Value) != string(page) {
		t.Errorf("got %.20q and %v, want the page", item.Value, err)
	}
}

func TestPreloadStopsAtAnErrorAndGoesOn(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	p := rediscache.DefaultPreload(tierConfig(t, s.Addr()), time.Hour)
	p.Batch = 10
	boom := errors.New("boom")
	_, err := p.Run(t.Context(), func(yield func(rediscache.Entry, error) bool) {
		for e := range entries(105) {
			if !yield(e, nil) {
				return
			}
		}
		yield(rediscache.Entry{}, boom)
	})
	if !errors.Is(err, boom) {
		t.Errorf("got %v, want %v", err, boom)
	}
	got, err := p.Run(t.Context(), entries(200))
	if err != nil || got != 200 || s.Command("DBSIZE") != "200" {
		t.Errorf("got %d and %v with %s keys, want 200 in all", got, err, s.Command("DBSIZE"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Run(ctx, entries(100)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v, want %v", err, context.Canceled)
	}
	s.Kill()
	if _, err := p.Run(t.Context(), entries(100)); err == nil {
		t.Error("without Redis: got nil, want an error")
	}
	if _, err := (rediscache.Preload{}).Run(t.Context(), entries(1)); err == nil {
		t.Error("an empty configuration: got nil, want an error")
	}
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	s.Command("ACL", "SETUSER", "app", "on", ">other", "~*", "&*", "+@all")
	s.Command("CONFIG", "SET", "requirepass", "secret")
	for _, c := range []struct {
		user, password string
		fine           bool
	}{{"", "secret", true}, {"app", "other", true}, {"", "", false}, {"", "wrong", false}, {"app", "secret", false}} {
		cfg := tierConfig(t, s.Addr())
		cfg.Username, cfg.Password = c.user, c.password
		if _, err := rediscache.DefaultPreload(cfg, time.Hour).Run(t.Context(), entries(10)); (err == nil) != c.fine {
			t.Errorf("preload as %q with %q: got %v, want success %v", c.user, c.password, err, c.fine)
		}
		tier := openTier(t, cfg)
		if _, err := tier.Get(t.Context(), "10000"); (err == nil) != c.fine {
			t.Errorf("tier as %q with %q: got %v, want success %v", c.user, c.password, err, c.fine)
		}
	}
}

func TestCloseWhileRedisHangs(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	cfg := tierConfig(t, s.Addr())
	cfg.ReadTimeout, cfg.WriteTimeout = 50*time.Millisecond, 200*time.Millisecond
	tier := openTier(t, cfg)
	eventually(t, "it is connected", func() bool { // a write or a look-up may be given up on a busy machine
		tier.Put(t.Context(), "1", present(time.Now(), "v"), time.Minute)
		_, err := tier.Get(t.Context(), "1")
		return err == nil
	})
	s.Pause()
	tier.Put(t.Context(), "1", present(time.Now(), "v"), time.Minute)
	closed := make(chan error)
	go func() { closed <- tier.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("Close hangs with Redis")
	}
}
