package engine

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/loadtest"
)

// TestRequestsUnderWayAtTheEndAreCutOff: a server that never answers holds
// neither the run nor the count.
func TestRequestsUnderWayAtTheEndAreCutOff(t *testing.T) {
	t.Parallel()
	silent := func(c *rawConn) { c.request(); hang(c) }
	for _, kind := range []string{"open", "closed"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := serveRaw(t, silent)
			plan := loadtest.OpenPlan(server.url, 100, 3*time.Second, 5)
			if kind == "closed" {
				plan = loadtest.ClosedPlan(server.url, 5, 3*time.Second)
			}
			plan.Timeout = time.Hour
			plan.Scenarios[0].GracefulStop = 50 * time.Millisecond
			r, _ := mustRun(t, plan)
			if r.Errors[failure.CutOff.String()].Count != 5 || r.Requests != 5 {
				t.Errorf("got %d requests, errors %v; want five, all cut off", r.Requests, r.Errors)
			}
			if r.CompletedInTime != 0 {
				t.Errorf("%d completed in time, want none", r.CompletedInTime)
			}
			if kind == "open" && r.Dropped != loadtest.Due(plan)-5 {
				t.Errorf("%d dropped, want the other %d arrivals", r.Dropped, loadtest.Due(plan)-5)
			}
		})
	}
}

// TestArrivalsAreDroppedAfterTheTimeout: an arrival waits no longer for a user
// than a request may take.
func TestArrivalsAreDroppedAfterTheTimeout(t *testing.T) {
	t.Parallel()
	server := serveRaw(t, func(c *rawConn) {
		for c.request() != nil {
			time.Sleep(150 * time.Millisecond) // a slow answer
			c.send(okAnswer)
		}
	})
	plan := loadtest.OpenPlan(server.url, 200, 5*time.Second, 1)
	plan.Timeout = 200 * time.Millisecond
	r, windows := mustRun(t, plan)
	if r.Dropped < r.Offered/2 || r.Requests < 3 {
		t.Errorf("%d of %d dropped, %d requests; want most dropped and a few sent", r.Dropped, r.Offered, r.Requests)
	}
	if r.Waited < r.Requests-2 {
		t.Errorf("%d of %d waited, want all but the first", r.Waited, r.Requests)
	}
	var before uint64
	for _, w := range windows[:len(windows)-1] {
		before += w.Dropped
	}
	if before == 0 {
		t.Error("nothing dropped before the last second, want drops to show when they happen")
	}
}

// slowServer serves one request at a time, each for the given time.
func slowServer(tb testing.TB, each time.Duration) *rawServer {
	var one sync.Mutex
	return serveRaw(tb, func(c *rawConn) {
		for c.request() != nil {
			one.Lock()
			time.Sleep(each) // its work
			one.Unlock()
			c.send(okAnswer)
		}
	})
}

// TestThroughputHasWhatTheWarmupLeft: what is done in the measured part is its
// throughput, whenever it was sent; everything else goes by intended time.
func TestThroughputHasWhatTheWarmupLeft(t *testing.T) {
	t.Parallel()
	const delay = 400 * time.Millisecond
	server := serveRaw(t, func(c *rawConn) {
		for c.request() != nil {
			time.Sleep(delay) // a slow answer
			c.send(okAnswer)
		}
	})
	plan := loadtest.OpenPlan(server.url, 100, 1500*time.Millisecond, 200)
	plan.Warmup = 500 * time.Millisecond
	plan.Scenarios[0].Arrivals = load.Uniform
	r, _ := mustRun(t, plan)
	if r.Requests != 100 {
		t.Errorf("%d requests, want the 100 of the measured second", r.Requests)
	}
	// All 50 of the warm-up, where the machine stood still, and what came in the first 600 ms.
	if r.CompletedInTime > 115 {
		t.Errorf("%d completed in the measured second, want about 100", r.CompletedInTime)
	}
}

// TestWhatCountsAsCompletedInTime: that goes by when it was done, and what belongs to the
// measured part by when it was intended.
func TestWhatCountsAsCompletedInTime(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		intended, done   time.Duration
		requests, inTime uint64
	}{
		"in the warm-up":                {100 * ms, 499 * ms, 0, 0},
		"from the warm-up":              {100 * ms, 600 * ms, 0, 1},
		"from the warm-up to its end":   {100 * ms, 500 * ms, 0, 1},
		"from the warm-up to after all": {100 * ms, 1600 * ms, 0, 0},
		"in the measured part":          {500 * ms, 1499 * ms, 1, 1},
		"from it to its end":            {600 * ms, 1500 * ms, 1, 0},
		"from it to after all":          {1400 * ms, 1600 * ms, 1, 0},
	} {
		plan := loadtest.OpenPlan("http://127.0.0.1:1", 1, 1500*ms, 1)
		plan.Warmup = 500 * ms
		r, err := newRun(t.Context(), &plan, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.recorder.shards[0].addRequest(&outcome{intended: test.intended, sent: test.intended, done: test.done, status: 200})
		r.recorder.rotate()
		got, err := r.result()
		if err := errors.Join(err, r.closeLoops()); err != nil {
			t.Fatal(err)
		}
		if got.Requests != test.requests || got.CompletedInTime != test.inTime {
			t.Errorf("%s: %d requests, %d completed in time; want %d and %d", name, got.Requests, got.CompletedInTime, test.requests, test.inTime)
		}
	}
}

func TestStopOnOverload(t *testing.T) {
	t.Parallel()
	plan := loadtest.OpenPlan(slowServer(t, 10*time.Millisecond).url, 400, 20*time.Second, 200)
	plan.StopOnOverload = true
	plan.Scenarios[0].GracefulStop = 100 * time.Millisecond
	r, _ := mustRun(t, plan)
	if !strings.HasPrefix(r.Aborted, "overload: ") {
		t.Errorf("aborted %q, want an overload", r.Aborted)
	}
	if got := r.Seconds(); got < 0.5 || got > 15 {
		t.Errorf("measured %.1f s of 20, want it cut short, but not before 0.5 s", got)
	}
	if !r.InFlight.Growing(r.OfferedRate()) {
		t.Errorf("work in flight does not grow: %+v at %.0f/s", r.InFlight, r.OfferedRate())
	}
	if rate := r.OfferedRate(); rate < 300 || rate > 500 {
		t.Errorf("offered %.0f/s until the end, want about 400", rate)
	}
}

func TestNoStopWithoutOverload(t *testing.T) {
	t.Parallel()
	plan := loadtest.OpenPlan(slowServer(t, time.Millisecond).url, 50, 2*time.Second, 200)
	plan.StopOnOverload = true
	r, _ := mustRun(t, plan)
	for n := 1; n < 3 && r.Response.Max > 300; n++ {
		r, _ = mustRun(t, plan) // who stands still is overloaded
	}
	if r.Aborted != "" || r.To.Sub(r.From) != 2*time.Second {
		t.Errorf("aborted %q after %v, want the whole load", r.Aborted, r.To.Sub(r.From))
	}
	if n := r.InFlight.Samples; r.InFlight.Growing(r.OfferedRate()) || n < load.MinSamples || n > 41 {
		t.Errorf("got %+v at %.0f/s, want a trend of some forty samples that does not grow", r.InFlight, r.OfferedRate())
	}
}
