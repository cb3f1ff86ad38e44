package engine

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

// TestValuesAreMetrics has what answers say be a distribution: of a path, a header, and of
// a value that not every answer has.
func TestValuesAreMetrics(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		k := n.Add(1)
		w.Header().Set("Age", fmt.Sprint(k%2))
		if k%2 == 0 {
			fmt.Fprintf(w, `{"queue": {"length": %d}, "price": 1.25}`, k)
		} else {
			fmt.Fprintf(w, `{"queue": {"length": %d}}`, k)
		}
	}))
	t.Cleanup(s.Close)
	step := getStep("a", "/")
	step.Extract = map[string]load.Extract{
		"length": {JSON: "queue.length", Metric: true}, "age": {Header: "age", Metric: true}, "price": {JSON: "price", Metric: true, Default: new("")},
	}
	plan := load.Plan{Targets: []string{s.URL}, Seed: 1, Timeout: 10 * time.Second, Scenarios: []load.Scenario{{
		Name: "c", Executor: load.SharedIterations, VUs: 3, Iterations: 100, Duration: 20 * time.Second, GracefulStop: time.Second,
		Steps: []load.Step{step, getStep("b", "/")},
	}}}
	plan.Scenarios[0].Steps = plan.Scenarios[0].Steps[:1]
	r, _ := mustRun(t, plan)
	if r.Requests != 100 || r.Failed > 0 || len(r.Values) != 3 {
		t.Fatalf("%d requests, %d failed, values %v, %v", r.Requests, r.Failed, r.Values, r.Errors)
	}
	for i, want := range []load.ValueResult{
		{Scenario: "c", Step: "a", Name: "age", Count: 100, Sum: 50, Min: 0, Max: 1},
		{Scenario: "c", Step: "a", Name: "length", Count: 100, Sum: 5050, Min: 1, Max: 100},
		{Scenario: "c", Step: "a", Name: "price", Count: 50, Sum: 62.5, Min: 1.25, P50: 1.25, P95: 1.25, P99: 1.25, Max: 1.25},
	} {
		got := r.Values[i]
		if got.Histogram == "" || got.P50 < want.P50 || got.P50 > max(want.P50, want.Max) {
			t.Errorf("%s has the median %v and the histogram %q", got.Name, got.P50, got.Histogram)
		}
		if got.Name == "length" && (math.Abs(got.P50-50) > 1 || math.Abs(got.P95-95) > 1) {
			t.Errorf("percentiles %v and %v, want 50 and 95", got.P50, got.P95)
		}
		if got.LastAt.Before(r.From) || got.LastAt.After(r.To.Add(time.Minute)) || got.Last < got.Min || got.Last > got.Max {
			t.Errorf("%s was %v last, at %v", got.Name, got.Last, got.LastAt)
		}
		got.Last, got.LastAt = 0, time.Time{}
		if got.Name != "price" {
			got.P50, got.P95, got.P99 = 0, 0, 0
		}
		if got.Histogram = ""; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// True and false are 1 and 0, and a warm-up's values are not measured.
func TestValuesThatAreTrueOrFalse(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"cached": %v}`, n.Add(1)%4 == 0) }))
	t.Cleanup(s.Close)
	step := getStep("a", "/")
	step.Extract = map[string]load.Extract{"cached": {JSON: "cached", Metric: true}}
	r, _ := mustRun(t, load.Plan{Targets: []string{s.URL}, Seed: 1, Timeout: 10 * time.Second, Scenarios: []load.Scenario{{
		Name: "c", Executor: load.PerVUIterations, VUs: 1, Iterations: 8, Duration: 20 * time.Second, GracefulStop: time.Second, Steps: []load.Step{step},
	}}})
	if v := r.Values[0]; v.Count != 8 || v.Sum != 2 || v.Last != 1 || v.Max != 1 || v.Min != 0 {
		t.Errorf("got %+v, want 8 values, 2 of them true, the last one of these", v)
	}
}

// What is no number is a failure, and nothing is made of it.
func TestValuesThatAreNoNumbers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`"soon"`, "-1", "1e13", `"NaN"`, "null"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"v": %s}`, text) }))
		step := getStep("a", "/")
		step.Extract = map[string]load.Extract{"v": {JSON: "v", Metric: true}}
		r, _ := mustRun(t, load.Plan{Targets: []string{s.URL}, Seed: 1, Timeout: 10 * time.Second, Scenarios: []load.Scenario{{
			Name: "c", Executor: load.PerVUIterations, VUs: 1, Iterations: 1, Duration: 20 * time.Second, GracefulStop: time.Second, Steps: []load.Step{step},
		}}})
		s.Close()
		if e := r.Errors[failure.NoValue.String()]; e.Count != 1 || !strings.Contains(e.Example, "a metric is true, false or a number from 0 to 1000000000000") || r.Values[0].Count != 0 {
			t.Errorf("%s: errors %v, values %v; want a failure and none", text, r.Errors, r.Values)
		}
	}
}
