package pool

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config() Config {
	return Config{
		Name: "jobs", Workers: 2, Queue: 3, Full: Reject, Wait: time.Hour, Callers: 10,
		Registerer: prometheus.NewRegistry(),
	}
}

func open(t *testing.T, cfg Config) *Pool {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func shut(t *testing.T, p *Pool) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// takes is a job that takes d, unless its context ends.
func takes(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin starts n jobs, each from a goroutine of its own, and returns how they ended
// when all have. They have been let in, or turned away, or wait, when it returns.
func begin(p *Pool, n int, job func(context.Context) error) (ended func() []error) {
	errs := make(chan error, n)
	var all sync.WaitGroup
	for range n {
		all.Go(func() { errs <- p.Do(context.Background(), job) })
	}
	synctest.Wait()
	return func() []error {
		all.Wait()
		close(errs)
		var list []error
		for err := range errs {
			list = append(list, err)
		}
		return list
	}
}

// refusals counts the jobs that were refused for the reason.
func refusals(errs []error, why string) (n int) {
	for _, err := range errs {
		if full, ok := errors.AsType[*FullError](err); ok && full.Why == why {
			n++
		}
	}
	return n
}

// metrics are what the pool tells: by name, and by name and label.
func metrics(t *testing.T, p *Pool) map[string]float64 {
	t.Helper()
	families, err := p.cfg.Registerer.(*prometheus.Registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := []string{f.GetName()}
			for _, l := range m.GetLabel() {
				if l.GetName() != "pool" {
					name = append(name, l.GetValue())
				}
			}
			values[strings.Join(name, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}

func TestNoMoreThanWorkersRunAtOneTime(t *testing.T) {
	t.Parallel()
	for _, adaptive := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cfg := config()
			cfg.Full, cfg.Callers, cfg.Adaptive = Wait, 1000, adaptive
			p := open(t, cfg)
			var now, most atomic.Int64
			ended := begin(p, 100, func(context.Context) error {
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(time.Millisecond)
				now.Add(-1)
				return nil
			})
			for _, err := range ended() {
				if err != nil {
					t.Errorf("a job ended with %v, want nil", err)
				}
			}
			if got := most.Load(); got != 2 {
				t.Errorf("adaptive %t: %d jobs at one time, want 2", adaptive, got)
			}
			shut(t, p)
		})
	}
}

func TestWhatFindsNoPlaceIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, config())
		ended := begin(p, 5, takes(time.Second)) // 2 run, 3 wait
		if got, want := p.metrics.running.Load(), int64(2); got != want {
			t.Errorf("%d run, want %d", got, want)
		}
		if got, want := p.metrics.queued.Load(), int64(3); got != want {
			t.Errorf("%d in the queue, want %d", got, want)
		}
		began := time.Now()
		err := p.Do(t.Context(), takes(time.Second))
		full, ok := errors.AsType[*FullError](err)
		if !ok || full.Why != Full {
			t.Errorf("the sixth got %v, want that the pool is full", err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it was refused after %v, want at once", took)
		}
		for _, err := range ended() {
			if err != nil {
				t.Errorf("one that was let in got %v", err)
			}
		}
		shut(t, p)
	})
}

// What the refused are told follows from how long jobs take and how many are
// inside: here one second each, five inside, two at one time.
func TestRetryAfterIsWhenThoseInsideAreDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, config())
		for range 40 { // until the mean has settled
			if err := p.Do(t.Context(), takes(time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		ended := begin(p, 5, takes(time.Second))
		full, _ := errors.AsType[*FullError](p.Do(t.Context(), takes(time.Second)))
		if full == nil {
			t.Fatal("the sixth was not refused")
		}
		if full.RetryAfter < 2300*time.Millisecond || full.RetryAfter > 2500*time.Millisecond {
			t.Errorf("told to come again after %v, want 2.5s or a little less", full.RetryAfter)
		}
		ended()
		shut(t, p)
	})
}

func TestCallersWaitForAPlaceButNotForLongAndNotTooMany(t *testing.T) {
	t.Parallel()
	for _, adaptive := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cfg := config()
			cfg.Full, cfg.Callers, cfg.Wait, cfg.Adaptive = Wait, 4, 1500*time.Millisecond, adaptive
			p := open(t, cfg)
			began := time.Now()
			errs := begin(p, 20, takes(time.Second))()
			// 5 find a place, 4 wait for one, 11 are too many. 2 are done each second:
			// 2 begin at 0 s and 2 at 1 s; who has not begun after 1.5 s is late.
			if got, want := refusals(errs, Crowded), 11; got != want {
				t.Errorf("adaptive %t: %d refused because too many wait, want %d", adaptive, got, want)
			}
			if got, want := refusals(errs, Late), 5; got != want {
				t.Errorf("adaptive %t: %d refused because they waited too long, want %d", adaptive, got, want)
			}
			if got, want := time.Since(began), 2*time.Second; got != want {
				t.Errorf("adaptive %t: all was over after %v, want %v", adaptive, got, want)
			}
			shut(t, p)
		})
	}
}

func TestAJobThatWasWithdrawnDoesNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, config())
		ended := begin(p, 2, takes(time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error)
		var ran atomic.Bool
		go func() {
			result <- p.Do(ctx, func(context.Context) error { ran.Store(true); return nil })
		}()
		synctest.Wait()
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that it was cancelled", err)
		}
		ended()
		if ran.Load() {
			t.Error("it ran none the less")
		}
		// Its place is free again: three may wait and two run.
		for _, err := range begin(p, 5, takes(time.Millisecond))() {
			if err != nil {
				t.Errorf("a place was lost: %v", err)
			}
		}
		shut(t, p)
	})
}

// A caller whose context ends gets its goroutine back only when the job is over: it
// may use what belongs to the caller.
func TestDoReturnsWhenTheJobIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, config())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := p.Do(ctx, func(context.Context) error { time.Sleep(3 * time.Second); return nil })
		if got, want := time.Since(began), 3*time.Second; err != nil || got != want {
			t.Errorf("returned after %v with %v, want after %v with nil", got, err, want)
		}
		shut(t, p)
	})
}

func TestAPanicIsTheJobsOwn(t *testing.T) {
	t.Parallel()
	for name, job := range map[string]func(context.Context) error{
		"panic":  func(context.Context) error { panic("no book") },
		"goexit": func(context.Context) error { runtime.Goexit(); return nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			p := open(t, config())
			for range 20 { // more than there are workers and places
				err := p.Do(t.Context(), job)
				if !errors.Is(err, ErrPanicked) {
					t.Fatalf("%s: got %v, want that the job panicked", name, err)
				}
				if name == "panic" && !strings.Contains(err.Error(), "no book") {
					t.Errorf("%v does not say what the panic was", err)
				}
			}
			if err := p.Do(t.Context(), takes(time.Millisecond)); err != nil {
				t.Errorf("%s: the next job got %v", name, err)
			}
			if got := metrics(t, p)["pool_jobs_total panicked"]; got != 20 {
				t.Errorf("%s: %v counted, want 20", name, got)
			}
			shut(t, p)
		})
	}
}

func TestCloseWaitsForWhatWasLetIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, config())
		ended := begin(p, 5, takes(time.Second))
		shut(t, p)
		for _, err := range ended() {
			if err != nil {
				t.Errorf("one that was let in got %v", err)
			}
		}
		if err := p.Do(t.Context(), takes(0)); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v, want %v", err, ErrClosed)
		}
	})
}

func TestResize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, config())
		if err := p.Resize(5); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		begin(p, 5, takes(time.Second))()
		if got, want := time.Since(began), time.Second; got != want {
			t.Errorf("five jobs on five workers took %v, want %v", got, want)
		}
		if err := p.Resize(1); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		begin(p, 3, takes(time.Second))()
		if got, want := time.Since(began), 3*time.Second; got != want {
			t.Errorf("three jobs on one worker took %v, want %v", got, want)
		}
		if err := p.Resize(0); err == nil {
			t.Error("0 workers were accepted")
		}
		shut(t, p)
	})
}

// Sixty callers for four workers: the queue makes jobs take longer and gets no more
// of them done, so the pool comes to keep it short.
func TestAdaptiveShortensAQueueThatHelpsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Workers, cfg.Queue, cfg.Adaptive = 4, 26, true
		p := open(t, cfg)
		if got, want := p.places.places(), 30; got != want {
			t.Fatalf("begins with %d places, want %d", got, want)
		}
		stop := make(chan struct{})
		var callers sync.WaitGroup
		for range 60 {
			callers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if err := p.Do(context.Background(), takes(10*time.Millisecond)); err != nil {
						time.Sleep(7 * time.Millisecond) // before it tries again
					}
				}
			})
		}
		time.Sleep(12 * time.Second) // of the test's clock
		got := p.places.places()
		close(stop)
		callers.Wait()
		if got < 4 || got > 15 {
			t.Errorf("%d places after 12 s of overload, want 4 to 15", got)
		}
		shut(t, p)
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, config())
		ended := begin(p, 6, takes(2*time.Second))
		check := func(want map[string]float64) {
			t.Helper()
			got := metrics(t, p)
			for name, value := range want {
				if got[name] != value {
					t.Errorf("%s is %v, want %v", name, got[name], value)
				}
			}
		}
		check(map[string]float64{
			"pool_size": 2, "pool_in_use": 2, "pool_waiting": 3, "pool_places": 5,
			"pool_refused_total full": 1, "pool_refused_total late": 0, "pool_refused_total crowded": 0,
		})
		ended()
		// Five jobs of 2 s on two workers: two wait 2 s, one 4 s.
		check(map[string]float64{
			"pool_in_use": 0, "pool_waiting": 0, "pool_busy_seconds_total": 10, "pool_wait_seconds_total": 8,
			"pool_jobs_total done": 5, "pool_jobs_total panicked": 0,
		})
		shut(t, p)
	})
}

func TestConfigSaysAllThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Full: "drop"})
	for _, want := range []string{"no name", "0 workers", "a queue of 0", `policy "drop"`, "a wait of 0s", "registerer"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	cfg := config()
	cfg.Full, cfg.Callers = Wait, 0
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "callers") {
		t.Errorf("no callers with the policy wait: %v", err)
	}
}
