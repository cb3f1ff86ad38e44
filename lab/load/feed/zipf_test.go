package feed

import (
	"math"
	"slices"
	"testing"

	"loadstone/lab/load/seed"
)

// chiSquare is Pearson's statistic of counts against what is expected.
func chiSquare(counts, expected []float64) float64 {
	var sum float64
	for i, c := range counts {
		sum += (c - expected[i]) * (c - expected[i]) / expected[i]
	}
	return sum
}

// expectedOf is how often each of n ranks is to be seen in so many draws.
func expectedOf(n int, s, draws float64) []float64 {
	expected := make([]float64, n)
	var total float64
	for i := range expected {
		expected[i] = math.Pow(float64(i+1), -s)
		total += expected[i]
	}
	for i := range expected {
		expected[i] *= draws / total
	}
	return expected
}

// merged joins ranks from the last on until each group is expected ten times,
// where the statistic is good.
func merged(counts, expected []float64) (c, e []float64) {
	var counted, awaited float64
	for i, count := range slices.Backward(counts) {
		counted, awaited = counted+count, awaited+expected[i]
		if awaited >= 10 {
			c, e = append(c, counted), append(e, awaited)
			counted, awaited = 0, 0
		}
	}
	if len(c) > 0 {
		c[len(c)-1] += counted
		e[len(e)-1] += awaited
	}
	return c, e
}

// tooFar is a bound on chi-square that chance passes about once in 100,000
// times (Wilson and Hilferty, 1931).
func tooFar(degrees int) float64 {
	if degrees < 1 {
		return 1e-9
	}
	d := float64(degrees)
	return d * math.Pow(1-2/(9*d)+4.3*math.Sqrt(2/(9*d)), 3)
}

// drawn counts the ranks of draws from a Zipf feed, by way of Append.
func drawn(t *testing.T, n int, s float64, draws uint64) []float64 {
	t.Helper()
	const low = -3
	set := open(t, map[string]Feed{"z": {Zipf: &Zipf{Low: low, High: low + int64(n) - 1, Exponent: s}}})
	counts := make([]float64, n)
	for k := range draws {
		value := number(t, set, "z", Position{Iteration: k})
		if value < low || value >= low+int64(n) {
			t.Fatalf("s %v, %d numbers: value %d is %d", s, n, k, value)
		}
		counts[value-low]++
	}
	return counts
}

func TestZipfAgainstExactProbabilities(t *testing.T) {
	t.Parallel()
	const draws = 40_000
	for _, n := range []int{1, 2, 3, 50, 2000} {
		for _, s := range []float64{1e-9, 0.5, 0.99, 1, 1 + 1e-12, 1.01, 2, 7, 400} {
			c, e := merged(drawn(t, n, s, draws), expectedOf(n, s, draws))
			if chi, most := chiSquare(c, e), tooFar(len(c)-1); chi > most {
				t.Errorf("s %v, %d numbers: chi-square %.1f over %d groups, want below %.1f", s, n, chi, len(c), most)
			}
		}
	}
}

// TestChiSquareSeesAWrongExponent: the test above would fail if the exponent
// were off by 2 %, or if ranks were off by one.
func TestChiSquareSeesAWrongExponent(t *testing.T) {
	t.Parallel()
	const draws = 100_000
	counts := drawn(t, 50, 0.99, draws)
	c, e := merged(counts, expectedOf(50, 0.97, draws))
	if chi, most := chiSquare(c, e), tooFar(len(c)-1); chi < most {
		t.Errorf("against exponent 0.97 chi-square is %.1f, want above %.1f", chi, most)
	}
	c, e = merged(append(counts[1:], 0), expectedOf(50, 0.99, draws))
	if chi, most := chiSquare(c, e), tooFar(len(c)-1); chi < most {
		t.Errorf("off by one chi-square is %.1f, want above %.1f", chi, most)
	}
}

// TestZipfOverManyNumbers looks at the share of the lowest where there are too
// many to count each: with exponent 1 it is a ratio of harmonic numbers.
func TestZipfOverManyNumbers(t *testing.T) {
	t.Parallel()
	const draws = 200_000
	harmonic := func(n float64) float64 { return math.Log(n) + 0.5772156649015329 + 1/(2*n) }
	z := newZipf(1<<53, 1)
	for _, most := range []uint64{1 << 3, 1 << 10, 1 << 26, 1 << 50} {
		var seen float64
		for k := range uint64(draws) {
			rank := z.rank(seed.At(99, k))
			if rank < 1 || rank > 1<<53 {
				t.Fatalf("rank %d", rank)
			}
			if rank <= most {
				seen++
			}
		}
		want := harmonic(float64(most)) / harmonic(1<<53)
		if deviation := math.Abs(seen/draws-want) / math.Sqrt(want*(1-want)/draws); deviation > 4.5 {
			t.Errorf("%.4f of the draws are up to %d, want %.4f: %.1f standard errors", seen/draws, most, want, deviation)
		}
	}
}

// TestZipfWastesFewDraws holds the share of accepted points that mostDraws
// rests on, and that the extremes end at all.
func TestZipfWastesFewDraws(t *testing.T) {
	t.Parallel()
	for _, s := range []float64{1e-300, 0.1, 0.5, 0.99, 1, 1.5, 2, 3, 5, 10, 100, 1e5, 1e308} {
		for _, n := range []int{1, 2, 5, 100, 10_000} {
			z := newZipf(uint64(n), s)
			var bars float64
			for k := 1; k <= n; k++ {
				bars += z.density(float64(k))
			}
			if share := bars / (z.to - z.from); share < 0.75 || share > 1+1e-9 {
				t.Errorf("s %v, %d numbers: a share of %.3f is accepted, want 0.75 to 1", s, n, share)
			}
			for _, x := range []uint64{0, 1, math.MaxUint64} {
				if rank := z.rank(x); rank < 1 || rank > uint64(n) {
					t.Errorf("s %v, %d numbers: rank %d", s, n, rank)
				}
			}
		}
	}
}
