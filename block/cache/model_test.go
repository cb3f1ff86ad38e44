package cache_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"loadstone/block/cache"
)

// model says what a cache without eviction, refresh and jitter must answer.
type model struct {
	version int64
	kept    map[int]known
	on      bool
}

type known struct {
	text   string
	absent bool
	born   time.Time
}

// find returns the answer and whether it comes from memory.
func (m *model) find(key int) (known, bool) {
	k, ok := m.kept[key]
	age := time.Minute
	if k.absent {
		age = 7 * time.Second
	}
	if m.on && ok && time.Since(k.born) < age {
		return k, true
	}
	k = known{fmt.Sprint(key, " ", m.version), key < 0, time.Now()}
	if m.on {
		m.kept[key] = k
	}
	return k, false
}

// A thousand random steps against the model, for several seeds.
func TestMemoryTierIsItsModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			s := &source{}
			cfg := config(s.load)
			cfg.Absent = &cache.Absent{Err: errNone, Age: 7 * time.Second}
			outdated := map[int]int64{} // versions before that one
			cfg.Valid = func(key int, text string) bool { return versionOf(text) >= outdated[key] }
			c := open(t, cfg)
			m := &model{kept: make(map[int]known), on: true}
			random := rand.New(rand.NewPCG(seed, 0))
			for step := range 1000 {
				key := random.IntN(12) - 3
				switch random.IntN(20) {
				case 0:
					m.version++
					s.version.Store(m.version)
				case 1, 2:
					outdated[key] = m.version + 1
					m.version++
					s.version.Store(m.version)
					if !m.kept[key].absent {
						delete(m.kept, key)
					}
				case 3:
					if random.IntN(5) == 0 {
						if err := c.Clear(); err != nil {
							t.Fatal(err)
						}
						clear(m.kept)
					}
				case 4:
					m.on = !m.on
					c.UseMemory(m.on)
				case 5, 6, 7:
					time.Sleep(time.Duration(random.IntN(10_000)) * time.Millisecond)
				default:
					got, err := c.Find(t.Context(), key)
					want, inMemory := m.find(key)
					if want.absent {
						if !errors.Is(err, errNone) {
							t.Fatalf("seed %d, step %d, key %d: got %v, want absent", seed, step, key, err)
						}
						continue
					}
					if err != nil || got.Value != want.text || (got.From == cache.FromMemory) != inMemory || got.Age != time.Since(want.born) {
						t.Fatalf("seed %d, step %d, key %d: got %+v and %v, want %+v, in memory %v", seed, step, key, got, err, want, inMemory)
					}
				}
			}
		})
	}
}

// versionOf is the version in a value of source.
func versionOf(text string) (version int64) {
	_, number, _ := strings.Cut(text, " ")
	version, _ = strconv.ParseInt(number, 10, 64)
	return version
}

// Whatever happens at the same time, nobody who looks up a key after it is known to have
// changed gets what was there before.
func TestNothingOldOnceItIsNotValid(t *testing.T) {
	t.Parallel()
	s := &source{}
	cfg := config(s.load)
	var floor atomic.Int64
	cfg.Valid = func(_ int, text string) bool { return versionOf(text) >= floor.Load() }
	cfg.Shared = sharedBy(newFakeRemote())
	c := open(t, cfg)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var served atomic.Int64
	for i := range 4 {
		wg.Go(func() {
			ctx := context.Background()
			if i%2 == 0 {
				ctx = t.Context()
			}
			for {
				select {
				case <-stop:
					return
				default:
				}
				least := floor.Load()
				text, err := c.Get(ctx, 1)
				if got := versionOf(text); err != nil || got < least {
					t.Errorf("got %q and %v, want version %d at least", text, err, least)
					return
				}
				served.Add(1)
			}
		})
	}
	for i := range int64(2000) {
		s.version.Store(i)
		floor.Store(i)
		switch i % 7 {
		case 3:
			c.UseMemory(i%2 == 0)
		case 5:
			c.UseShared(i%2 == 0)
		}
		for had := served.Load(); i%100 == 0 && served.Load() == had && !t.Failed(); {
			runtime.Gosched()
		}
	}
	close(stop)
	wg.Wait()
}

// Who comes while what was known to be old is being loaded waits for the next load.
func TestALoadFromBeforeIsNotShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		cfg := config(s.load)
		var floor atomic.Int64
		cfg.Valid = func(_ int, text string) bool { return versionOf(text) >= floor.Load() }
		c := open(t, cfg)
		s.takes.Store(int64(time.Second))
		first := make(chan string)
		go func() { text, _ := c.Get(t.Context(), 1); first <- text }()
		synctest.Wait() // it has read version 0
		s.version.Store(1)
		floor.Store(1)
		find(t, c, 1, "1 1", false)
		if got := <-first; got != "1 0" {
			t.Errorf("who came before: got %q, want what was there", got)
		}
		find(t, c, 1, "1 1", false)
		s.loaded(t, 2)
	})
}
