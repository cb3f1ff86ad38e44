// Package loadtest is what the tests of the load generator's parts share: small
// plans, and what holds for the result of every plan. Only tests import it.
package loadtest

import (
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
)

// patience bounds what a plan of a test waits for: longer than a machine stands still on which everything else is tested, too.
const patience = 30 * time.Second

// OpenPlan is a plan of one open scenario.
func OpenPlan(url string, rate float64, d time.Duration, users int) load.Plan {
	return load.Plan{
		Targets: []string{url}, Seed: 1, Timeout: patience,
		Scenarios: []load.Scenario{{
			Name: "open", Executor: load.ConstantArrivalRate, Rate: rate, Duration: d, Arrivals: load.Poisson,
			PreAllocatedVUs: 1, MaxVUs: users, GracefulStop: patience, Steps: []load.Step{{Request: load.Request{Method: "GET", Path: "/"}}},
		}},
	}
}

// ClosedPlan is a plan of one closed scenario.
func ClosedPlan(url string, users int, d time.Duration) load.Plan {
	return load.Plan{
		Targets: []string{url}, Seed: 1, Timeout: patience,
		Scenarios: []load.Scenario{{
			Name: "closed", Executor: load.ConstantVUs, VUs: users, Duration: d, GracefulStop: patience, Steps: []load.Step{{Request: load.Request{Method: "GET", Path: "/"}}},
		}},
	}
}

// CheckSums checks that everything offered ended as exactly one thing, and
// that the Result, its histograms and its windows tell the same story.
func CheckSums(tb testing.TB, plan load.Plan, r load.Result, windows []load.Window) {
	tb.Helper()
	checkCounts(tb, r)
	if r.WebSocket == nil {
		checkParts(tb, r)
	}
	checkHistograms(tb, r)
	checkWindows(tb, plan, r, windows)
}

func checkCounts(tb testing.TB, r load.Result) {
	tb.Helper()
	var ended, bad uint64
	for status, n := range r.Status {
		ended += n
		if status >= 400 {
			bad += n
		}
	}
	for kind, e := range r.Errors {
		ended += e.Count
		bad += e.Count
		if e.Example == "" {
			tb.Errorf("no example of %s", kind)
		}
	}
	if r.Offered != r.Iterations+r.Dropped {
		tb.Errorf("offered %d, but %d iterations and %d dropped", r.Offered, r.Iterations, r.Dropped)
	}
	if r.WebSocket != nil {
		ended += r.WebSocket.Delivered // which has no status
		for _, step := range r.Steps {
			if step.Name == load.StepAck || step.Name == load.StepPing {
				ended += step.Requests - step.Failed
			}
		}
	}
	if ended != r.Requests || bad != r.Failed {
		tb.Errorf("%d requests, %d failed; but statuses and errors add up to %d, %d bad", r.Requests, r.Failed, ended, bad)
	}
	checkLate(tb, r)
}

func checkLate(tb testing.TB, r load.Result) {
	tb.Helper()
	if r.Waited+r.Late > r.Requests || r.Waited+r.Late+r.Dropped > r.Scheduled || r.DroppedLate > r.Dropped {
		tb.Errorf("%d requests of %d scheduled, but %d waited, %d late and %d dropped, %d of them late",
			r.Requests, r.Scheduled, r.Waited, r.Late, r.Dropped, r.DroppedLate)
	}
}

// checkParts checks that what there is of steps and scenarios adds up to the whole.
func checkParts(tb testing.TB, r load.Result) {
	tb.Helper()
	var sent, received uint64
	for i := range r.Steps {
		sent += r.Steps[i].Sent
		received += r.Steps[i].Received
	}
	if sent != r.Sent || received != r.Received {
		tb.Errorf("%d bytes sent and %d received, but the steps' add up to %d and %d", r.Sent, r.Received, sent, received)
	}
	var journeys uint64
	for i := range r.Journeys {
		journeys += r.Journeys[i].Iterations
	}
	if len(r.Journeys) > 0 && journeys != r.Iterations {
		tb.Errorf("%d iterations, but the scenarios' add up to %d", r.Iterations, journeys)
	}
}

func checkHistograms(tb testing.TB, r load.Result) {
	tb.Helper()
	timed := r.Requests
	for _, step := range r.Steps {
		if r.WebSocket != nil && load.Aside(step.Name) {
			timed -= step.Requests
		}
	}
	for name, l := range map[string]load.Latency{"response": r.Response, "service": r.Service} {
		h, err := hdrhistogram.Decode([]byte(l.Histogram))
		if err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		if h.TotalCount() != int64(timed) {
			tb.Errorf("%s: the histogram has %d values of %d requests", name, h.TotalCount(), timed)
		}
		if got, want := l.P99, float64(h.ValueAtQuantile(99))/1000; got != want {
			tb.Errorf("%s: p99 %v ms, but the histogram has %v", name, got, want)
		}
	}
}

func checkWindows(tb testing.TB, plan load.Plan, r load.Result, windows []load.Window) {
	tb.Helper()
	var requests, failed, dropped uint64
	for i, w := range windows {
		requests += w.Requests
		failed += w.Failed
		dropped += w.Dropped
		if i > 0 && !w.Start.After(windows[i-1].Start) {
			tb.Errorf("window %d starts at %v, after one at %v", i, w.Start, windows[i-1].Start)
		}
	}
	// Of the warm-up's, those that were under way when it ended, or had not been sent
	// because the machine stood still, are done in the measured part.
	if r.CompletedInTime > requests {
		tb.Errorf("%d requests were done in time, but windows have %d", r.CompletedInTime, requests)
	}
	if requests < r.Requests || failed < r.Failed || dropped < r.Dropped ||
		plan.Warmup == 0 && (requests != r.Requests || failed != r.Failed || dropped != r.Dropped) {
		tb.Errorf("windows have %d requests, %d failed, %d dropped; the result %d, %d, %d",
			requests, failed, dropped, r.Requests, r.Failed, r.Dropped)
	}
}

// Due counts the arrivals of a plan's open scenarios from its warm-up on.
func Due(plan load.Plan) uint64 {
	var n uint64
	for i := range plan.Scenarios {
		if s := &plan.Scenarios[i]; s.Open() {
			for walk := load.NewArrivals(s, plan.Seed); ; walk.Advance() {
				a, ok := walk.Peek()
				if !ok {
					break
				}
				if a.At >= plan.Warmup {
					n++
				}
			}
		}
	}
	return n
}
