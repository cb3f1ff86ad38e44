package load

import (
	"math"
	"testing"
)

func TestSequentialFeed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		bounds [2]int64
		k      uint64
		want   int64
	}{
		{[2]int64{5, 7}, 0, 5},
		{[2]int64{5, 7}, 2, 7},
		{[2]int64{5, 7}, 3, 5},
		{[2]int64{-2, 1}, 3, 1},
		{[2]int64{9, 9}, 12345, 9},
		{[2]int64{math.MinInt64, math.MaxInt64}, 0, math.MinInt64},
		{[2]int64{math.MinInt64, math.MaxInt64}, math.MaxUint64, math.MaxInt64},
	}
	for _, test := range tests {
		v := newValues(1, "s", "f", Feed{Sequential: &test.bounds})
		if got := v.at(test.k); got != test.want {
			t.Errorf("%v: value %d is %d, want %d", test.bounds, test.k, got, test.want)
		}
	}
}

func TestUniformFeedReachesBothEnds(t *testing.T) {
	t.Parallel()
	for _, bounds := range [][2]int64{{0, 0}, {-3, 3}, {math.MinInt64, math.MinInt64 + 1}, {math.MaxInt64 - 1, math.MaxInt64}} {
		v := newValues(1, "s", "f", Feed{Uniform: &bounds})
		seen := map[int64]bool{}
		for k := range uint64(1000) {
			got := v.at(k)
			if got < bounds[0] || got > bounds[1] {
				t.Fatalf("%v: value %d is %d", bounds, k, got)
			}
			seen[got] = true
		}
		if want := int(bounds[1] - bounds[0] + 1); len(seen) != want {
			t.Errorf("%v: %d different values, want %d", bounds, len(seen), want)
		}
	}
}

// TestUniformFeedHasNoBias counts values in equal thirds of a range that is
// three quarters of all 64-bit numbers: taking the remainder would put half of
// them into the first third.
func TestUniformFeedHasNoBias(t *testing.T) {
	t.Parallel()
	const third = int64(1) << 62
	bounds := [2]int64{math.MinInt64, math.MinInt64 + third - 1 + third + third}
	v := newValues(1, "s", "f", Feed{Uniform: &bounds})
	const n = 30_000
	counts := make([]float64, 3)
	for k := range uint64(n) {
		counts[uint64(v.at(k)-math.MinInt64)/uint64(third)]++
	}
	if chi := chiSquare(counts, n/3); chi > 16 { // p = 0.0003, two degrees
		t.Errorf("chi-square %.1f over %v, want below 16", chi, counts)
	}
	// Small ranges: every value as often as any other.
	bounds = [2]int64{10, 19}
	v = newValues(7, "s", "f", Feed{Uniform: &bounds})
	counts = make([]float64, 10)
	for k := range uint64(n) {
		counts[v.at(k)-10]++
	}
	if chi := chiSquare(counts, n/10); chi > 31 { // p = 0.0003, nine degrees
		t.Errorf("chi-square %.1f over %v, want below 31", chi, counts)
	}
}

func chiSquare(counts []float64, expected float64) float64 {
	var sum float64
	for _, c := range counts {
		sum += (c - expected) * (c - expected) / expected
	}
	return sum
}

func TestFeedsAreIndependentOfEachOther(t *testing.T) {
	t.Parallel()
	bounds := [2]int64{0, math.MaxInt64}
	f := Feed{Uniform: &bounds}
	base := newValues(1, "s", "f", f)
	for name, other := range map[string]values{
		"seed": newValues(2, "s", "f", f), "scenario": newValues(1, "t", "f", f), "name": newValues(1, "s", "g", f),
	} {
		if base.at(0) == other.at(0) || base.at(1) == other.at(1) {
			t.Errorf("another %s gives the same values", name)
		}
	}
	again := newValues(1, "s", "f", f)
	if base.at(41) != again.at(41) {
		t.Error("the same feed gives other values")
	}
}
