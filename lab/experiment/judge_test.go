package experiment_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/experiment"
	"loadstone/lab/load"
)

// hundred is a load of 100 requests in 10 s that took 1 ms to 100 ms, one of
// each, of which 2 failed and 5 were done late; 4 more were dropped.
func hundred(t *testing.T) *load.Result {
	t.Helper()
	h := load.NewHistogram()
	for ms := range 100 {
		if err := h.RecordValue(int64(ms+1) * 1000); err != nil {
			t.Fatal(err)
		}
	}
	from := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	return &load.Result{
		From: from, To: from.Add(10 * time.Second),
		Offered: 104, Requests: 100, Failed: 2, Dropped: 4, CompletedInTime: 95,
		Response: load.Latency{Histogram: encode(t, h)},
	}
}

func encode(t *testing.T, h *hdrhistogram.Histogram) string {
	t.Helper()
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// objective is an SLO of one threshold.
func objective(t *testing.T, metric, expression string) experiment.SLO {
	t.Helper()
	threshold, err := experiment.ParseThreshold(metric, expression)
	if err != nil {
		t.Fatalf("ParseThreshold(%s, %s) fails: %v", metric, expression, err)
	}
	return experiment.SLO{{Metric: metric, Thresholds: []experiment.Threshold{threshold}}}
}

// TestJudge has, for every metric, aggregation and operator, a threshold that
// is met and one beside it that is not.
func TestJudge(t *testing.T) {
	t.Parallel()
	tests := []struct {
		metric, met, missed string
		observed            float64
	}{
		{experiment.HTTPReqDuration, "p(95)<95.1", "p(95)<95", 95.039},
		{experiment.HTTPReqDuration, "p(99.9)<=100.1", "p(99.9)<=99", 100.031},
		{experiment.HTTPReqDuration, "p(0)>=1", "p(0)>1", 1},
		{experiment.HTTPReqDuration, "p(100)>100", "p(100)>101", 100.031},
		{experiment.HTTPReqDuration, "med<50.1", "med<50", 50.015},
		{experiment.HTTPReqDuration, "avg<51", "avg<50", 50.51},
		{experiment.HTTPReqDuration, "min==1", "min!=1", 1},
		{experiment.HTTPReqDuration, "max<101", "max<100", 100.031},
		{experiment.HTTPReqFailed, "rate<0.06", "rate<0.05", 6.0 / 104}, // dropped ones failed too
		{experiment.HTTPReqs, "count===100", "count===104", 100},
		{experiment.HTTPReqs, "rate>=9.5", "rate>=10", 9.5}, // what was done in time
		{experiment.Iterations, "count>99", "count>100", 100},
		{experiment.DroppedIterations, "count<5", "count<4", 4},
		{experiment.DroppedIterations, "rate<=0.4", "rate<0.4", 0.4},
	}
	for _, tt := range tests {
		for expression, met := range map[string]bool{tt.met: true, tt.missed: false} {
			t.Run(tt.metric+" "+expression, func(t *testing.T) {
				t.Parallel()
				got, err := experiment.Judge(objective(t, tt.metric, expression), hundred(t))
				if err != nil || len(got) != 1 {
					t.Fatalf("Judge = %v, %v, want one outcome", got, err)
				}
				o := got[0]
				if o.Met != met || o.Metric != tt.metric || o.Threshold != expression || o.Reason != "" {
					t.Errorf("Judge = %+v, want met %v", o, met)
				}
				if math.Abs(o.Observed-tt.observed) > 0.02 {
					t.Errorf("observed %g, want %g", o.Observed, tt.observed)
				}
			})
		}
	}
}

// TestJudgeNeverPassesWithoutMeasurement has results in which nothing, or not
// all, was measured, and thresholds that a careless comparison would pass.
func TestJudgeNeverPassesWithoutMeasurement(t *testing.T) {
	t.Parallel()
	durations := []string{"http_req_duration p(95)<1e9", "http_req_duration avg!=5", "http_req_duration max>=0", "http_req_duration min==0"}
	rates := []string{"http_reqs rate>=0", "iterations rate!=5", "dropped_iterations rate==0"}
	all := slices.Concat(durations, rates, []string{
		"http_req_failed rate<1", "http_req_failed rate==0", "http_req_failed rate!=0.5",
		"http_reqs count>=0", "http_reqs count!=5", "iterations count==0", "dropped_iterations count<1",
	})
	start := time.Now()
	second := start.Add(time.Second)
	aborted := hundred(t)
	aborted.Aborted, aborted.Failed, aborted.Dropped = "the backlog grew", 0, 0
	tests := []struct {
		name       string
		result     *load.Result
		thresholds []string
	}{
		{"zero", &load.Result{}, all},
		{"no arrivals", &load.Result{From: start, To: second}, all},
		{"aborted", aborted, all},
		{"no time", &load.Result{Requests: 1, CompletedInTime: 1}, rates},
		{"time runs backwards", &load.Result{From: second, To: start, Requests: 1, CompletedInTime: 1}, rates},
		{"only dropped", &load.Result{From: start, To: second, Offered: 10, Dropped: 10}, durations},
	}
	for _, tt := range tests {
		for _, threshold := range tt.thresholds {
			metric, expression, _ := strings.Cut(threshold, " ")
			got, err := experiment.Judge(objective(t, metric, expression), tt.result)
			if err != nil {
				t.Errorf("%s: Judge(%s) fails: %v", tt.name, threshold, err)
				continue
			}
			if got[0].Met || got[0].Reason == "" {
				t.Errorf("%s: Judge(%s) = %+v, want it missed, with a reason", tt.name, threshold, got[0])
			}
			if o := got[0].Observed; math.IsNaN(o) || math.IsInf(o, 0) {
				t.Errorf("%s: Judge(%s) observes %v, which JSON cannot hold", tt.name, threshold, o)
			}
		}
	}
}

func TestJudgeCountsDroppedAsFailed(t *testing.T) {
	t.Parallel()
	r := hundred(t)
	r.Requests, r.Failed, r.Dropped = 0, 0, 10
	got, err := experiment.Judge(objective(t, experiment.HTTPReqFailed, "rate<0.5"), r)
	if err != nil || got[0].Met || got[0].Observed != 1 {
		t.Errorf("Judge = %+v, %v, want a share of 1, missed", got, err)
	}
}

func TestJudgeRefusesAHistogramItCannotRead(t *testing.T) {
	t.Parallel()
	empty := encode(t, load.NewHistogram())
	for name, histogram := range map[string]string{"none": "", "garbage": "%%%", "empty": empty} {
		r := hundred(t)
		r.Response.Histogram = histogram
		if got, err := experiment.Judge(objective(t, experiment.HTTPReqDuration, "p(95)<200"), r); err == nil {
			t.Errorf("%s histogram: Judge = %+v, want an error", name, got)
		}
	}
	if got, err := experiment.Judge(experiment.SLO{{Metric: "vus", Thresholds: []experiment.Threshold{{}}}}, hundred(t)); err == nil {
		t.Errorf("unknown metric: Judge = %+v, want an error", got)
	}
}

func TestThresholdHolds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		operator           string
		below, equal, over bool
	}{
		{"<", true, false, false},
		{"<=", true, true, false},
		{">", false, false, true},
		{">=", false, true, true},
		{"==", false, true, false},
		{"===", false, true, false},
		{"!=", true, false, true},
		{"", false, false, false},
		{"=", false, false, false},
	}
	for _, tt := range tests {
		threshold := experiment.Threshold{Operator: tt.operator, Value: 5}
		below, equal, over := threshold.Holds(4), threshold.Holds(5), threshold.Holds(6)
		if below != tt.below || equal != tt.equal || over != tt.over {
			t.Errorf("%q 5 holds for 4, 5, 6: %v %v %v, want %v %v %v", tt.operator, below, equal, over, tt.below, tt.equal, tt.over)
		}
		if threshold.Holds(math.NaN()) {
			t.Errorf("%q 5 holds for NaN", tt.operator)
		}
	}
}

func TestParseThreshold(t *testing.T) {
	t.Parallel()
	got, err := experiment.ParseThreshold(experiment.HTTPReqDuration, "  p( 99.9 ) <= 1.5e2 ")
	if err != nil {
		t.Fatal(err)
	}
	if got.Aggregation != "p" || got.Percentile != 99.9 || got.Operator != "<=" || got.Value != 150 || got.String() != "p( 99.9 ) <= 1.5e2" {
		t.Errorf("ParseThreshold = %+v %q", got, got)
	}
	for _, bad := range []string{
		"", "<", "p(95)", "p(95)<", "<200", "p(95)<200 or avg<5", "p(95) 200", "p()<1", "p(-1)<1", "p(100.1)<1",
		"p(95)<0x10", "p(95)<1_000", "p(95)<Inf", "p(95)<NaN", "p(95)<1e999", "p(95)=<5", "p(95)<<5", "p(N)<5", "count<5",
	} {
		if got, err := experiment.ParseThreshold(experiment.HTTPReqDuration, bad); err == nil {
			t.Errorf("ParseThreshold(%q) = %+v, want an error", bad, got)
		}
	}
}
