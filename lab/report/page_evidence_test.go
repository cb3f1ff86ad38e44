package report

import (
	"slices"
	"strings"
	"testing"

	"loadstone/lab/host"
	"loadstone/lab/loadpage/pagetest"
	"loadstone/lab/result"
	"loadstone/lab/stats"
)

// Every check of the validity box must be able to find a fault, and only its own.
func TestValidityChecksFindTheirFault(t *testing.T) {
	t.Parallel()
	good := func() *result.Result {
		r := fullResult()
		r.Variants[2].Conditions.MachineBusy = 0.5
		return r
	}
	if doubts := doubted(good()); len(doubts) > 0 {
		t.Fatalf("a sound run: got doubts %q", doubts)
	}
	for name, spoil := range map[string]func(r *result.Result, v *result.Variant){
		"CPU limits":         func(r *result.Result, _ *result.Variant) { r.Environment.LimitsEnforced = false },
		"Confidence":         func(_ *result.Result, v *result.Variant) { v.Capacity.Confidence = 0.75 },
		"Ends of the search": func(_ *result.Result, v *result.Variant) { v.Capacity.LowerBound = true },
		"Spread of trials":   func(_ *result.Result, v *result.Variant) { v.Capacity.Low = v.Capacity.Value / 2 },
		"Load generator": func(_ *result.Result, v *result.Variant) {
			v.Conditions.Invalid = []string{"an event loop was at work 93 % of the time"}
		},
		"Speed of the machine": func(r *result.Result, _ *result.Variant) {
			r.Environment.Speed.Most.ComputingMS *= 1.2
		},
		"Lateness":           func(_ *result.Result, v *result.Variant) { v.Conditions.Late = 0.02 },
		"Machine":            func(_ *result.Result, v *result.Variant) { v.Conditions.MachineBusy = 0.97 },
		"Other processes":    func(_ *result.Result, v *result.Variant) { v.Conditions.Outside = 0.7 },
		"Clock":              func(_ *result.Result, v *result.Variant) { v.Conditions.GapSeconds = 1.7 },
		"Cost of watching":   func(_ *result.Result, v *result.Variant) { v.Conditions.ProbeCPU = 0.0413 },
		"Cost of perturbing": func(_ *result.Result, v *result.Variant) { v.Perturbation.CostCPU = 0.0437 },
		"Failed requests":    func(_ *result.Result, v *result.Variant) { v.Failed = 0.013 },
	} {
		r := good()
		spoil(r, &r.Variants[1])
		if got := doubted(r); !slices.Equal(got, []string{name}) {
			t.Errorf("%s was spoiled: got doubts %q", name, got)
		}
		text := pagetest.Shown(pagetest.Parse(t, render(t, "doubt", r)))
		if !strings.Contains(text, "▲ look at this") || !strings.Contains(text, "look at: "+strings.ToLower(name)) {
			t.Errorf("%s was spoiled: the page does not say so in words", name)
		}
	}
	r := good()
	c := r.Variants[1].Conditions
	c.Outside, c.Outsiders = 0.7, []host.Process{{PID: 4711, Name: "make", Cores: 0.6}}
	if text := pagetest.Shown(pagetest.Parse(t, render(t, "make", r))); !strings.Contains(text, "35 % of the machine, mostly make (process 4711)") {
		t.Error("the page does not say what else ran")
	}
	if got := newChecks(&result.Result{}); got != nil {
		t.Errorf("a result without variants: got %v", got)
	}
}

func doubted(r *result.Result) []string {
	var names []string
	for _, c := range newChecks(r) {
		if !c.Good {
			names = append(names, c.Name)
		}
	}
	return names
}

// Results of earlier versions tell less; what they do not tell is not judged.
func TestChecksKeepToWhatIsKnown(t *testing.T) {
	t.Parallel()
	r := sampleResult()
	for _, c := range newChecks(r) {
		if slices.Contains([]string{"Lateness", "Machine", "Speed of the machine", "Clock", "Cost of perturbing"}, c.Name) {
			t.Errorf("got a check %q of what the result does not hold: %s", c.Name, c.Value)
		}
	}
	text := pagetest.Shown(pagetest.Parse(t, render(t, "earlier", r)))
	for _, section := range []string{"Perturbation ", "Capacity by "} {
		if strings.Contains(text, " "+section) {
			t.Errorf("the page has a section %q without its data", section)
		}
	}
}

func TestPageShowsTheEvidence(t *testing.T) {
	t.Parallel()
	text := pagetest.Shown(pagetest.Parse(t, render(t, "full", fullResult())))
	for _, want := range []string{
		"Capacity of snapshot", "4,180 to 4,420 at 96.9 %, over 6 trials", "3 of 3 methods agree", "12 of 13 checks good", "look at: machine",
		"39 % in the kernel", "api connections", "0.847 ms", "[4,610, 4,830]", "size 4; full 31.7 % of the time; waited 1.37 ms", "grows by 0.830/s; consumed by worker", "after api.writes; does 4,170/s; blocked 17.3 % of the time; 2,130 left when the load ended; 2,040 done within 1.72 s after it", "39 % in the kernel; 2.97 visits", "81 %",
		"api cpu", "moves throughput", "lb cpu and postgres cpu", "does not matter", "0.94 (0.78 to 1.10)", "-1.13 (-1.71 to -0.55)", "0.8×", "1.25×",
		"25 slots over 25.0 s of load; watching and perturbing took 1.16 % of the machine",
		"Capacity by api replicas", "6 replicas of api, predicted from sizes 1, 2 and 3: 1,930 [1,850, 2,030]", "lb becomes the bottleneck at 4.7 replicas of api",
		"lb becomes the bottleneck here", "no peak inside the measured range", "3 replicas carry it; 2 do not.", "Sizes are few",
		"98.3 % of all cores busy (cached)", "The files of 24 trials",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
}

func TestRawDataIsLinkedWhereItLies(t *testing.T) {
	t.Parallel()
	r := fullResult()
	r.Variants[1].Name = "../query" // no name that an experiment may have
	links := map[string]bool{}
	for _, e := range pagetest.Parse(t, render(t, "raw", r)) {
		links[e.Attr["href"]] = true
	}
	for _, want := range []string{"run.json", "experiment.yaml", "result.json", "trials/001-query/", "trials/001-query/trial.json", "trials/024-snapshot/logs/"} {
		if !links[want] {
			t.Errorf("the page does not link %q", want)
		}
	}
	for link := range links {
		if strings.Contains(link, "..") {
			t.Errorf("got a link out of the run: %q", link)
		}
	}
}

func TestReadingOfAnElasticity(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		low, high float64
		want      string
	}{{0.1, 1.2, "moves throughput"}, {-0.2, 0.3, "does not matter"}, {-0.2, 0.7, "no significant effect"}, {-2, -1, "does not matter"}} {
		p := fullResult()
		p.Variants[0].Perturbation.Effects[0].Throughput = result.Estimate{Interval: stats.Interval{Value: (c.low + c.high) / 2, Low: c.low, High: c.high, Confidence: 0.95}}
		if got := newPerturbCharts(p).Charts[0].Effects[0].Reading; got != c.want {
			t.Errorf("%v to %v: got %q, want %q", c.low, c.high, got, c.want)
		}
	}
}

// The line through the knee passes over one bad probe and does not start where
// there are too few.
func TestKneeIsARunningMedian(t *testing.T) {
	t.Parallel()
	v := &fullResult().Variants[0]
	r := &result.Result{Variants: []result.Variant{*v}}
	if got := newCurveCharts(r).Charts[0].Lanes[0].Series[0].Path; !strings.HasPrefix(got, "M") || strings.Count(got, "L") != len(v.Curve)-kneeWindow {
		t.Errorf("got %q from %d rates", got, len(v.Curve))
	}
	r.Variants[0].Curve = v.Curve[:kneeWindow]
	if got := newCurveCharts(r).Charts[0].Lanes[0].Series[0].Path; got != "" {
		t.Errorf("got %q from %d rates, want none", got, kneeWindow)
	}
}
