package summary_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
	"loadstone/lab/load/feed"
	"loadstone/lab/load/summary"
	"loadstone/lab/threshold"
)

// sample is the makings of a summary.
type sample struct {
	plan     load.Plan
	result   load.Result
	outcomes []threshold.Outcome
	reasons  []string // in place of what the result itself says of its validity
}

func (s *sample) summary(t *testing.T) *summary.Summary {
	t.Helper()
	out, err := summary.New(s.plan, &s.result, s.outcomes, summary.Machine{Cores: 2, GOMAXPROCS: 2, OS: "linux/amd64"})
	if err != nil {
		t.Fatal(err)
	}
	out.Validity, out.ValidityReasons = summary.Valid, []string{}
	if len(s.reasons) > 0 {
		out.Validity, out.ValidityReasons = summary.LowerBoundOnly, s.reasons
	}
	return out
}

// samples are the cases of the golden files.
func samples(t *testing.T) map[string]*summary.Summary {
	t.Helper()
	all := map[string]*sample{
		"plain": plainLoad(t), "closed": closedLoad(t), "thresholds": thresholdLoad(t), "lowerbound": lowerBoundLoad(t),
		"errors": errorLoad(t), "steps": stepLoad(t), "websocket": socketLoad(t), "nothing": nothingLoad(),
	}
	out := make(map[string]*summary.Summary, len(all))
	for name, s := range all {
		out[name] = s.summary(t)
	}
	return out
}

// latency draws n log-normal times with the given median, in milliseconds.
func latency(t *testing.T, seed, n uint64, median float64) load.Latency {
	t.Helper()
	h := load.NewHistogram()
	r := rand.New(rand.NewPCG(seed, 1))
	for range n {
		us := int64(math.Exp(math.Log(median*1000) + 0.6*r.NormFloat64()))
		if err := h.RecordValue(max(us, 1)); err != nil {
			t.Fatal(err)
		}
	}
	return latencyOf(t, h)
}

func latencyOf(t *testing.T, h *hdrhistogram.Histogram) load.Latency {
	t.Helper()
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	ms := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1000 }
	return load.Latency{
		P50: ms(50), P90: ms(90), P95: ms(95), P99: ms(99), P999: ms(99.9),
		Max: float64(h.Max()) / 1000, Mean: h.Mean() / 1000, Histogram: string(b),
	}
}

func started() time.Time { return time.Date(2026, 3, 2, 10, 20, 30, 0, time.UTC) }

// plainLoad is an open model of one request.
func plainLoad(t *testing.T) *sample {
	t.Helper()
	return &sample{
		plan: load.Plan{
			Targets: []string{"http://127.0.0.1:8080"},
			Scenarios: []load.Scenario{{
				Name: "default", Executor: load.ConstantArrivalRate, Duration: 30 * time.Second,
				Rate: 5000, Arrivals: load.Poisson, MaxVUs: 1000,
				Steps: []load.Step{{Name: "default", Request: load.Request{
					Method: "GET", Path: "/student/{id}", Header: map[string]string{"Authorization": "Bearer abc", "Accept": "text/html"},
				}}},
				Feed: map[string]feed.Feed{"id": {Uniform: &[2]int64{10000, 674823}}},
			}},
			Seed: 42, Timeout: 10 * time.Second, Connections: 64,
		},
		result: load.Result{
			From: started(), To: started().Add(30 * time.Second),
			Offered: 149_873, Iterations: 149_873, Requests: 149_873, IterationsInTime: 149_870, CompletedInTime: 149_870,
			Waited: 17, Late: 3, Sent: 11_000_000, Received: 81_300_512,
			Steps: []load.StepResult{{
				Scenario: "default", Name: "default", Requests: 149_873, Status: map[int]uint64{200: 149_873},
				Response: latency(t, 1, 5_000, 0.42), Service: latency(t, 1, 5_000, 0.39),
			}},
			Status:   map[int]uint64{200: 149_873},
			Response: latency(t, 1, 5_000, 0.42), Service: latency(t, 1, 5_000, 0.39),
			MaxInFlight: 37,
			Generator: load.Generator{
				CPUSeconds: 2.013, Busy: 0.0671, Working: 0.0594,
				Lateness: load.Lateness{P50: 0.011, P99: 0.082, P999: 0.307, Max: 6.2, WithinMs: 0.99981},
			},
		},
	}
}

// closedLoad is a closed model with a warm-up, over HTTP/2 to two targets.
func closedLoad(t *testing.T) *sample {
	t.Helper()
	s := plainLoad(t)
	s.plan.Targets = append(s.plan.Targets, "http://127.0.0.2:8080")
	s.plan.Warmup, s.plan.Protocol, s.plan.Connections = 5*time.Second, load.HTTP2, 0
	scenario := &s.plan.Scenarios[0]
	scenario.Executor, scenario.VUs, scenario.Rate, scenario.MaxVUs = load.ConstantVUs, 200, 0, 0
	s.result.Waited, s.result.Late, s.result.Generator.Lateness = 0, 0, load.Lateness{}
	s.result.Aborted = "http_req_duration p(95)<200 did not hold: 312 ms"
	return s
}

func thresholdLoad(t *testing.T) *sample {
	t.Helper()
	s := plainLoad(t)
	s.outcomes = []threshold.Outcome{
		{Metric: "http_req_duration", Threshold: "p(95)<200", Observed: 143.2, Met: true},
		{Metric: "http_req_duration", Threshold: "p(95)<200 over 10s", Observed: 200.4, Reason: "10:20:41 to 10:20:51 is the worst of 20 windows"},
		{Metric: "http_req_failed", Threshold: "rate<0.001", Observed: 0.0012},
		{Metric: "http_reqs", Threshold: "rate>4900", Observed: 4995.67, Met: true},
		{Metric: "http_reqs", Threshold: "count>10", Observed: 149_873, Met: true},
		{Metric: "data_received", Threshold: "rate<1000000", Observed: 2_710_017.07},
		{Metric: "checks", Threshold: "rate>0.99", Reason: "no check was made"},
	}
	return s
}

func lowerBoundLoad(t *testing.T) *sample {
	t.Helper()
	s := plainLoad(t)
	s.result.Late, s.result.Dropped = 14_200, 310
	s.result.Generator.Busy, s.result.Generator.Working, s.result.Generator.Lateness.WithinMs = 0.982, 0.991, 0.8
	s.reasons = []string{
		"the generator was busy 98 % of the time on its one core, and sent 14,200 of 149,873 requests more than 5 ms late",
		"310 iterations were dropped",
	}
	return s
}

func errorLoad(t *testing.T) *sample {
	t.Helper()
	s := plainLoad(t)
	s.result.Failed = 1_290
	s.result.Status = map[int]uint64{0: 290, 200: 148_583, 404: 94, 503: 906}
	s.result.Errors = map[string]load.ErrorCount{
		"timeout":  {Count: 12, Example: "no whole answer within 10s"},
		"refused":  {Count: 266, Example: "dial tcp 127.0.0.1:8080: connect: connection refused"},
		"bad_http": {Count: 12, Example: "the answer begins with \"\x1b[2J\x07HTPT/1.1 200 OK\\r\\nContent-Length: 12\", which is no status line of HTTP/1.x; 43 bytes were read\nbefore it"},
	}
	return s
}

// stepLoad has two scenarios of several steps, with checks.
func stepLoad(t *testing.T) *sample {
	t.Helper()
	s := plainLoad(t)
	s.outcomes = []threshold.Outcome{
		{Metric: "http_req_duration{scenario:browse,step:restaurants}", Threshold: "p(99)<5", Observed: 4.207, Met: true},
		{Metric: "checks{check:the menu has a price}", Threshold: "rate>0.99", Observed: 0.98},
	}
	s.plan.Connections = 64
	s.plan.Scenarios = []load.Scenario{
		{
			Name: "browse", Executor: load.RampingArrivalRate, StartRate: 100, Arrivals: load.Uniform, MaxVUs: 500,
			Stages: []load.Stage{{Duration: 10 * time.Second, Target: 1000}, {Duration: 20 * time.Second, Target: 5000}},
			Steps: []load.Step{
				{Name: "restaurants", Request: load.Request{Method: "GET", Path: "/restaurants"}},
				{Name: "the menu of the restaurant that was picked", Request: load.Request{Method: "GET", Path: "/menu/{id}"}},
			},
		},
		{
			Name: "order", Executor: load.PerVUIterations, VUs: 20, Iterations: 100,
			Steps: []load.Step{{Name: "order", Request: load.Request{Method: "POST", Path: "/order"}}},
		},
	}
	s.result.Steps = nil
	for i, name := range [][2]string{{"browse", "restaurants"}, {"browse", "the menu of the restaurant that was picked"}, {"order", "order"}} {
		s.result.Steps = append(s.result.Steps, load.StepResult{
			Scenario: name[0], Name: name[1], Requests: 73_000 / uint64(i+1), Failed: 3 * uint64(i), Sent: 8_000_000, Received: 1_234_567_890 / uint64(i+1), Status: map[int]uint64{200: 73_000 / uint64(i+1)},
			Response: latency(t, uint64(10+i), 2_000, float64(i+1)), Service: latency(t, uint64(10+i), 2_000, float64(i+1)),
		})
	}
	s.result.Journeys = []load.JourneyResult{{Scenario: "browse", Iterations: 73_000, BrokenOff: 3, Duration: latency(t, 13, 2_000, 4)}}
	s.result.Caches = []load.CacheResult{{Scenario: "browse", Hits: 12_345, Revalidations: 678, Fetched: 73_000, HeldBytes: 1_234_567, LargestBytes: 99_999}}
	s.result.Checks = []load.CheckResult{
		{Scenario: "browse", Step: "restaurants", Name: "status is 200", Passes: 73_000},
		{Scenario: "browse", Step: "restaurants", Name: "there is a next page", Passes: 72_999, Fails: 1},
		{Scenario: "browse", Step: "the menu of the restaurant that was picked", Name: "the menu has a price", Passes: 980, Fails: 20},
		{Scenario: "order", Step: "order", Name: "status is 201"},
	}
	s.result.Values = []load.ValueResult{
		{Scenario: "browse", Step: "restaurants", Name: "queue", Count: 73_000, Sum: 219_000, Max: 12_345, P50: 2, P95: 8.5, P99: 31, Last: 4},
		{Scenario: "order", Step: "order", Name: "price"},
	}
	return s
}

func socketLoad(t *testing.T) *sample {
	t.Helper()
	s := plainLoad(t)
	s.plan.Connections = 0
	s.plan.Scenarios = []load.Scenario{{
		Name: "viewers", Executor: load.RampingVUs, Stages: []load.Stage{{Duration: 30 * time.Second, Target: 20_000}},
		WebSocket: &load.WebSocket{
			Path: "/chat", Header: map[string]string{"Cookie": "session=1"}, Message: "hello {id}",
			Rate: 0.5, Senders: 10, Deliver: load.DeliverAll, ConnectRate: 1000,
		},
	}}
	s.result.Status = map[int]uint64{101: 20_003}
	s.result.Steps = []load.StepResult{
		{Scenario: "viewers", Name: "connect", Requests: 20_003, Status: map[int]uint64{101: 20_003}, Response: latency(t, 3, 2000, 2), Service: latency(t, 3, 2000, 2)},
		{Scenario: "viewers", Name: "message", Requests: 2_998_311, Failed: 11, Response: latency(t, 5, 2000, 12), Service: latency(t, 5, 2000, 12)},
	}
	s.result.WebSocket = &load.WebSocketResult{
		Connects: 20_003, Reconnects: 3, Closed: 3, Sent: 150, Delivered: 2_998_300, Lost: 11, Duplicates: 2, Other: 41,
	}
	return s
}

// nothingLoad ended before anything was measured.
func nothingLoad() *sample {
	return &sample{
		plan: load.Plan{Targets: []string{"http://127.0.0.1:8080/"}, Scenarios: []load.Scenario{{
			Name: "default", Executor: load.Replay, Log: &load.AccessLog{Path: "logs/access.log", Speed: 2},
		}}},
		result:  load.Result{From: started(), To: started(), Aborted: "interrupted"},
		reasons: []string{"nothing was measured"},
	}
}
