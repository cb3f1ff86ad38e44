package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestFalling(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		series [][]float64
		want   float64
	}{
		"nothing":         {nil, 1},
		"one value":       {[][]float64{{3}}, 1},
		"all fall":        {[][]float64{{5, 4, 3, 2, 1}}, 1.0 / 120},
		"all rise":        {[][]float64{{1, 2, 3, 4, 5}}, 1},
		"one pair rises":  {[][]float64{{4, 5, 3, 2, 1}}, 5.0 / 120},
		"a tie":           {[][]float64{{4, 4, 3, 2, 1}}, 5.0 / 120},
		"two that fall":   {[][]float64{{3, 2, 1}, {9, 8, 7}}, 1.0 / 36},
		"levels differ":   {[][]float64{{1, 2}, {30, 20}}, 3.0 / 4},
		"a single beside": {[][]float64{{3, 2, 1}, {9}}, 1.0 / 6},
	} {
		if got := Falling(c.series...); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestFallingByChance has the test wrong as often as it says, and no more.
func TestFallingByChance(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	const runs, level = 20_000, 0.05
	below := 0
	for range runs {
		a, b := make([]float64, 7), make([]float64, 4)
		for _, xs := range [][]float64{a, b} {
			for i := range xs {
				xs[i] = r.ExpFloat64()
			}
		}
		if Falling(a, b) <= level {
			below++
		}
	}
	if share := float64(below) / runs; share > 1.1*level || share < 0.5*level {
		t.Errorf("got %.4f below %v", share, level)
	}
}

func TestSlope(t *testing.T) {
	t.Parallel()
	x := []float64{1, 2, 4, 5}
	for name, c := range map[string]struct {
		y            []float64
		known, walk  float64
		slope, least float64
	}{
		"a line":                {[]float64{1, 3, 7, 9}, 0, 0, 2, 2},
		"a line that may be":    {[]float64{1, 3, 7, 9}, 5, 0, 2, 2 - 2.76377*math.Sqrt(4.0/10)},
		"and one that drifts":   {[]float64{1, 3, 7, 9}, 5, 2, 2, 2 - 2.76377*math.Sqrt(4.0/10+1.2*2/4)},
		"one that is not quite": {[]float64{2, 2, 6, 10}, 0, 0, 2, 2 - 2.76377*math.Sqrt(0.4/10)},
	} {
		slope, least := Slope(x, c.y, c.known, c.walk)
		if math.Abs(slope-c.slope) > 1e-9 || math.Abs(least-c.least) > 1e-5 {
			t.Errorf("%s: got %v and %v at the least, want %v and %v", name, slope, least, c.slope, c.least)
		}
	}
	if slope, least := Slope([]float64{3, 3}, []float64{1, 2}, 1, 1); slope != 0 || !math.IsInf(least, -1) {
		t.Errorf("of one moment: got %v and %v", slope, least)
	}
}

// TestSlopeByChance: where there is no slope, one in a hundred at the most is above 0, however few values there are.
func TestSlopeByChance(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	const runs = 20_000
	for _, n := range []int{3, 6, 30} {
		above := 0
		for range runs {
			x, y := make([]float64, n), make([]float64, n)
			for i := range x {
				x[i], y[i] = float64(i)+r.Float64(), r.Float64()
			}
			if _, least := Slope(x, y, 1.0/12, 0); least > 0 {
				above++
			}
		}
		if share := float64(above) / runs; share > 0.015 {
			t.Errorf("%d values: got %.4f above 0, want 0.01 at the most", n, share)
		}
	}
}
