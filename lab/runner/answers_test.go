package runner

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

// front is a proxy before a service that starts: for so long it answers 502 at once, and
// then up to 190 requests a second. What it answers takes as long as first says.
type front struct {
	starts  time.Duration
	status  int
	first   time.Duration
	began   time.Time
	asked   int
	lengths []time.Duration // of sweeps
}

func (f *front) Run(_ context.Context, p load.Plan, _ func(load.Window) string) (load.Result, error) {
	if f.began.IsZero() {
		f.began = time.Now()
	}
	s := &p.Scenarios[0]
	if s.Executor == load.SharedIterations {
		f.asked++
		if time.Since(f.began) < f.starts {
			r := load.Result{Requests: 1, Failed: 1, Status: map[int]uint64{f.status: 1}}
			if p.Explain {
				r.Refusals = map[int]string{f.status: "no such host"}
			}
			return r, nil
		}
		time.Sleep(f.first)
		return load.Result{Requests: 1, Status: map[int]uint64{200: 1}, Response: load.Latency{P50: f.first.Seconds() * 1e3}}, nil
	}
	measured := s.Duration - p.Warmup
	f.lengths = append(f.lengths, measured)
	r := load.Result{From: f.began, To: f.began.Add(measured)}
	if measured <= f.first {
		return r, nil
	}
	n := uint64(190 * measured.Seconds())
	r.Offered, r.Requests, r.Iterations, r.IterationsInTime, r.CompletedInTime = n, n, n, n, n
	r.Status = map[int]uint64{200: n}
	return r, nil
}

func asking(t *testing.T, g offerer, method string, measure string) *trialRun {
	t.Helper()
	e := &experiment.Experiment{Entry: "web", Measure: measure, Seed: 7, Search: experiment.DefaultSearch(), SLO: objectives(t)}
	return &trialRun{
		execution: &execution{Config: Config{Experiment: e}, search: searchConfig(e)},
		trial:     &archive.Trial{Planned: archive.Planned{Index: 1}}, generator: g,
		base: load.Plan{Timeout: 10 * time.Second, Scenarios: []load.Scenario{{
			Name: "get", Executor: load.ConstantArrivalRate, Rate: 5, Duration: time.Second,
			Steps: []load.Step{{Request: load.Request{Method: method, Path: "/"}, Think: [2]time.Duration{time.Hour, time.Hour}}},
		}}},
	}
}

// A proxy is ready before what is behind it. Its 502s, which come far faster than answers,
// once were what a search started from.
func TestAnswersAreAwaited(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		g       front
		method  string
		measure string
		want    string // in the error; empty for none
		within  time.Duration
		asked   bool
	}{
		"at once":                 {front{}, http.MethodGet, experiment.Capacity, "", time.Second, true},
		"after four seconds":      {front{starts: 4 * time.Second, status: 502}, http.MethodGet, experiment.Capacity, "", 6 * time.Second, true},
		"never":                   {front{starts: time.Hour, status: 502}, http.MethodGet, experiment.Capacity, "web does not answer as the load expects, 30 s after it was ready: 1 × status 502 (no such host); see its log", 32 * time.Second, true},
		"the request is wrong":    {front{starts: time.Hour, status: 404}, http.MethodGet, experiment.Capacity, "s after it was ready: 1 × status 404", 7 * time.Second, true},
		"as written":              {front{starts: time.Hour, status: 404}, http.MethodGet, experiment.AsWritten, "status 404", 7 * time.Second, true},
		"as written, with effect": {front{starts: time.Hour, status: 404}, http.MethodPost, experiment.AsWritten, "", time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := asking(t, &c.g, c.method, c.measure)
				began := time.Now()
				err := m.awaitAnswers(t.Context())
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("got %v, want an error with %q", err, c.want)
				}
				if took := time.Since(began); took > c.within || c.g.asked > 0 != c.asked {
					t.Errorf("asked %d times over %v, want at most %v", c.g.asked, took, c.within)
				}
			})
		})
	}
}

// A first answer that takes longer than a sweep once ended the whole run.
func TestSweepsWaitForSlowAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &front{first: 3 * time.Second}
		m := asking(t, g, http.MethodGet, experiment.Capacity)
		_, rate, _, err := m.sweep(t.Context(), m.base.Scenarios[0])
		if err != nil || rate < 180 || rate > 190 {
			t.Errorf("got %v a second and %v, want about 190", rate, err)
		}
		if n := len(g.lengths); n < 2 || g.lengths[n-1] <= g.first {
			t.Errorf("swept for %v, want longer and longer until it is answered", g.lengths)
		}
		never := &front{first: time.Hour}
		m = asking(t, never, http.MethodGet, experiment.Capacity)
		if _, _, _, err := m.sweep(t.Context(), m.base.Scenarios[0]); err == nil || !strings.Contains(err.Error(), "nothing was answered in a sweep of") {
			t.Errorf("nothing is ever answered: got %v", err)
		}
	})
}

// Of a sweep in which the load got errors, what was good counts, and the reason names them.
func TestSweepsOfErrorsHoldNothing(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1_800_000_000, 0)
	r := &load.Result{
		From: begin, To: begin.Add(time.Second), Requests: 3800, Failed: 3610, Offered: 3800, Iterations: 3800, IterationsInTime: 3800,
		Status: map[int]uint64{200: 190, 502: 3610},
	}
	rate, reason := swept(r, objectives(t))
	if rate != 190 || !strings.Contains(reason, "http_req_failed rate<0.001: it was 0.95 (3,610 × status 502)") {
		t.Errorf("got %v, %q; want the 190 that were good, and the 502s named", rate, reason)
	}
	allowed := experiment.SLO{parse(t, "http_req_failed", "rate<0.99")}
	if rate, reason := swept(r, allowed); rate != 3800 || reason != "" {
		t.Errorf("failures that the objectives allow: got %v, %q", rate, reason)
	}
	outcomes, err := threshold.NewWatch(objectives(t)[1:].Thresholds()).Outcomes(r)
	if err != nil {
		t.Fatal(err)
	}
	if try := capacity.NewTry(3800, r, outcomes); try.Held || !strings.Contains(try.Reason, "3,610 × status 502") {
		t.Errorf("got %+v, want the statuses named", try)
	}
}

// A load as written that fails from its beginning is given up; one that has been answered
// once is not.
func TestHopelessLoadsAreGivenUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		good uint64 // of the first second
		want bool
	}{"nothing succeeds": {0, true}, "it failed later": {1, false}} {
		o := observer{keep: func(any) error { return nil }, watch: threshold.NewWatch(nil), hopeless: true}
		stopped := ""
		for i := range 60 {
			w := load.Window{Seconds: 1, Requests: 20, Failed: 20}
			if i == 0 {
				w.Failed -= c.good
			}
			if stopped = o.window(w); stopped != "" {
				break
			}
		}
		if o.gaveUp != c.want || (stopped != "") != c.want {
			t.Errorf("%s: given up %v (%q), want %v", name, o.gaveUp, stopped, c.want)
		}
	}
	m := asking(t, hopeless{}, http.MethodPost, experiment.AsWritten)
	windows, err := archive.CreateLines(t.TempDir(), archive.WindowsFile)
	if err != nil {
		t.Fatal(err)
	}
	m.windows = windows
	_, _, err = m.offer(t.Context(), archive.AsWritten, m.base, m.slo())
	if closing := windows.Close(); closing != nil {
		t.Error(closing)
	}
	if err == nil || !strings.Contains(err.Error(), "every answer of the first") || !strings.Contains(err.Error(), "status 500") {
		t.Errorf("got %v, want what was answered", err)
	}
}

// hopeless answers 500 to everything.
type hopeless struct{}

func (hopeless) Run(_ context.Context, _ load.Plan, onWindow func(load.Window) string) (load.Result, error) {
	for range 60 {
		if stop := onWindow(load.Window{Seconds: 1, Requests: 20, Failed: 20}); stop != "" {
			return load.Result{Requests: 200, Failed: 200, Status: map[int]uint64{500: 200}, Aborted: stop}, nil
		}
	}
	return load.Result{}, errors.New("the load was not ended")
}
