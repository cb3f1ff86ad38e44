package book

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/cache"
	"loadstone/block/route"
	"loadstone/block/servertest"
	"loadstone/system/patterns"
)

const callers = 1000

// source counts readings, each of which ends when its gate is opened.
type source struct {
	gate  chan struct{}
	reads atomic.Int64
	err   error
	panic bool
}

func newSource() *source { return &source{gate: make(chan struct{})} }

func (s *source) read(ctx context.Context, id int64) ([]byte, error) {
	s.reads.Add(1)
	select {
	case <-s.gate:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.panic {
		panic("the page is torn")
	}
	return fmt.Append(nil, "book ", id), s.err
}

func open(t *testing.T, cfg Config, s *source) *Handler {
	t.Helper()
	cfg.Read, cfg.Registerer = s.read, prometheus.NewRegistry()
	h, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func config(mode Mode) Config {
	cfg := DefaultConfig()
	cfg.Mode, cfg.ReadTimeout = mode, 20*time.Second
	return cfg
}

// crowd asks each handler for book 7 from so many goroutines. waiting is called when
// all have asked, as far as can be told.
func crowd(ctx context.Context, each int, handlers []*Handler, waiting func()) (books map[string]int, errs []error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var asked sync.WaitGroup
	books = make(map[string]int)
	for _, h := range handlers {
		for range each {
			asked.Add(1)
			all.Go(func() {
				asked.Done()
				book, err := h.Find(ctx, 7)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					errs = append(errs, err)
				} else {
					books[string(book)]++
				}
			})
		}
	}
	asked.Wait()
	waiting()
	all.Wait()
	return books, errs
}

func TestAThousandCallersAreOneReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		h := open(t, config(Local), s)
		books, errs := crowd(t.Context(), callers, []*Handler{h}, func() { synctest.Wait(); close(s.gate) })
		if got := s.reads.Load(); got != 1 {
			t.Errorf("%d readings, want 1", got)
		}
		if books["book 7"] != callers || len(errs) > 0 {
			t.Errorf("answers %v and errors %v, want %d times the book", books, errs, callers)
		}
		// Nothing is kept: who comes now gets a reading of his own.
		if _, err := h.Find(t.Context(), 7); err != nil || s.reads.Load() != 2 {
			t.Errorf("the next caller got %v, and there were %d readings, want 2", err, s.reads.Load())
		}
	})
}

// The check above can fail.
func TestOffAThousandCallersAreAThousandReadings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		crowd(t.Context(), callers, []*Handler{open(t, config(Off), s)}, func() { synctest.Wait(); close(s.gate) })
		if got := s.reads.Load(); got != callers {
			t.Errorf("%d readings, want %d", got, callers)
		}
	})
}

func TestAThousandCallersOnThreeReplicasAreOneReading(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	s := newSource()
	cfg := config(Redis)
	cfg.Redis, cfg.redisPatience = redis.Addr(), time.Minute
	replicas := []*Handler{open(t, cfg, s), open(t, cfg, s), open(t, cfg, s)}
	books, errs := crowd(t.Context(), callers, replicas, func() {
		waitFor(t, "a reading begins", func() bool { return s.reads.Load() > 0 })
		close(s.gate)
	})
	if got := s.reads.Load(); got != 1 {
		t.Errorf("%d readings, want 1", got)
	}
	if books["book 7"] != 3*callers || len(errs) > 0 {
		t.Errorf("answers %v and errors %v, want %d times the book", books, errs, 3*callers)
	}
}

// A process that died while it read left its lease behind; it ends by itself.
func TestADeadReadersLeaseEnds(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	s := newSource()
	close(s.gate)
	cfg := config(Redis)
	cfg.Redis, cfg.redisPatience = redis.Addr(), time.Minute
	h := open(t, cfg, s)
	redis.Command("SET", "!book:7", "somebody who is gone", "PX", "400")
	book, err := h.Find(t.Context(), 7)
	if string(book) != "book 7" || err != nil || s.reads.Load() != 1 {
		t.Errorf("got %q, %v after %d readings, want the book after 1", book, err, s.reads.Load())
	}
}

// All who have waited since before the dead reader's lease ended wait for the one who
// takes it over: nobody reads beside it. The lease left is as long as a real one, so
// that with a wait of the same length all would reach their end with it.
func TestADeadReadersLeaseGoesToOneOfThoseWhoWait(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	var reads atomic.Int64
	cfg := config(Redis)
	cfg.Redis, cfg.ReadTimeout, cfg.Delay, cfg.redisPatience = redis.Addr(), 10*time.Second, 0, time.Minute
	const replicas, each = 5, 20
	var handlers []*Handler
	for range replicas {
		s := newSource()
		h := open(t, cfg, s)
		h.cfg.Read = func(ctx context.Context, id int64) ([]byte, error) {
			reads.Add(1)
			time.AfterFunc(time.Second/2, func() { close(s.gate) }) // how long the source takes
			return s.read(ctx, id)
		}
		handlers = append(handlers, h)
	}
	hold := cfg.ReadTimeout + leaseMargin
	redis.Command("SET", "!book:7", "somebody who is gone", "PX", strconv.FormatInt(hold.Milliseconds(), 10))
	statuses := make(chan int, replicas*each)
	for _, h := range handlers {
		for range each {
			go func() {
				var ctx fasthttp.RequestCtx
				ctx.Request.SetRequestURI(Path + "7")
				answer(h, &ctx)
				statuses <- ctx.Response.StatusCode()
			}()
		}
	}
	for range replicas * each {
		if got := <-statuses; got != fasthttp.StatusOK {
			t.Errorf("status %d, want 200", got)
		}
	}
	if got := reads.Load(); got != 1 {
		t.Errorf("%d readings, want 1", got)
	}
}

// A request waits for as long as an answer may take in the worst case: its own
// reading after it has waited for others in vain is part of that.
func TestARequestWaitsForTheReadingAfterTheWait(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{100 * time.Millisecond, 2 * time.Second, time.Minute} {
		cfg := config(Redis)
		cfg.ReadTimeout = timeout
		h := &Handler{cfg: cfg}
		tier := h.tierConfig()
		if most := tier.Lease.Hold + timeout; tier.Lease.Wait <= most {
			t.Errorf("%v: who waits for the lease does so for %v, want more than %v", timeout, tier.Lease.Wait, most)
		}
		if most := 2*tier.ReadTimeout + tier.Lease.Wait + timeout; h.requestTimeout() < most {
			t.Errorf("%v: a request waits for %v, want %v", timeout, h.requestTimeout(), most)
		}
	}
}

// Close does not wait for a reading that takes long: nobody waits for it any more.
func TestCloseCallsReadingsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource() // its gate stays shut
		h := open(t, config(Local), s)
		answer := make(chan error)
		go func() {
			_, err := h.Find(t.Context(), 7)
			answer <- err
		}()
		synctest.Wait()
		began := time.Now()
		go func() { _ = h.Close() }()
		if err := <-answer; !errors.Is(err, cache.ErrClosed) || time.Since(began) > 0 {
			t.Errorf("got %v after %v, want that it is closed, at once", err, time.Since(began))
		}
	})
}

func TestWithoutRedisEachReplicaReadsForItself(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	s := newSource()
	cfg := config(Redis)
	cfg.Redis = redis.Addr()
	replicas := []*Handler{open(t, cfg, s), open(t, cfg, s), open(t, cfg, s)}
	redis.Kill()
	books, errs := crowd(t.Context(), 100, replicas, func() {
		waitFor(t, "each reads", func() bool { return s.reads.Load() == 3 })
		close(s.gate)
	})
	if books["book 7"] != 300 || len(errs) > 0 {
		t.Errorf("answers %v and errors %v, want 300 times the book", books, errs)
	}
}

func TestTheFirstCallerMayGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		h := open(t, config(Local), s)
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error)
		go func() {
			_, err := h.Find(ctx, 7)
			first <- err
		}()
		synctest.Wait() // it reads
		books, errs := crowd(t.Context(), 10, []*Handler{h}, func() {
			synctest.Wait()
			cancel()
			if err := <-first; !errors.Is(err, context.Canceled) {
				t.Errorf("the first got %v, want that it was cancelled", err)
			}
			close(s.gate)
		})
		if books["book 7"] != 10 || len(errs) > 0 || s.reads.Load() != 1 {
			t.Errorf("the others got %v and %v from %d readings, want the book from 1", books, errs, s.reads.Load())
		}
	})
}

func TestAnErrorOrAPanicReachesAllWhoWaitedAndNobodyElse(t *testing.T) {
	t.Parallel()
	torn := errors.New("the book is lent")
	for name, fail := range map[string]func(*source) error{
		"error": func(s *source) error { s.err = torn; return torn },
		"panic": func(s *source) error { s.panic = true; return cache.ErrLoadPanicked },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource()
			want := fail(s)
			h := open(t, config(Local), s)
			_, errs := crowd(t.Context(), 10, []*Handler{h}, func() { synctest.Wait(); close(s.gate) })
			if len(errs) != 10 || !errors.Is(errs[0], want) {
				t.Errorf("%s: errors %v, want ten times %v", name, errs, want)
			}
			s.err, s.panic = nil, false
			if book, err := h.Find(t.Context(), 7); string(book) != "book 7" || err != nil {
				t.Errorf("%s: the next got %q, %v, want the book", name, book, err)
			}
		})
	}
}

func TestHandle(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Delay, cfg.Registerer = 0, prometheus.NewRegistry()
	h, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"1": 200, "999999999": 200, "0": 400, "-1": 400, "01": 400, "": 400, "1000000000": 400, "a": 400, "1/2": 400, "%31": 400, "99999999999999999999": 400,
	} {
		var ctx fasthttp.RequestCtx
		ctx.Request.SetRequestURI(Path + path)
		answer(h, &ctx)
		if got := ctx.Response.StatusCode(); got != want {
			t.Errorf("%q: status %d, want %d", path, got, want)
		}
		if want == 200 && !strings.Contains(string(ctx.Response.Body()), `"id":`+path+",") {
			t.Errorf("%q: %s", path, ctx.Response.Body())
		}
	}
}

func FuzzParseID(f *testing.F) {
	for _, text := range []string{"1", "", "0", "18446744073709551616", "٣"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		id, err := parseID(text)
		if err == nil && (id < 1 || id > MaxID || fmt.Sprint(id) != string(text)) {
			t.Errorf("%q is %d", text, id)
		}
	})
}

func TestConfigSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		`do once "on"`:  func(c *Config) { c.Mode = "on" },
		"delay 3s":      func(c *Config) { c.Delay = 3 * time.Second },
		"keep 0s":       func(c *Config) { c.Keep = 0 },
		`Redis "redis"`: func(c *Config) { c.Mode, c.Redis = Redis, "redis" },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want that it says %q", err, want)
		}
	}
}

func waitFor(t *testing.T, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !met(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// answer lets the handler answer as the service does.
func answer(h *Handler, ctx *fasthttp.RequestCtx) {
	if err := h.Handle(ctx); err != nil {
		route.Prepare(patterns.Errors).Write(ctx, err)
	}
}
