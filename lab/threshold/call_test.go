package threshold_test

import (
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

// encodedOf is the encoded distribution of so many requests that took the same.
func encodedOf(t *testing.T, count, ms int64) string {
	t.Helper()
	h := load.NewHistogram()
	if err := h.RecordValues(ms*1000, count); err != nil {
		t.Fatal(err)
	}
	encoded, err := load.EncodeHistogram(h)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// grpc_req_duration is of the steps that make calls, whatever the others took, in the whole
// load and in windows.
func TestCallsAreJudgedAlone(t *testing.T) {
	t.Parallel()
	fast, slow := encodedOf(t, 10, 5), encodedOf(t, 10, 400)
	both := load.NewHistogram()
	for _, ms := range []int64{5, 400} {
		if err := both.RecordValues(ms*1000, 10); err != nil {
			t.Fatal(err)
		}
	}
	all, err := load.EncodeHistogram(both)
	if err != nil {
		t.Fatal(err)
	}
	of := func(h string) load.Latency { return load.Latency{Histogram: h} }
	r := load.Result{
		Requests: 20, From: time.Unix(0, 0), To: time.Unix(1, 0), Response: of(all), Service: of(all),
		Steps: []load.StepResult{
			{Scenario: "s", Name: "call", GRPC: true, Requests: 10, Response: of(fast), Service: of(fast)},
			{Scenario: "s", Name: "page", Requests: 10, Response: of(slow), Service: of(slow)},
		},
	}
	w := load.Window{Start: time.Unix(0, 0), Seconds: 1, Requests: 20, Response: all, Service: all, Steps: []load.WindowStep{
		{Scenario: "s", Name: "call", GRPC: true, Requests: 10, Response: fast, Service: fast}, {Scenario: "s", Name: "page", Requests: 10, Response: slow, Service: slow},
	}}
	var thresholds []threshold.Threshold
	cases := []struct {
		metric, expression string
		met                bool
	}{
		{"grpc_req_duration", "max<10", true}, {"grpc_req_duration", "max<1", false}, {"grpc_req_duration", "p(99)<10 over 1s", true}, {"grpc_req_duration{step:call}", "max<10", true},
		{"http_req_duration", "max<10", false}, {"http_req_duration{step:call}", "max<10", true},
	}
	for _, c := range cases {
		parsed, err := threshold.Parse(c.metric, c.expression)
		if err != nil {
			t.Fatal(err)
		}
		thresholds = append(thresholds, parsed)
	}
	watch := threshold.NewWatch(thresholds)
	if _, err := watch.Add(w); err != nil {
		t.Fatal(err)
	}
	got, err := watch.Outcomes(&r)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		if got[i].Met != c.met {
			t.Errorf("%s: %s is %+v", c.metric, c.expression, got[i])
		}
	}
}
