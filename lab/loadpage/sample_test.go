package loadpage

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
	"loadstone/lab/load/summary"
	"loadstone/lab/threshold"
)

// sampleWindows are the first n of the 40 seconds of a load. The first five are
// its warm-up, in second 18 the server stalls, in second 24 nothing ends, and
// in the last nothing is offered.
func sampleWindows(t *testing.T, n int) []load.Window {
	t.Helper()
	windows, err := allWindows()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(windows[:n])
}

var allWindows = sync.OnceValues(func() ([]load.Window, error) {
	random := rand.New(rand.NewPCG(1, 2))
	var windows []load.Window
	response, service := load.NewHistogram(), load.NewHistogram()
	for second := range 40 {
		response.Reset()
		service.Reset()
		requests := 480 + random.IntN(40)
		for i := range requests {
			micros, wait := int64(600+random.ExpFloat64()*900), int64(0)
			if second == 18 {
				wait = int64(2_000_000 * (requests - i) / requests)
			}
			if err := errors.Join(response.RecordValue(micros+wait), service.RecordValue(micros)); err != nil {
				return nil, err
			}
		}
		w := load.Window{
			Start: time.Date(2026, 5, 9, 7, 29, second, 0, time.UTC), Seconds: 1, Warmup: second < 5, Drain: second == 39,
			Requests: uint64(requests), InFlight: 3 + random.IntN(5), Busy: 0.2 + random.Float64()/20,
		}
		var errResponse, errService error
		w.Response, errResponse = encode(response)
		w.Service, errService = encode(service)
		if err := errors.Join(errResponse, errService); err != nil {
			return nil, err
		}
		switch second {
		case 18:
			w.Failed, w.Dropped, w.InFlight = 31, 12, 940
		case 24:
			w = load.Window{Start: w.Start, Seconds: 1, InFlight: 4}
		}
		windows = append(windows, w)
	}
	return windows, nil
})

func encode(h *hdrhistogram.Histogram) (string, error) {
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return string(text), err
}

// samplePlan has a scenario of each kind that is put in words.
func samplePlan() load.Plan {
	steps := []load.Step{
		{Name: "list", Request: load.Request{Method: "GET", Path: "/menu?page={page}"}},
		{Name: "order", Request: load.Request{Method: "POST", Path: "/order", Body: `{"id": {id}}`}},
	}
	stages := []load.Stage{{Duration: 30 * time.Second, Target: 1000}, {Duration: time.Minute, Target: 5000}}
	return load.Plan{
		Targets: []string{"http://127.0.0.1:8080"}, Seed: 7, Warmup: 5 * time.Second, Timeout: 5 * time.Second,
		Protocol: load.HTTP2, Connections: 64,
		Scenarios: []load.Scenario{
			{Name: "lookup", Executor: load.ConstantArrivalRate, Rate: 500, Duration: 40 * time.Second, Arrivals: load.Poisson, Steps: steps[:1]},
			{Name: "ramp", Executor: load.RampingArrivalRate, StartRate: 10, Stages: stages, Steps: steps},
			{Name: "users", Executor: load.ConstantVUs, VUs: 200, Duration: 90 * time.Second, StartTime: 10 * time.Second, Steps: steps, Weighted: true},
			{Name: "more-users", Executor: load.RampingVUs, StartVUs: 1, Stages: stages, WebSocket: &load.WebSocket{Path: "/ws"}},
			{Name: "shared", Executor: load.SharedIterations, Iterations: 1, VUs: 10, Steps: steps[:1]},
			{Name: "each", Executor: load.PerVUIterations, Iterations: 20, VUs: 1, Steps: steps[:1]},
			{Name: "replay", Executor: load.Replay, Log: &load.AccessLog{Path: "access.log", Speed: 2}},
		},
	}
}

// sampleSummary is that of sampleWindows, with one of everything. It is the
// caller's to change.
func sampleSummary(t *testing.T) *summary.Summary {
	t.Helper()
	all, err := wholeSummary()
	if err != nil {
		t.Fatal(err)
	}
	s := *all
	s.Thresholds, s.Steps, s.Percentiles = slices.Clone(s.Thresholds), slices.Clone(s.Steps), slices.Clone(s.Percentiles)
	s.Plan = samplePlan()
	return &s
}

var wholeSummary = sync.OnceValues(func() (*summary.Summary, error) {
	windows, err := allWindows()
	if err != nil {
		return nil, err
	}
	response, service := load.NewHistogram(), load.NewHistogram()
	r := load.Result{
		From: time.Date(2026, 5, 9, 7, 29, 5, 0, time.UTC), To: time.Date(2026, 5, 9, 7, 29, 40, 0, time.UTC),
		Status: map[int]uint64{200: 16_993, 404: 12, 503: 9},
		Errors: map[string]load.ErrorCount{
			"timeout": {Count: 22, Example: "no whole answer within 5s"},
			"reset":   {Count: 9, Example: "read tcp 127.0.0.1:40112->127.0.0.1:8080: connection reset by peer"},
		},
		Sent: 3_456_789, Received: 12_345_678, Waited: 940, MaxInFlight: 952, Late: 3,
		Generator: load.Generator{CPUSeconds: 7.9, Busy: 0.226, Working: 0.19,
			Lateness: load.Lateness{P50: 0.031, P99: 0.412, P999: 2.31, Max: 6.1, WithinMs: 0.9971}},
		Steps: []load.StepResult{
			{Scenario: "lookup", Name: "list", Requests: 12_000, Failed: 3, Sent: 1_560_000, Received: 148_000_000, Status: map[int]uint64{200: 12_000}},
			{Scenario: "ramp", Name: "order", Requests: 5_300, Failed: 28, Status: map[int]uint64{200: 5_300}},
		},
		Checks: []load.CheckResult{
			{Scenario: "lookup", Step: "list", Name: "is a menu", Passes: 11_990, Fails: 10},
			{Scenario: "ramp", Step: "order", Name: "status is 200", Passes: 5_300},
		},
		Values: []load.ValueResult{
			{Scenario: "lookup", Step: "list", Name: "queue", Count: 12_000, Sum: 36_000, Max: 12_345, P50: 2, P95: 8.5, P99: 31, Last: 4},
			{Scenario: "ramp", Step: "order", Name: "price"},
		},
		WebSocket: &load.WebSocketResult{Connects: 20, Reconnects: 1, Closed: 1, Sent: 400, Delivered: 8_000, Lost: 2},
	}
	for i := range windows {
		if w := &windows[i]; !w.Warmup {
			r.Requests += w.Requests
			r.Failed += w.Failed
			r.Dropped += w.Dropped
			if err := errors.Join(merge(response, w.Response), merge(service, w.Service)); err != nil {
				return nil, err
			}
		}
	}
	r.CompletedInTime, r.Iterations, r.Offered = r.Requests, r.Requests, r.Requests+r.Dropped
	var errResponse, errService error
	r.Response, errResponse = latency(response)
	r.Service, errService = latency(service)
	if err := errors.Join(errResponse, errService); err != nil {
		return nil, err
	}
	r.Steps[0].Response, r.Steps[0].Service = r.Response, r.Service
	r.Steps[1].Response, r.Steps[1].Service = r.Service, r.Service
	s, err := summary.New(samplePlan(), &r, []threshold.Outcome{
		{Metric: "http_req_duration", Threshold: "p(95)<4", Observed: r.Response.P95, Met: false},
		{Metric: "http_req_failed", Threshold: "rate<0.01", Observed: 0.00178, Met: true},
		{Metric: "http_req_duration{step:list}", Threshold: "p(99)<500 over 10s", Observed: 412.5, Met: true, Reason: "the worst window began at 12 s"},
		{Metric: "http_reqs", Threshold: "rate>400", Observed: 498.2, Met: true},
		{Metric: "data_received", Threshold: "count<1000000000", Observed: 12_345_678, Met: true},
	}, summary.Machine{Cores: 2, GOMAXPROCS: 2, OS: "linux/amd64"})
	if err != nil {
		return nil, err
	}
	// What makes a load a lower bound is not this package's to say.
	s.Validity, s.ValidityReasons = summary.Valid, []string{}
	return s, nil
})

func latency(h *hdrhistogram.Histogram) (load.Latency, error) {
	at := func(p float64) float64 { return float64(h.ValueAtPercentile(p)) / 1000 }
	text, err := encode(h)
	return load.Latency{P50: at(50), P90: at(90), P95: at(95), P99: at(99), P999: at(99.9),
		Max: float64(h.Max()) / 1000, Mean: h.Mean() / 1000, Histogram: text}, err
}

// lowerBound is a load that the generator limited.
func lowerBound(t *testing.T) *summary.Summary {
	t.Helper()
	s := sampleSummary(t)
	s.Validity = summary.LowerBoundOnly
	s.ValidityReasons = []string{"The busiest event loop was at work 99.2 % of the time.", "412 of 17,300 iterations were late."}
	s.Thresholds = nil
	s.Aborted = "http_req_failed rate<0.01: observed 0.31"
	s.InFlight.Growing, s.InFlight.Slope = true, 31.4
	return s
}
