package engine

import (
	"sync/atomic"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/loadtest"
)

// TestUsersAreOfAllLoops: what a cap on virtual users means does not depend on how many
// loops there are. Four users, of whom the server holds two until all else is answered:
// whatever is due is sent by the two others, on whichever loop it is due.
func TestUsersAreOfAllLoops(t *testing.T) {
	t.Parallel()
	for _, threads := range []int{1, 2, 4} {
		plan := loadtest.OpenPlan("", 200, time.Second, 4)
		plan.Threads, plan.Timeout = threads, time.Minute
		plan.Scenarios[0].Arrivals, plan.Scenarios[0].GracefulStop = load.Uniform, time.Minute
		due := loadtest.Due(plan)
		var asked, answered atomic.Uint64
		others := make(chan struct{}) // have all been answered
		server := serveRaw(t, func(c *rawConn) {
			for c.request() != nil {
				if asked.Add(1) <= 2 {
					select {
					case <-others:
					case <-t.Context().Done():
						return
					}
				} else if answered.Add(1) == due-2 {
					close(others)
				}
				c.send(okAnswer)
			}
		})
		plan.Targets = []string{server.url}
		r, _ := mustRun(t, plan)
		if r.Dropped != 0 || r.Failed != 0 || r.Requests != due {
			t.Errorf("%d loops: %d of %d sent, %d failed and %d dropped, want all sent by the two users who are free", threads, r.Requests, due, r.Failed, r.Dropped)
		}
		if r.MaxInFlight < 2 || server.accepted.Load() > 4 {
			t.Errorf("%d loops: %d in flight over %d connections, want two held and four connections at most", threads, r.MaxInFlight, server.accepted.Load())
		}
	}
}

// TestWhoTakesTurnsOnConnectionsIsOnOneLoop unless the plan says otherwise.
func TestWhoTakesTurnsOnConnectionsIsOnOneLoop(t *testing.T) {
	t.Parallel()
	plan := loadtest.ClosedPlan("http://127.0.0.1:1", 10, time.Second)
	plan.Connections = 6
	if got := plan.ThreadCount(); got != 1 {
		t.Errorf("got %d loops, want one", got)
	}
	plan.Threads = 3
	if got := plan.ThreadCount(); got != 3 {
		t.Errorf("got %d loops, want the three that the plan asks for", got)
	}
}

// TestLatenessIsOfWhatHasATime: closed iterations beside a schedule do not dilute it.
func TestLatenessIsOfWhatHasATime(t *testing.T) {
	t.Parallel()
	server := serveRaw(t, func(c *rawConn) {
		for c.request() != nil {
			c.send(okAnswer)
		}
	})
	plan := loadtest.OpenPlan(server.url, 50, time.Second, 5)
	plan.Scenarios = append(plan.Scenarios, countedPlan(server.url, 4, 50).Scenarios[0])
	plan.Scenarios[1].Name = "beside"
	r, _ := mustRun(t, plan)
	if due := loadtest.Due(plan); r.Scheduled != due || r.Offered <= 2*due {
		t.Errorf("got %d scheduled of %d offered, want the %d of the schedule", r.Scheduled, r.Offered, due)
	}
	r.Late = r.Scheduled / 10
	if got := r.LateShare(); got < 0.05 {
		t.Errorf("got %v late, want a tenth of the arrivals", got)
	}
}

// TestWhoseADropIs: the system's where nobody was free, the generator's where somebody was.
func TestWhoseADropIs(t *testing.T) {
	t.Parallel()
	for late, freeAt := range map[uint64]time.Duration{1: 0, 0: 3 * time.Second} {
		plan := loadtest.OpenPlan("http://127.0.0.1:1", 1, 10*time.Second, 1)
		plan.Timeout = time.Second
		plan.Scenarios[0].Arrivals = load.Uniform
		r, err := newRun(t.Context(), &plan, nil)
		if err != nil {
			t.Fatal(err)
		}
		p := r.executors[0].(*scenario).open[0]
		for _, u := range p.users {
			u.freeAt = freeAt
		}
		a, ok := p.peek()
		if !ok {
			t.Fatal("no arrival")
		}
		// Nobody looked until the arrival's time was long over.
		p.limit = a.At + 1
		p.turn(a.At + 2*time.Second)
		r.recorder.rotate()
		if got := &r.recorder.total.measured; got.dropped != 1 || got.droppedLate != late {
			t.Errorf("free since %v: got %d dropped, %d of them the generator's; want 1 and %d, due at %v", freeAt, got.dropped, got.droppedLate, late, a.At)
		}
		if err := r.closeLoops(); err != nil {
			t.Fatal(err)
		}
	}
}
