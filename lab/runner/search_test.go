package runner

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
)

// crowded answers one request of a sweep after the other, each in its service time, as long as
// anybody waits for it.
type crowded struct{ service time.Duration }

func (c crowded) Run(_ context.Context, p load.Plan, _ func(load.Window) string) (load.Result, error) {
	s := &p.Scenarios[0]
	r := load.Result{From: time.Now().Add(p.Warmup), To: time.Now().Add(s.Duration), Status: map[int]uint64{200: 1}}
	n, queue := uint64(r.Seconds()/c.service.Seconds()), time.Duration(s.VUs)*c.service
	r.Offered, r.Requests, r.Iterations, r.IterationsInTime, r.CompletedInTime = n, n, n, n, n
	r.Response = load.Latency{P50: queue.Seconds() * 1e3, P95: queue.Seconds() * 1e3}
	time.Sleep(s.Duration + min(queue, s.GracefulStop))
	return r, nil
}

// What a sweep leaves under way is waited for, for as long as the objectives may allow, and no
// search's budget is for that: it would be used up before the first attempt.
func TestTheBudgetIsNotForWhatASweepLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &experiment.Experiment{
			Measure: experiment.Capacity, Seed: 7, Search: experiment.DefaultSearch(), SLO: experiment.SLO{parse(t, "http_req_duration", "p(95)<9000")},
			Load: experiment.Offer{Timeout: time.Minute, Warmup: time.Minute, Scenarios: []experiment.Scenario{{Name: "get"}}},
		}
		m := &trialRun{
			execution: &execution{Config: Config{Experiment: e}, search: searchConfig(e)},
			trial:     &archive.Trial{Planned: archive.Planned{Index: 1}}, generator: crowded{200 * time.Millisecond}, base: e.Plan(),
		}
		_, rate, began, err := m.sweep(t.Context(), m.base.Scenarios[0])
		if err != nil || rate < 4 || rate > 5 {
			t.Errorf("got %v a second and %v, want nearly 5", rate, err)
		}
		if got, want := time.Since(began), m.search.Budget/sweepShare; got != want {
			t.Errorf("the budget has paid %v for the sweep, want %v", got, want)
		}
	})
}
