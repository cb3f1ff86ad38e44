package load

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// Merged percentiles are those of all samples together, and not means of percentiles.
func TestMergedPercentilesAreThoseOfAllSamples(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	all := NewHistogram()
	var parts []Result
	for part := range 3 {
		h := NewHistogram()
		for range 1000 * (part + 1) {
			v := int64(r.ExpFloat64() * 1000 * float64(1+4*part)) // each slower than the one before
			if err := h.RecordValue(v + 1); err != nil {
				t.Fatal(err)
			}
			if err := all.RecordValue(v + 1); err != nil {
				t.Fatal(err)
			}
		}
		l, err := NewLatency(h)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, Result{Response: l, Service: l, Offered: uint64(h.TotalCount())})
	}
	want, err := NewLatency(all)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Merge(parts)
	if err != nil || !reflect.DeepEqual(got.Response, want) || got.Offered != 6000 {
		t.Errorf("got %+v, %d offered, %v, want %+v", got.Response, got.Offered, err, want)
	}
}

func TestEachGeneratorIsJudgedByItself(t *testing.T) {
	t.Parallel()
	good := Result{Offered: 10_000, Generator: Generator{Working: 0.2, Busy: 0.2, Cores: 2}}
	late, busy := good, good
	late.Late = 150 // 1.5 % of its own, 0.75 % of both
	busy.Generator.Working = 0.95
	for want, parts := range map[string][]Result{
		"": {good, good},
		"generator 2: the load generator sent 1.5": {good, late},
		"generator 1: an event loop":               {busy, good},
	} {
		m, err := Merge(parts)
		if err != nil {
			t.Fatal(err)
		}
		var reasons []string
		for _, why := range m.Validity() {
			reasons = append(reasons, why.Text)
		}
		if got := strings.Join(reasons, "; "); !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if m, err := Merge([]Result{good, late}); err != nil || m.LateShare() != 0.015 {
		t.Errorf("late: got %v, %v, want the worst", m.LateShare(), err)
	}
}

func TestResultsOfDifferentPlansAreNotMerged(t *testing.T) {
	t.Parallel()
	a, b := Result{Steps: []StepResult{{Name: "a"}}}, Result{Steps: []StepResult{{Name: "b"}}}
	if _, err := Merge([]Result{a, b}); err == nil || !strings.Contains(err.Error(), "different steps") {
		t.Errorf("got %v", err)
	}
}

// All parts together have every arrival and every user once.
func TestPartsAreAWhole(t *testing.T) {
	t.Parallel()
	for of := 1; of <= 4; of++ {
		for n := range 20 {
			users, arrivals := 0, 0
			for i := range of {
				p := Portion{Index: i, Of: of}
				users += p.Count(n)
				if p.Has(uint64(n)) {
					arrivals++
				}
			}
			if users != n || arrivals != 1 {
				t.Errorf("%d parts: %d of %d users, arrival %d sent %d times", of, users, n, n, arrivals)
			}
		}
	}
}
