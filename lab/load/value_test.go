package load

import (
	"testing"
	"time"
)

// valueOf is what one generator extracted.
func valueOf(t *testing.T, last time.Time, values ...float64) ValueResult {
	t.Helper()
	v, h := ValueResult{Scenario: "s", Step: "a", Name: "queue", Count: uint64(len(values))}, NewValueHistogram()
	if len(values) == 0 {
		return v
	}
	v.Min, v.Max, v.Last, v.LastAt = values[0], values[0], values[len(values)-1], last
	for _, x := range values {
		v.Sum, v.Min, v.Max = v.Sum+x, min(v.Min, x), max(v.Max, x)
		if err := h.RecordValue(int64(x * ValueScale)); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.SetDistribution(h); err != nil {
		t.Fatal(err)
	}
	return v
}

// Values that several generators extracted are as if one had.
func TestExtractedValuesAreMerged(t *testing.T) {
	t.Parallel()
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	empty, err := NewLatency(NewHistogram())
	if err != nil {
		t.Fatal(err)
	}
	part := func(v ValueResult) Result {
		return Result{From: early, To: late, Response: empty, Service: empty, Values: []ValueResult{v}}
	}
	got, err := Merge([]Result{part(valueOf(t, early)), part(valueOf(t, late, 1, 2, 3)), part(valueOf(t, early, 10, 20))})
	if err != nil {
		t.Fatal(err)
	}
	want := valueOf(t, late, 10, 20, 1, 2, 3)
	if len(got.Values) != 1 || got.Values[0] != want {
		t.Errorf("got %+v, want %+v", got.Values, want)
	}
	other := valueOf(t, late, 1)
	other.Name = "other"
	if _, err := Merge([]Result{part(valueOf(t, late, 1)), part(other)}); err == nil {
		t.Error("values of different names are merged")
	}
}
