package cache_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"loadstone/block/cache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const maxBytes = 1 << 20

func config(load func(context.Context, int) (string, error)) cache.Config[int, string] {
	return cache.Config[int, string]{
		Name: "test", MaxAge: time.Minute, LoadTimeout: time.Second,
		Load:       load,
		Registerer: prometheus.NewRegistry(),
		Memory: &cache.Memory[int, string]{
			MaxBytes: maxBytes,
			Bytes:    func(_ int, v string) int { return 8 + len(v) },
		},
	}
}

func open(tb testing.TB, cfg cache.Config[int, string]) *cache.Cache[int, string] {
	tb.Helper()
	c, err := cache.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// metric reads one metric of the cache "test"; labels are key:value.
func metric(tb testing.TB, cfg cache.Config[int, string], name string, labels ...string) float64 {
	tb.Helper()
	families, err := cfg.Registerer.(*prometheus.Registry).Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	next:
		for _, m := range f.GetMetric() {
			for _, want := range append(labels, "cache:"+cfg.Name) {
				key, value, _ := strings.Cut(want, ":")
				has := false
				for _, l := range m.GetLabel() {
					has = has || l.GetName() == key && l.GetValue() == value
				}
				if !has {
					continue next
				}
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	tb.Fatalf("there is no metric %s with %v", name, labels)
	return 0
}

func TestValidateNamesEveryProblem(t *testing.T) {
	t.Parallel()
	_, err := cache.New(cache.Config[int, string]{
		Memory:  &cache.Memory[int, string]{MaxBytes: 7},
		Shared:  &cache.Shared[int, string]{},
		Refresh: &cache.Refresh{After: 3, SyncAfter: 2, SyncWait: -1},
		Absent:  &cache.Absent{Age: -3},
		Shed:    &cache.Shed{Queue: -4},
		Jitter:  cache.Jitter{Fraction: 1},
	})
	for _, want := range []string{
		"no name", "max bytes is 7", "max age is 0s", "load timeout is 0s", "function to load is missing", "registerer",
		"entry's bytes is missing", "three functions", "refresh after 3ns, synchronous after 2ns", "synchronous wait is -1ns", "backoff is 0s",
		"concurrent refreshes is 0", "means absent is missing", "absent keys is -3ns", "concurrent loads is 0", "queue of loads is -4",
		"wait for a load is 0s", "jitter is 1,",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %q", err, want)
		}
	}
}

func TestHitAndMiss(t *testing.T) {
	t.Parallel()
	loads := 0
	cfg := config(func(_ context.Context, key int) (string, error) {
		loads++
		return fmt.Sprint(key), nil
	})
	c := open(t, cfg)
	for range 3 {
		if got, err := c.Get(t.Context(), 5); got != "5" || err != nil {
			t.Fatalf("got %q and %v, want 5", got, err)
		}
	}
	if loads != 1 {
		t.Errorf("got %d loads, want 1", loads)
	}
	for series, want := range map[string]float64{
		"cache_gets_total tier:memory result:hit": 2, "cache_gets_total tier:memory result:miss": 1, "cache_entries": 1,
		"cache_bytes": 9 + cache.EntryOverhead, "cache_limit_bytes": maxBytes,
	} {
		name, labels := strings.Fields(series)[0], strings.Fields(series)[1:]
		// The size follows a moment after the write.
		got := metric(t, cfg, name, labels...)
		for deadline := time.Now().Add(2 * time.Minute); got != want && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
			got = metric(t, cfg, name, labels...)
		}
		if got != want {
			t.Errorf("%s: got %v, want %v", series, got, want)
		}
	}
}

// waiters start n Gets of one key and return their results once all are done.
// They run in a synctest bubble, in which release is called when all wait.
func waiters(ctx context.Context, c *cache.Cache[int, string], n int, release func()) (values []string, errs []error) {
	values, errs = make([]string, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { values[i], errs[i] = c.Get(ctx, 1) })
	}
	synctest.Wait()
	release()
	wg.Wait()
	return values, errs
}

func TestConcurrentMissesShareOneLoad(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		load    func() (string, error)
		want    string
		wantErr error
		outcome string
		again   int32 // loads after another Get
	}{
		"value":     {func() (string, error) { return "v", nil }, "v", nil, "kept", 1},
		"error":     {func() (string, error) { return "", boom }, "", boom, "failed", 2},
		"panic":     {func() (string, error) { panic("oh") }, "", cache.ErrLoadPanicked, "panicked", 2},
		"too large": {func() (string, error) { return strings.Repeat("x", 1<<18), nil }, strings.Repeat("x", 1<<18), nil, "too_large", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var loads atomic.Int32
				released := make(chan struct{})
				cfg := config(func(context.Context, int) (string, error) {
					loads.Add(1)
					<-released
					return c.load()
				})
				k := open(t, cfg)
				values, errs := waiters(t.Context(), k, 20, func() { close(released) })
				for i := range values {
					if values[i] != c.want || !errors.Is(errs[i], c.wantErr) {
						t.Fatalf("waiter %d: got %.20q and %v, want %.20q and %v", i, values[i], errs[i], c.want, c.wantErr)
					}
				}
				if got := loads.Load(); got != 1 {
					t.Errorf("got %d loads, want 1", got)
				}
				_, _ = k.Get(t.Context(), 1) // the result is known; only whether it loads matters
				if got := loads.Load(); got != c.again {
					t.Errorf("after another Get: got %d loads, want %d", got, c.again)
				}
				if got := metric(t, cfg, "cache_loads_total", "outcome:"+c.outcome); got != float64(c.again) {
					t.Errorf("loads with outcome %s: got %v, want %v", c.outcome, got, c.again)
				}
			})
		})
	}
}

// However fast loads are: a load that ended after a caller had missed its key is that caller's too.
func TestMissesShareLoadsThatTakeNoTime(t *testing.T) {
	t.Parallel()
	var loads [500]atomic.Int32
	k := open(t, config(func(_ context.Context, key int) (string, error) {
		loads[key].Add(1)
		return "v", nil
	}))
	for key := range loads {
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				if v, err := k.Get(t.Context(), key); v != "v" || err != nil {
					t.Errorf("got %q and %v", v, err)
				}
			})
		}
		all.Wait()
		if got := loads[key].Load(); got != 1 {
			t.Fatalf("key %d was loaded %d times, want once", key, got)
		}
	}
}

func TestCancelledCallerDoesNotFailTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		var loads atomic.Int32
		c := open(t, config(func(ctx context.Context, _ int) (string, error) {
			loads.Add(1)
			select {
			case <-released:
				return "v", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}))
		first, cancel := context.WithCancel(t.Context())
		firstDone := make(chan error, 1)
		go func() { _, err := c.Get(first, 1); firstDone <- err }()
		synctest.Wait() // the load has begun, on the first caller's behalf

		second, cancelSecond := context.WithCancel(t.Context())
		secondDone := make(chan error)
		go func() { _, err := c.Get(second, 1); secondDone <- err }()
		synctest.Wait()
		cancel()
		cancelSecond()
		if err := <-firstDone; !errors.Is(err, context.Canceled) {
			t.Errorf("the first caller, who gave up: got %v, want %v at once", err, context.Canceled)
		}
		if err := <-secondDone; !errors.Is(err, context.Canceled) {
			t.Errorf("a waiter that gave up: got %v, want %v at once", err, context.Canceled)
		}
		values, errs := waiters(t.Context(), c, 5, func() { close(released) })
		for i := range values {
			if values[i] != "v" || errs[i] != nil {
				t.Errorf("waiter %d: got %q and %v, want v", i, values[i], errs[i])
			}
		}
		if got := loads.Load(); got != 1 {
			t.Errorf("got %d loads, want 1", got)
		}
	})
}

func TestLoadTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := open(t, config(func(ctx context.Context, _ int) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}))
		began := time.Now()
		_, err := c.Get(t.Context(), 1)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("got %v after %v, want %v after 1s", err, time.Since(began), context.DeadlineExceeded)
		}
	})
}

func TestEntriesAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		loads := 0
		c := open(t, config(func(context.Context, int) (string, error) { loads++; return "v", nil }))
		get := func(want int) {
			t.Helper()
			if _, err := c.Get(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if loads != want {
				t.Errorf("got %d loads, want %d", loads, want)
			}
		}
		get(1)
		time.Sleep(59 * time.Second) // virtual
		get(1)                       // a read does not make the entry younger
		time.Sleep(2 * time.Second)
		get(2)
	})
}

func TestClearForgetsAndDropsLoadsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var source atomic.Pointer[string]
		set := func(s string) { source.Store(&s) }
		set("old")
		gate := make(chan struct{})
		c := open(t, config(func(_ context.Context, key int) (string, error) {
			v := *source.Load()
			if key == 1 {
				<-gate
			}
			return v, nil
		}))
		if got, err := c.Get(t.Context(), 2); got != "old" || err != nil {
			t.Fatalf("got %q and %v, want old", got, err)
		}
		slow := make(chan string)
		go func() { v, _ := c.Get(t.Context(), 1); slow <- v }()
		synctest.Wait() // it has read the old value and not returned it yet

		set("new")
		if err := c.Clear(); err != nil {
			t.Fatal(err)
		}
		close(gate)
		if got := <-slow; got != "old" {
			t.Errorf("load under way: got %q, want old", got)
		}
		for _, key := range []int{1, 2} {
			if got, err := c.Get(t.Context(), key); got != "new" || err != nil {
				t.Errorf("key %d after Clear: got %q and %v, want new", key, got, err)
			}
		}
	})
}

func TestBoundedByBytes(t *testing.T) {
	t.Parallel()
	value := strings.Repeat("x", 1000)
	cfg := config(func(context.Context, int) (string, error) { return value, nil })
	c := open(t, cfg)
	const n = 5000
	for key := range n {
		if _, err := c.Get(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	fits := float64(maxBytes) / (1008 + cache.EntryOverhead)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		bytes, entries := metric(t, cfg, "cache_bytes"), metric(t, cfg, "cache_entries")
		if bytes <= float64(maxBytes) && entries <= fits {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %v bytes in %v entries, want at most %v in %v", bytes, entries, maxBytes, fits)
		}
	}
	if got := metric(t, cfg, "cache_evictions_total"); got < n-fits {
		t.Errorf("evictions: got %v, want at least %v", got, n-fits)
	}
}

// EntryOverhead must cover what an entry costs, or the bound on bytes is none.
// Not parallel: it looks at the whole process's heap.
func TestEntryOverhead(t *testing.T) {
	const n = 50_000
	cfg := config(func(context.Context, int) (string, error) { return "", nil })
	cfg.Memory.MaxBytes = 1 << 30
	c := open(t, cfg)
	before := heap()
	for key := range n {
		if _, err := c.Get(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	const keyAndValue = 8 + 16
	got := float64(heap()-before)/n - keyAndValue
	t.Logf("%.0f bytes for each entry", got)
	if got > cache.EntryOverhead {
		t.Errorf("got %.0f bytes of overhead, want at most %d", got, cache.EntryOverhead)
	}
	runtime.KeepAlive(c)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkGet tells what the tier costs a hit, and a miss beyond its load.
func BenchmarkGet(b *testing.B) {
	c := open(b, config(func(context.Context, int) (string, error) { return "v", nil }))
	ctx := context.Background()
	b.Run("hit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Get(ctx, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("miss", func(b *testing.B) {
		b.ReportAllocs()
		key := 1
		for b.Loop() {
			key++
			if _, err := c.Get(ctx, key); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Close calls loads off and does not wait out their time, whoever began them: a
// caller that can be called back, one that cannot, one that waits for a place of the
// shedder, and a refresh that nobody waits for.
func TestCloseCallsLoadsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := config(func(ctx context.Context, _ int) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		cfg.LoadTimeout = time.Hour
		cfg.Shed = &cache.Shed{Concurrent: 2, Queue: 1, Wait: time.Hour}
		c, err := cache.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		errs := make(chan error, 3)
		for key := range 3 {
			ctx := t.Context()
			if key == 1 {
				ctx = context.Background()
			}
			go func() {
				_, err := c.Get(ctx, key)
				errs <- err
			}()
			synctest.Wait()
		}
		began := time.Now()
		if err := c.Close(); err != nil || time.Since(began) > 0 {
			t.Errorf("closed with %v after %v, want at once", err, time.Since(began))
		}
		for range 3 {
			if err := <-errs; !errors.Is(err, cache.ErrClosed) || !errors.Is(err, context.Canceled) {
				t.Errorf("a caller got %v, want that the cache is closed", err)
			}
		}
	})
}

// The greatest age is of all that was ever served, also when what is served now is
// young.
func TestTheGreatestAgeIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s source
		cfg := config(s.load)
		c := open(t, cfg)
		for range 2 {
			if _, err := c.Get(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			time.Sleep(40 * time.Second)
		}
		if _, err := c.Get(t.Context(), 2); err != nil { // new
			t.Fatal(err)
		}
		if got := metric(t, cfg, "cache_served_age_max_seconds"); got != 40 {
			t.Errorf("got %v, want 40", got)
		}
	})
}
