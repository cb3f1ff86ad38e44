package selftest

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// draw is where a system's parameters come from. Each system has a stream of its
// own, so that it is the same whether it is run alone or with the others.
type draw struct{ *rand.Rand }

func newDraw(seed uint64, name string) *draw {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it never fails
	return &draw{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// between draws a number with two significant digits, evenly.
func (d *draw) between(low, high float64) float64 {
	x := low + d.Float64()*(high-low)
	unit := math.Pow(10, math.Floor(math.Log10(x))-1)
	return math.Round(math.Round(x/unit)*unit*1e6) / 1e6
}

// whole draws a whole number from low to high.
func (d *draw) whole(low, high int) int { return low + d.IntN(high-low+1) }
