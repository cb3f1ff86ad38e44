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
