package movie

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/pause"
	"loadstone/block/route"
	"loadstone/system/patterns"
)

// source tells which reading an answer is of and when it began, and fails when told.
type source struct {
	takes time.Duration
	fails atomic.Bool
	reads atomic.Int64
}

func (s *source) read(ctx context.Context) ([]byte, error) {
	s.reads.Add(1)
	began := time.Now()
	if !pause.For(ctx, s.takes) {
		return nil, ctx.Err()
	}
	if s.fails.Load() {
		return nil, errors.New("the database is gone")
	}
	return []byte(strconv.FormatInt(began.UnixMicro(), 10)), nil
}

// begun is when the reading of an answer began.
func begun(t *testing.T, list []byte) time.Time {
	t.Helper()
	micros, err := strconv.ParseInt(string(list), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.UnixMicro(micros)
}

// fixture is a handler that runs, on the test's clock.
func fixture(t *testing.T, on bool, s *source) (h *Handler, stop func()) {
	t.Helper()
	h, err := New(Config{
		RefreshAhead: on, MaxAge: 12 * time.Second, Read: s.read, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := h.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return h, func() {
		cancel()
		running.Wait()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// ask asks every tenth of a second for a while and returns the longest wait and the
// greatest age, both as they really were.
func ask(t *testing.T, h *Handler, during time.Duration) (longest, oldest time.Duration, failed int) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		began := time.Now()
		list, told, err := h.Find(t.Context())
		longest = max(longest, time.Since(began))
		if err != nil {
			failed++
			continue
		}
		age := time.Since(begun(t, list)).Truncate(time.Microsecond)
		if d := (told - age).Abs(); d > time.Millisecond {
			t.Errorf("told to be %v old, and is %v", told, age)
		}
		oldest = max(oldest, age)
	}
	return longest, oldest, failed
}

func TestOffSomebodyWaitsAtEveryExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{takes: 5 * time.Second}
		h, stop := fixture(t, false, s)
		longest, oldest, failed := ask(t, h, 2*time.Minute)
		if longest != 5*time.Second {
			t.Errorf("the longest wait was %v, want the source's 5s", longest)
		}
		if oldest > 12*time.Second || failed > 0 {
			t.Errorf("the oldest was %v and %d failed, want at most 12s and none", oldest, failed)
		}
		stop()
	})
}

func TestOnNobodyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{takes: 5 * time.Second}
		h, stop := fixture(t, true, s)
		if h.Ready() {
			t.Error("ready before the first list is there")
		}
		time.Sleep(6 * time.Second)
		if !h.Ready() {
			t.Error("not ready with the first list there")
		}
		longest, oldest, failed := ask(t, h, 2*time.Minute)
		if longest != 0 || failed > 0 {
			t.Errorf("the longest wait was %v and %d failed, want none", longest, failed)
		}
		if oldest > 12*time.Second {
			t.Errorf("the oldest was %v, want at most 12s", oldest)
		}
		// A reading a third of the age after the one before, and a look more: 5 s.
		if got := s.reads.Load(); got > 2*60/4+2 {
			t.Errorf("the source was read %d times in two minutes", got)
		}
		stop()
	})
}

// Warm also for the first who comes after a long time in which nobody did.
func TestOnNobodyWaitsAfterAQuietTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, stop := fixture(t, true, &source{takes: 5 * time.Second})
		time.Sleep(time.Hour)
		if longest, oldest, _ := ask(t, h, time.Second); longest != 0 || oldest > 12*time.Second {
			t.Errorf("waited %v for a list %v old, want not to wait, and at most 12s", longest, oldest)
		}
		stop()
	})
}

func TestNobodyGetsAListOlderThanStatedWhenTheSourceFails(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &source{takes: time.Second}
			h, stop := fixture(t, on, s)
			if _, _, failed := ask(t, h, 30*time.Second); failed > 0 {
				t.Fatalf("on %t: %d failed before the source did", on, failed)
			}
			s.fails.Store(true)
			_, oldest, failed := ask(t, h, time.Minute)
			if oldest > 12*time.Second {
				t.Errorf("on %t: the oldest was %v, want at most 12s", on, oldest)
			}
			if failed == 0 {
				t.Errorf("on %t: none failed: the source's end was not noticed", on)
			}
			s.fails.Store(false)
			time.Sleep(5 * time.Second)
			if _, _, failed := ask(t, h, 30*time.Second); failed > 0 {
				t.Errorf("on %t: %d failed after the source was back", on, failed)
			}
			stop()
		})
	}
}

// A source that hangs is given up after half of the age, and so is one that does not
// heed its context: what it brings then is too late to be kept for long.
func TestASourceThatIsTooSlowHasFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, err := New(Config{MaxAge: 12 * time.Second, Registerer: prometheus.NewRegistry(), Read: func(context.Context) ([]byte, error) {
			time.Sleep(11 * time.Second)
			return []byte("1"), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if list, _, err := h.Find(t.Context()); err == nil {
			t.Errorf("got %q, want an error", list)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAnAnswerSaysItsAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{takes: 1500 * time.Millisecond}
		h, stop := fixture(t, false, s)
		answered := func() *fasthttp.RequestCtx {
			var ctx fasthttp.RequestCtx
			answer(h, &ctx)
			return &ctx
		}
		for _, want := range []string{"2", "2", "3"} { // 1.5, 2 and 2.5 s
			got := answered()
			if age := string(got.Response.Header.Peek("Age")); age != want {
				t.Errorf("Age: %s, want %s", age, want)
			}
			if control := string(got.Response.Header.Peek("Cache-Control")); control != "public, max-age=12" {
				t.Errorf("Cache-Control: %s", control)
			}
			time.Sleep(500 * time.Millisecond)
		}
		s.fails.Store(true)
		time.Sleep(12 * time.Second)
		got := answered()
		if got.Response.StatusCode() != 503 || len(got.Response.Header.Peek("Retry-After")) == 0 {
			t.Errorf("without a list: status %d, Retry-After %q", got.Response.StatusCode(), got.Response.Header.Peek("Retry-After"))
		}
		stop()
	})
}

func TestConfigSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"at least 100ms": {MaxAge: time.Millisecond},
		"delay 6s":       {MaxAge: 12 * time.Second, Delay: 6 * time.Second},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want that it says %q", err, want)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func TestTheMadeUpSource(t *testing.T) {
	t.Parallel()
	c := &chart{}
	first, err := c.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if string(first) == string(second) || !strings.Contains(string(first), `"rank":10`) {
		t.Errorf("the lists are %s and %s, want ten movies, and more views each time", first, second)
	}
}

// answer lets the handler answer as the service does.
func answer(h *Handler, ctx *fasthttp.RequestCtx) {
	if err := h.Handle(ctx); err != nil {
		route.Prepare(patterns.Errors).Write(ctx, err)
	}
}
