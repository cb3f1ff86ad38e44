package scaling

import (
	"math"
	"strings"
	"testing"
)

// Replicas behind a proxy: they add up until the proxy is the limit. The law
// has no such bend, and says so, or loses to the ceiling.
func TestDescribeTellsTheShapesApart(t *testing.T) {
	t.Parallel()
	bent := func(n float64) float64 { return min(1000*n, 3500) }
	for _, c := range []struct {
		name  string
		curve func(float64) float64
		sizes []float64
		want  Shape
	}{
		{"proxy at 3.5 replicas", bent, []float64{1, 2, 3, 4, 6, 8}, Bent},
		{"linear", truth{1000, 0, 0}.at, []float64{1, 2, 3, 4, 6, 8}, Smooth},
		{"contention", truth{1000, 0.1, 0}.at, []float64{1, 2, 3, 4, 6, 8}, Smooth},
		{"peak", truth{1000, 0.05, 0.02}.at, []float64{1, 2, 3, 4, 6, 8}, Smooth},
		{"a cliff", func(n float64) float64 { return map[bool]float64{true: 1000 * n, false: 300}[n < 5] }, []float64{1, 2, 3, 4, 6, 8}, Neither},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			right := 0
			const repetitions = 40
			for i := range repetitions {
				d, err := Describe(measure(c.curve, c.sizes, 6, 0.05, i))
				if err != nil {
					t.Fatal(err)
				}
				if d.Shape == c.want {
					right++
				}
			}
			t.Logf("%d of %d named %s", right, repetitions, c.want)
			if right < 37 {
				t.Errorf("%d of %d named %s, want 37", right, repetitions, c.want)
			}
		})
	}
}

func TestLackOfFitIsSeen(t *testing.T) {
	t.Parallel()
	bent := func(n float64) float64 { return min(1000*n, 3500) }
	l := fit(t, measure(bent, []float64{1, 2, 3, 4, 6, 8}, 6, 0.02, 1))
	if l.Fit.Good || l.Fit.P > 0.05 || len(l.Warnings) == 0 || !strings.Contains(l.Fit.Reason, "size") {
		t.Errorf("fit %+v, want the law refused", l.Fit)
	}
}

func TestCeilingFindsTheBend(t *testing.T) {
	t.Parallel()
	const repetitions = 400
	each, flat := 0.0, 0.0
	for i := range repetitions {
		c, err := FitCeiling(measure(func(n float64) float64 { return min(1000*n, 3500) }, []float64{1, 2, 3, 4, 6, 8}, 6, 0.05, i))
		if err != nil {
			t.Fatal(err)
		}
		if !near(c.From, 3.5, 0.1) || c.At(100) != c.Flat.Value {
			t.Errorf("bend at %v, want 3.5", c.From)
		}
		if c.Each.Low <= 1000 && 1000 <= c.Each.High {
			each += 100.0 / repetitions
		}
		if c.Flat.Low <= 3500 && 3500 <= c.Flat.High {
			flat += 100.0 / repetitions
		}
	}
	t.Logf("coverage: slope %.1f %%, limit %.1f %%", each, flat)
	if each < 92 || flat < 92 {
		t.Errorf("coverage %.1f and %.1f %%, want 95", each, flat)
	}
	line, err := FitCeiling(measure(truth{10, 0, 0}.at, []float64{1, 2, 4}, 1, 0, 0))
	if err != nil || line.From != 0 || !near(line.At(9), 90, 1e-9) {
		t.Errorf("a line has the ceiling %+v (%v), want none", line, err)
	}
}

func TestFindTakeover(t *testing.T) {
	t.Parallel()
	parts := []Part{{Name: "api", Each: 1300, Grows: true}, {Name: "lb", Each: 4100, Count: 1}, {Name: "db", Each: 3000, Count: 2}}
	got, err := FindTakeover(parts)
	if err != nil || got != (Takeover{Grown: "api", Next: "lb", At: 4, Bound: 4100, Each: 1300}) {
		t.Errorf("%+v (%v), want lb from 4 replicas on", got, err)
	}
	if got, err := FindTakeover(parts[:1]); err != nil || got.Next != "" || got.Bound != 0 {
		t.Errorf("%+v (%v), want nothing to take over", got, err)
	}
	if got, err := FindTakeover(append(parts, Part{Name: "pool", Each: 1025, Grows: true})); err != nil || got.Grown != "pool" || got.At != 4 {
		t.Errorf("%+v (%v), want the least of what grows", got, err)
	}
	for _, bad := range [][]Part{
		nil, parts[1:], {parts[0], {Name: "x", Each: 1}},
		{{Name: "x", Each: math.NaN(), Grows: true}}, {{Name: "x", Grows: true}}, {{Name: "x", Each: 1e-9, Grows: true}, {Name: "y", Each: 1e9, Count: 1}},
	} {
		if got, err := FindTakeover(bad); err == nil {
			t.Errorf("%+v: %+v, want an error", bad, got)
		}
	}
}
