package runner

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/experiment"
	"loadstone/lab/load"
	"loadstone/lab/threshold"
	"loadstone/lab/topology"
)

// held is a result that meets every objective.
func held() *load.Result {
	from := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	r := &load.Result{
		From: from, To: from.Add(2 * time.Second), Offered: 2000, Requests: 2000, CompletedInTime: 1990,
		Iterations: 2000, IterationsInTime: 1990,
		InFlight: load.Trend{Slope: 1, Low: -5, High: 7, Samples: 40},
	}
	h := load.NewHistogram()
	for range 2000 {
		_ = h.RecordValue(5000) // 5 ms
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		panic(err)
	}
	r.Response.Histogram = string(text)
	return r
}

func parse(t *testing.T, metric, expression string) experiment.Objective {
	t.Helper()
	parsed, err := threshold.Parse(metric, expression)
	if err != nil {
		t.Fatal(err)
	}
	return experiment.Objective{Metric: metric, Thresholds: []threshold.Threshold{parsed}}
}

func objectives(t *testing.T) experiment.SLO {
	t.Helper()
	return experiment.SLO{parse(t, "http_req_duration", "p(95)<200"), parse(t, "http_req_failed", "rate<0.001")}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	slow := load.NewHistogram()
	for range 2000 {
		_ = slow.RecordValue(300_000) // 300 ms
	}
	slowText, err := slow.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change  func(*load.Result)
		held    bool
		limited bool
		reason  string
	}{
		"held":                    {func(*load.Result) {}, true, false, ""},
		"too slow":                {func(r *load.Result) { r.Response.Histogram = string(slowText) }, false, false, "p(95)<200: it was 300"},
		"failures":                {func(r *load.Result) { r.Failed = 10 }, false, false, "http_req_failed"},
		"dropped count as failed": {func(r *load.Result) { r.Requests, r.Iterations, r.Dropped = 1990, 1990, 10 }, false, false, "http_req_failed"},
		"ebb and flow":            {func(r *load.Result) { r.InFlight = load.Trend{Slope: 40, Low: -80, High: 160, Samples: 9} }, true, false, ""},
		"backlog grows":           {func(r *load.Result) { r.InFlight = load.Trend{Slope: 50, Low: 20, High: 80, Samples: 40} }, false, false, "backlog grew"},
		"short and far behind":    {func(r *load.Result) { r.InFlight = load.Trend{Slope: 150, Low: -80, High: 380, Samples: 9} }, false, false, "backlog grew"},
		"aborted":                 {func(r *load.Result) { r.Aborted = "overload" }, false, false, "overload"},
		"nothing answered":        {func(r *load.Result) { r.Requests, r.IterationsInTime = 0, 0 }, false, false, "nothing was answered"},
		"late and too slow":       {func(r *load.Result) { r.Late = 200; r.Response.Histogram = string(slowText) }, false, true, "late"},
		"generator burns all":     {func(r *load.Result) { r.Generator.Busy = 1e6; r.Failed = 10 }, false, true, "cores"},
		// Lateness is part of response time: what is met in spite of it is met.
		"late and still met": {func(r *load.Result) { r.Late = 200 }, true, false, ""},
	} {
		r := held()
		c.change(r)
		outcomes, err := threshold.NewWatch(objectives(t).Thresholds()).Outcomes(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := judge(1000, r, outcomes)
		if got.Held != c.held || got.GeneratorLimited != c.limited || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: got %+v, want held %v, generator limited %v, reason with %q", name, got, c.held, c.limited, c.reason)
		}
	}
}

func TestPlanInterleaves(t *testing.T) {
	t.Parallel()
	var order []string
	for i, p := range plan([]string{"a", "b", "c"}, 3) {
		if p.Index != i+1 || p.Round != i/3+1 {
			t.Errorf("trial %d is %+v", i+1, p)
		}
		order = append(order, p.Variant)
	}
	if got, want := strings.Join(order, ""), "abcbcacab"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
}

func TestDrainCoversTheObjectives(t *testing.T) {
	t.Parallel()
	slo := experiment.SLO{parse(t, "http_req_duration", "p(95)<1500")}
	one := load.Scenario{Steps: make([]load.Step, 1)}
	three := load.Scenario{Steps: make([]load.Step, 3)}
	drawn := load.Scenario{Steps: make([]load.Step, 3), Weighted: true}
	for name, c := range map[string]struct {
		slo      experiment.SLO
		scenario load.Scenario
		timeout  time.Duration
		want     time.Duration
	}{
		"twice the threshold":         {slo, one, 10 * time.Second, 3 * time.Second},
		"the timeout":                 {slo, one, 2 * time.Second, 2 * time.Second},
		"at least":                    {objectives(t), one, 10 * time.Second, leastDrain},
		"three requests, in turn":     {slo, three, 10 * time.Second, 9 * time.Second},
		"one request of three":        {slo, drawn, 10 * time.Second, 3 * time.Second},
		"nothing about how long":      {experiment.SLO{parse(t, "http_reqs", "count>1e9")}, one, 10 * time.Second, leastDrain},
		"service time counts as well": {experiment.SLO{parse(t, "http_req_service", "max<2000")}, one, 10 * time.Second, 4 * time.Second},
	} {
		if got := drain(c.slo, c.scenario, c.timeout); got != c.want {
			t.Errorf("%s: drain %v, want %v", name, got, c.want)
		}
	}
}

// TestObserver has an objective on windows end the load in the second window,
// and windows that nobody can keep.
func TestObserver(t *testing.T) {
	t.Parallel()
	abort := parse(t, "http_req_failed", "rate<0.5")
	abort.Thresholds[0].AbortOnFail = true
	slo := experiment.SLO{abort}
	if !slo.OnWindows() || objectives(t).OnWindows() {
		t.Fatal("objectives are on windows if they end the load, and only then")
	}
	kept := 0
	o := observer{
		keep:  func(any) error { kept++; return nil },
		watch: threshold.NewWatch(slo.Thresholds()), onWindows: true,
	}
	from := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	good := load.Window{Start: from, Seconds: 1, Requests: 10}
	bad := load.Window{Start: from.Add(time.Second), Seconds: 1, Requests: 90, Failed: 90}
	if stop := o.window(good); stop != "" {
		t.Errorf("a good window ends the load: %s", stop)
	}
	if stop := o.window(bad); !strings.Contains(stop, "http_req_failed") || kept != 2 || o.failed != nil {
		t.Errorf("a bad window: stop %q, %d kept, error %v; want the load to end", stop, kept, o.failed)
	}
	o.keep = func(any) error { return errors.New("disk full") }
	if o.window(good); o.failed == nil {
		t.Error("a window that could not be kept is no error")
	}
	if stop := o.window(good); stop == "" {
		t.Error("the load goes on although its windows cannot be kept")
	}
}

func TestTargetsOfAnExperiment(t *testing.T) {
	t.Parallel()
	instances := []topology.Instance{{Service: "lb", Host: "127.77.0.2", Port: 8443}, {Service: "db", Host: "127.77.0.3", Port: 5432}, {Service: "lb", Host: "127.77.0.4"}}
	for secure, want := range map[bool]string{false: "http://127.77.0.2:8443", true: "https://127.77.0.2:8443"} {
		if got := targets(instances, "lb", secure); len(got) != 1 || got[0] != want {
			t.Errorf("secure %v: targets %v, want %s", secure, got, want)
		}
	}
}
