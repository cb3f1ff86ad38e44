package engine

import (
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
			plan := loadtest.OpenPlan(server.url, 100, 300*time.Millisecond, 5)
			if kind == "closed" {
				plan = loadtest.ClosedPlan(server.url, 5, 300*time.Millisecond)
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
	plan := loadtest.OpenPlan(server.url, 200, time.Second, 1)
	plan.Timeout = 200 * time.Millisecond
	r, windows := mustRun(t, plan)
	if r.Dropped < r.Offered/2 || r.Requests < 3 {
		t.Errorf("%d of %d dropped, %d requests; want most dropped and a few sent", r.Dropped, r.Offered, r.Requests)
	}
	if r.Waited < r.Requests-2 {
		t.Errorf("%d of %d waited, want all but the first", r.Waited, r.Requests)
	}
	if windows[0].Dropped == 0 {
		t.Error("nothing dropped in the first second, want drops to show when they happen")
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
	// Of a steady stream as many come in from the warm-up as go out at the end.
	if r.CompletedInTime < 75 || r.CompletedInTime > 115 {
		t.Errorf("%d completed in the measured second, want about 100; without the warm-up's it would be 60", r.CompletedInTime)
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
	if r.Aborted != "" || r.To.Sub(r.From) != 2*time.Second {
		t.Errorf("aborted %q after %v, want the whole load", r.Aborted, r.To.Sub(r.From))
	}
	if r.InFlight.Growing(r.OfferedRate()) || r.InFlight.Samples < 30 {
		t.Errorf("got %+v at %.0f/s, want a trend of some forty samples that does not grow", r.InFlight, r.OfferedRate())
	}
}
