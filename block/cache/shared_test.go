package cache_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/cache"
)

// fakeRemote is a shared tier in memory, by the contract of cache.Remote.
type fakeRemote struct {
	mu    sync.Mutex
	items map[string]cache.Item
	lives map[string]time.Duration
	err   error // what all calls fail with
	slow  int   // how many Gets to come time out
	grant cache.Grant
}

func newFakeRemote() *fakeRemote {
	return &fakeRemote{items: make(map[string]cache.Item), lives: make(map[string]time.Duration)}
}

func (r *fakeRemote) Get(_ context.Context, key string) (cache.Item, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	item, ok := r.items[key]
	switch {
	case r.slow > 0:
		r.slow--
		return cache.Item{}, context.DeadlineExceeded
	case r.err != nil:
		return cache.Item{}, r.err
	case !ok:
		return cache.Item{}, cache.ErrMiss
	}
	return item, nil
}

func (r *fakeRemote) Put(_ context.Context, key string, item cache.Item, life time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.items[key], r.lives[key] = item, life
	}
}

func (r *fakeRemote) Lease(context.Context, string, int64) cache.Grant { return r.grant }

func sharedBy(r cache.Remote) *cache.Shared[int, string] {
	return &cache.Shared[int, string]{
		Remote: r, KeyText: strconv.Itoa,
		Encode: func(dst []byte, v string) []byte { return append(dst, v...) },
		Decode: func(data []byte) (string, error) {
			if strings.HasPrefix(string(data), "garbage") {
				return "", errors.New("garbage")
			}
			return string(data), nil
		},
	}
}

// With the loader gone, a shared tier that was slow is asked once more, and one
// that said that it has nothing is not.
func TestSlowSharedTierIsAskedAgainWithoutTheLoader(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		slow int
		kept bool
		want error
	}{
		"slow once":  {1, true, nil},
		"slow twice": {2, true, errGone},
		"a miss":     {0, false, errGone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			remote := newFakeRemote()
			if remote.slow = c.slow; c.kept {
				remote.items["1"] = cache.Item{Kind: cache.Present, Born: time.Now().UnixMicro(), Value: []byte("kept")}
			}
			loads := 0
			cached := open(t, cache.Config[int, string]{
				Name: "test", MaxAge: time.Minute, LoadTimeout: time.Second, Registerer: prometheus.NewRegistry(), Shared: sharedBy(remote),
				Load: func(context.Context, int) (string, error) { loads++; return "", errGone },
			})
			got, err := cached.Find(t.Context(), 1)
			if !errors.Is(err, c.want) || (c.want == nil && (got.Value != "kept" || got.From != cache.FromShared)) {
				t.Errorf("got %+v, %v, want the kept value or %v", got, err, c.want)
			}
			if loads != 1 {
				t.Errorf("%d loads, want 1", loads)
			}
		})
	}
}

var errGone = errors.New("the loader is gone")

// Two processes, as two caches with one remote.
func TestProcessesShareLoads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		remote := newFakeRemote()
		cfg := refreshing(s)
		cfg.Absent = &cache.Absent{Err: errNone, Age: 5 * time.Second}
		cfg.Shared = sharedBy(remote)
		a := open(t, cfg)
		other := cfg
		other.Registerer = prometheus.NewRegistry()
		b := open(t, other)

		find(t, a, 1, "1 0", false)
		time.Sleep(time.Second)
		if got := find(t, b, 1, "1 0", false); got.From != cache.FromShared || got.Age != time.Second {
			t.Errorf("got age %v from %v, want 1s from shared", got.Age, got.From)
		}
		if got := find(t, b, 1, "1 0", false); got.From != cache.FromMemory || got.Age != time.Second {
			t.Errorf("got age %v from %v, want 1s from memory: it is not younger there", got.Age, got.From)
		}
		for _, c := range []*cache.Cache[int, string]{a, b} {
			if _, err := c.Get(t.Context(), -1); !errors.Is(err, errNone) {
				t.Errorf("got %v, want %v", err, errNone)
			}
		}
		s.loaded(t, 2)
		if got, want := remote.lives["1"], time.Minute; got != want {
			t.Errorf("life there: got %v, want %v", got, want)
		}
		if got, want := remote.lives["-1"], 5*time.Second; got != want {
			t.Errorf("life of an absent key there: got %v, want %v", got, want)
		}

		// a refreshes; b finds that instead of loading again.
		s.version.Store(1)
		time.Sleep(10 * time.Second)
		find(t, a, 1, "1 0", false)
		synctest.Wait()
		find(t, b, 1, "1 0", false)
		synctest.Wait()
		find(t, b, 1, "1 1", false)
		s.loaded(t, 3)
	})
}

func TestSharedTierFailsOpen(t *testing.T) {
	t.Parallel()
	for reason, err := range map[string]error{
		"down": fmt.Errorf("x: %w", cache.ErrDown), "failed": errDown, "garbage": fmt.Errorf("x: %w", cache.ErrGarbage),
	} {
		s := &source{}
		remote := newFakeRemote()
		cfg := refreshing(s)
		cfg.Shared = sharedBy(remote)
		c := open(t, cfg)
		remote.err = err
		find(t, c, 1, "1 0", false)
		if got := metric(t, cfg, "cache_shared_failures_total", "reason:"+reason); got != 1 {
			t.Errorf("%s: got %v, want 1", reason, got)
		}
	}
}

// What is written in advance does not age before its time, and what is not valid any more
// is a miss, wherever it is.
func TestItemsOfTheSharedTier(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		remote := newFakeRemote()
		cfg := config(s.load)
		cfg.Shared = sharedBy(remote)
		floor := int64(0)
		cfg.Valid = func(_ int, text string) bool { return versionOf(text) >= floor }
		c := open(t, cfg)
		remote.items["1"] = cache.Item{Kind: cache.Present, Born: time.Now().Add(time.Hour).UnixMicro(), Value: []byte("1 7")}
		time.Sleep(30 * time.Minute)
		if got := find(t, c, 1, "1 7", false); got.From != cache.FromShared || got.Age != 0 {
			t.Errorf("got age %v from %v, want 0 from shared", got.Age, got.From)
		}
		time.Sleep(30*time.Minute + 59*time.Second)
		find(t, c, 1, "1 7", false)
		s.loaded(t, 0)
		s.version.Store(8)
		floor = 8
		find(t, c, 1, "1 8", false)
		s.loaded(t, 1)
		if got := string(remote.items["1"].Value); got != "1 8" {
			t.Errorf("the shared tier has %q, want what was loaded", got)
		}
		time.Sleep(2 * time.Minute)
		find(t, c, 1, "1 8", false)
		s.loaded(t, 2)
	})
}

func TestUnreadableValuesAreMisses(t *testing.T) {
	t.Parallel()
	s := &source{}
	remote := newFakeRemote()
	cfg := refreshing(s)
	cfg.Shared = sharedBy(remote)
	c := open(t, cfg)
	now := time.Now().UnixMicro()
	remote.items = map[string]cache.Item{
		"1": {Kind: cache.Present, Born: now, Value: []byte("garbage")},
		"2": {Kind: cache.Missing, Born: now}, // of a process that remembers absent keys; this one does not
		"3": {Kind: cache.Present, Born: now - time.Hour.Microseconds(), Value: []byte("too old")},
		"4": {Kind: 9, Born: now},
	}
	for key := 1; key <= 4; key++ {
		find(t, c, key, fmt.Sprint(key, " 0"), false)
	}
	if got := metric(t, cfg, "cache_shared_failures_total", "reason:garbage"); got != 1 {
		t.Errorf("garbage: got %v, want 1", got)
	}
}

// With memory off, what a refresh under way would replace is still there for
// others, however the refresh ends.
func TestRefreshWithoutMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		cfg := refreshing(s)
		cfg.Shared = sharedBy(newFakeRemote())
		cfg.Memory = nil
		c := open(t, cfg)
		find(t, c, 1, "1 0", false)
		time.Sleep(11 * time.Second)
		s.takes.Store(int64(time.Second))
		s.fails.Store(true)
		began := time.Now()
		find(t, c, 1, "1 0", false) // starts a refresh that will fail
		find(t, c, 1, "1 0", false) // finds it under way
		if time.Since(began) != 0 {
			t.Errorf("waited %v for a refresh behind", time.Since(began))
		}
		time.Sleep(25 * time.Second)
		find(t, c, 1, "1 0", true)
		s.fails.Store(false)
		s.takes.Store(0)
		time.Sleep(2 * time.Second)
		find(t, c, 1, "1 0", false)
	})
}

func TestLeaseIsGivenBack(t *testing.T) {
	t.Parallel()
	s := &source{}
	remote := newFakeRemote()
	released := 0
	remote.grant = cache.Grant{Release: func() {
		if remote.items["1"].Kind != cache.Present {
			t.Error("the lease was given back before the item was there")
		}
		released++
	}}
	cfg := refreshing(s)
	cfg.Shared = sharedBy(remote)
	c := open(t, cfg)
	find(t, c, 1, "1 0", false)
	if released != 1 {
		t.Errorf("released %d times, want once", released)
	}
	remote.grant = cache.Grant{Found: true, Item: cache.Item{Kind: cache.Present, Born: time.Now().UnixMicro(), Value: []byte("theirs")}}
	if got := find(t, c, 2, "theirs", false); got.From != cache.FromShared {
		t.Errorf("got it from %v, want shared", got.From)
	}
	s.loaded(t, 1)
}

func TestTwoCachesInOneProcess(t *testing.T) {
	t.Parallel()
	s := &source{}
	cfg := config(s.load)
	other := cfg
	other.Name = "other"
	a, b := open(t, cfg), open(t, other)
	find(t, a, 1, "1 0", false)
	find(t, b, 1, "1 0", false)
	find(t, b, 1, "1 0", false)
	if one, two := metric(t, cfg, "cache_gets_total", "tier:memory", "result:hit"), metric(t, other, "cache_gets_total", "tier:memory", "result:hit"); one != 0 || two != 1 {
		t.Errorf("got %v and %v hits, want 0 and 1", one, two)
	}
	families, err := cfg.Registerer.(*prometheus.Registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := 0
	for _, f := range families {
		series += len(f.GetMetric())
	}
	if want := 2 * 28; series != want {
		t.Errorf("got %d series, want %d: labels are closed", series, want)
	}
}
