package load

import (
	"math"
	"math/rand/v2"
	"time"

	"loadstone/lab/load/seed"
)

// Arrival is one request that the schedule wants: its number, which its feed
// values are drawn by, and when, as an offset from the start of the plan.
type Arrival struct {
	Number uint64
	At     time.Duration

	Method, Target string // of an access log's line; else empty
}

// Arrivals is the schedule of an open scenario, walked one arrival at a time
// and in order. Two walks with the same scenario and seed see the same
// arrivals, which is how the observer counts those that are due without
// asking the virtual users. Not safe for concurrent use.
//
// Both processes are one of unit rate seen through the curve (time change,
// Çinlar, Introduction to Stochastic Processes, 1975, ch. 4.7): the arrival at
// place x of the unit process happens when x arrivals are due. The unit
// process has independent exponential gaps of mean 1 for Poisson, so the
// result is an exact non-homogeneous Poisson process on ramps too; it has the
// places 1/2, 3/2, 5/2 … for Uniform, so the number of arrivals by any time is
// the integral of the rate rounded to the nearest whole number. In strata (see
// Scenario.Stratum) a stretch of the unit process has as many places as it is
// long, drawn evenly, in order: the first of n in what is left of it is at
// 1 - u^(1/n) of that (Devroye, Non-Uniform Random Variate Generation, 1986, ch. V.3).
type Arrivals struct {
	curve   *RateCurve
	start   time.Duration // of the scenario within the plan
	poisson bool
	stratum int // places in each; 0 is without
	random  *rand.PCG

	place  float64 // of head in the unit process
	left   int     // places that the stratum of head has behind it
	until  float64 // where that ends
	legNow int
	head   Arrival
	ended  bool
}

// NewArrivals returns the schedule of s from its first arrival on.
func NewArrivals(s *Scenario, master uint64) *Arrivals {
	key := seed.Derive(master, s.Name, "arrivals")
	a := &Arrivals{
		curve:   NewRateCurve(s),
		start:   s.StartTime,
		poisson: s.Arrivals == Poisson,
		stratum: s.Stratum, left: s.FirstStratum, until: float64(s.FirstStratum),
		random: rand.NewPCG(key, seed.Mix(key)),
	}
	if a.poisson {
		a.draw()
	} else {
		a.place = 0.5
	}
	a.locate()
	return a
}

// Peek returns the next arrival, or false when there is none.
func (a *Arrivals) Peek() (Arrival, bool) { return a.head, !a.ended }

// Advance moves on to the arrival after the next.
func (a *Arrivals) Advance() {
	if a.ended {
		return
	}
	if a.poisson {
		a.draw()
	} else {
		// Not place++, which would add up rounding errors.
		a.place = float64(a.head.Number+1) + 0.5
	}
	a.head.Number++
	a.locate()
}

// locate sets the time of head from its place. Times never go backwards:
// rounding to nanoseconds could make them, across the border of two legs.
func (a *Arrivals) locate() {
	if a.place >= a.curve.total {
		a.ended = true
		return
	}
	var t time.Duration
	t, a.legNow = a.curve.when(a.place, a.legNow)
	a.head.At = max(a.head.At, a.start+t)
}

// draw moves place on by chance.
func (a *Arrivals) draw() {
	if a.stratum == 0 {
		a.place += a.exponential()
		return
	}
	if a.left == 0 {
		a.place, a.left = a.until, a.stratum
		a.until += float64(a.stratum)
	}
	a.place -= (a.until - a.place) * math.Expm1(-a.exponential()/float64(a.left))
	a.left--
}

// exponential draws from the exponential distribution of mean 1. It is written
// out, and not taken from math/rand, so that a seed means the same arrivals
// for as long as PCG is PCG.
func (a *Arrivals) exponential() float64 {
	u := float64(a.random.Uint64()>>11) / (1 << 53)
	return -math.Log(1 - u)
}
