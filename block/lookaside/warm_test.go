package lookaside

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"loadstone/block/servertest"
)

// numbers are n keys, of which each seventh has no value.
func numbers(d *database, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
		d.set(keys[i], i%7 == 0)
	}
	return keys
}

func TestWarm(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	c := process(t, s.Addr(), d)
	keys := numbers(d, 200)
	for _, want := range []Warmed{{Filled: 171, Absent: 29}, {There: 171, Absent: 29}} {
		var told int64
		got, err := c.Warm(t.Context(), slices.Values(keys), 4, func(w Warmed) {
			if told++; w.Keys() != told {
				t.Errorf("was told of %+v, want %d keys", w, told)
			}
		})
		if err != nil || got != want || told != 200 || d.loads.Load() != 200 || d.most.Load() > 4 {
			t.Errorf("got %+v and %v, %d loads, %d at one time, told of %d, want %+v", got, err, d.loads.Load(), d.most.Load(), told, want)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if got, err := c.Warm(ended, slices.Values(keys), 4, nil); got.Keys() != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v and %v, want the context's end", got, err)
	}
}

// What fails for a moment is tried again. What goes on failing, and what Redis does not have although it
// was loaded, is counted, and the others are warm.
func TestWarmCountsWhatFails(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	var tries atomic.Int64
	c := process(t, s.Addr(), d, func(cfg *Config) {
		cfg.Load = func(ctx context.Context, key string) (Value, error) {
			if key == "broken" || key == "late" && tries.Add(1) < 3 {
				return Value{}, errors.New("no answer")
			}
			return d.load(ctx, key)
		}
	})
	d.set("late", false)
	for key, want := range map[string]string{"broken": "no answer", "changing": errNotKept.Error()} {
		if err := c.Changing(t.Context(), "changing"); err != nil {
			t.Fatal(err)
		}
		s.Command("DEL", "menus:late")
		tries.Store(0)
		got, err := c.Warm(t.Context(), slices.Values([]string{key, "late"}), 2, nil)
		if got != (Warmed{Filled: 1, Failed: 1}) || err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %+v and %v, want that %s failed: %s", got, err, key, want)
		}
		if err := c.Changed(t.Context(), "changing", d.set("changing", false)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := c.Warm(t.Context(), slices.Values([]string{"changing", "late"}), 2, nil); got != (Warmed{There: 2}) || err != nil {
		t.Errorf("got %+v and %v, want that both are there", got, err)
	}
}

// While Redis is lost nothing counts as warm, and the database is not asked for what nobody keeps.
func TestWarmWithoutRedis(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	c := process(t, s.Addr(), d)
	keys := numbers(d, 500)
	const concurrent, until = givenUp, 50
	var asked atomic.Int64
	var once sync.Once
	d.slow = func() { // none of those that come later ends before Redis has
		if asked.Add(1) >= until {
			once.Do(s.Kill)
		}
	}
	got, err := c.Warm(t.Context(), slices.Values(keys), concurrent, nil)
	if err == nil || !strings.Contains(err.Error(), "failures in a row") || got.Failed < givenUp || got.Keys() == int64(len(keys)) {
		t.Errorf("got %+v and %v, want that it was given up after %d", got, err, givenUp)
	}
	if got.Filled+got.Absent >= until || d.loads.Load() > until+concurrent {
		t.Errorf("got %+v after %d loads, want less than %d warm and hardly more loads", got, d.loads.Load(), until)
	}
	loads := d.loads.Load()
	if got, err = c.Warm(t.Context(), slices.Values(keys), concurrent, nil); err == nil || !strings.Contains(err.Error(), s.Addr()) || got.Keys() != 0 || d.loads.Load() != loads {
		t.Errorf("got %+v, %v and %d loads, want that Redis cannot be reached", got, err, d.loads.Load()-loads)
	}
}
