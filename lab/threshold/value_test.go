package threshold_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

// valuesOf is what one step extracted.
func valuesOf(t *testing.T, step, name string, values ...float64) load.ValueResult {
	t.Helper()
	out := load.ValueResult{
		Scenario: "s", Step: step, Name: name, Count: uint64(len(values)), Min: math.Inf(1), Max: math.Inf(-1),
		Last: values[len(values)-1], LastAt: time.Unix(int64(len(values)), 0),
	}
	h := load.NewValueHistogram()
	for _, v := range values {
		out.Sum += v
		out.Min, out.Max = min(out.Min, v), max(out.Max, v)
		if err := h.RecordValue(int64(v * 1000)); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if out.Histogram, err = load.EncodeHistogram(h); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestExtractedValuesAreJudged(t *testing.T) {
	t.Parallel()
	r := load.Result{Requests: 5, From: time.Unix(0, 0), To: time.Unix(1, 0), Values: []load.ValueResult{
		valuesOf(t, "a", "queue", 1, 2, 3), valuesOf(t, "b", "queue", 10), valuesOf(t, "b", "other", 99), {Scenario: "s", Step: "b", Name: "none"},
	}}
	for _, c := range []struct {
		metric, expression string
		met                bool
		observed           float64
	}{
		{"extracted{value:queue}", "max<=10", true, 10}, {"extracted{value:queue}", "max<10", false, 10}, {"extracted{value:queue}", "avg==4", true, 4},
		{"extracted{value:queue}", "sum<16", false, 16}, {"extracted{value:queue}", "count==4", true, 4}, {"extracted{value:queue}", "min<1", false, 1},
		{"extracted{step:a,value:queue}", "max<=3", true, 3}, {"extracted{step:a,value:queue}", "p(100)>3", false, 3}, {"extracted{value:other}", "p(50)<98", false, 99},
		{"extracted{value:queue}", "last==3", true, 3}, {"extracted{value:queue}", "med<2", false, 2}, {"extracted{value:none}", "last>=0", false, 0}, {"extracted{value:none}", "count==0", true, 0}, {"extracted{value:none}", "max<1", false, 0},
	} {
		parsed, err := threshold.Parse(c.metric, c.expression)
		if err != nil {
			t.Fatal(err)
		}
		got, err := threshold.NewWatch([]threshold.Threshold{parsed}).Outcomes(&r)
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Met != c.met || math.Abs(got[0].Observed-c.observed) > 1e-9 {
			t.Errorf("%s: %s is %+v; want %v, %v", c.metric, c.expression, got[0], c.met, c.observed)
		}
	}
}

func TestExtractedValuesThatAreNotThere(t *testing.T) {
	t.Parallel()
	with := threshold.MetricsOf([]load.Scenario{{Name: "other", Executor: load.ConstantVUs}, {Name: "s", Executor: load.ConstantVUs, Steps: []load.Step{{Name: "a", Extract: map[string]load.Extract{"queue": {JSON: "q", Metric: true}, "id": {JSON: "id"}}}}}})
	without := threshold.MetricsOf([]load.Scenario{{Name: "s", Executor: load.ConstantVUs, Steps: []load.Step{{Name: "a"}}}})
	for _, c := range []struct {
		metrics threshold.Metrics
		metric  string
		want    string
	}{
		{with, "extracted{value:queue}", ""}, {with, "extracted", "write extracted{value:queue}"}, {with, "extracted{scenario:other}", "write extracted{value:NAME}"}, {with, "extracted{value:quee}", `write "queue"`},
		{with, "extracted{value:id}", `the load has no value "id"`}, {without, "extracted{value:queue}", "no step extracts a value as a metric"},
	} {
		parsed, err := threshold.Parse(c.metric, "p(95)<20")
		if err == nil {
			err = c.metrics.Check(parsed)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.metric, err, c.want)
		}
	}
	for _, wrong := range []string{"rate<1", "value<1", "p(95)<20 over 10s"} {
		if _, err := threshold.Parse("extracted{value:queue}", wrong); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}
