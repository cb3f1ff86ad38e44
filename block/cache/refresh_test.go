package cache_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/cache"
)

var (
	errNone = errors.New("no such key")
	errDown = errors.New("the loader is down")
)

// source is a loader that tests steer. Values are "key version".
type source struct {
	loads   atomic.Int64
	version atomic.Int64
	fails   atomic.Bool
	takes   atomic.Int64 // nanoseconds
}

func (s *source) load(ctx context.Context, key int) (string, error) {
	s.loads.Add(1)
	version := s.version.Load()
	if d := time.Duration(s.takes.Load()); d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	switch {
	case s.fails.Load():
		return "", errDown
	case key < 0:
		return "", fmt.Errorf("look up %d: %w", key, errNone)
	}
	return fmt.Sprint(key, " ", version), nil
}

func refreshing(s *source) cache.Config[int, string] {
	cfg := config(s.load)
	cfg.LoadTimeout = 20 * time.Second
	cfg.Refresh = &cache.Refresh{
		After: 10 * time.Second, SyncAfter: 30 * time.Second, SyncWait: 100 * time.Millisecond,
		Backoff: 2 * time.Second, Concurrent: 2,
	}
	return cfg
}

// find fails the test unless the key is found as said.
func find(t *testing.T, c *cache.Cache[int, string], key int, want string, stale bool) cache.Found[string] {
	t.Helper()
	got, err := c.Find(t.Context(), key)
	if err != nil || got.Value != want || got.Stale != stale {
		t.Errorf("key %d: got %q, stale %v and %v; want %q, stale %v", key, got.Value, got.Stale, err, want, stale)
	}
	return got
}

func (s *source) loaded(t *testing.T, want int64) {
	t.Helper()
	if got := s.loads.Load(); got != want {
		t.Errorf("got %d loads, want %d", got, want)
	}
}

func TestRefreshAheadServesOldAndThenNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		cfg := refreshing(s)
		c := open(t, cfg)
		find(t, c, 1, "1 0", false)
		s.version.Store(1)
		time.Sleep(9 * time.Second)
		if got := find(t, c, 1, "1 0", false); got.Age != 9*time.Second || got.From != cache.FromMemory {
			t.Errorf("got age %v from %v, want 9s from memory", got.Age, got.From)
		}
		synctest.Wait()
		s.loaded(t, 1)

		time.Sleep(2 * time.Second)
		s.takes.Store(int64(time.Second))
		for range 5 {
			find(t, c, 1, "1 0", false) // nobody waits
		}
		time.Sleep(2 * time.Second)
		s.loaded(t, 2)
		find(t, c, 1, "1 1", false)
		if got := metric(t, cfg, "cache_refreshes_total", "outcome:done"); got != 1 {
			t.Errorf("got %v refreshes, want 1", got)
		}
	})
}

func TestRefreshesBehindAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		cfg := refreshing(s)
		c := open(t, cfg)
		for key := range 10 {
			find(t, c, key, fmt.Sprint(key, " 0"), false)
		}
		time.Sleep(11 * time.Second)
		s.takes.Store(int64(time.Second))
		for key := range 10 {
			find(t, c, key, fmt.Sprint(key, " 0"), false)
		}
		synctest.Wait()
		s.loaded(t, 12)
		if got := metric(t, cfg, "cache_refreshes_total", "outcome:skipped"); got != 8 {
			t.Errorf("got %v skipped, want 8", got)
		}
	})
}

func TestPastSyncAfterTheCallerWaitsALittle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		cfg := refreshing(s)
		c := open(t, cfg)
		find(t, c, 1, "1 0", false)
		s.version.Store(1)
		time.Sleep(31 * time.Second)
		s.takes.Store(int64(50 * time.Millisecond))
		if got := find(t, c, 1, "1 1", false); got.From != cache.FromLoader {
			t.Errorf("got it from %v, want the loader", got.From)
		}

		s.version.Store(2)
		time.Sleep(31 * time.Second)
		s.takes.Store(int64(5 * time.Second))
		began := time.Now()
		find(t, c, 1, "1 1", true)
		if got := time.Since(began); got != 100*time.Millisecond {
			t.Errorf("waited %v, want 100ms", got)
		}
		find(t, c, 1, "1 1", true)
		if got := time.Since(began); got != 100*time.Millisecond {
			t.Errorf("the next caller waited %v more, want not at all", got-100*time.Millisecond)
		}
		time.Sleep(6 * time.Second)
		find(t, c, 1, "1 2", false)
		if got := metric(t, cfg, "cache_stale_served_total"); got != 2 {
			t.Errorf("got %v stale served, want 2", got)
		}
	})
}

func TestStaleOnErrorUntilMaxAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		cfg := refreshing(s)
		c := open(t, cfg)
		find(t, c, 1, "1 0", false)
		s.fails.Store(true)
		time.Sleep(31 * time.Second)
		find(t, c, 1, "1 0", true)
		s.loaded(t, 2)
		find(t, c, 1, "1 0", true)
		s.loaded(t, 2) // the next attempt is after Backoff
		time.Sleep(2 * time.Second)
		find(t, c, 1, "1 0", true)
		s.loaded(t, 3)

		time.Sleep(26*time.Second + 500*time.Millisecond) // 59.5 s old
		find(t, c, 1, "1 0", true)
		time.Sleep(time.Second)
		if got, err := c.Find(t.Context(), 1); !errors.Is(err, errDown) {
			t.Errorf("past MaxAge: got %q and %v, want the loader's error", got.Value, err)
		}
		s.fails.Store(false)
		find(t, c, 1, "1 0", false)
		if got := metric(t, cfg, "cache_refreshes_total", "outcome:failed"); got != 3 {
			t.Errorf("got %v failed refreshes, want 3", got)
		}
	})
}

func TestDeadlineOfACallerWhoHasAStaleValue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		c := open(t, refreshing(s))
		find(t, c, 1, "1 0", false)
		time.Sleep(31 * time.Second)
		s.takes.Store(int64(5 * time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		began := time.Now()
		got, err := c.Find(ctx, 1)
		if err != nil || !got.Stale || time.Since(began) != 30*time.Millisecond {
			t.Errorf("got stale %v and %v after %v, want the stale value after 30ms", got.Stale, err, time.Since(began))
		}
	})
}

func TestAbsentKeysAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		cfg := refreshing(s)
		cfg.Absent = &cache.Absent{Err: errNone, Age: 5 * time.Second}
		c := open(t, cfg)
		get := func(loads int64) {
			t.Helper()
			if _, err := c.Get(t.Context(), -1); !errors.Is(err, errNone) {
				t.Errorf("got %v, want %v", err, errNone)
			}
			s.loaded(t, loads)
		}
		get(1)
		time.Sleep(4 * time.Second)
		get(1)
		time.Sleep(2 * time.Second)
		get(2)
		if got := metric(t, cfg, "cache_negative_hits_total", "tier:memory"); got != 1 {
			t.Errorf("got %v negative hits, want 1", got)
		}
		if got := metric(t, cfg, "cache_loads_total", "outcome:absent"); got != 2 {
			t.Errorf("got %v absent loads, want 2", got)
		}
	})
}

func TestJitterSpreadsExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := func(seed uint64) (second [61]int64) {
			s := &source{}
			cfg := config(s.load)
			cfg.Registerer = prometheus.NewRegistry()
			cfg.Jitter = cache.Jitter{Fraction: 0.5, Seed: seed}
			c := open(t, cfg)
			for key := range 200 {
				find(t, c, key, fmt.Sprint(key, " 0"), false)
			}
			for i := range second {
				before := s.loads.Load()
				for key := range 200 {
					_, _ = c.Get(t.Context(), key)
				}
				second[i] = s.loads.Load() - before
				time.Sleep(time.Second)
			}
			return second
		}
		a := gone(1)
		for i, n := range a {
			if i < 30 && n > 0 || i > 31 && n > 25 {
				t.Errorf("second %d: %d of 200 entries expired, want none before 30 s and about 7 in each second after", i, n)
			}
		}
		if b := gone(1); b != a {
			t.Error("the same seed made other draws")
		}
		if b := gone(2); b == a {
			t.Error("another seed made the same draws")
		}
	})
}

func TestShedderBoundsLoads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		s.takes.Store(int64(time.Second))
		cfg := refreshing(s)
		cfg.Shed = &cache.Shed{Concurrent: 2, Queue: 3, Wait: 1500 * time.Millisecond}
		c := open(t, cfg)
		results := make(chan error, 7)
		for key := range 7 {
			go func() { _, err := c.Get(t.Context(), key); results <- err }()
			synctest.Wait()
		}
		// Two load, three wait, two are refused at once.
		for range 2 {
			over, ok := errors.AsType[*cache.OverloadError](<-results)
			if !ok || !over.Full || over.RetryAfter < cfg.Shed.Wait {
				t.Errorf("got %v, want a full queue and a time to retry after of at least %v", over, cfg.Shed.Wait)
			}
		}
		s.loaded(t, 2)
		// After 1 s two of those who wait load, and one has waited too long at 1.5 s.
		var fine, late int
		for range 5 {
			err := <-results
			over, refused := errors.AsType[*cache.OverloadError](err)
			switch {
			case err == nil:
				fine++
			case refused && !over.Full:
				late++
			default:
				t.Errorf("got %v", err)
			}
		}
		if fine != 4 || late != 1 {
			t.Errorf("got %d loaded and %d too late, want 4 and 1", fine, late)
		}
		for reason, want := range map[string]float64{"queue_full": 2, "waited_too_long": 1} {
			if got := metric(t, cfg, "cache_rejected_total", "reason:"+reason); got != want {
				t.Errorf("rejected, %s: got %v, want %v", reason, got, want)
			}
		}
		// A refresh does not queue: what it would replace is served.
		time.Sleep(31 * time.Second)
		for key := range 7 {
			if key < 4 {
				go func() { _, err := c.Get(t.Context(), 100+key); results <- err }()
			}
		}
		synctest.Wait()
		if got, err := c.Find(t.Context(), 0); err != nil || !got.Stale {
			t.Errorf("overloaded refresh: got stale %v and %v, want the stale value", got.Stale, err)
		}
		for range 4 {
			<-results
		}
		if _, err := c.Get(t.Context(), 200); err != nil {
			t.Errorf("an idle loader refused: %v", err)
		}
	})
}

func TestCloseWaitsForLoads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const after = 10 * time.Millisecond // how long the loader takes to heed its context
		c, err := cache.New(config(func(ctx context.Context, _ int) (string, error) {
			<-ctx.Done()
			time.Sleep(after)
			return "", ctx.Err()
		}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := c.Get(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(began); got != after {
			t.Errorf("Close took %v, want as long as the load, %v", got, after)
		}
		if _, err := c.Get(t.Context(), 2); !errors.Is(err, cache.ErrClosed) {
			t.Errorf("after Close: got %v, want %v", err, cache.ErrClosed)
		}
	})
}
