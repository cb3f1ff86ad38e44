package runner

import (
	"math"
	"strings"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
)

// A tenth of the capacity is offered in the last trial, for as long as a few requests take, and
// not at all where nobody would see how long they take.
func TestALittleLoad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		capacity float64 // iterations a second
		takes    float64 // ms, of an iteration that is more than a request
		unseen   string
		lasts    time.Duration // 0 if it is not offered
		says     string
	}{
		"many requests":            {capacity: 400, lasts: lightTime - maxWarmup},
		"few requests":             {capacity: 50, lasts: 4 * time.Second},
		"hardly any":               {capacity: 5, lasts: mostLight},
		"journeys":                 {capacity: 400, takes: 3000, lasts: 3 * time.Second},
		"journeys of half an hour": {capacity: 400, takes: 1.8e6, says: "an iteration takes 1800 s"},
		"nobody watches":           {capacity: 400, unseen: "it is not allowed", says: "it is not allowed"},
	} {
		e := &experiment.Experiment{Measure: experiment.Capacity, Trials: 1, SLO: objectives(t)[1:], Load: experiment.Offer{Timeout: time.Second, Scenarios: []experiment.Scenario{{Name: "get", Arrivals: load.Poisson}}}}
		system := &cold{served: coldRequests}
		m := &trialRun{
			execution: &execution{Config: Config{Experiment: e}, search: searchConfig(e)},
			trial:     &archive.Trial{Planned: archive.Planned{Index: 1, Round: 1}}, generator: system, base: e.Plan(),
			unseen: &unseen{reason: c.unseen},
		}
		from := time.Now()
		at := &load.Result{From: from, To: from.Add(10 * time.Second), IterationsInTime: uint64(10 * c.capacity)}
		if c.takes > 0 {
			at.Journeys = []load.JourneyResult{{Duration: load.Latency{P95: c.takes}}}
		}
		if err := m.light(t.Context(), m.base.Scenarios[0], at); err != nil {
			t.Fatal(err)
		}
		if why := m.unseen.why(); !strings.HasPrefix(why, c.says) || (why == "") != (c.says == "") {
			t.Errorf("%s: got %q, want %q", name, why, c.says)
		}
		if offered := len(system.plans) == 1; offered != (c.lasts > 0) || offered != (m.trial.Light != nil) {
			t.Errorf("%s: %d pieces of load, want it offered: %v", name, len(system.plans), c.lasts > 0)
			continue
		}
		for _, p := range system.plans {
			s := p.Scenarios[0]
			if measured := s.Duration - p.Warmup; measured != c.lasts || math.Abs(s.Rate-c.capacity/10) > 1e-9 || s.Executor != load.ConstantArrivalRate || s.Arrivals != load.Poisson || s.Stratum != 1 {
				t.Errorf("%s: %v at %v a second (%s, strata of %d), want %v at %v, one in each stratum", name, measured, s.Rate, s.Arrivals, s.Stratum, c.lasts, c.capacity/10)
			}
		}
	}
}
