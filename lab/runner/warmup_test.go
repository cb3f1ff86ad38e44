package runner

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
)

// cold is a system that serves 40 requests a second until it has served 1,000, and
// 400 from then on. Its time is that of the plans which it is given; it answers at
// once, and turns away what it cannot serve.
type cold struct {
	served float64
	plans  []load.Plan
}

const (
	coldRate, warmRate = 40.0, 400.0
	coldRequests       = 1000.0
)

// serve is how many of the requests offered at a rate for so long are served.
func (c *cold) serve(offered float64, d time.Duration) (n float64) {
	left, before := d.Seconds(), c.served
	if c.served < coldRequests {
		speed := min(offered, coldRate)
		t := min(left, (coldRequests-c.served)/speed)
		c.served, left = c.served+t*speed, left-t
	}
	c.served += left * min(offered, warmRate)
	return c.served - before
}

func (c *cold) Run(_ context.Context, p load.Plan, _ func(load.Window) string) (load.Result, error) {
	c.plans = append(c.plans, p)
	s := p.Scenarios[0]
	offered := s.Rate
	if s.Executor == load.ConstantVUs {
		offered = math.Inf(1)
	}
	c.serve(offered, p.Warmup)
	d := s.Duration - p.Warmup
	done := uint64(math.Round(c.serve(offered, d)))
	h := load.NewHistogram()
	if err := h.RecordValue(1e6); err != nil {
		return load.Result{}, err
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return load.Result{}, err
	}
	from := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	r := load.Result{From: from, To: from.Add(d), Offered: done, Iterations: done, Requests: done, IterationsInTime: done, CompletedInTime: done}
	r.Response.Histogram, r.Service.Histogram = string(text), string(text)
	if !math.IsInf(offered, 1) {
		r.Offered = uint64(math.Round(offered * d.Seconds()))
		r.Dropped = r.Offered - min(done, r.Offered)
	}
	return r, nil
}

// TestWarmup has the capacity of a system that is cold at first: a search without a
// warm-up never sees another one, since all its tries together do not warm the
// system up.
func TestWarmup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		warmup time.Duration
		want   float64
	}{
		"without, it is the cold system's": {0, coldRate},
		"warmed up":                        {coldRequests / coldRate * time.Second, warmRate},
	} {
		// In a time of its own: what the search takes to think is no time of the system.
		synctest.Test(t, func(t *testing.T) {
			e := &experiment.Experiment{
				Measure: experiment.Capacity, Seed: 7, Trials: 1, Search: experiment.DefaultSearch(), SLO: objectives(t)[1:], Perturb: experiment.Perturb{Off: true},
				Load: experiment.Offer{Warmup: c.warmup, Timeout: 10 * time.Second, Scenarios: []experiment.Scenario{{Name: "get"}}},
			}
			system := &cold{}
			m := &trialRun{
				execution: &execution{Config: Config{Experiment: e}, search: searchConfig(e)},
				trial:     &archive.Trial{Planned: archive.Planned{Index: 1, Round: 1}}, generator: system, base: e.Plan(),
				unseen: &unseen{reason: "nothing is watched"},
			}
			if err := m.capacity(t.Context()); err != nil {
				t.Fatal(err)
			}
			out, _ := m.trial.Conclude()
			if out.Rate > 1.02*c.want || out.Rejected < 0.98*c.want || out.Rejected > 1.1*out.Rate {
				t.Errorf("%s: found between %.1f and %.1f a second, want %.0f", name, out.Rate, out.Rejected, c.want)
			}
			for i, p := range system.plans {
				if i == 0 && p.Warmup < c.warmup || i > 0 && p.Warmup > maxWarmup {
					t.Errorf("%s: piece %d of the load has a warm-up of %v", name, i+1, p.Warmup)
				}
			}
			if m.trial.Measures[0].Kind != archive.Sweep || len(m.trial.Measures) != len(system.plans) {
				t.Errorf("%s: %d measures of %d pieces of load", name, len(m.trial.Measures), len(system.plans))
			}
		})
	}
}
