package lookaside

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"loadstone/block/servertest"
)

// told lets the processes tell the cache things in an order, as "A+ B+ B3 A2": A and B are
// about to write, B has made version 3, A has made version 2. A- did not write; * is a
// restart of Redis. A! tells Redis again of an end that it did not hear.
func told(t *testing.T, s *servertest.RedisServer, processes map[byte]*Cache, key, story string) {
	t.Helper()
	for word := range strings.FieldsSeq(story) {
		if word == "*" {
			s.Flush()
			continue
		}
		var err error
		c := processes[word[0]]
		switch word[1] {
		case '+':
			err = c.Changing(t.Context(), key)
		case '-':
			err = c.Unchanged(t.Context(), key)
		case '!':
			_, err = c.write(t.Context(), key, c.scripts.forget)
		default:
			err = c.Changed(t.Context(), key, value(key, int64(word[1]-'0')))
		}
		if err != nil {
			t.Errorf("%s: %v", word, err)
		}
	}
}

func TestStories(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	processes := map[byte]*Cache{'A': process(t, s.Addr(), d), 'B': process(t, s.Addr(), d)}
	processes['a'] = processes['A'] // another writer there
	const miss, marker = -1, -2
	for story, want := range map[string]int64{
		"":                  miss,
		"A+":                marker,
		"A+ A1":             1,
		"A+ A-":             miss,
		"A+ A1 B+ B2":       2,
		"A+ A1 B+ B-":       miss,
		"A+ B+ A1":          marker,
		"A+ B+ A1 B2":       2,
		"A+ B+ B2 A1":       miss, // 2 is what is true, and gone
		"A+ B+ A-":          marker,
		"A+ B+ A- B1":       1,
		"A+ B+ B1 A-":       miss,
		"A+ a+ A1":          marker,
		"A+ a+ A2 a1":       miss,
		"A+ a+ A1 a2":       2,
		"A+ A3 B+ B2":       miss, // cannot be, but must not bring 2 back
		"A1":                miss, // was not announced
		"A+ A2 B1":          2,
		"A+ A2 B3":          miss,
		"A+ * A1":           miss,
		"A+ * B+ A1":        marker,
		"A+ * B+ A1 B2":     2,
		"A+ * B+ A2 B1":     miss,
		"A+ * B+ B2 A1":     2,
		"A+ * B+ B1 A2":     miss,
		"A+ B+ * B2 A1":     miss,
		"A+ A1 A+ A1 A+ A2": 2,
		"A+ A1 A!":          miss,
		"A+ * B+ A! B2":     miss, // 2 may be older than what A made
		"A+ * B+ A!":        marker,
		"A+ * B+ B1 A!":     miss,
		"B+ A! B2 B+ B3":    3,
	} {
		s.Flush()
		told(t, s, processes, "k", story)
		got := int64(miss)
		switch e, err := processes['B'].look(t.Context(), "k"); {
		case err != nil:
			t.Fatal(err)
		case e.kind == kindMarker:
			got = marker
		case e.kind == kindValue:
			got = e.value.Version
		}
		if got != want {
			t.Errorf("%q: got %d, want %d", story, got, want)
		}
	}
}

func TestVersionsBeyondWhatLuaCountsExactly(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	c := process(t, s.Addr(), d)
	const big = 1<<62 + 1
	for _, v := range []int64{big, big + 1} {
		if err := c.Changing(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if err := c.Changed(t.Context(), "k", value("k", v)); err != nil {
			t.Fatal(err)
		}
		gets(t, c, "k", value("k", v))
	}
	for _, wrong := range []Value{{}, {Version: -1}, {Version: 1, Absent: true, Bytes: []byte("x")}} {
		if err := c.Changed(t.Context(), "k", wrong); err == nil {
			t.Errorf("%+v was taken", wrong)
		}
	}
}

// The marker keeps the last writers; the others are as if their marker were lost.
func TestTooManyWriters(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	c := process(t, s.Addr(), d)
	const writers = 70
	for range writers {
		if err := c.Changing(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
	for range writers {
		if err := c.Changed(t.Context(), "k", d.set("k", false)); err != nil {
			t.Fatal(err)
		}
		gets(t, c, "k", d.get("k"))
	}
}

// A writer is killed after its write: its marker keeps all from filling, until it expires.
func TestWriterKilled(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	const life = 300 * time.Millisecond
	c := process(t, s.Addr(), d, func(cfg *Config) { cfg.ChangeLife = life })
	gets(t, c, "k", d.set("k", false))
	fills := count(c.metrics.fills[fillDone])
	began := time.Now()
	if err := c.Changing(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	want := d.set("k", false)
	for {
		gets(t, c, "k", want)
		filled := count(c.metrics.fills[fillDone]) > fills
		if early := time.Since(began) < life; early && filled {
			t.Fatal("it was filled while the write was under way")
		} else if !early && filled {
			break
		}
	}
	eventually(t, "the entry is there", func() bool {
		hits := count(c.metrics.gets[kindValue])
		gets(t, c, "k", want)
		return count(c.metrics.gets[kindValue]) > hits
	})
}

// Redis loses its data in the middle of a write, somebody fills in what was there before, and
// Redis is not told of the end: soon, what is true is there all the same.
func TestRedisLosesAWriteAndIsNotTold(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(s *servertest.RedisServer, writer *Cache, v Value){
		"telling it fails": func(s *servertest.RedisServer, writer *Cache, v Value) {
			s.Command("SCRIPT", "FLUSH") // or what is buffered may take place once it resumes
			s.Pause()
			defer s.Resume()
			if err := writer.Changed(t.Context(), "k", v); err == nil {
				t.Error("a paused Redis was told")
			}
			if n := writer.owed.count(); n != 1 {
				t.Errorf("%d keys are owed, want one", n)
			}
		},
		"nobody knows the outcome": func(_ *servertest.RedisServer, writer *Cache, _ Value) {
			if n := writer.owed.count(); n != 0 {
				t.Errorf("%d keys are owed while the write may go on", n)
			}
			writer.owed.mu.Lock()
			defer writer.owed.mu.Unlock()
			writer.owed.keys["k"] = debt{writers: 1, due: time.Now()} // ChangeLife has passed
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, d := servertest.Redis(t), newDatabase()
			writer, reader := process(t, s.Addr(), d), process(t, s.Addr(), d)
			old := d.set("k", false)
			if err := writer.Changing(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			s.Flush()
			gets(t, reader, "k", old)
			fresh := d.set("k", false)
			gets(t, reader, "k", old)
			ends(s, writer, fresh)
			eventually(t, "what is true is seen", func() bool {
				v, err := reader.Get(t.Context(), "k")
				return err == nil && same(v, fresh)
			})
			eventually(t, "nothing is owed", func() bool { return writer.owed.count() == 0 })
		})
	}
}

// Who begins more writes than it can remember is refused.
func TestTooManyAreOwed(t *testing.T) {
	t.Parallel()
	o := owed{keys: map[string]debt{}}
	for i := range mostOwed {
		if err := o.begin(fmt.Sprint(i), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.begin("0", time.Now()); err != nil {
		t.Errorf("one more of a key: %v", err)
	}
	if err := o.begin("more", time.Now()); err == nil {
		t.Error("one key more is taken")
	}
	o.end("1", true)
	if err := o.begin("more", time.Now()); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

// A fill that was held up until after a change finds its lease gone, whatever there is.
func TestLateFill(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	for name, ends := range map[string]func(t *testing.T, c *Cache, d *database){
		"changed": func(t *testing.T, c *Cache, d *database) {
			if err := c.Changed(t.Context(), "k", d.get("k")); err != nil {
				t.Error(err)
			}
		},
		"unchanged": func(t *testing.T, c *Cache, _ *database) {
			if err := c.Unchanged(t.Context(), "k"); err != nil {
				t.Error(err)
			}
		},
		"under way": func(*testing.T, *Cache, *database) {},
		"flushed":   func(*testing.T, *Cache, *database) { s.Flush() },
	} {
		s.Flush()
		d := newDatabase()
		d.held = make(chan struct{})
		old := d.set("k", false)
		c := process(t, s.Addr(), d)
		var group sync.WaitGroup
		group.Go(func() { gets(t, c, "k", old) })
		eventually(t, "it loads", func() bool { return d.now.Load() == 1 })
		if err := c.Changing(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		d.set("k", false)
		ends(t, c, d)
		close(d.held)
		group.Wait()
		if n := count(c.metrics.fills[fillRefused]); n != 1 {
			t.Errorf("%s: got %d fills refused, want one", name, n)
		}
		gets(t, c, "k", d.get("k"))
	}
}

// Who asks after a change gets it, though somebody whose load began before is still at it, whatever
// Redis has by then.
func TestLoadsThatBeganBeforeAChange(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	for name, then := range map[string]func(){"another change is under way": func() {}, "it is evicted": s.Flush} {
		s.Flush()
		d := newDatabase()
		d.held = make(chan struct{})
		old := d.set("k", false)
		c, other := process(t, s.Addr(), d), process(t, s.Addr(), d)
		var group sync.WaitGroup
		for _, writer := range []*Cache{c, other} {
			if err := writer.Changing(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		}
		group.Go(func() { gets(t, c, "k", old) })
		eventually(t, "it loads", func() bool { return d.now.Load() == 1 })
		want := d.set("k", false)
		if err := c.Changed(t.Context(), "k", want); err != nil {
			t.Fatal(err)
		}
		then()
		for range 8 {
			group.Go(func() { gets(t, c, "k", want) })
		}
		eventually(t, name+", and all have come", func() bool { return count(c.metrics.gets[kindMarker])+count(c.metrics.gets[kindNone]) == 9 })
		close(d.held)
		group.Wait()
	}
}

// races is how often fills race with changes, and raced the number of keys that they do so at.
const (
	races = 10_000
	raced = 2_500
)

// However fills and refreshes, which are held up at will, race with changes, of which some
// fail and some are killed half-way: afterwards everybody gets what is true, and goes on
// getting it.
func TestNoStaleAnswerStays(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	d.slow = func() { time.Sleep(time.Duration(rand.Int64N(int64(time.Millisecond)))) }
	processes := make([]*Cache, 3)
	for i := range processes {
		processes[i] = process(t, s.Addr(), d, func(cfg *Config) {
			cfg.ChangeLife = 5 * time.Second // longer than those take that are killed
			cfg.Fresh, cfg.Refreshes = 10*time.Millisecond, 64
			cfg.LeaseWait, cfg.LeasePoll = 2*time.Millisecond, 100*time.Microsecond
		})
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for n := next.Add(1); n <= races && !t.Failed(); n = next.Add(1) {
				race(t, processes, d, fmt.Sprint("key ", n%raced))
			}
		})
	}
	workers.Wait()
	fills, refused, refreshes := 0, 0, 0
	for _, c := range processes {
		eventually(t, "refreshes have ended", func() bool { return len(c.slots) == 0 })
		fills += count(c.metrics.fills[fillDone])
		refused += count(c.metrics.fills[fillRefused])
		refreshes += count(c.metrics.refreshes[refreshDone])
	}
	for n := range raced {
		key := fmt.Sprint("key ", n)
		for _, c := range processes { // the second gets what the first has filled
			gets(t, c, key, d.get(key))
		}
	}
	t.Logf("%d fills, %d of them refused; %d refreshes", fills+refused, refused, refreshes)
	if fills+refused < races/10 || refused < races/100 || refreshes == 0 {
		t.Errorf("%d fills, %d refused, %d refreshes: too few to show anything", fills, refused, refreshes)
	}
}

// race lets three readers and one writer or two meet at a key.
func race(t *testing.T, processes []*Cache, d *database, key string) {
	if rand.IntN(4) > 0 {
		evict(t, processes[0], key)
	}
	var group sync.WaitGroup
	for i := range 3 {
		group.Go(func() {
			if i > 0 {
				d.slow()
			}
			if _, err := processes[rand.IntN(3)].Get(t.Context(), key); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		})
	}
	for range 1 + rand.IntN(5)/4 {
		group.Go(func() {
			d.slow()
			d.slow()
			c := processes[rand.IntN(3)]
			if err := c.Changing(t.Context(), key); err != nil {
				t.Error(err)
				return
			}
			var err error
			switch rand.IntN(64) {
			case 0, 3, 4, 5: // the condition did not hold
				err = c.Unchanged(t.Context(), key)
			case 1: // killed before
			case 2: // killed after
				d.set(key, false)
			default:
				v := d.set(key, rand.IntN(4) == 0)
				d.slow()
				err = c.Changed(t.Context(), key, v)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// evict drops an entry, as Redis does with those that expire.
func evict(t *testing.T, c *Cache, key string) {
	t.Helper()
	e, err := c.look(t.Context(), key)
	if err == nil && (e.kind == kindValue || e.kind == kindAbsent) {
		err = c.tier.Write(t.Context(), func(ctx context.Context, client rueidis.Client) error {
			return client.Do(ctx, client.B().Del().Key(c.cfg.Redis.Prefix+key).Build()).Error()
		})
	}
	if err != nil {
		t.Error(err)
	}
}
