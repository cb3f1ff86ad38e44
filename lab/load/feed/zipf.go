package feed

import (
	"math"

	"loadstone/lab/load/seed"
)

// zipf draws k from 1 to n with probability proportional to k^-s, by
// rejection-inversion: W. Hörmann and G. Derflinger, Rejection-inversion to
// generate variates from monotone discrete distributions, ACM Transactions on
// Modeling and Computer Simulation 6 (1996), 169-184.
//
// With h(x) = x^-s and its integral H, a point u is drawn uniformly between
// H(3/2) - h(1) and H(n + 1/2). The bar of k is the stretch of length h(k)
// below H(k + 1/2). As h is convex, the stretch from H(k - 1/2) to H(k + 1/2)
// is longer than h(k), so the bars do not touch: the k nearest to H⁻¹(u) is
// accepted if u lies in its bar, and else another point is drawn. Neither time
// nor memory depends on n.
//
// Float64 limits it: where k is drawn about once in 2⁵⁰ times, its neighbours
// share their draws unevenly.
type zipf struct {
	n     float64
	s     float64
	from  float64 // H(3/2) - h(1)
	to    float64 // H(n + 1/2)
	quick float64 // k is accepted without a look at its bar if k - x is no more
}

// mostDraws bounds the points drawn for one value. More than three quarters of
// the points are accepted, so that the bound is never met by chance: it
// is there so that no rounding can make a draw endless.
const mostDraws = 64

// newZipf prepares draws of n ranks, from 1 to 2⁵³. s is above 0 and finite.
func newZipf(n uint64, s float64) zipf {
	z := zipf{n: float64(n), s: s}
	z.from = z.integral(1.5) - 1
	z.to = z.integral(z.n + 0.5)
	// The paper's s: as far left of 2 the bar of 2 begins, and those of higher
	// ranks begin further left. That of 1 is all of its stretch.
	z.quick = 2 - z.inverse(z.integral(2.5)-z.density(2))
	return z
}

// rank returns the rank that belongs to x, 64 uniform bits.
func (z *zipf) rank(x uint64) uint64 {
	k := 1.0
	for draw := range uint64(mostDraws) {
		u := z.to + seed.Unit(seed.At(x, draw))*(z.from-z.to)
		at := z.inverse(u)
		k = min(max(math.Floor(at+0.5), 1), z.n)
		if k-at <= z.quick || u >= z.integral(k+0.5)-z.density(k) {
			break
		}
	}
	return uint64(k)
}

// density is h(x) = x^-s.
func (z *zipf) density(x float64) float64 { return math.Exp(-z.s * math.Log(x)) }

// integral is H(x), the integral of h from 1 to x: (x^(1-s) - 1) / (1-s), and
// log x where s is 1. Written with expm1 it is exact near there too.
func (z *zipf) integral(x float64) float64 {
	log := math.Log(x)
	t := (1 - z.s) * log
	if t == 0 {
		return log
	}
	return math.Expm1(t) / t * log
}

// inverse is H⁻¹(u).
func (z *zipf) inverse(u float64) float64 {
	// Below -1 there is no inverse; rounding may lead there at the far end.
	t := max((1-z.s)*u, -1)
	if t == 0 {
		return math.Exp(u)
	}
	return math.Exp(math.Log1p(t) / t * u)
}
