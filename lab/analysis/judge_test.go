package analysis

import (
	"strings"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
)

// TestJudgeReadsTheWindowsOfItsLoad has the windows of two pieces of load in
// one file. Only the second has a second in which most requests failed.
func TestJudgeReadsTheWindowsOfItsLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lines, err := archive.CreateLines(dir, archive.WindowsFile)
	if err != nil {
		t.Fatal(err)
	}
	at := func(second int) time.Time { return began.Add(time.Duration(second) * time.Second) }
	for _, w := range []load.Window{
		{Start: at(0), Warmup: true, Requests: 100, Failed: 100},
		{Start: at(1), Requests: 100, Failed: 1},
		{Start: at(2), Requests: 100, Failed: 2},
		{Start: at(3), Drain: true, Requests: 1},
		{Start: at(4), Warmup: true, Requests: 100, Failed: 100},
		{Start: at(5), Requests: 100, Failed: 90},
		{Start: at(6), Requests: 100},
	} {
		w.Seconds = 1
		if err := lines.Write(w); err != nil {
			t.Fatal(err)
		}
	}
	if err := lines.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := experiment.ParseLoad("x.yaml", []byte(`load: {scenarios: {a: {executor: constant-vus, vus: 1, duration: 2s, request: GET /}}}
slo: {http_req_failed: [rate<0.5 over 1s]}
`))
	if err != nil {
		t.Fatal(err)
	}
	for from, met := range map[int]bool{1: true, 5: false} {
		r := &load.Result{From: at(from), To: at(from + 2), Offered: 200, Requests: 200, Iterations: 200}
		windows, err := windowsOf(dir, r)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[int]int{1: 3, 5: 2}[from]; len(windows) != want {
			t.Errorf("from second %d: %d windows, want %d", from, len(windows), want)
		}
		got, err := objectiveOutcomes(dir, l.SLO, r)
		if err != nil || len(got) != 1 || got[0].Met != met {
			t.Errorf("from second %d: judge = %+v, %v; want met %v", from, got, err, met)
		}
	}
	if _, err := objectiveOutcomes(t.TempDir(), l.SLO, &load.Result{}); err == nil || !strings.Contains(err.Error(), archive.WindowsFile) {
		t.Errorf("without windows judge fails with %v, want an error about %s", err, archive.WindowsFile)
	}
}

// TestIterationsOfSeveralRequests has each iteration be two requests: capacity,
// demand and verdict are then about iterations.
func TestIterationsOfSeveralRequests(t *testing.T) {
	t.Parallel()
	r := write(t, map[string]planted{
		"one": {capacity: 4800, demand: 50 * time.Microsecond, instances: 1},
		"two": {capacity: 4800, demand: 50 * time.Microsecond, instances: 1},
	})
	r.Source = []byte(strings.Replace(experimentFile, "request: GET /", "steps: [{name: a, request: GET /}, {name: b, request: GET /b}]", 1))
	for i := range r.Trials {
		for j := range r.Trials[i].Measures {
			result := &r.Trials[i].Measures[j].Result
			result.Requests, result.CompletedInTime = 2*result.Requests, 2*result.CompletedInTime
		}
	}
	res, err := Derive(r)
	if err != nil {
		t.Fatal(err)
	}
	one := res.Variants[0]
	if res.Unit != "iterations/s" || one.Capacity.Unit != "iterations/s" || one.Capacity.Value != 4800 {
		t.Errorf("capacity %+v in %s, want 4800 iterations/s", one.Capacity, res.Unit)
	}
	if api := one.Components[0]; !near(api.DemandMS, 0.05, 0.001) || !near(api.Bound, 5000, 0.001) {
		t.Errorf("api: %+v; want 0.05 ms an iteration, 5000 iterations/s", api)
	}
	if !strings.Contains(one.Verdict.Summary, "each iteration costs it") {
		t.Errorf("the verdict is %q, want it to be about iterations", one.Verdict.Summary)
	}
}
