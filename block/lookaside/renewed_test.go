package lookaside

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"loadstone/block/servertest"
)

// sparing is a process with a spare, to which Redis is new for an hour: no test takes as long.
func sparing(t *testing.T, s *servertest.RedisServer, d *database, change ...func(*Config)) *Cache {
	t.Helper()
	c := process(t, s.Addr(), d, append(change, func(cfg *Config) { cfg.Spare = &Spare{MaxBytes: 1 << 20, Age: time.Hour} })...)
	c.spare.window.Store(int64(time.Hour))
	return c
}

// late are keys whose turn comes in the second half of that hour.
func late(n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("key ", i); turn(key, time.Hour) > time.Hour/2 {
			keys = append(keys, key)
		}
	}
	return keys
}

// renew kills Redis until all have lost it, and starts it until all have it again.
func renew(t *testing.T, s *servertest.RedisServer, processes ...*Cache) {
	t.Helper()
	before := make([]int64, len(processes))
	for i, c := range processes {
		before[i] = c.losses.Load()
	}
	s.Kill()
	for i, c := range processes {
		eventually(t, "Redis is given up", func() bool {
			_, _ = c.look(t.Context(), "any")
			return c.losses.Load() > before[i]
		})
	}
	s.Start()
	for _, c := range processes {
		eventually(t, "Redis answers", func() bool {
			if c.tier.Reach(t.Context()) != nil {
				return false
			}
			for i := range 64 { // each connection finds out by itself that it is lost
				if _, err := c.look(t.Context(), fmt.Sprint(i)); err != nil {
					return false
				}
			}
			return true
		})
	}
}

// A Redis that is back with nothing costs the database nothing at first, and each key one load in its turn.
// Then Redis has what the database has.
func TestRedisIsBackWithNothing(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	a, b := sparing(t, s, d), sparing(t, s, d)
	keys := late(100)
	var want []Value
	for i, key := range keys {
		want = append(want, d.set(key, i%7 == 0))
		gets(t, a, key, want[i])
		gets(t, b, key, want[i])
	}
	renew(t, s, a, b)
	before := d.loads.Load()
	for range 3 {
		for i, key := range keys {
			gets(t, a, key, want[i])
			gets(t, b, key, want[i])
		}
	}
	if got := d.loads.Load() - before; got != 0 {
		t.Errorf("the database was asked %d times for what is in the spare", got)
	}
	gets(t, a, "another", d.set("another", false))
	gets(t, b, "another", d.get("another"))
	if got := d.loads.Load() - before; got != 1 {
		t.Errorf("what is in no spare took %d loads, want one", got)
	}
	if got, err := a.Warm(t.Context(), slices.Values(keys[:1]), 1, nil); got != (Warmed{Absent: 1}) || err != nil {
		t.Errorf("got %+v and %v, want that it is loaded and filled in", got, err)
	}
	keys, before = keys[1:], d.loads.Load()

	began := a.began.Load().Add(-time.Hour) // all turns have come
	a.began.Store(&began)
	for _, key := range keys {
		fresh := d.set(key, false) // nobody was told
		gets(t, a, key, fresh)
		gets(t, b, key, fresh) // from Redis
	}
	if got := d.loads.Load() - before; got != int64(len(keys)) {
		t.Errorf("the database was asked %d times, want once for each of %d keys", got, len(keys))
	}
}

// What a Redis lacks that is not new, or that was emptied while it answered, is loaded.
func TestRedisThatIsNotNew(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	c := sparing(t, s, d)
	key := late(1)[0]
	loaded := func(what string) {
		t.Helper()
		before := d.loads.Load()
		gets(t, c, key, d.set(key, false))
		if got := d.loads.Load() - before; got != 1 {
			t.Errorf("%s: %d loads, want one", what, got)
		}
	}
	loaded("nothing was found yet")
	s.Flush()
	loaded("it was emptied")
	renew(t, s, c)
	s.Flush()
	loaded("it was emptied while it was new, before anything was looked for")
	renew(t, s, c)
	gets(t, c, key, d.get(key))
	s.Flush()
	loaded("it was emptied while it was new")
	c.spare.window.Store(0)
	renew(t, s, c)
	loaded("it is there for longer")
	if got := s.Command("EXISTS", "menus:"+journal); got != "0" {
		t.Error("it was taken for new")
	}
	c.spare.window.Store(int64(time.Hour))
	renew(t, s, c)
	s.Command("SET", "menus:"+journal, "foreign")
	loaded("there is something else in place of the journal")
	if err := c.Changing(t.Context(), key); err != nil {
		t.Errorf("a write is refused for that: %v", err)
	}
}

// However a write ends and whatever becomes of what it left in Redis, the spares have nothing to say of its key.
func TestWritesToANewRedis(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	reader := sparing(t, s, d)
	processes := map[byte]*Cache{'A': process(t, s.Addr(), d), 'B': process(t, s.Addr(), d)}
	stories := []string{"A+", "A+ A3", "A+ A-", "A+ B+ B3 A2", "A+ B+ B3 A-", "A3", "A+ A3 A!", "A!"}
	keys := late(len(stories) + 2)
	for _, key := range keys {
		gets(t, reader, key, d.set(key, false))
	}
	underWay, unwritten := keys[len(stories)], keys[len(stories)+1]
	told(t, s, processes, underWay, "A+")
	renew(t, s, reader, processes['A'], processes['B'])
	gets(t, reader, unwritten, d.get(unwritten))
	told(t, s, processes, underWay, "A3")
	for i, story := range append(stories, "under way") {
		if i < len(stories) {
			told(t, s, processes, keys[i], story)
		}
		d.set(keys[i], false)
		s.Command("DEL", "menus:"+keys[i]) // it has expired, or was evicted
		before := d.loads.Load()
		gets(t, reader, keys[i], d.get(keys[i]))
		if got := d.loads.Load() - before; got != 1 {
			t.Errorf("%q: %d loads, want one", story, got)
		}
	}
	before := d.loads.Load()
	gets(t, reader, unwritten, d.get(unwritten))
	if got := d.loads.Load() - before; got != 0 {
		t.Errorf("%d loads of what was not written", got)
	}
}

// floors are the versions that were confirmed, and since when: whoever asks later must not get an older one.
// Redis is lost in odd eras, and with it what may have been confirmed before.
type floors struct {
	mu       sync.Mutex
	era      int
	versions map[string]int64
}

func (f *floors) next() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.era++
	clear(f.versions)
}

func (f *floors) of(key string) (era int, version int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.era, f.versions[key]
}

// raise notes a write that took place in one era.
func (f *floors) raise(key string, era int, version int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if era == f.era && era%2 == 0 {
		f.versions[key] = max(f.versions[key], version)
	}
}

// read looks a key up, which must not bring what is older than what was confirmed before, while Redis
// answers this process.
func (f *floors) read(t *testing.T, c *Cache, key string) {
	t.Helper()
	unanswered := func() int { return count(c.metrics.down) + count(c.metrics.failed) }
	era, floor := f.of(key)
	before := unanswered()
	v, err := c.Get(t.Context(), key)
	if err != nil {
		t.Errorf("%s: %v", key, err)
	}
	if now, _ := f.of(key); now == era && v.Version < floor && unanswered() == before {
		t.Errorf("%s: got version %d after %d was confirmed", key, v.Version, floor)
	}
}

// write changes a key or does not, is killed before its end or is not. If Redis is lost meanwhile, nothing is confirmed.
func (f *floors) write(t *testing.T, c *Cache, d *database, key string) {
	t.Helper()
	era, _ := f.of(key)
	if c.Changing(t.Context(), key) != nil {
		return
	}
	d.slow()
	switch rand.IntN(16) {
	case 0, 1, 2:
		_ = c.Unchanged(t.Context(), key) // fails only if Redis is lost
	case 3:
		d.set(key, false)
	default:
		v := d.set(key, rand.IntN(4) == 0)
		d.slow()
		if c.Changed(t.Context(), key, v) == nil {
			f.raise(key, era, v.Version)
		}
	}
}

// Redis is killed and emptied again and again while processes with spares read and write: what was confirmed since
// all have it again is seen by all, also if Redis has nothing of it any more.
func TestNoSpareUndoesAWrite(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	d.slow = func() { time.Sleep(time.Duration(rand.Int64N(int64(time.Millisecond)))) }
	processes := make([]*Cache, 3)
	for i := range processes {
		processes[i] = sparing(t, s, d, func(cfg *Config) {
			cfg.ChangeLife = 5 * time.Second // longer than those take that are killed
			cfg.Fresh, cfg.Refreshes, cfg.AbsentLife = 10*time.Millisecond, 64, 20*time.Millisecond
			cfg.LeaseWait, cfg.LeasePoll = 2*time.Millisecond, 100*time.Microsecond
		})
	}
	const eras, rounds, keys = 8, 600, 60
	untouched := late(keys + 1)[keys] // is none of theirs, so that all spares have it
	want := d.set(untouched, false)
	for _, c := range processes {
		gets(t, c, untouched, want)
	}
	f := &floors{versions: map[string]int64{}}
	var done atomic.Bool
	var did atomic.Int64
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for !done.Load() {
				key, c := fmt.Sprint("key ", rand.IntN(keys)), processes[rand.IntN(len(processes))]
				switch rand.IntN(8) {
				case 0:
					f.write(t, c, d, key)
				case 1:
					_ = c.tier.Write(t.Context(), func(ctx context.Context, client rueidis.Client) error { // fails only if Redis is lost
						return client.Do(ctx, client.B().Del().Key("menus:"+key).Build()).Error()
					})
				default:
					f.read(t, c, key)
				}
				did.Add(1)
			}
		})
	}
	defer workers.Wait()
	defer done.Store(true)
	work := func(n int64) {
		end := did.Load() + n
		eventually(t, "they have worked", func() bool { return did.Load() >= end || t.Failed() })
	}
	work(rounds)
	for range eras {
		f.next()
		renew(t, s, processes...)
		f.next()
		for _, c := range processes {
			before := count(c.metrics.spared)
			gets(t, c, untouched, want)
			if count(c.metrics.spared) == before {
				t.Error("the spare was not used: that shows nothing")
			}
		}
		work(rounds)
		s.Flush()
		work(rounds / 4)
	}
}
