package stats

import (
	"math"
	"testing"
)

// The ends are those of tables of the interval: of none and all of n they follow from
// (1-p)^n = 0.025.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k, n             int
		value, low, high float64
	}{
		{0, 10, 0, 0, 0.3085}, {10, 10, 1, 0.6915, 1}, {5, 10, 0.5, 0.1871, 0.8129}, {1, 20, 0.05, 0.0013, 0.2487},
		{0, 60, 0, 0, 1 - math.Pow(0.025, 1.0/60)}, {59, 60, 59.0 / 60, 0.9106, 0.9996},
	} {
		got := Share(c.k, c.n)
		if math.Abs(got.Value-c.value) > 1e-9 || math.Abs(got.Low-c.low) > 1e-4 || math.Abs(got.High-c.high) > 1e-4 || got.Confidence != Level {
			t.Errorf("%d of %d: got %+v, want %v from %v to %v", c.k, c.n, got, c.value, c.low, c.high)
		}
	}
}
