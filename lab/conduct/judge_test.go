package conduct

import (
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/experiment"
	"loadstone/lab/load"
)

// held is a result that meets every objective.
func held() *load.Result {
	from := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	r := &load.Result{
		From: from, To: from.Add(2 * time.Second), Offered: 2000, Requests: 2000, CompletedInTime: 1990,
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

func objectives(t *testing.T) experiment.SLO {
	t.Helper()
	p95, err := experiment.ParseThreshold(experiment.HTTPReqDuration, "p(95)<200")
	if err != nil {
		t.Fatal(err)
	}
	failed, err := experiment.ParseThreshold(experiment.HTTPReqFailed, "rate<0.001")
	if err != nil {
		t.Fatal(err)
	}
	return experiment.SLO{
		{Metric: experiment.HTTPReqDuration, Thresholds: []experiment.Threshold{p95}},
		{Metric: experiment.HTTPReqFailed, Thresholds: []experiment.Threshold{failed}},
	}
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
		"dropped count as failed": {func(r *load.Result) { r.Requests, r.Dropped = 1990, 10 }, false, false, "http_req_failed"},
		"ebb and flow":            {func(r *load.Result) { r.InFlight = load.Trend{Slope: 40, Low: -80, High: 160, Samples: 9} }, true, false, ""},
		"backlog grows":           {func(r *load.Result) { r.InFlight = load.Trend{Slope: 50, Low: 20, High: 80, Samples: 40} }, false, false, "backlog grew"},
		"short and far behind":    {func(r *load.Result) { r.InFlight = load.Trend{Slope: 150, Low: -80, High: 380, Samples: 9} }, false, false, "backlog grew"},
		"aborted":                 {func(r *load.Result) { r.Aborted = "overload" }, false, false, "overload"},
		"nothing answered":        {func(r *load.Result) { r.Requests, r.CompletedInTime = 0, 0 }, false, false, "no request"},
		"late and too slow":       {func(r *load.Result) { r.Late = 200; r.Response.Histogram = string(slowText) }, false, true, "late"},
		"generator burns all":     {func(r *load.Result) { r.Generator.Busy = 1e6; r.Failed = 10 }, false, true, "cores"},
		// Lateness is part of response time: what is met in spite of it is met.
		"late and still met": {func(r *load.Result) { r.Late = 200 }, true, false, ""},
	} {
		r := held()
		c.change(r)
		got, err := judge(objectives(t), 1000, r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
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
	p95, err := experiment.ParseThreshold(experiment.HTTPReqDuration, "p(95)<1500")
	if err != nil {
		t.Fatal(err)
	}
	slo := experiment.SLO{{Metric: experiment.HTTPReqDuration, Thresholds: []experiment.Threshold{p95}}}
	if got := drain(slo, 10*time.Second); got != 3*time.Second {
		t.Errorf("drain %v, want 3s: twice the threshold", got)
	}
	if got := drain(slo, 2*time.Second); got != 2*time.Second {
		t.Errorf("drain %v, want the timeout, 2s", got)
	}
	if got := drain(objectives(t), 10*time.Second); got != leastDrain {
		t.Errorf("drain %v, want %v", got, leastDrain)
	}
}
