package lookaside

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"loadstone/block/cache"
	"loadstone/block/cache/rediscache"
	"loadstone/block/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = time.Minute

// database is what is true: a version for each key, negative for a deletion.
type database struct {
	mu       sync.Mutex
	versions map[string]int64
	loads    atomic.Int64
	now      atomic.Int64  // loads under way
	most     atomic.Int64  // at one time
	held     chan struct{} // loads wait for it once they have read; nil: they do not
	slow     func()        // is called then; nil: it is not
}

func newDatabase() *database { return &database{versions: make(map[string]int64)} }

// set makes the next version, and returns what the key then is.
func (d *database) set(key string, absent bool) Value {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := max(d.versions[key], -d.versions[key]) + 1
	if absent {
		next = -next
	}
	d.versions[key] = next
	return value(key, next)
}

func value(key string, version int64) Value {
	if version <= 0 {
		return Value{Version: -version, Absent: true}
	}
	return Value{Bytes: fmt.Appendf(nil, "%s %d", key, version), Version: version, Tag: uint64(version) << 60}
}

func (d *database) get(key string) Value {
	d.mu.Lock()
	defer d.mu.Unlock()
	return value(key, d.versions[key])
}

func (d *database) load(ctx context.Context, key string) (Value, error) {
	d.loads.Add(1)
	n := d.now.Add(1)
	defer d.now.Add(-1)
	for most := d.most.Load(); n > most && !d.most.CompareAndSwap(most, n); most = d.most.Load() {
	}
	v := d.get(key)
	if d.slow != nil {
		d.slow()
	}
	if d.held != nil {
		select {
		case <-d.held:
		case <-ctx.Done():
			return Value{}, ctx.Err()
		}
	}
	return v, nil
}

// process is a cache as one process has it, patient as tests share their machine.
func process(t *testing.T, addr string, d *database, change ...func(*Config)) *Cache {
	t.Helper()
	redis := rediscache.DefaultConfig("menus", addr, prometheus.NewRegistry())
	redis.ReadTimeout, redis.WriteTimeout, redis.ProbeEvery = 5*time.Second, 5*time.Second, 5*time.Millisecond
	cfg := DefaultConfig(redis)
	cfg.Load, cfg.LoadTimeout, cfg.LeaseWait, cfg.Shed.Wait = d.load, time.Minute, time.Minute, time.Minute
	cfg.ChangeLife = time.Hour
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// gets wants a value of a key.
func gets(t *testing.T, c *Cache, key string, want Value) {
	t.Helper()
	got, err := c.Get(t.Context(), key)
	if err != nil || !same(got, want) {
		t.Errorf("%s: got %+v (%s) and %v, want %+v (%s)", key, got, got.Bytes, err, want, want.Bytes)
	}
}

func same(a, b Value) bool {
	return a.Version == b.Version && a.Tag == b.Tag && a.Absent == b.Absent && string(a.Bytes) == string(b.Bytes)
}

func count(c prometheus.Counter) int {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		panic(err)
	}
	return int(m.GetCounter().GetValue())
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	_, err := New(t.Context(), Config{Jitter: 1})
	for _, want := range []string{"function to load", "0 loads", "jitter is 1", "fresh for 0s", "0 refreshes", "lease is 0s", "marker lives for 0s", "prefix"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %q", err, want)
		}
	}
}

func TestProcessesShareWhatOneHasLoaded(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	a, b := process(t, s.Addr(), d), process(t, s.Addr(), d)
	there, deleted := d.set("there", false), d.set("deleted", true)
	for _, c := range []*Cache{a, a, b} {
		gets(t, c, "there", there)
		gets(t, c, "deleted", deleted)
		gets(t, c, "never", Value{Absent: true})
	}
	if n := d.loads.Load(); n != 3 || count(b.metrics.gets[kindValue]) != 1 || count(b.metrics.gets[kindAbsent]) != 2 {
		t.Errorf("got %d loads, %v hits", n, count(b.metrics.gets[kindValue]))
	}
	for key, life := range map[string]int{"there": 3600_000, "deleted": 60_000} {
		got, err := strconv.Atoi(s.Command("PTTL", "menus:"+key))
		if err != nil || got > life*11/10 || got < life*9/10-20_000 {
			t.Errorf("%s: got a life of %d ms, want %d give or take a tenth", key, got, life)
		}
	}
	b.Use(false)
	d.set("there", false) // by somebody who told nobody
	gets(t, b, "there", d.get("there"))
	gets(t, a, "there", there)
}

func TestOneOfAllProcessesLoads(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	d.held = make(chan struct{})
	want := d.set("1", false)
	var processes []*Cache
	for range 4 {
		processes = append(processes, process(t, s.Addr(), d))
	}
	var group sync.WaitGroup
	for _, c := range processes {
		for range 16 {
			group.Go(func() { gets(t, c, "1", want) })
		}
	}
	eventually(t, "three processes wait", func() bool {
		looks := 0
		for _, c := range processes {
			looks += count(c.metrics.gets[kindLease]) + count(c.metrics.gets[kindNone])
		}
		return looks == 64 && d.loads.Load() == 1
	})
	close(d.held)
	group.Wait()
	if n := d.loads.Load(); n != 1 {
		t.Errorf("got %d loads, want one", n)
	}
}

// Who waits in vain loads and does not fill; once the lease has expired, somebody does.
func TestLeaseOfSomebodyWhoDied(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	c := process(t, s.Addr(), d, func(cfg *Config) { cfg.LeaseWait = 5 * time.Millisecond })
	s.Command("SET", "menus:1", "\x01lsomebody's", "PX", "1500")
	want := d.set("1", false)
	gets(t, c, "1", want)
	if waited, fills := count(c.metrics.leases[leaseWaitedOut]), count(c.metrics.fills[fillDone]); waited+count(c.metrics.leases[leaseGranted]) != 1 || fills != count(c.metrics.leases[leaseGranted]) {
		t.Errorf("got %d waited out and %d fills", waited, fills)
	}
	eventually(t, "it is filled", func() bool {
		gets(t, c, "1", want)
		return count(c.metrics.gets[kindValue]) > 0
	})
}

// A lease may be evicted again and again. Who waits does not wait for every one that follows.
func TestLeaseThatIsLost(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	c := process(t, s.Addr(), d, func(cfg *Config) { cfg.LeaseWait = time.Hour })
	want := d.set("1", false)
	leases := 0
	another := func() {
		leases++
		s.Command("SET", "menus:1", fmt.Sprint("\x01lthe ", leases))
	}
	another()
	var group sync.WaitGroup
	group.Go(func() { gets(t, c, "1", want) })
	eventually(t, "it does not wait", func() bool {
		another()
		return d.loads.Load() > 0
	})
	group.Wait()
	if lost, fills := count(c.metrics.leases[leaseLost]), count(c.metrics.fills[fillDone]); lost != 1 || fills != 0 {
		t.Errorf("got %d lost leases and %d fills, want one and none", lost, fills)
	}
}

func TestWhoFailsToLoadGivesTheLeaseBack(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	broken := errors.New("the disk is full")
	c := process(t, s.Addr(), newDatabase(), func(cfg *Config) {
		cfg.Load = func(context.Context, string) (Value, error) { return Value{}, broken }
	})
	if _, err := c.Get(t.Context(), "1"); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if got := s.Command("EXISTS", "menus:1"); got != "0" {
		t.Errorf("something is left under the key: %q", s.Command("GET", "menus:1"))
	}
}

// What is not ours is a miss, and is replaced.
func TestForeignBytes(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	c := process(t, s.Addr(), d)
	good := string(c.encode(nil, Value{Bytes: []byte("not from the database"), Version: 9}))
	for i, bytes := range []string{
		"", "x", "\x01", "\x01v", "\x02" + good[1:], "\x01x" + good[2:], "\x01a" + good[2:], good[:header-1], good[:len(good)-1], good + "x",
		good[:len(good)-1] + "!", good[:20] + "\xff" + good[21:], `{"id":7,"dishes":[]}`, "\x01m", "\x01m1234567", "\x01m12345678x", strings.Repeat("\xff", 1<<20),
	} {
		key := strconv.Itoa(i)
		want := d.set(key, i%2 == 1)
		s.Command("SET", "menus:"+key, bytes)
		gets(t, c, key, want)
		loads := d.loads.Load()
		gets(t, c, key, want)
		if d.loads.Load() != loads {
			t.Errorf("%.40q was not replaced", bytes)
		}
	}
	want := d.set("list", false)
	s.Command("RPUSH", "menus:list", "x")
	gets(t, c, "list", want)
	gets(t, c, "list", want)
	s.Command("DEL", "menus:list")
	s.Command("RPUSH", "menus:list", "x")
	if err := c.Changing(t.Context(), "list"); err != nil {
		t.Error(err)
	}
}

func TestRefreshBehind(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	now := func(cfg *Config) { cfg.Fresh, cfg.Jitter = 10*time.Millisecond, 0 }
	a, b := process(t, s.Addr(), d, now), process(t, s.Addr(), d, now)
	old := d.set("1", false)
	gets(t, a, "1", old)
	d.held = make(chan struct{})
	fresh := d.set("1", false) // nobody was told
	eventually(t, "it is being refreshed", func() bool {
		gets(t, a, "1", old)
		gets(t, b, "1", old)
		return d.loads.Load() == 2
	})
	for range 20 { // all get what there is, and nobody else loads
		gets(t, a, "1", old)
		gets(t, b, "1", old)
	}
	if n := d.loads.Load(); n != 2 {
		t.Errorf("got %d loads, want two", n)
	}
	close(d.held)
	eventually(t, "it is refreshed", func() bool {
		v, err := b.Get(t.Context(), "1")
		return err == nil && same(v, fresh)
	})
}

func TestRedisLost(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	c := process(t, s.Addr(), d, func(cfg *Config) {
		cfg.Shed = cache.Shed{Concurrent: 2, Queue: 3, Wait: time.Second}
		cfg.Redis.ReadTimeout, cfg.Redis.WriteTimeout = time.Second, time.Second
	})
	want := d.set("1", false)
	gets(t, c, "1", want)
	lost := func(how string) {
		down := count(c.metrics.down)
		eventually(t, how+": it is given up", func() bool {
			gets(t, c, "1", want)
			return count(c.metrics.down) > down
		})
		for _, call := range []error{c.Changing(t.Context(), "1"), c.Changed(t.Context(), "1", want), c.Unchanged(t.Context(), "1")} {
			if !errors.Is(call, cache.ErrDown) {
				t.Errorf("%s: got %v, want %v", how, call, cache.ErrDown)
			}
		}
	}
	back := func() {
		eventually(t, "it is back", func() bool {
			hits := count(c.metrics.gets[kindValue])
			gets(t, c, "1", want)
			return count(c.metrics.gets[kindValue]) > hits
		})
	}
	s.Pause()
	lost("paused")
	s.Resume()
	back()
	s.Kill()
	lost("killed")
	d.most.Store(0)
	d.held = make(chan struct{})
	var refused, served atomic.Int64
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			_, err := c.Get(t.Context(), fmt.Sprint("key ", i))
			over, ok := errors.AsType[*cache.OverloadError](err)
			switch {
			case err == nil:
				served.Add(1)
			case ok && over.RetryAfter > 0:
				refused.Add(1)
			default:
				t.Errorf("got %v", err)
			}
		})
	}
	eventually(t, "most are refused", func() bool { return refused.Load() >= 45 })
	close(d.held)
	group.Wait()
	if served.Load() < 2 || served.Load()+refused.Load() != 50 || d.most.Load() > 2 {
		t.Errorf("got %d served, %d refused, %d loads at one time", served.Load(), refused.Load(), d.most.Load())
	}
	s.Start()
	back()
}

// What one process cannot use it loads again, once, and puts in its place.
func TestWhatIsOfNoUse(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	old := process(t, s.Addr(), d)
	picky := process(t, s.Addr(), d, func(c *Config) {
		c.Usable = func(v Value) bool { return v.Version != 1 }
	})
	first := d.set("1", false)
	gets(t, old, "1", first)
	second := d.set("1", false) // nobody was told
	gets(t, old, "1", first)
	for range 3 {
		gets(t, picky, "1", second)
	}
	gets(t, old, "1", second)
	if n := d.loads.Load(); n != 2 {
		t.Errorf("got %d loads, want 2", n)
	}
	gets(t, picky, "2", Value{Absent: true})
}

func TestClosed(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	c := process(t, s.Addr(), d)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), "1"); !errors.Is(err, cache.ErrClosed) {
		t.Errorf("got %v, want %v", err, cache.ErrClosed)
	}
}

// What was encoded is read as it was, and no other bytes are read as an entry.
func FuzzParse(f *testing.F) {
	c := &Cache{cfg: DefaultConfig(rediscache.Config{})}
	for _, v := range []Value{{Bytes: []byte("v"), Version: 1, Tag: 2}, {Absent: true, Version: 3}, {}} {
		f.Add(c.encode(nil, v))
	}
	f.Add([]byte("\x01m"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := parse(data)
		if s.kind != kindValue && s.kind != kindAbsent {
			return
		}
		again := c.encode(nil, s.value)
		binary.BigEndian.PutUint64(again[2:], uint64(s.soft))
		if string(again) != string(data) {
			t.Errorf("%x is read as %+v, which is %x", data, s, again)
		}
	})
}
