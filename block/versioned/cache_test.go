package versioned_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"loadstone/block/versioned"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// original is a number that is its own version.
type original struct {
	n      atomic.Int64
	broken atomic.Bool
}

func (o *original) Version(context.Context) (int64, error) {
	if o.broken.Load() {
		return 0, errors.New("no version")
	}
	return o.n.Load(), nil
}

func open(t *testing.T, o *original, bytes int64) *versioned.Cache[int, int64] {
	t.Helper()
	c, err := versioned.New[int, int64](o, bytes, "t", prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFind(t *testing.T) {
	t.Parallel()
	o := &original{}
	c := open(t, o, 1<<20)
	find := func(want bool) {
		t.Helper()
		if v, ok := c.Read(t.Context()).Find(1); ok != want || ok && v != o.n.Load() {
			t.Errorf("version %d: got %d, %v; want %v", o.n.Load(), v, ok, want)
		}
	}
	find(false)
	begun := c.Read(t.Context())
	begun.Keep(1, 0, 8)
	find(true)
	o.n.Add(1)
	find(false)
	begun.Keep(1, 1, 8) // read of the new version, by who does not know: no use, and no harm
	find(false)
	c.Read(t.Context()).Keep(1, 1, 8)
	find(true)
	o.broken.Store(true)
	find(false)
	c.Read(t.Context()).Keep(1, 7, 8)
	o.broken.Store(false)
	find(true) // what was there before
	var none *versioned.Cache[int, int64]
	none.Read(t.Context()).Keep(1, 2, 8)
	if _, ok := none.Read(t.Context()).Find(1); ok {
		t.Error("no cache has something")
	}
}

// What is found is never older than what was there when the reading began.
func TestNothingOld(t *testing.T) {
	t.Parallel()
	o := &original{}
	c := open(t, o, 1<<20)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20_000 {
				before := o.n.Load()
				reading := c.Read(t.Context())
				v, ok := reading.Find(1)
				if ok && v < before {
					t.Errorf("found %d, when %d had been written", v, before)
				}
				if !ok {
					reading.Keep(1, o.n.Load(), 8)
				}
			}
		})
	}
	all.Go(func() {
		for range 20_000 {
			o.n.Add(1)
		}
	})
	all.Wait()
}

func TestBounded(t *testing.T) {
	t.Parallel()
	const each, room = 1000, 100
	registry := prometheus.NewRegistry()
	c, err := versioned.New[int, int64](&original{}, room*(each+versioned.EntryBytes), "t", registry)
	if err != nil {
		t.Fatal(err)
	}
	reading := c.Read(t.Context())
	for i := range 100 * room {
		reading.Keep(i, 1, each)
	}
	there := 0
	for i := range 100 * room {
		if _, ok := reading.Find(i); ok {
			there++
		}
	}
	// What was just written may be over it until the evicting goroutine has run.
	if there == 0 || there > 20*room {
		t.Errorf("%d answers are there, want about %d", there, room)
	}
	if n, err := testutil.GatherAndCount(registry, "t_cache_hits_total", "t_cache_misses_total"); n != 2 || err != nil {
		t.Errorf("got %d metrics and %v", n, err)
	}
}
