package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/experiment"
	"loadstone/lab/host"
	"loadstone/lab/load"
	"loadstone/lab/result"
	"loadstone/lab/stats"
	"loadstone/lab/threshold"
	"loadstone/lab/verdict"
)

// search is a trial of a system whose edge is known: every try sees it through
// the noise of its own.
func search(r *rand.Rand, edge, noise, start float64) observed {
	c := capacity.DefaultConfig()
	var history []capacity.Try
	spent := time.Duration(0)
	for {
		step, ok := c.Next(history, spent, start)
		if !ok {
			break
		}
		seen := edge * math.Exp(noise*r.NormFloat64())
		history = append(history, capacity.Try{Purpose: step.Purpose, Rate: step.Rate, Held: step.Rate <= seen})
		spent += step.Duration
	}
	o := observed{}
	o.search(capacity.Conclude(history))
	return o
}

// TestIntervalsHoldTheEdge simulates experiments of six trials with the real
// search: the interval holds the edge at least as often as it says, however the
// search began and however little the tries differ.
func TestIntervalsHoldTheEdge(t *testing.T) {
	t.Parallel()
	const experiments, edge = 300, 1000.0
	for _, c := range []struct {
		name  string
		noise float64
		fixed bool
	}{{"quiet", 0.001, false}, {"noisy", 0.04, false}, {"always from the same rate", 0.001, true}} {
		r := rand.New(rand.NewPCG(1, uint64(1000*c.noise)))
		held, wide := 0, 0.0
		for range experiments {
			var trials []observed
			start := 0.7 * edge
			for range 6 {
				if !c.fixed {
					start = edge * (0.5 + r.Float64())
				}
				trials = append(trials, search(r, edge, c.noise, start))
			}
			iv := capacityOf(trials, result.RequestsPerSecond)
			if iv.Confidence < 0.95 || iv.Value < iv.Low || iv.Value > iv.High {
				t.Fatalf("%+v is no interval of 95 %%", iv)
			}
			wide += (iv.High - iv.Low) / edge / experiments
			if iv.Low <= edge && (edge <= iv.High || iv.HighOpen) {
				held++
			}
		}
		t.Logf("%s: the interval holds the edge in %d of %d experiments, and is %.1f %% wide", c.name, held, experiments, 100*wide)
		if held < experiments*95/100 {
			t.Errorf("%s: %d of %d intervals hold the edge, want 95 %%", c.name, held, experiments)
		}
		if wide > 0.4 {
			t.Errorf("%s: the intervals are %.1f %% wide, which says nothing", c.name, 100*wide)
		}
	}
}

func trialsOf(held, rejected []float64) []observed {
	out := make([]observed, len(held))
	for i := range held {
		out[i] = observed{capacity: held[i], rejected: rejected[i], confirmed: true, lasted: true}
		if rejected[i] == 0 {
			out[i].lowerBound = "every rate that was tried held"
		}
	}
	return out
}

// A trial that ended before the system did has no upper end, and is told of even
// if most trials have one.
func TestIntervalsWithoutAnUpperEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		held, rejected []float64
		want           result.Estimate
		bounds         string
	}{
		{[]float64{900, 950, 980, 2000, 2000}, []float64{940, 1000, 1030, 0, 0}, result.Estimate{Interval: stats.Interval{Value: 980, Low: 900, High: 2000, HighOpen: true, Confidence: 0.9375}}, "2 of 5 trials ended"},
		{[]float64{900, 950, 980, 990, 1000}, []float64{940, 1000, 1030, 1040, 1050}, result.Estimate{Interval: stats.Interval{Value: 980, Low: 900, High: 1050, Confidence: 0.9375}}, ""},
		{[]float64{980}, []float64{1030}, result.Estimate{Interval: stats.Interval{Value: 980, Low: 980, High: 980}}, ""},
		// Nine trials leave out one at each end: one without an end is left out.
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 20}, []float64{2, 3, 4, 5, 6, 7, 8, 9, 0}, result.Estimate{Interval: stats.Interval{Value: 5, Low: 2, High: 9, Confidence: 0.9609375}}, "1 of 9 trials ended"},
	} {
		trials := trialsOf(c.held, c.rejected)
		got := capacityOf(trials, "")
		got.Confidence = math.Round(1e9*got.Confidence) / 1e9
		if *got != c.want {
			t.Errorf("%v and %v: got %+v, want %+v", c.held, c.rejected, *got, c.want)
		}
		warned := strings.Join(searchWarnings(trials, experiment.Search{Tolerance: 0.05, Budget: 11 * time.Second}), "; ")
		if c.bounds == "" && warned != "" || !strings.Contains(warned, c.bounds) {
			t.Errorf("%v: warned %q, want %q", c.held, warned, c.bounds)
		}
	}
}

func TestSearchesThatEndedEarlyAreToldOf(t *testing.T) {
	t.Parallel()
	narrow := trialsOf([]float64{1000, 1000, 1000}, []float64{1050, 1090, 4000})
	if got := searchWarnings(narrow, experiment.Search{Tolerance: 0.05, Budget: 11 * time.Second}); len(got) != 0 {
		t.Errorf("warned %q of a median trial that ended within 9 %%", got)
	}
	wide := trialsOf([]float64{1000, 1000, 1000}, []float64{1050, 1350, 4000})
	wide[0].confirmed, wide[2].confirmed = false, false
	got := searchWarnings(wide, experiment.Search{Tolerance: 0.05, Budget: 11 * time.Second})
	if len(got) != 1 || !strings.HasSuffix(got[0], "search: {budget: 33s}, tells more") || !strings.Contains(got[0], "35 % above") || !strings.Contains(got[0], "in 2 of 3 trials the highest rate that held was not measured again") {
		t.Errorf("warned %q, want one line of 35 %% and of two trials", got)
	}
	if got := searchWarnings(wide, experiment.Search{Tolerance: 0.2, Budget: 11 * time.Second}); len(got) != 1 || strings.Contains(got[0], "above") {
		t.Errorf("warned %q, want nothing of 35 %% where 20 %% are tolerated", got)
	}
}

// Whatever a search was too short for, one thing is advised, and it is enough of it.
func TestOneAdviceToAShortSearch(t *testing.T) {
	t.Parallel()
	const seconds = time.Second
	for name, c := range map[string]struct {
		early  bool
		few    bool
		takes  time.Duration // until enough requests came; 0 if none did
		hold   time.Duration
		lasted bool
		want   string
	}{
		"nothing":                          {false, false, 0, 0, true, ""},
		"early":                            {true, false, 0, 0, true, "such as search: {budget: 33s}, tells more"},
		"few requests":                     {false, true, 14 * seconds, 0, true, "search: {hold: 20s} offers enough"},
		"few, and held for less":           {false, true, 14 * seconds, 5 * seconds, true, "search: {hold: 20s} offers enough"},
		"few, and nothing lasted":          {false, true, 14 * seconds, 5 * seconds, false, "such as search: {budget: 40s}, tells more"},
		"few, as nothing lasted":           {false, true, 14 * seconds, 60 * seconds, false, "such as search: {budget: 40s}, tells more"},
		"few for a step that none came to": {false, true, 0, 0, true, "such as search: {budget: 33s}, tells more"},
		"early and few":                    {true, true, 14 * seconds, 0, true, "such as search: {budget: 40s}, tells more"},
		"nothing lasted":                   {false, false, 0, 60 * seconds, false, "such as search: {budget: 33s}, tells more"},
		"all of it":                        {true, true, 120 * seconds, 60 * seconds, false, "such as search: {budget: 240s}, tells more"},
	} {
		trials := trialsOf([]float64{1000, 1000}, []float64{1050, 1050})
		for i := range trials {
			trials[i].confirmed, trials[i].lasted = !c.early, c.lasted
			if c.few {
				trials[i].few, trials[i].fewTakes = "p(95)<200 was judged by 30, and takes 100", c.takes
			}
		}
		got := strings.Join(searchWarnings(trials, experiment.Search{Tolerance: 0.05, Budget: 11 * seconds, Hold: c.hold}), "\n")
		if !strings.HasSuffix(got, c.want) || strings.Contains(got, "\n") || (got == "") != (c.want == "") || strings.Count(got, "search: {") > 1 ||
			strings.Contains(got, "not measured again") != c.early || strings.Contains(got, "rests on few requests") != c.few ||
			strings.Contains(got, "no rate was seen to last") == c.lasted {
			t.Errorf("%s: warned %q, want %q", name, got, c.want)
		}
	}
}

// TestFullMachineIsALowerBound has all cores in use at capacity: everything that
// is said of the capacity says that it is only a lower bound.
func TestFullMachineIsALowerBound(t *testing.T) {
	t.Parallel()
	free := planted{capacity: 4800, demand: 50 * time.Microsecond, instances: 1}
	full := free
	full.machine = 1.98
	res := derive(t, map[string]planted{"one": full, "two": free})
	one, two := res.Variants[0], res.Variants[1]
	if one.Verdict.Status != verdict.LowerBoundOnly || !one.Capacity.LowerBound || !one.Capacity.HighOpen || !one.Figures[0].LowerBound || one.Figures[0].Rejected != 0 {
		t.Errorf("99 %% busy: %s, %+v, %+v", one.Verdict.Status, one.Capacity, one.Figures[0])
	}
	if !strings.Contains(one.Verdict.Summary, "something other than this run used 1.7 of its cores") || !strings.Contains(strings.Join(one.Warnings, ""), "2 of 2 trials ended before the system did: the machine was full") {
		t.Errorf("99 %% busy: %q, %q", one.Verdict.Summary, one.Warnings)
	}
	if two.Verdict.Status != verdict.Named || two.Capacity.LowerBound || two.Capacity.HighOpen || len(two.Warnings) != 0 || !near(two.Capacity.High, 1.04*4800, 1e-9) {
		t.Errorf("half busy: %s, %+v, %q", two.Verdict.Status, two.Capacity, two.Warnings)
	}
}

// The machine may be full only where the search was rejected.
func TestMachineFullAtTheRejectedRate(t *testing.T) {
	t.Parallel()
	at := func(s float64) time.Time { return began.Add(time.Duration(s * 1e9)) }
	measured := func(rate, from float64, held bool) archive.Measure {
		return archive.Measure{Kind: "search", Try: capacity.Try{Rate: rate, Held: held}, Result: load.Result{From: at(from), To: at(from + 1)}}
	}
	trial := archive.Trial{Measures: []archive.Measure{measured(1000, 0, true), measured(2000, 1, false), measured(1100, 2, false)}}
	for _, c := range []struct {
		second, third float64 // how busy the machine was then
		outside       float64
		want          string
	}{
		{0.5, 0.5, 0, ""},
		{1, 0.5, 1.2, ""},
		{0.5, 0.98, 0.1, fullMachine},
		{0.5, 0.98, 1.26, "the machine was full, and something other than this run used 1.3 of its cores"},
	} {
		var samples []host.Sample
		busy := 0.0
		for i, share := range []float64{0, 0.5, c.second, c.third} {
			busy += share
			samples = append(samples, host.Sample{At: at(float64(i)), MachineBusy: time.Duration(busy * 2e9), MachineTotal: time.Duration(i) * 2 * time.Second})
		}
		o := observed{capacity: 1000, rejected: 1100, machineBusy: 0.5, conditions: result.Conditions{Outside: c.outside}}
		o.filled(trial, samples)
		if o.lowerBound != c.want || (o.rejected == 0) != (c.want != "") {
			t.Errorf("%v: bounded by %q, rejected %v; want %q", c, o.lowerBound, o.rejected, c.want)
		}
	}
}

// An objective is met if it was in most trials, and the figure that is shown is the one that
// was judged: never one that met a threshold which is said to be crossed.
func TestObjectivesAreJudgedByTheMiddleTrial(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		threshold string
		observed  []float64
		want      result.SLO
	}{
		{"p(95)<200", []float64{190}, result.SLO{Observed: 190, Met: true, Trials: 1}},
		{"p(95)<200", []float64{190, 210}, result.SLO{Observed: 210, Trials: 2, Crossed: 1}},
		{"p(95)<200", []float64{210, 170, 190}, result.SLO{Observed: 190, Met: true, Trials: 3, Crossed: 1}},
		{"p(95)<200", []float64{180, 206, 170, 190}, result.SLO{Observed: 190, Met: true, Trials: 4, Crossed: 1}},
		{"p(95)<200", []float64{180, 206, 210, 190}, result.SLO{Observed: 206, Trials: 4, Crossed: 2}},
		{"rate>0.9", []float64{0.8, 0.95, 0.99}, result.SLO{Observed: 0.95, Met: true, Trials: 3, Crossed: 1}},
	} {
		limit, err := threshold.Parse("http_req_duration", "p(95)<200")
		if c.threshold != "p(95)<200" {
			limit, err = threshold.Parse("checks", c.threshold)
		}
		if err != nil {
			t.Fatal(err)
		}
		var trials []observed
		for _, o := range c.observed {
			trials = append(trials, observed{slo: []result.SLO{{Threshold: c.threshold, Observed: o, Met: limit.Holds(o)}}})
		}
		c.want.Threshold = c.threshold
		if got := objectives(trials)[0]; got != c.want {
			t.Errorf("%s of %v: got %+v, want %+v", c.threshold, c.observed, got, c.want)
		}
	}
}

// Trials that ended before the system did may hide a difference the other way.
func TestBoundsAmongTrialsMayTurnADifferenceRound(t *testing.T) {
	t.Parallel()
	variant := func(name string, capacity float64, bounds ...int) result.Variant {
		v := result.Variant{Name: name}
		for i := range 6 {
			v.Figures = append(v.Figures, result.Figure{Round: i + 1, Capacity: capacity + float64(i*i%5), LowerBound: slices.Contains(bounds, i)})
		}
		return v
	}
	for _, c := range []struct {
		name string
		vs   []result.Variant
		want bool
	}{
		{"none", []result.Variant{variant("a", 1000), variant("b", 1500)}, true},
		{"the lower one's", []result.Variant{variant("a", 1000, 1, 4), variant("b", 1500)}, false},
		{"the higher one's", []result.Variant{variant("a", 1000), variant("b", 1500, 1, 4)}, true},
		{"the lower one's, which is not the baseline", []result.Variant{variant("a", 1500), variant("b", 1000, 1, 4)}, false},
	} {
		got, _, err := comparisons(c.vs)
		if err != nil || len(got) != 1 || got[0].Significant != c.want {
			t.Errorf("%s: %+v, %v; want significant %v", c.name, got, err, c.want)
		}
	}
}

// Trials are compared by where all attempts put the edge, and not by the highest rate that held.
func TestTrialsAreComparedByTheirEdges(t *testing.T) {
	t.Parallel()
	variant := func(name string, capacity, edge float64) result.Variant {
		v := result.Variant{Name: name}
		for i := range 6 {
			v.Figures = append(v.Figures, result.Figure{Round: i + 1, Capacity: capacity - float64(i), Edge: edge + float64(i*i%5)})
		}
		return v
	}
	got, _, err := comparisons([]result.Variant{variant("a", 990, 1000), variant("b", 980, 1100)})
	if err != nil || len(got) != 1 || !got[0].Significant || got[0].Ratio < 1.09 || got[0].Ratio > 1.11 {
		t.Errorf("got %+v, %v; want 1.1", got, err)
	}
}

// The size that may carry a rate may have no upper end.
func TestRequiredSizeOfAnOpenInterval(t *testing.T) {
	t.Parallel()
	s := &result.Scaling{Points: []result.ScalingPoint{{Size: 1, Capacity: result.Estimate{Interval: stats.Interval{Value: 980, Low: 900, High: 2000, HighOpen: true, Confidence: 0.9375}}}}}
	if c := requiredSize(s, 2500, result.RequestsPerSecond); c.Size != 0 || c.Maybe != 1 {
		t.Errorf("%+v: want that size 1 may carry 2,500", c)
	}
}

// A capacity is a lower bound if half its trials are, and no earlier.
func TestLowerBoundIsOfHalfTheTrials(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{0: false, 1: false, 2: false, 3: true, 4: true, 6: true} {
		trials := make([]observed, 6)
		for i := range n {
			trials[i].lowerBound = "every rate that was tried held"
		}
		if got := lowerBound(trials) != ""; got != want {
			t.Errorf("%d of 6 trials: lower bound %v, want %v", n, got, want)
		}
	}
}
