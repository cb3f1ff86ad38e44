package report

import (
	"strings"
	"testing"

	"loadstone/lab/result"
	"loadstone/lab/stats"
)

func TestJUnit(t *testing.T) {
	t.Parallel()
	r := &result.Result{Experiment: "caching", Variants: []result.Variant{
		{Name: "plain", Capacity: &result.Estimate{}, SLO: []result.SLO{{Metric: "http_req_duration", Threshold: "p(95)<200", Observed: 250.4}}},
		{Name: "cached", Capacity: &result.Estimate{Interval: stats.Interval{Value: 100}}, SLO: []result.SLO{{Metric: "http_req_failed", Threshold: "rate<0.01", Met: true}}},
	}}
	var b strings.Builder
	if err := JUnit(&b, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<testsuites name="caching" tests="4" failures="2" skipped="0"`, `<testsuite name="caching / plain" tests="2" failures="2"`,
		`at no rate that was tried did the objectives hold`, `<testcase classname="caching / plain" name="http_req_duration: p(95)&lt;200"`,
		`it was 250 ms`, `<testsuite name="caching / cached" tests="2" failures="0"`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %s in\n%s", want, b.String())
		}
	}
}
