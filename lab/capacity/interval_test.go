package capacity

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		xs   []float64
		want Interval
	}{
		{nil, Interval{}},
		{[]float64{7}, Interval{Value: 7, Low: 7, High: 7}},
		{[]float64{2, 1}, Interval{Value: 1.5, Low: 1, High: 2, Confidence: 0.5}},
		{[]float64{3, 1, 2}, Interval{Value: 2, Low: 1, High: 3, Confidence: 0.75}},
		{[]float64{6, 5, 4, 3, 2, 1}, Interval{Value: 3.5, Low: 1, High: 6, Confidence: 0.96875}},
		// Nine values: [x2, x8] has 96.1 %, [x3, x7] only 82 %.
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, Interval{Value: 5, Low: 2, High: 8, Confidence: 0.9609375}},
	} {
		in := slices.Clone(c.xs)
		got := Median(c.xs)
		if math.Abs(got.Confidence-c.want.Confidence) > 1e-9 {
			t.Errorf("%v: confidence %v, want %v", c.xs, got.Confidence, c.want.Confidence)
		}
		got.Confidence = c.want.Confidence
		if got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.xs, got, c.want)
		}
		if !slices.Equal(in, c.xs) {
			t.Errorf("Median changed its argument: %v", c.xs)
		}
	}
}

// The intervals must hold what they claim to hold, as often as they claim.
func TestIntervalsCover(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	sample := func(median float64, n int) []float64 {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = median * math.Exp(0.1*rng.NormFloat64())
		}
		return xs
	}
	const runs = 4000
	medians, ratios, medianConf, ratioConf := 0, 0, 0.0, 0.0
	for range runs {
		a, b := sample(100, 6), sample(290, 6)
		m := Median(a)
		if m.Low <= 100 && 100 <= m.High {
			medians++
		}
		r, ok := Ratio(b, a)
		if !ok {
			t.Fatal("no ratio")
		}
		if r.Low <= 2.9 && 2.9 <= r.High {
			ratios++
		}
		medianConf, ratioConf = m.Confidence, r.Confidence
	}
	for name, c := range map[string]struct{ got, want float64 }{
		"median": {float64(medians) / runs, medianConf},
		"ratio":  {float64(ratios) / runs, ratioConf},
	} {
		if math.Abs(c.got-c.want) > 0.015 {
			t.Errorf("%s: interval held the true value in %.1f %%, claims %.1f %%", name, 100*c.got, 100*c.want)
		}
		if c.want < Level {
			t.Errorf("%s: six trials give %.3f, want at least %v", name, c.want, Level)
		}
	}
}

func TestRatioRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, c := range [][2][]float64{
		{nil, {1}}, {{1}, nil}, {{0, 1}, {1}}, {{1}, {0}}, {{math.NaN()}, {1}}, {{1}, {math.Inf(1)}},
	} {
		if iv, ok := Ratio(c[0], c[1]); ok {
			t.Errorf("Ratio(%v, %v) = %+v, want none", c[0], c[1], iv)
		}
	}
	if iv, ok := Ratio([]float64{4}, []float64{2}); !ok || iv.Value != 2 || iv.Confidence != 0 {
		t.Errorf("one trial each: got %+v %v, want 2 at no confidence", iv, ok)
	}
}
