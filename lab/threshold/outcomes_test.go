package threshold_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

var start = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// spread is a histogram of the times from 1 ms to n ms in steps of 1 ms.
func spread(t *testing.T, n int) string {
	t.Helper()
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(i + 1)
	}
	return histogram(t, values...)
}

// histogram is of times in ms.
func histogram(t *testing.T, ms ...float64) string {
	t.Helper()
	h := load.NewHistogram()
	for _, v := range ms {
		if err := h.RecordValue(int64(v * 1000)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// hundred is a load of 100 requests in 10 s that took 1 ms to 100 ms, one of
// each, of which 2 failed and 5 were done late; 4 more were dropped. The second
// half of the times are the step login's, in half the time when sent.
func hundred(t *testing.T) *load.Result {
	t.Helper()
	return &load.Result{
		From: start, To: start.Add(10 * time.Second),
		Offered: 104, Requests: 100, Failed: 2, Dropped: 4, CompletedInTime: 95, Iterations: 50, IterationsInTime: 45,
		Sent: 2000, Received: 50000,
		Response: load.Latency{Histogram: spread(t, 100)},
		Service:  load.Latency{Histogram: spread(t, 50)},
		Steps: []load.StepResult{
			{
				Scenario: "shop", Name: "login", Requests: 40, Failed: 2,
				Response: load.Latency{Histogram: spread(t, 40)}, Service: load.Latency{Histogram: spread(t, 20)},
			},
			{
				Scenario: "shop", Name: "buy", Requests: 50,
				Response: load.Latency{Histogram: spread(t, 80)}, Service: load.Latency{Histogram: spread(t, 30)},
			},
			{Scenario: "room", Name: "connect", Requests: 6, Failed: 2, Response: load.Latency{Histogram: spread(t, 6)}},
			{Scenario: "room", Name: "message", Requests: 4, Response: load.Latency{Histogram: spread(t, 4)}},
		},
		Checks: []load.CheckResult{
			{Scenario: "shop", Step: "login", Name: "status is 200", Passes: 38, Fails: 2},
			{Scenario: "shop", Step: "buy", Name: "status is 200", Passes: 50},
			{Scenario: "shop", Step: "buy", Name: "has a receipt", Passes: 0, Fails: 10},
		},
		WebSocket: &load.WebSocketResult{Connects: 4, Sent: 20, Delivered: 30, Duplicates: 2, Other: 8, Lost: 1},
	}
}

// outcome judges one threshold on a result, without any window.
func outcome(t *testing.T, text string, r *load.Result) threshold.Outcome {
	t.Helper()
	got, err := threshold.NewWatch([]threshold.Threshold{parse(t, text)}).Outcomes(r)
	if err != nil || len(got) != 1 {
		t.Fatalf("Outcomes of %s = %v, %v, want one", text, got, err)
	}
	return got[0]
}

// TestOutcomesOfTheWholeLoad has, for every metric, aggregation, operator and
// selector, a threshold that is met and one beside it that is not.
func TestOutcomesOfTheWholeLoad(t *testing.T) {
	t.Parallel()
	tests := []struct {
		metric, met, missed string
		observed            float64
	}{
		{"http_req_duration", "p(95)<95.1", "p(95)<95", 95.039},
		{"http_req_duration", "p(99.9)<=100.1", "p(99.9)<=99", 100.031},
		{"http_req_duration", "p(0)>=1", "p(0)>1", 1},
		{"http_req_duration", "p(100)>100", "p(100)>101", 100.031},
		{"http_req_duration", "med<50.1", "med<50", 50.015},
		{"http_req_duration", "avg<51", "avg<50", 50.51},
		{"http_req_duration", "min==1", "min!=1", 1},
		{"http_req_duration", "max<101", "max<100", 100.031},
		{"http_req_duration{step:login}", "max<40.1", "max<40", 40.015},
		{"http_req_duration{scenario:shop}", "max<81", "max<80", 80.063},
		{"http_req_duration{scenario:shop,name:buy}", "med<40.1", "med<39", 40.015},
		{"http_req_service", "max<50.1", "max<50", 50.015},
		{"http_req_service{step:login}", "max<20.1", "max<20", 20.015},
		{"http_req_failed", "rate<0.06", "rate<0.05", 6.0 / 104}, // dropped ones failed too
		{"http_req_failed{step:login}", "rate<=0.05", "rate<0.05", 0.05},
		{"http_reqs", "count===100", "count===104", 100},
		{"http_reqs", "rate>=9.5", "rate>=10", 9.5}, // what was done in time
		{"http_reqs{step:buy}", "count>=50", "count>50", 50},
		{"http_reqs{scenario:shop}", "count==90", "count!=90", 90},
		{"iterations", "count>49", "count>50", 50},
		{"iterations", "rate>=4.5", "rate>=5", 4.5},
		{"dropped_iterations", "count<5", "count<4", 4},
		{"dropped_iterations", "rate<=0.4", "rate<0.4", 0.4},
		{"checks", "rate>=0.88", "rate>0.88", 0.88},
		{"checks{step:login}", "rate>=0.95", "rate>0.95", 0.95},
		{"checks{check:status is 200}", "rate>0.97", "rate>0.98", 88.0 / 90},
		{"checks{check:has a receipt}", "rate==0", "rate>0", 0},
		{"checks{scenario:shop,step:buy,check:status is 200}", "rate==1", "rate<1", 1},
		{"data_sent", "count<=2000", "count<2000", 2000},
		{"data_sent", "rate>=200", "rate>200", 200},
		{"data_received", "count<50001", "count<50000", 50000},
		{"data_received", "rate<5001", "rate<5000", 5000},
		{"ws_connecting", "max<6.1", "max<6", 6.003},
		{"ws_connecting{scenario:room}", "min>=1", "min>1", 1},
		{"ws_msg_duration", "p(100)<4.1", "p(100)<4", 4.001},
		{"ws_sessions", "count>=4", "count>4", 4},
		{"ws_sessions{scenario:room}", "rate>=0.4", "rate>0.4", 0.4},
		{"ws_msgs_sent", "count>=20", "count>20", 20},
		{"ws_msgs_sent", "rate>=2", "rate>2", 2},
		{"ws_msgs_received", "count>=40", "count>40", 40},
		{"ws_msgs_received", "rate>=4", "rate>4", 4},
	}
	r := hundred(t)
	for _, tt := range tests {
		for expression, met := range map[string]bool{tt.met: true, tt.missed: false} {
			o := outcome(t, tt.metric+" "+expression, r)
			if o.Met != met || o.Metric != tt.metric || o.Threshold != expression || o.Reason != "" {
				t.Errorf("%s %s: got %+v, want met %v", tt.metric, expression, o, met)
			}
			if math.Abs(o.Observed-tt.observed) > 0.05 {
				t.Errorf("%s %s: observed %g, want %g", tt.metric, expression, o.Observed, tt.observed)
			}
		}
	}
}

// TestIterationsAreTimedByThemselves: where an iteration is more than a request, its
// duration is judged and no request's, of the whole load and of each second.
func TestIterationsAreTimedByThemselves(t *testing.T) {
	t.Parallel()
	r := hundred(t)
	if o := outcome(t, "iteration_duration max<101", r); !o.Met || o.Observed != 100.031 {
		t.Errorf("got %+v, want the requests' where these are the iterations", o)
	}
	r.Journeys = []load.JourneyResult{
		{Scenario: "shop", Iterations: 50, Duration: load.Latency{Histogram: histogram(t, 900, 1000)}},
		{Scenario: "feed", Iterations: 1, Duration: load.Latency{Histogram: histogram(t, 3000)}},
		{Scenario: "idle", Duration: load.Latency{Histogram: histogram(t)}},
	}
	for text, met := range map[string]bool{
		"iteration_duration max<2999": false, "iteration_duration max<3003": true, "iteration_duration{scenario:shop} max<1001": true,
		"iteration_duration{scenario:shop} max<999": false, "iteration_duration{scenario:feed} min>2900": true, "iteration_duration{scenario:idle} max<1": false,
	} {
		if o := outcome(t, text, r); o.Met != met {
			t.Errorf("%s: got %+v, want met %v", text, o, met)
		}
	}
	slow := second(t, 1, 5, 6)
	slow.Journeys = []load.WindowJourney{{Scenario: "shop", Iterations: 1, Duration: histogram(t, 700)}, {Scenario: "feed"}}
	none := second(t, 0, 900)
	none.Journeys = []load.WindowJourney{{Scenario: "shop"}, {Scenario: "feed"}}
	x := parse(t, "iteration_duration max<600 over 1s")
	x.AbortOnFail = true
	if _, abort := watched(t, x, none); abort != "" {
		t.Errorf("a second in which no iteration ended: %s", abort)
	}
	if _, abort := watched(t, x, none, slow); !strings.Contains(abort, "it was 700") {
		t.Errorf("got %q, want the iteration of 700 ms to end the load", abort)
	}
}

// TestALoadOfOneStepIsThatStep: what is known of the load only, known of it too.
func TestALoadOfOneStepIsThatStep(t *testing.T) {
	t.Parallel()
	r := hundred(t)
	r.Steps = []load.StepResult{{Scenario: "lookup", Name: "student", Requests: 100, Failed: 2, Response: r.Response}}
	if o := outcome(t, "http_req_failed{scenario:lookup} rate<0.05", r); o.Met || math.Abs(o.Observed-6.0/104) > 1e-9 {
		t.Errorf("got %+v, want the dropped in it", o)
	}
	if o := outcome(t, "http_reqs{step:student} rate>=9.5", r); !o.Met || o.Observed != 9.5 {
		t.Errorf("got %+v, want the throughput", o)
	}
	if o := outcome(t, "http_req_duration{step:other} p(95)<500", r); o.Met || o.Reason != "nothing was measured" {
		t.Errorf("got %+v, want another step missed", o)
	}
}

// TestNothingPassesWithoutMeasurement has results in which nothing, or not all,
// was measured, and thresholds that a careless comparison would pass.
func TestNothingPassesWithoutMeasurement(t *testing.T) {
	t.Parallel()
	durations := []string{
		"http_req_duration p(95)<1e9", "http_req_duration avg!=5", "http_req_duration max>=0", "http_req_duration min==0",
		"http_req_duration{step:login} max<1e9", "http_req_service med<1e9", "ws_connecting p(95)<1e9", "ws_msg_duration avg<1e9",
	}
	rates := []string{"http_reqs rate>=0", "iterations rate!=5", "dropped_iterations rate==0", "data_sent rate>=0"}
	windows := []string{"http_req_duration p(95)<1e9 over 1s", "http_req_failed rate<1 over 5s", "dropped_iterations count<9 over 1s"}
	all := slices.Concat(durations, rates, windows, []string{
		"http_req_failed rate<1", "http_req_failed rate==0", "http_req_failed rate!=0.5", "http_req_failed{step:login} rate==0",
		"http_reqs count>=0", "http_reqs count!=5", "iterations count==0", "dropped_iterations count<1", "http_reqs{step:login} count>=0",
		"checks rate>=0", "checks{check:a} rate!=0.5", "data_received count<1", "ws_sessions count>=0", "ws_msgs_sent count>=0", "ws_msgs_received count!=5",
	})
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
		{"no time", &load.Result{Requests: 1, CompletedInTime: 1, WebSocket: &load.WebSocketResult{}}, append(rates, "ws_sessions rate>=0")},
		{"time runs backwards", &load.Result{From: second, To: start, Requests: 1, CompletedInTime: 1}, rates},
		{"only dropped", &load.Result{From: start, To: second, Offered: 10, Dropped: 10}, durations},
		{"no windows", hundred(t), append(windows, "http_reqs{step:login} rate>=0")},
		{"no such step", hundred(t), []string{"http_reqs{step:other} count>=0", "http_req_failed{step:other} rate<1", "ws_sessions{scenario:shop} count>=0"}},
		{"no WebSocket", &load.Result{From: start, To: second, Requests: 5}, []string{"ws_msgs_sent count>=0", "ws_sessions count<5"}},
	}
	for _, tt := range tests {
		for _, text := range tt.thresholds {
			o := outcome(t, text, tt.result)
			if o.Met || o.Reason == "" {
				t.Errorf("%s: %s: got %+v, want it missed, with a reason", tt.name, text, o)
			}
			if math.IsNaN(o.Observed) || math.IsInf(o.Observed, 0) {
				t.Errorf("%s: %s: observed %v, which JSON cannot hold", tt.name, text, o.Observed)
			}
		}
	}
	for _, text := range all {
		if o := outcome(t, text, aborted); o.Met {
			t.Errorf("aborted: %s: got %+v, want it missed", text, o)
		}
	}
	if o := outcome(t, "http_req_duration p(95)<200", aborted); o.Reason != "the load ended before its time" {
		t.Errorf("aborted: got %+v, want the reason", o)
	}
}

func TestDroppedCountAsFailed(t *testing.T) {
	t.Parallel()
	r := hundred(t)
	r.Requests, r.Failed, r.Dropped = 0, 0, 10
	if o := outcome(t, "http_req_failed rate<0.5", r); o.Met || o.Observed != 1 {
		t.Errorf("got %+v, want a share of 1, missed", o)
	}
}

func TestOutcomesRefusesAHistogramItCannotRead(t *testing.T) {
	t.Parallel()
	longest := hdrhistogram.New(1, time.Hour.Microseconds(), 3)
	if err := longest.RecordValue((50 * time.Minute).Microseconds()); err != nil {
		t.Fatal(err)
	}
	long, err := longest.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{"none": "", "garbage": "%%%", "too long": string(long)} {
		r := hundred(t)
		r.Response.Histogram, r.Steps[0].Response.Histogram = bad, bad
		for _, text := range []string{"http_req_duration p(95)<200", "http_req_duration{step:login} p(95)<200"} {
			if got, err := threshold.NewWatch([]threshold.Threshold{parse(t, text)}).Outcomes(r); err == nil {
				t.Errorf("%s: %s = %+v, want an error", name, text, got)
			}
		}
	}
	for _, strange := range []threshold.Threshold{{Metric: "vus"}, {Metric: threshold.HTTPReqDuration, Aggregation: "rate"}} {
		if got, err := threshold.NewWatch([]threshold.Threshold{strange}).Outcomes(hundred(t)); err == nil {
			t.Errorf("%s %s: got %+v, want an error", strange.Metric, strange.Aggregation, got)
		}
	}
}

func ExampleWatch() {
	t, err := threshold.Parse("http_reqs", "rate>=10")
	if err != nil {
		panic(err)
	}
	watch := threshold.NewWatch([]threshold.Threshold{t})
	outcomes, err := watch.Outcomes(&load.Result{From: start, To: start.Add(10 * time.Second), Requests: 100, CompletedInTime: 95})
	if err != nil {
		panic(err)
	}
	fmt.Println(outcomes[0].Metric, outcomes[0].Threshold, outcomes[0].Observed, outcomes[0].Met)
	// Output: http_reqs rate>=10 9.5 false
}

// Who is not let in is in the share of connections that were lost, as is who was thrown out.
func TestWhoIsNotLetInCountsAsClosed(t *testing.T) {
	t.Parallel()
	limit, err := threshold.Parse("ws_closed", "rate<0.1")
	if err != nil {
		t.Fatal(err)
	}
	r := &load.Result{
		Steps: []load.StepResult{
			{Scenario: "chat", Name: load.StepConnect, Requests: 500, Failed: 300},
			{Scenario: "chat", Name: load.StepSession, Requests: 100, Failed: 100},
			{Scenario: "chat", Name: load.StepLogin, Requests: 1000, Failed: 500},
		},
		WebSocket: &load.WebSocketResult{Clients: 500, Connects: 200, Closed: 100},
	}
	got, err := threshold.NewWatch([]threshold.Threshold{limit}).Outcomes(r)
	if err != nil || got[0].Met || got[0].Observed != 0.9 {
		t.Errorf("got %+v (%v), want 0.9: 500 that could not log in, and 300 refused and 100 thrown out of 500 others", got, err)
	}
}

// Who is refused is not lost, and what comes again is not what was due.
func TestRefusedAndDuplicatesAreShares(t *testing.T) {
	t.Parallel()
	r := &load.Result{
		Steps: []load.StepResult{
			{Scenario: "chat", Name: load.StepMessage, Requests: 400, Failed: 4},
			{Scenario: "chat", Name: load.StepAck, Requests: 75},
			{Scenario: "chat", Name: load.StepRefused, Requests: 25, Failed: 25},
		},
		WebSocket: &load.WebSocketResult{Delivered: 396, Lost: 4, Duplicates: 44, Acked: 75, Refused: 25},
	}
	for text, want := range map[string]float64{"ws_msgs_refused rate<0.1": 0.25, "ws_msgs_lost rate<0.001": 0.01, "ws_msgs_duplicates rate==0": 0.1} {
		if o := outcome(t, text, r); o.Met || o.Observed != want {
			t.Errorf("%s: got %+v, want %v, missed", text, o, want)
		}
	}
	if o := outcome(t, "ws_msgs_refused{scenario:other} rate==0", r); o.Met {
		t.Errorf("got %+v, want nothing measured", o)
	}
}
