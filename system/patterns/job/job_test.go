package job

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/pool"
	"loadstone/block/route"
	"loadstone/system/patterns"
)

// config is a job that takes a second and no processor time.
func config(mode string) Config {
	return Config{
		Pool: mode, Workers: 2, Queue: 8, Callers: 100, Wait: 10 * time.Second,
		Sleep: time.Second, Memory: 4096, Registerer: prometheus.NewRegistry(),
	}
}

func open(t *testing.T, cfg Config) *Handler {
	t.Helper()
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func shut(t *testing.T, h *Handler) {
	t.Helper()
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// crowd handles n requests at the same time and returns them by status.
func crowd(h *Handler, n int) map[int][]*fasthttp.RequestCtx {
	var all sync.WaitGroup
	var mu sync.Mutex
	answers := make(map[int][]*fasthttp.RequestCtx)
	for range n {
		all.Go(func() {
			var ctx fasthttp.RequestCtx
			answer(h, &ctx)
			mu.Lock()
			defer mu.Unlock()
			answers[ctx.Response.StatusCode()] = append(answers[ctx.Response.StatusCode()], &ctx)
		})
	}
	all.Wait()
	return answers
}

func TestOffAllRunAtOneTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := open(t, config(Off))
		began := time.Now()
		answers := crowd(h, 1000)
		if took := time.Since(began); len(answers[200]) != 1000 || took != time.Second {
			t.Errorf("%d were served in %v, want 1000 in 1s", len(answers[200]), took)
		}
		shut(t, h)
	})
}

func TestRejectSaysWhenToComeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := open(t, config(Reject))
		answers := crowd(h, 100)
		if len(answers[200]) != 10 || len(answers[503]) != 90 {
			t.Errorf("%d served and %d refused, want 10 and 90", len(answers[200]), len(answers[503]))
		}
		for _, a := range answers[503] {
			if got := string(a.Response.Header.Peek("Retry-After")); got == "" {
				t.Fatal("a refusal without Retry-After")
			}
		}
		shut(t, h)
	})
}

// A refusal is said at once: it waits for nothing.
func TestRejectWaitsForNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := open(t, config(Reject))
		var inside sync.WaitGroup
		inside.Go(func() { crowd(h, 10) })
		synctest.Wait()
		began := time.Now()
		_, err := h.Do(t.Context())
		if _, ok := errors.AsType[*pool.FullError](err); !ok || time.Since(began) != 0 {
			t.Errorf("got %v after %v, want a refusal at once", err, time.Since(began))
		}
		inside.Wait()
		shut(t, h)
	})
}

func TestWaitServesInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := open(t, config(Wait))
		began := time.Now()
		// Two a second, for 10 s, and two more that begin just then or not.
		answers := crowd(h, 100)
		if got := len(answers[200]); got < 20 || got > 22 {
			t.Errorf("%d were served, want 20 to 22", got)
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("the last had an answer after %v, want 11s at most", took)
		}
		shut(t, h)
	})
}

func TestResize(t *testing.T) {
	t.Parallel()
	put := func(h *Handler, body string) int {
		w := httptest.NewRecorder()
		h.Resize(w, httptest.NewRequestWithContext(context.Background(), http.MethodPut, "/pool", strings.NewReader(body)))
		return w.Code
	}
	on, off := open(t, config(Reject)), open(t, config(Off))
	for body, want := range map[string]int{"5": 204, "7\n": 204, "0": 400, "many": 400, "": 400, "11111111111111111111": 400} {
		if got := put(on, body); got != want {
			t.Errorf("%q: status %d, want %d", body, got, want)
		}
	}
	if got := put(off, "5"); got != 400 {
		t.Errorf("without a pool: status %d, want 400", got)
	}
	shut(t, on)
	shut(t, off)
}

// Close does not wait for jobs that wait for something, nor for those that only work:
// it calls them off, and the requests are told.
func TestCloseCallsJobsOff(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{Off, Reject, Wait} {
		synctest.Test(t, func(t *testing.T) {
			cfg := config(mode)
			cfg.Sleep = time.Hour
			h := open(t, cfg)
			answers := make(chan map[int][]*fasthttp.RequestCtx)
			go func() { answers <- crowd(h, 4) }() // two of them in the queue of a pool
			synctest.Wait()
			began := time.Now()
			shut(t, h)
			if got := <-answers; len(got[503]) != 4 || time.Since(began) > 0 {
				t.Errorf("%s: %d were told to come again after %v, want 4 at once", mode, len(got[503]), time.Since(began))
			}
			if got := crowd(h, 1); len(got[503]) != 1 {
				t.Errorf("%s: after Close got %v, want 503", mode, got)
			}
		})
	}
	cfg := config(Off)
	cfg.Sleep, cfg.CPU = 0, time.Hour
	h := open(t, cfg)
	answer := make(chan error)
	go func() {
		_, err := h.Do(h.life)
		answer <- err
	}()
	shut(t, h)
	if err := <-answer; err == nil {
		t.Error("an hour's work was done in no time")
	}
}

// The same work gives the same result, more work another one: it was done.
func TestWorkIsDone(t *testing.T) {
	t.Parallel()
	first, again, more := work(seed, 1000), work(work(seed, 600), 400), work(seed, 1001)
	if first != again || first == more {
		t.Error("the result does not follow from the work")
	}
	short, long := stepsFor(time.Millisecond), stepsFor(10*time.Millisecond)
	if short < 1000 || long < 3*short {
		t.Errorf("%d steps for 1 ms and %d for 10 ms, want about ten times as many", short, long)
	}
	if stepsFor(0) != 0 {
		t.Error("no time is some work")
	}
}

func TestWindowTellsTheLastWholeSecond(t *testing.T) {
	t.Parallel()
	var w window
	at := func(second int64, millis int64) time.Time { return time.Unix(second, millis*int64(time.Millisecond)) }
	for i := range 200 {
		w.observeAt(time.Duration(i+1)*time.Millisecond, at(100, int64(i)))
	}
	if got := w.last(at(100, 999)); got != 0 {
		t.Errorf("in the same second: %v, want 0", got)
	}
	if got, want := w.last(at(101, 0)), 198*time.Millisecond; got != want {
		t.Errorf("in the next second: %v, want %v", got, want)
	}
	if got := w.last(at(102, 0)); got != 0 {
		t.Errorf("after a second without answers: %v, want 0", got)
	}
	w.observeAt(time.Second, at(102, 1))
	if got := w.last(at(104, 0)); got != 0 {
		t.Errorf("two seconds later: %v, want 0", got)
	}
	for range 2 * windowMost {
		w.observeAt(time.Second, at(105, 0))
	}
	if got := len(w.times); got != windowMost {
		t.Errorf("%d kept, want %d", got, windowMost)
	}
}

func TestConfigSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		`pool "on"`:     func(c *Config) { c.Pool = "on" },
		"0 workers":     func(c *Config) { c.Pool, c.Workers = Reject, 0 },
		"0 callers":     func(c *Config) { c.Pool, c.Callers = Wait, 0 },
		"-1ns":          func(c *Config) { c.CPU = -1 },
		"-1 bytes":      func(c *Config) { c.Memory = -1 },
		"a queue of -1": func(c *Config) { c.Pool, c.Queue = Reject, -1 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want that it says %q", err, want)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

// answer lets the handler answer as the service does.
func answer(h *Handler, ctx *fasthttp.RequestCtx) {
	if err := h.Handle(ctx); err != nil {
		route.Prepare(patterns.Errors).Write(ctx, err)
	}
}
