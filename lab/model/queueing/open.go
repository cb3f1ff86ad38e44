package queueing

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// response is the response time of a system that requests arrive at with a rate.
type response struct {
	// stable is false if some station cannot keep up: responses grow without limit
	// then, and the figures are 0.
	stable          bool
	mean, deviation float64 // seconds
	delay           float64 // the part of mean that is the same for all
}

// open solves the model for a rate of Poisson arrivals. Stations are taken as
// independent (Jackson 1957), service times as exponential. The time at each is
//   - a CPU's: the mean of M/M/c, which for one server holds for any service
//     times, and the variance of M/M/1-PS (Coffman, Muntz and Trotter 1970),
//     carried over to several servers by the share of those who wait;
//   - a pool's: the wait of M/M/c.
func (m Model) open(qs []queue, rate float64) response {
	o := response{stable: true, mean: m.Delay.Value, delay: m.Delay.Value}
	means, squares := make([]float64, len(m.Stations)), make([]float64, len(m.Stations))
	for _, q := range qs {
		busy := rate * q.demand / float64(q.servers)
		if busy >= 1 {
			return response{}
		}
		mean, variance := m.Stations[q.station].sojourn(busy)
		w := q.count * q.share
		means[q.station] += w * mean
		squares[q.station] += w * (variance + mean*mean)
	}
	variance := 0.0
	for i, mean := range means {
		o.mean += mean
		variance += squares[i] - mean*mean
	}
	o.deviation = math.Sqrt(max(0, variance))
	return o
}

// sojourn is mean and variance of the time that one request takes at an instance
// whose servers are busy so much of the time.
func (s Station) sojourn(busy float64) (mean, variance float64) {
	if s.bursts() {
		return s.throttled(busy)
	}
	service := s.Demand.Value / s.speed()
	c := float64(s.Servers)
	wait := ErlangC(s.Servers, c*busy)
	rest := service / (c * (1 - busy)) // mean wait of those who wait
	spread := wait * (2 - wait) * rest * rest
	if s.Pool {
		return wait * rest, spread
	}
	return service + wait*rest, (service*service + spread) * (1 + 2*wait/(2-busy))
}

// ErlangC is the share of arrivals that must wait at c servers with an offered
// load of a servers' work (M/M/c; Erlang 1917). It is 1 where a is c or more.
func ErlangC(c int, a float64) float64 {
	if a >= float64(c) {
		return 1
	}
	b := 1.0 // Erlang's B, by its recursion: only positive terms
	for k := 1; k <= c; k++ {
		b = a * b / (float64(k) + a*b)
	}
	busy := a / float64(c)
	return b / (1 - busy*(1-b))
}

// within is the share of requests answered within so many seconds: the delay,
// and a gamma distribution with the mean and variance of the rest. It is exact
// for one queue with exponential response (M/M/1) and a sum of such (Erlang).
func (o response) within(seconds float64) float64 {
	left, mean := seconds-o.delay, o.mean-o.delay
	switch {
	case !o.stable || left < 0:
		return 0
	case o.deviation <= 1e-9*mean:
		if mean <= left {
			return 1
		}
		return 0
	case left == 0:
		return 0
	}
	shape := mean / o.deviation * (mean / o.deviation)
	return mathext.GammaIncReg(shape, left/mean*shape)
}
