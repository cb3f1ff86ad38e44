package capacity

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/stats"
)

func TestEdge(t *testing.T) {
	t.Parallel()
	held := func(r float64) Try { return Try{Purpose: Search, Rate: r, Held: true} }
	lost := func(r float64) Try { return Try{Purpose: Search, Rate: r} }
	as := func(p Purpose, t Try) Try { t.Purpose = p; return t }
	grew := func(r, completed float64) Try { return Try{Purpose: Search, Rate: r, Grew: true, Completed: completed} }
	for name, c := range map[string]struct {
		history   []Try
		low, high float64
	}{
		"what was completed":    {[]Try{held(900), grew(1100, 1000)}, 985, 1020},
		"twice":                 {[]Try{held(900), grew(1200, 1040), grew(1100, 960)}, 985, 1015},
		"a stall":               {[]Try{held(900), held(1000), grew(1100, 850), as(Confirm, held(1000))}, 1000, 1080},
		"on average":            {[]Try{held(900), grew(1100, 1030), grew(1080, 950), lost(1010)}, 960, 1000},
		"its latency counts":    {[]Try{held(800), grew(1100, 1000), lost(850), as(Confirm, held(800)), as(Confirm, lost(850))}, 815, 835},
		"it lasts for so long":  {[]Try{held(70), held(80), held(90), held(100), grew(110, 104), as(Hold, lost(100)), as(Hold, lost(90)), as(Hold, lost(80))}, 73, 79},
		"it held in the end":    {[]Try{held(900), grew(1000, 950), as(Confirm, held(1000)), lost(1100)}, 970, 1040},
		"nothing tried":         {nil, 0, 0},
		"nothing held":          {[]Try{lost(1000), lost(500)}, 0, 0},
		"a lower bound":         {[]Try{held(1000), held(1100)}, 1100, 1100},
		"the generator's":       {[]Try{held(1000), {Purpose: Search, Rate: 1100, GeneratorLimited: true}}, 1000, 1000},
		"a bracket":             {[]Try{held(1000), lost(1100), as(Confirm, held(1000)), as(Confirm, lost(1100))}, 1045, 1055},
		"a wide one":            {[]Try{held(1000), lost(2000)}, 1400, 1450},
		"it wavers":             {[]Try{held(1000), as(Confirm, lost(1000)), held(900), lost(1100)}, 970, 1000},
		"two of three":          {[]Try{held(1000), as(Confirm, lost(1000)), held(1000), held(900), lost(1100)}, 985, 1015},
		"it did not come back":  {[]Try{held(1000), lost(1100), as(Confirm, lost(1000)), lost(950), held(800)}, 930, 985},
		"a machine stood still": {[]Try{held(1000), held(1100), lost(500), held(450), lost(1210)}, 1080, 1180},
		"none lasts":            {[]Try{held(70), held(80), held(90), held(100), lost(110), as(Hold, lost(100)), as(Hold, lost(90)), as(Hold, lost(80))}, 73, 79},
		"far less lasts":        {[]Try{held(500), held(1000), lost(1050), as(Confirm, held(1000)), as(Confirm, lost(1050)), as(Hold, lost(1000)), as(Hold, held(500))}, 600, 800},
		"whole amounts":         {[]Try{held(1), lost(2)}, 1, 1},
		"it did not last":       {[]Try{held(1000), lost(1050), as(Confirm, held(1000)), as(Hold, lost(1000)), as(Hold, held(950))}, 970, 1000},
	} {
		if got := Conclude(c.history).Edge; got < c.low || got > c.high || math.IsNaN(got) {
			t.Errorf("%s: got %.1f, want from %g to %g", name, got, c.low, c.high)
		}
	}
	last := []Try{held(1000), lost(1050), as(Confirm, held(1000))}
	if short, long := Conclude(append(last, as(Search, lost(1000)), held(950))).Edge, Conclude(append(last, as(Hold, lost(1000)), held(950))).Edge; long >= short {
		t.Errorf("what did not last for a minute puts the edge at %.1f, a short attempt at %.1f; want it lower", long, short)
	}
}

// Of a rate at which a backlog grew, what was completed counts, unless that is not what the system does of it.
func TestCompleted(t *testing.T) {
	t.Parallel()
	from := time.Now()
	r := load.Result{
		From: from, To: from.Add(2 * time.Second), Offered: 2000, Requests: 2000, IterationsInTime: 1800,
		InFlight: load.Trend{Slope: 100, Low: 50, High: 150, Samples: 40},
	}
	for name, c := range map[string]struct {
		try    Try
		change func(r *load.Result)
		want   float64
	}{
		"a backlog":             {Try{Rate: 1000}, func(*load.Result) {}, 900},
		"none":                  {Try{Rate: 1000}, func(r *load.Result) { r.InFlight.Slope, r.InFlight.Low = 0, -50 }, 0},
		"it held":               {Try{Rate: 1000, Held: true}, func(*load.Result) {}, 0},
		"of the warm-up, too":   {Try{Rate: 1000}, func(r *load.Result) { r.IterationsInTime = 2100 }, 1000},
		"it is not sure":        {Try{Rate: 1000}, func(r *load.Result) { r.InFlight.Low = -90 }, 900},
		"iterations of several": {Try{Rate: 1000}, func(r *load.Result) { r.Journeys = make([]load.JourneyResult, 1) }, 0},
		"what does not last":    {Try{Rate: 1000, Purpose: Hold}, func(*load.Result) {}, 0},
		"cut in two places":     {Try{Rate: 1000}, func(r *load.Result) { r.Aborted, r.Parts = "overload", make([]load.Result, 2) }, 0},
		"cut":                   {Try{Rate: 1000}, func(r *load.Result) { r.Aborted = "overload" }, 900},
		"it failed":             {Try{Rate: 1000}, func(r *load.Result) { r.Failed = 30 }, 0},
		"it was dropped":        {Try{Rate: 1000}, func(r *load.Result) { r.Dropped = 30 }, 0},
		"far above":             {Try{Rate: 1000}, func(r *load.Result) { r.IterationsInTime = 1400 }, 0},
		"the generator limited": {Try{Rate: 1000, GeneratorLimited: true}, func(*load.Result) {}, 0},
		"connections":           {Try{Rate: 1000, Unit: "connections"}, func(*load.Result) {}, 0},
	} {
		r := r
		c.change(&r)
		c.try.Saw(&r)
		if c.try.Completed != c.want || c.try.Lasted != 2*time.Second || c.try.Offered != 2000 {
			t.Errorf("%s: got %+v, want %g completed", name, c.try, c.want)
		}
	}
}

// TestATenthIsFound has experiments of six rounds, whose second variant does a tenth more,
// compared as Loadstone does it: of two variants that is Student's test. By the highest rates
// that held, the difference is missed too often where attempts waver.
func TestATenthIsFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ noise, least float64 }{{0.001, 0.99}, {0.02, 0.98}, {0.03, 0.95}, {0.04, 0.92}, {0.06, 0.7}} {
		e := &edge{noise: c.noise, rng: rand.New(rand.NewPCG(uint64(1000*c.noise), 4))}
		edges, rates := compared{name: "edges"}, compared{name: "rates that held"}
		for range compareExperiments {
			var found, held [3][]float64 // by variant; two of equals, and one that does a tenth more
			for variant := range found {
				for range trialsEach {
					history, _ := e.trial(DefaultConfig(), trueEdge*math.Exp(0.05*e.rng.NormFloat64()))
					out := Conclude(history)
					found[variant], held[variant] = append(found[variant], math.Log(out.Edge/trueEdge)), append(held[variant], math.Log(out.Rate/trueEdge))
				}
			}
			edges.add(found)
			rates.add(held)
		}
		t.Logf("noise %g %%: %s; %s", 100*c.noise, edges.text(), rates.text())
		if edges.found < c.least*compareExperiments {
			t.Errorf("noise %g %%: by edges a tenth is found in %.3f of experiments, want %g", 100*c.noise, edges.found/compareExperiments, c.least)
		}
		if least := stats.Share(int(edges.falsely), compareExperiments).Low; least > stats.Alpha {
			t.Errorf("noise %g %%: equals are called different in %g of %d, want 5 %%", 100*c.noise, edges.falsely, compareExperiments)
		}
		if off := math.Exp(edges.bias) - 1; math.Abs(off) > 0.015 {
			t.Errorf("noise %g %%: edges are off by %+.1f %% in the mean", 100*c.noise, 100*off)
		}
		if c.noise > 0.03 && rates.found > edges.found-compareExperiments/20 {
			t.Errorf("noise %g %%: by rates that held a tenth is found in %g, by edges in %g: this test could not tell them apart", 100*c.noise, rates.found, edges.found)
		}
	}
}

const compareExperiments = 300

// compared is what experiments said by one figure of their trials.
type compared struct {
	name                 string
	found, falsely, bias float64
}

// add has logarithms of what the trials of each variant found.
func (c *compared) add(logs [3][]float64) {
	if differ(logs[0], logs[1], 0) {
		c.falsely++
	}
	if differ(logs[0], logs[2], math.Log(1.1)) {
		c.found++
	}
	for _, xs := range logs {
		c.bias += stats.Mean(xs) / float64(len(logs)*compareExperiments)
	}
}

func (c *compared) text() string {
	return fmt.Sprintf("by %s a tenth is found in %.3f, equals are called different in %.3f, and the mean is off by %+.1f %%",
		c.name, c.found/compareExperiments, c.falsely/compareExperiments, 100*(math.Exp(c.bias)-1))
}

// differ is Student's test of six pairs, of which the second are higher by more.
func differ(a, b []float64, more float64) bool {
	const quantile = 2.571 // of five degrees of freedom, at 97.5 %
	n, mean, squares := float64(len(a)), 0.0, 0.0
	for i := range a {
		mean += (b[i] + more - a[i]) / n
	}
	for i := range a {
		squares += (b[i] + more - a[i] - mean) * (b[i] + more - a[i] - mean)
	}
	return math.Abs(mean) > quantile*math.Sqrt(squares/(n-1)/n)
}

// A rate whose confirmation the generator could not offer stays as the try before it left it.
func TestWhatTheGeneratorLimitedSaysNothing(t *testing.T) {
	t.Parallel()
	history := []Try{
		{Purpose: Search, Rate: 1000, Held: true}, {Purpose: Search, Rate: 1100}, {Purpose: Confirm, Rate: 1000, Held: true},
		{Purpose: Confirm, Rate: 1100, GeneratorLimited: true, Reason: "late"},
	}
	if out := Conclude(history); out.LowerBound || out.Rate != 1000 || out.Rejected != 1100 || !out.Confirmed {
		t.Errorf("the neighbour: got %+v", out)
	}
	history[2], history[3].Rate = history[3], 1000
	history[2].Rate = 1000 // both confirmations of the winner, that is
	if out := Conclude(history); out.LowerBound || out.Rate != 1000 || out.Rejected != 1100 || out.Confirmed {
		t.Errorf("the winner: got %+v", out)
	}
	top := []Try{{Rate: 1000, Held: true}, {Rate: 2000, Held: true}, {Purpose: Confirm, Rate: 2000, GeneratorLimited: true, Reason: "late"}}
	if out := Conclude(top); !out.LowerBound || out.Rate != 2000 || out.Rejected != 0 || out.Reason != "late" {
		t.Errorf("the highest rate: got %+v, want a lower bound for the generator's sake", out)
	}
}

// What lives on what it saved holds a first short try far above what it does for long.
func TestASearchComesDownFromWhatHeldOnce(t *testing.T) {
	t.Parallel()
	const lasting, once = 60, 300
	s := newSystem(lasting, 0)
	var history []Try
	var spent time.Duration
	for {
		step, ok := DefaultConfig().Next(history, spent, once)
		if !ok {
			break
		}
		spent += step.Duration + 300*time.Millisecond
		try := s.try(step)
		try.Held = try.Held || len(history) == 0
		history = append(history, try)
	}
	if out := Conclude(history); out.Rate < lasting/4 || out.Rate > lasting {
		t.Errorf("got %+v, want about %d; tries %+v", out, lasting, history)
	}
}
