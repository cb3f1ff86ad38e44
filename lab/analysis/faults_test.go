package analysis

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/fault"
	"loadstone/lab/host"
	"loadstone/lab/load"
	"loadstone/lab/probe"
	"loadstone/lab/result"
	"loadstone/lab/topology"
)

const faultyFile = `name: e
system: compose.yaml
entry: api
variants: {one: {}}
load: {warmup: 2s, scenarios: {s: {executor: constant-arrival-rate, rate: 100/s, duration: 22s, request: GET /}}}
slo: {http_req_duration: [p(95)<200]}
faults: [{at: 7s, kill: api, instance: 1, for: 2s}]
watch: {queries: {metric: q_total, service: api, as: rate, slo: [max<150]}}
measure: load
trials: 1
`

func second(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }

// plantFaults writes a trial of 22 s of load with a warm-up of 2 s: a kill in
// second 7.1, back at 9.5, during which requests fail. queries is what both
// instances' counters grow by per second while they run, outside of the peak in
// second 8, which api-2 has.
func plantFaults(t *testing.T, failures uint64, peak float64) (dir string, trial archive.Trial, r *load.Result) {
	t.Helper()
	dir = t.TempDir()
	lines := func(name string, write func(*archive.Lines)) {
		l, err := archive.CreateLines(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		write(l)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	put := func(l *archive.Lines, v any) {
		if err := l.Write(v); err != nil {
			t.Fatal(err)
		}
	}
	h := load.NewHistogram()
	_ = h.RecordValues(10_000, 100)
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	lines(archive.WindowsFile, func(l *archive.Lines) {
		for s := range 22 {
			w := load.Window{Start: second(float64(s)), Seconds: 1, Warmup: s < 2, Requests: 100, Response: string(text), Service: string(text), Errors: map[string]uint64{}}
			if s == 7 || s == 8 {
				w.Failed, w.Errors["refused"] = failures, failures
			}
			put(l, w)
		}
	})
	lines(archive.EventsFile, func(l *archive.Lines) {
		put(l, fault.Event{
			Number: 1, What: "kill api-1", Action: fault.Kill, Planned: 7, Asked: second(7.1), Done: second(7.11),
			Instances: []fault.Affected{{Name: "api-1", Done: second(7.11), Undone: second(9.1), Launched: second(9.12), Ready: second(9.5)}},
		})
	})
	lines(probe.MetricsFile, func(l *archive.Lines) {
		two := 0.0
		for s := 0.0; s < 24; s += 0.25 {
			switch {
			case s < 7.1:
				put(l, probe.Scrape{At: second(s), Instance: "api-1", Values: map[string]float64{"q_total": 1000 + 60*s}})
			case s > 9.5:
				put(l, probe.Scrape{At: second(s), Instance: "api-1", Values: map[string]float64{"q_total": 60 * (s - 9.12)}})
			}
			put(l, probe.Scrape{At: second(s), Instance: "api-2", Values: map[string]float64{"q_total": two}})
			if two += 15; s >= 8 && s < 9 {
				two += peak / 4
			}
		}
	})
	lines(probe.SamplesFile, func(l *archive.Lines) {
		for s := range 25 {
			put(l, host.Sample{At: second(float64(s)), MachineTotal: time.Duration(s) * time.Second})
		}
	})
	trial = archive.Trial{
		Planned: archive.Planned{Index: 1, Round: 1, Variant: "one"}, Started: second(-1), Ended: second(25),
		Instances: []topology.Instance{{Service: "api", Name: "api-1"}, {Service: "api", Name: "api-2"}},
	}
	r = &load.Result{From: second(2), To: second(22), Offered: 2000, Requests: 2000, Iterations: 2000, IterationsInTime: 2000, Response: load.Latency{Histogram: string(text)}}
	trial.Measures = []archive.Measure{{Kind: archive.AsWritten, Result: *r}}
	return dir, trial, r
}

func derived(t *testing.T, failures uint64, peak float64) (result.Fault, *result.Course, []result.SLO) {
	t.Helper()
	exp, err := experiment.Parse("e.yaml", []byte(faultyFile))
	if err != nil {
		t.Fatal(err)
	}
	dir, trial, _ := plantFaults(t, failures, peak)
	o, err := observe(dir, exp, trial)
	if err != nil {
		t.Fatal(err)
	}
	all := faults([]observed{o})
	if len(all) != 1 {
		t.Fatalf("got %d faults", len(all))
	}
	return all[0], courseOf([]observed{o}), o.slo
}

func isAbout(p *float64, want float64) bool { return p != nil && math.Abs(*p-want) < 0.02*want+1e-9 }

func TestFaultsFromRawData(t *testing.T) {
	t.Parallel()
	f, course, slo := derived(t, 7, 90)
	if f.Failed != 14 || f.Kinds["refused"] != 14 || !isAbout(f.Back, 2.4) || !isAbout(f.Recovered, 1.9) || f.BadSeconds != 2 || f.At != 7 {
		t.Errorf("got %+v", f)
	}
	if w := f.Watched[0]; !isAbout(w.Before, 120) || !isAbout(w.Most, 150) {
		t.Errorf("watched %v, want 120 before and 60 of the other, with its peak, during", w)
	}
	if len(course.Seconds) != 20 || course.Seconds[0] != 2 || course.Failed[5] != 7 || !isAbout(course.P95[0], 10) {
		t.Errorf("course %+v", course)
	}
	if x := course.Faults[0]; math.Abs(x.From-7.1) > 1e-6 || math.Abs(x.To-9.5) > 1e-6 {
		t.Errorf("shade %+v", x)
	}
	if o := slo[len(slo)-1]; o.Metric != "queries" || o.Met || !isAbout(&o.Observed, 150) {
		t.Errorf("got %+v, want the bound crossed at 150", o)
	}
	f, _, slo = derived(t, 0, 20)
	if f.Failed != 0 || !isAbout(f.Back, 2.4) || f.Recovered == nil || *f.Recovered != 0 || f.BadSeconds != 0 {
		t.Errorf("without failures: got %+v", f)
	}
	if o := slo[len(slo)-1]; !o.Met || !isAbout(&o.Observed, 120) {
		t.Errorf("got %+v, want the bound kept", o)
	}
}

// TestTheWorstOfTrials has one trial that never recovers.
func TestTheWorstOfTrials(t *testing.T) {
	t.Parallel()
	trial := func(failed uint64, recovered *float64, before float64) observed {
		e := fault.Effect{Event: fault.Event{Number: 1, Action: fault.Exec, Done: second(2), Asked: second(1)}, Failed: failed}
		if e.Recovers = recovered != nil; e.Recovers {
			e.Recovered = *recovered
		}
		return observed{course: course{
			effects: []fault.Effect{e}, shown: &result.Course{Trial: int(failed)},
			watched: [][]result.FaultWatched{{{Name: "q", Before: &before}}},
		}}
	}
	three, five := 3.0, 5.0
	trials := []observed{trial(1, &three, 10), trial(9, &five, 7)}
	if f := faults(trials)[0]; f.Failed != 9 || *f.Recovered != 5 || f.Trials != 2 || *f.Watched[0].Before != 10 {
		t.Errorf("got %+v", f)
	}
	if c := courseOf(trials); c.Trial != 9 {
		t.Errorf("shows trial %d, want the one that failed most", c.Trial)
	}
	if f := faults(append(trials, trial(2, nil, 1)))[0]; f.Recovered != nil || f.Trials != 3 {
		t.Errorf("got %+v, want no recovery", f)
	}
}

func TestAMetricThatNobodyPublishesIsAWarning(t *testing.T) {
	t.Parallel()
	exp, err := experiment.Parse("e.yaml", []byte(strings.ReplaceAll(faultyFile, "q_total", "gone_total")))
	if err != nil {
		t.Fatal(err)
	}
	dir, trial, _ := plantFaults(t, 0, 0)
	o, err := observe(dir, exp, trial)
	if err != nil || len(o.warnings) != 1 || !strings.Contains(o.warnings[0], "gone_total") || o.slo[len(o.slo)-1].Met {
		t.Errorf("got %v, warnings %q, %+v", err, o.warnings, o.slo)
	}
}

// TestWhatOneOfThemNeverTellsIsAWarning has a third instance, of which nothing is known.
func TestWhatOneOfThemNeverTellsIsAWarning(t *testing.T) {
	t.Parallel()
	exp, err := experiment.Parse("e.yaml", []byte(faultyFile))
	if err != nil {
		t.Fatal(err)
	}
	dir, trial, _ := plantFaults(t, 0, 0)
	trial.Instances = append(trial.Instances, topology.Instance{Service: "api", Name: "api-3"})
	o, err := observe(dir, exp, trial)
	if want := "watched metric queries: in no second is q_total known of all instances of api that ran"; err != nil || len(o.warnings) != 1 || o.warnings[0] != want || o.slo[len(o.slo)-1].Met {
		t.Errorf("got %v, warnings %q, %+v", err, o.warnings, o.slo)
	}
}
