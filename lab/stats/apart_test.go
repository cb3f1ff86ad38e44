package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The chance that intervals of equals are apart is what is observed, also of more trials than
// eight, whose intervals leave some out.
func TestApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n, m int
		want float64
	}{{6, 6, 2.0 / 924}, {3, 3, 0.1}, {8, 5, Rarest(8, 5)}, {9, 9, 2 * 82.0 / 48620}} {
		if got := Apart(c.n, c.m); !near(got, c.want, 1e-12) {
			t.Errorf("%d and %d: got %v, want %v", c.n, c.m, got, c.want)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) Interval {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = rng.Float64()
		}
		return Median(xs)
	}
	const times = 20_000
	for _, c := range [][2]int{{9, 9}, {12, 9}, {20, 20}} {
		apart := 0
		for range times {
			if a, b := draw(c[0]), draw(c[1]); a.High < b.Low || b.High < a.Low {
				apart++
			}
		}
		want := Apart(c[0], c[1])
		if got, slack := float64(apart)/times, 4*math.Sqrt(want/times); math.Abs(got-want) > slack || want < 2*Rarest(c[0], c[1]) {
			t.Errorf("%v: apart in %.4f of cases, want %.4f", c, got, want)
		}
	}
	for n := 1; n <= MaxTrials; n += 23 {
		for m := 1; m <= MaxTrials; m += 29 {
			if p := Apart(n, m); !(p > 0 && p <= 1) || !near(p, Apart(m, n), 1e-9) {
				t.Errorf("%d and %d: got %v, and %v the other way round", n, m, p, Apart(m, n))
			}
		}
	}
}
