package load

import (
	"hash/fnv"
	"math"
	"math/bits"
	"math/rand/v2"
	"time"
)

// arrival is one request that the schedule wants: its number, which its feed
// values are drawn by, and when, as an offset from the start of the plan.
type arrival struct {
	number uint64
	at     time.Duration
}

// arrivals is the schedule of an open scenario, walked one arrival at a time
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
// the integral of the rate rounded to the nearest whole number.
type arrivals struct {
	curve   *rateCurve
	start   time.Duration // of the scenario within the plan
	poisson bool
	random  *rand.PCG

	place  float64 // of head in the unit process
	legNow int
	head   arrival
	ended  bool
}

// newArrivals returns the schedule of s from its first arrival on.
func newArrivals(s *Scenario, seed uint64) *arrivals {
	key := derive(seed, s.Name, "arrivals")
	a := &arrivals{
		curve:   newRateCurve(s),
		start:   s.StartTime,
		poisson: s.Arrivals == Poisson,
		random:  rand.NewPCG(key, mix(key)),
	}
	if a.poisson {
		a.place = a.exponential()
	} else {
		a.place = 0.5
	}
	a.locate()
	return a
}

// peek returns the next arrival, or false when there is none.
func (a *arrivals) peek() (arrival, bool) { return a.head, !a.ended }

// advance moves on to the arrival after the next.
func (a *arrivals) advance() {
	if a.ended {
		return
	}
	if a.poisson {
		a.place += a.exponential()
	} else {
		// Not place++, which would add up rounding errors.
		a.place = float64(a.head.number+1) + 0.5
	}
	a.head.number++
	a.locate()
}

// locate sets the time of head from its place. Times never go backwards:
// rounding to nanoseconds could make them, across the border of two legs.
func (a *arrivals) locate() {
	if a.place >= a.curve.total {
		a.ended = true
		return
	}
	var t time.Duration
	t, a.legNow = a.curve.when(a.place, a.legNow)
	a.head.at = max(a.head.at, a.start+t)
}

// exponential draws from the exponential distribution of mean 1. It is written
// out, and not taken from math/rand, so that a seed means the same arrivals
// for as long as PCG is PCG.
func (a *arrivals) exponential() float64 {
	u := float64(a.random.Uint64()>>11) / (1 << 53)
	return -math.Log(1 - u)
}

// derive makes the key of one random stream out of a plan's seed, so that
// streams are independent of each other and of the order of scenarios.
func derive(seed uint64, names ...string) uint64 {
	h := fnv.New64a()
	for _, name := range names {
		_, _ = h.Write([]byte(name)) // a hash never fails to write
		_, _ = h.Write([]byte{0})
	}
	return mix(seed ^ bits.RotateLeft64(mix(h.Sum64()), 32))
}

// gamma is the golden ratio in 64 bits, the step of SplitMix64.
const gamma = 0x9e3779b97f4a7c15

// mix is the output function of SplitMix64 (Steele, Lea, Flood, Fast
// Splittable Pseudorandom Number Generators, 2014): mix(key + k·gamma) for
// k = 1, 2, … is that generator's stream, with every element at hand.
func mix(x uint64) uint64 {
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}
