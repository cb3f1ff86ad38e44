package plant

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// client is what a test asks plants with.
type client struct {
	t    *testing.T
	http *http.Client
}

func newClient(t *testing.T) *client {
	t.Helper()
	c := &client{t: t, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Minute}}
	return c
}

func (c *client) do(method, url, body string) (status int, answer string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// metric is one figure of a plant.
func (c *client) metric(s *Service, name string) float64 {
	c.t.Helper()
	_, text := c.do(http.MethodGet, "http://"+s.AdminAddr().String()+"/metrics", "")
	for line := range strings.Lines(text) {
		var value float64
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &value); err != nil {
				c.t.Fatal(err)
			}
			return value
		}
	}
	c.t.Fatalf("there is no %s in\n%s", name, text)
	return 0
}

// start runs a plant until the test ends.
func start(t *testing.T, edit func(*Config)) *Service {
	t.Helper()
	c := DefaultConfig()
	c.Listen, c.Admin = "127.0.0.1:0", "127.0.0.1:0"
	edit(&c)
	s, err := Listen(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	})
	return s
}

func (s *Service) url() string { return "http://" + s.Addr().String() + "/" }

func callTo(t *testing.T, services ...*Service) Call {
	t.Helper()
	call := Call{Visits: 1}
	for _, s := range services {
		tcp, ok := s.Addr().(*net.TCPAddr)
		if !ok {
			t.Fatalf("%v is no TCP address", s.Addr())
		}
		call.Hosts, call.Port = tcp.IP.String(), tcp.Port
	}
	return call
}

func within(t *testing.T, what string, got, low, high float64) {
	t.Helper()
	if !(got >= low && got <= high) {
		t.Errorf("%s: got %.4g, want %.4g to %.4g", what, got, low, high)
	}
}

// The demand is the planted one however busy the machine is: it is counted in
// the thread's own time.
func TestSpinUsesThePlantedCPUTime(t *testing.T) {
	t.Parallel()
	w := newWorker(1)
	used := make(chan time.Duration)
	go func() {
		runtime.LockOSThread() // a thread of its own, so that nothing else is counted
		defer runtime.UnlockOSThread()
		from := threadTime()
		for range 50 {
			w.spin(time.Millisecond)
		}
		used <- threadTime() - from
	}()
	within(t, "CPU milliseconds of 50 requests of 1 ms", (<-used).Seconds()*1000, 50, 60)
}

func TestSlowReplicaIsTheOneThatIsMeant(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	c.CPUMillis, c.Slow = 2, &Slow{Peers: "127.0.0.1,127.0.0.2", Index: 1, Factor: 3}
	for listen, want := range map[string]time.Duration{
		"127.0.0.1:80": 2 * time.Millisecond, "127.0.0.2:80": 6 * time.Millisecond, "127.0.0.3:80": 2 * time.Millisecond,
	} {
		c.Listen = listen
		if got := c.cpu(); got != want {
			t.Errorf("%s: got %v of CPU time, want %v", listen, got, want)
		}
	}
}

// inParallel has n requests under way at once.
func inParallel(n int, one func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(one)
	}
	all.Wait()
}

func TestLockIsHeldByOneRequestAtATime(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *Config) { c.Lock = &Lock{SleepMillis: 10} })
	c := newClient(t)
	began := time.Now()
	inParallel(8, func() { c.do(http.MethodGet, s.url(), "") })
	took := time.Since(began).Seconds()
	busy := c.metric(s, "plant_lock_busy_seconds_total")
	within(t, "seconds held", busy, 8*0.010, took) // never by two at once
	if got := c.metric(s, "plant_lock_wait_seconds_total"); got <= 0 {
		t.Errorf("seconds waited: got %g, want more than 0", got)
	}
}

func TestWireCarriesAtItsPace(t *testing.T) {
	t.Parallel()
	far := start(t, func(c *Config) { c.BodyBytes = 20_000 })
	s := start(t, func(c *Config) { c.Wire, c.Calls = &Wire{BytesPerSecond: 1e6}, []Call{callTo(t, far)} })
	c := newClient(t)
	began := time.Now()
	inParallel(5, func() {
		if _, body := c.do(http.MethodGet, s.url(), ""); len(body) != 20_000 {
			t.Errorf("got %d bytes, want 20000", len(body))
		}
	})
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("100 kB at 1 MB/s took %v, want at least 100 ms", took)
	}
	within(t, "busy seconds", c.metric(s, "plant_wire_busy_seconds_total"), 0.0999, 0.1001)
}

func TestPoolBoundsCallsAndCanBeResized(t *testing.T) {
	t.Parallel()
	answer, calls := make(chan struct{}), atomic.Int64{}
	release := sync.OnceFunc(func() { close(answer) })
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1); <-answer }))
	defer slow.Close() // which waits for what is under way
	defer release()
	tcp := slow.Listener.Addr().(*net.TCPAddr)
	s := start(t, func(c *Config) {
		c.Pool, c.Calls = &Pool{Size: 1}, []Call{{Hosts: tcp.IP.String(), Port: tcp.Port, Visits: 1}}
	})
	c := newClient(t)
	done := make(chan struct{})
	go func() { defer close(done); inParallel(4, func() { c.do(http.MethodGet, s.url(), "") }) }()
	until(t, "three wait", func() bool { return c.metric(s, "plant_pool_waiting") == 3 })
	within(t, "slots in use", c.metric(s, "plant_pool_in_use"), 1, 1)
	admin := "http://" + s.AdminAddr().String() + "/pool"
	if status, text := c.do(http.MethodPut, admin, "0"); status != http.StatusBadRequest || !strings.Contains(text, "from 1") {
		t.Errorf("a pool of 0: got status %d and %q, want 400 and what to write", status, text)
	}
	if status, _ := c.do(http.MethodPut, admin, "4"); status != http.StatusNoContent {
		t.Errorf("a pool of 4: got status %d, want 204", status)
	}
	until(t, "nobody waits with 4 slots", func() bool { return c.metric(s, "plant_pool_waiting") == 0 && calls.Load() == 4 })
	release()
	<-done
	within(t, "size", c.metric(s, "plant_pool_size"), 4, 4)
	if got := c.metric(s, "plant_pool_wait_seconds_total"); got <= 0 {
		t.Errorf("seconds waited: got %g, want more than 0", got)
	}
	within(t, "calls downstream", float64(calls.Load()), 4, 4)
}

// until polls.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// A working set of twice the cache, asked for in turn, never hits; one that
// fits hits always.
func TestCacheThrashesWhenTheWorkingSetIsLarger(t *testing.T) {
	t.Parallel()
	far := start(t, func(*Config) {})
	s := start(t, func(c *Config) {
		c.Cache, c.Calls = &Cache{Bytes: 4000, EntryBytes: 1000}, []Call{callTo(t, far)}
	})
	c := newClient(t)
	ask := func(keys int) {
		for range 3 {
			for key := range keys {
				if _, body := c.do(http.MethodGet, fmt.Sprintf("%s?key=%d", s.url(), key), ""); len(body) != 1000 {
					t.Fatalf("got %d bytes, want 1000", len(body))
				}
			}
		}
	}
	ask(8)
	within(t, "hits of 8 keys in a cache of 4", c.metric(s, "plant_cache_hits_total"), 0, 0)
	within(t, "calls downstream", c.metric(far, "plant_requests_total"), 24, 24)
	ask(4) // 0 to 3, of which none was left
	within(t, "hits of 4 keys in a cache of 4", c.metric(s, "plant_cache_hits_total"), 8, 8)
}

func TestQueueTakesWhatFits(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *Config) { c.Queue = &Queue{Capacity: 2, SleepMillis: 3.6e6} })
	c := newClient(t)
	// One with the consumer and two in the queue; the consumer may not have
	// taken the first before the third comes.
	full := 0
	for range 5 {
		if status, _ := c.do(http.MethodGet, s.url(), ""); status == http.StatusServiceUnavailable {
			full++
		}
	}
	within(t, "refused of five", float64(full), 2, 3)
	within(t, "capacity", c.metric(s, "plant_queue_capacity"), 2, 2)
	until(t, "the consumer has one", func() bool { return c.metric(s, "plant_queue_depth") == float64(4-full) })
	within(t, "done", c.metric(s, "plant_queue_done_total"), 0, 0)
}

func TestQueueIsConsumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(Queue{Capacity: 2, SleepMillis: 500})
		go q.consume(t.Context())
		for range 3 {
			synctest.Wait() // until the consumer has the first
			if !q.put() {
				t.Fatal("it has no room")
			}
		}
		if q.put() {
			t.Error("a fourth went in, want one with the consumer and room for two")
		}
		time.Sleep(1499 * time.Millisecond)
		if n := q.done.Load(); n != 2 {
			t.Errorf("%d were done just before three are due, want 2", n)
		}
		time.Sleep(2 * time.Millisecond)
		if n := q.done.Load(); n != 3 || len(q.jobs) != 0 || q.busy.value() != 1.5 {
			t.Errorf("%d were done in %g s and %d wait, want 3 in 1.5 and none", n, q.busy.value(), len(q.jobs))
		}
	})
}

// A buffer of two before a worker that takes 20 ms: whoever puts in ten at once waits
// for seven of them, and the worker is never idle.
func TestAStageWithoutRoomHoldsBackWhoPutsIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Stage{Capacity: 2, SleepMillis: 20}, nil)
		go s.work(t.Context())
		synctest.Wait()
		var waited time.Duration
		for range 10 {
			w, ok := s.put(time.Hour)
			if !ok {
				t.Fatal("it has no room")
			}
			waited += w
			synctest.Wait()
		}
		if want := 7 * 20 * time.Millisecond; waited != want || s.lag.Load() != 3 {
			t.Errorf("waited %v with %d left, want %v with 3", waited, s.lag.Load(), want)
		}
		time.Sleep(time.Second)
		if s.busy.value() != 0.2 || s.blocked.value() != 0 || s.done.Load() != 10 {
			t.Errorf("busy for %g s and held back for %g s with %d items, want 0.2, 0 and 10", s.busy.value(), s.blocked.value(), s.done.Load())
		}
	})
}

// Three stages of which the middle one is slow: the first is held back, by what the
// second tells it. For which share of the time depends on what else the machine does.
func TestASlowStageHoldsBackTheOneBefore(t *testing.T) {
	t.Parallel()
	store := start(t, func(c *Config) { c.Stage = &Stage{Capacity: 2, SleepMillis: 1} })
	enrich := start(t, func(c *Config) {
		c.Stage, c.Calls = &Stage{Capacity: 2, SleepMillis: 20}, []Call{callTo(t, store)}
	})
	intake := start(t, func(c *Config) {
		c.Stage, c.Calls = &Stage{Capacity: 2, SleepMillis: 1}, []Call{callTo(t, enrich)}
	})
	c := newClient(t)
	const n = 40
	began := time.Now()
	inParallel(n, func() {
		if status, text := c.do(http.MethodGet, intake.url(), ""); status != http.StatusOK {
			t.Errorf("got status %d (%s), want 200", status, text)
		}
	})
	until(t, "all were stored", func() bool { return c.metric(store, "plant_stage_done_total") == n })
	// A worker is seen to have been busy with an item once that is off the lag, and the next
	// stage may be done with it before.
	until(t, "nothing waits", func() bool { return c.metric(enrich, "plant_stage_lag")+c.metric(intake, "plant_stage_lag") == 0 })
	took := time.Since(began).Seconds()
	within(t, "seconds for all", took, n*0.020, 120)
	within(t, "seconds that enrich was busy", c.metric(enrich, "plant_stage_busy_seconds_total"), n*0.020, took)
	within(t, "seconds that store was busy", c.metric(store, "plant_stage_busy_seconds_total"), n*0.001, took)
	if held := c.metric(intake, "plant_stage_backpressured_seconds_total"); held <= 0 || held > took {
		t.Errorf("intake was held back for %g s of %g, want more than 0", held, took)
	}
}

func TestAStageThatStaysFullRefuses(t *testing.T) {
	t.Parallel()
	s := newStage(Stage{Capacity: 1}, nil)
	if _, ok := s.put(time.Hour); !ok {
		t.Fatal("it has no room for the first")
	}
	if waited, ok := s.put(time.Millisecond); ok || waited < time.Millisecond || s.lag.Load() != 1 {
		t.Errorf("got %v after %v and %d waiting, want a refusal after 1 ms and 1", ok, waited, s.lag.Load())
	}
}

func TestCallsGoToTheReplicaOfTheirKey(t *testing.T) {
	t.Parallel()
	call := newCaller(Call{Hosts: "127.0.0.1,127.0.0.2,127.0.0.3", Port: 1, Visits: 1, ByKey: true})
	if got := len(call.clients); got != 3 {
		t.Fatalf("got %d replicas, want 3", got)
	}
	far := start(t, func(*Config) {})
	visits := callTo(t, far)
	visits.Visits = 3
	s := start(t, func(c *Config) { c.Calls = []Call{visits} })
	c := newClient(t)
	c.do(http.MethodGet, s.url(), "")
	within(t, "visits of one request", c.metric(far, "plant_requests_total"), 3, 3)
	tcp, _ := far.Addr().(*net.TCPAddr)
	for key, want := range map[int]int{0: http.StatusOK, 1: http.StatusBadGateway} {
		// Nobody listens at the second address.
		keyed := start(t, func(c *Config) {
			c.Calls = []Call{{Hosts: "127.0.0.1,127.0.0.99", Port: tcp.Port, Visits: 1, ByKey: true}}
		})
		if status, text := c.do(http.MethodGet, fmt.Sprintf("%s?key=%d", keyed.url(), key), ""); status != want {
			t.Errorf("key %d: got status %d (%s), want %d", key, status, text, want)
		}
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	const ok = `"listen": "127.0.0.1:0", "admin": "127.0.0.1:0"`
	for text, want := range map[string]string{
		"{" + ok + "}":           "",
		"{" + ok + `, "cpu": 1}`: "unknown field",
		"{" + ok + "} x":         "there is more after the object",
		"":                       "read what to plant",
	} {
		_, err := Parse(text)
		got := fmt.Sprint(err)
		if want == "" && err != nil || want != "" && !strings.Contains(got, want) {
			t.Errorf("Parse(%s): got %v, want %q", text, err, want)
		}
	}
}

// ask makes so many requests at once, and says how long all of them took.
func ask(t *testing.T, s *Service, n int) time.Duration {
	t.Helper()
	c, began := newClient(t), time.Now()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if status, text := c.do(http.MethodGet, s.url(), ""); status != http.StatusOK {
				t.Errorf("got status %d (%s), want 200", status, text)
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// What works on a few requests at a time takes as many times as long for more.
func TestFewRequestsAtATime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit  func(*Config)
		least time.Duration
	}{
		"slots":        {func(c *Config) { c.SleepMillis, c.Slots = 10, 2 }, 40 * time.Millisecond},
		"a thread":     {func(c *Config) { c.CPUMillis, c.Thread = 5, true }, 40 * time.Millisecond},
		"disk":         {func(c *Config) { c.Disk = &Disk{Bytes: 1000} }, 0},
		"for no bound": {func(c *Config) { c.SleepMillis = 10 }, 10 * time.Millisecond},
	} {
		if took := ask(t, start(t, c.edit), 8); took < c.least {
			t.Errorf("%s: eight requests took %v, want %v at least", name, took, c.least)
		}
	}
}

func TestUnevenTurns(t *testing.T) {
	t.Parallel()
	for uneven, first := range map[int]int{0: 100, 2: 200, 3: 250} {
		c := newCaller(Call{Hosts: "a,b,c", Port: 80, Uneven: uneven})
		n := 0
		for range 300 {
			if c.turn()%3 == 0 {
				n++
			}
		}
		if n != first {
			t.Errorf("%d of four: got %d of 300, want %d", uneven, n, first)
		}
	}
}

// The runtime says what collecting takes. Its limit is the whole program's, and so no
// other test's while this one runs.
func TestGarbageIsCollected(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	s := start(t, func(c *Config) {
		c.Garbage = &Garbage{LimitBytes: before, KeptBytes: 1_000_000, EachBytes: 100_000}
	})
	ask(t, s, 4)
	runtime.GC()
	if collecting, rest := s.heap.collected(); collecting <= 0 || rest <= 0 {
		t.Errorf("collecting took %v s and the rest %v s, want some", collecting, rest)
	}
	if text := s.metrics(); !strings.Contains(text, "\n"+"go_cpu_classes_gc_total_cpu_seconds_total ") || !strings.Contains(text, "\n"+"go_cpu_classes_user_cpu_seconds_total ") {
		t.Errorf("the metrics do not say what collecting took:\n%s", s.metrics())
	}
}

// A service may be stopped before its goroutines have run: then it must not begin.
func TestStoppedBeforeItServes(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 200 {
		s, err := Listen(t.Context(), Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		s.Start(ended)()
	}
}
