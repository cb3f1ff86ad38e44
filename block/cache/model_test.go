package cache_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
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
			c := open(t, cfg)
			m := &model{kept: make(map[int]known), on: true}
			random := rand.New(rand.NewPCG(seed, 0))
			for step := range 1000 {
				key := random.IntN(12) - 3
				switch random.IntN(20) {
				case 0:
					m.version++
					s.version.Store(m.version)
				case 1:
					if err := c.Delete(t.Context(), key); err != nil {
						t.Fatal(err)
					}
					delete(m.kept, key)
				case 2:
					if err := c.Replace(t.Context(), key, "replaced"); err != nil {
						t.Fatal(err)
					}
					delete(m.kept, key)
					if m.on {
						m.kept[key] = known{"replaced", false, time.Now()}
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

// Whatever happens at the same time, nobody who looks up a key after its
// correction gets what was there before.
func TestNothingOldAfterACorrection(t *testing.T) {
	t.Parallel()
	s := &source{}
	cfg := config(s.load)
	remote := newFakeRemote()
	cfg.Shared = sharedBy(remote)
	c := open(t, cfg)
	var floor atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				least := floor.Load()
				text, err := c.Get(t.Context(), 1)
				var got int64
				if _, scanErr := fmt.Sscanf(text, "1 %d", &got); err != nil || scanErr != nil || got < least {
					t.Errorf("got %q and %v, want version %d at least", text, err, least)
					return
				}
			}
		})
	}
	for i := range int64(2000) {
		s.version.Store(i)
		var err error
		if i%2 == 0 {
			err = c.Delete(t.Context(), 1)
		} else {
			err = c.Replace(t.Context(), 1, fmt.Sprint("1 ", i))
		}
		if err != nil {
			t.Error(err)
		}
		floor.Store(i)
		switch i % 7 {
		case 3:
			c.UseMemory(i%2 == 0)
		case 5:
			c.UseShared(i%2 == 0)
		}
	}
	close(stop)
	wg.Wait()
}
