package queueing

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Open is a system that requests arrive at with a rate.
type Open struct {
	Rate float64 `json:"rate"` // requests per second
	// Stable is false if some station cannot keep up. Responses grow without
	// limit then, and Mean and Deviation are 0.
	Stable bool `json:"stable"`
	// Mean and Deviation are of the response time, in seconds.
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"deviation"`
	Loads     []Load  `json:"loads"`

	delay float64
}

// Open solves the model for a rate of Poisson arrivals. Stations are taken as
// independent (Jackson 1957). At each of them response is
//   - Sharing: the mean of M/M/c, which for one server holds for any service
//     times, and the variance of M/M/1-PS (Coffman, Muntz and Trotter 1970),
//     carried over to several servers by the share of those who wait;
//   - InOrder: Pollaczek and Khinchine's mean for one server, Allen and
//     Cunneen's for several (Allen, Probability, Statistics and Queueing
//     Theory, 1990, 5.3).
func (m Model) Open(rate float64) (*Open, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("solve an open model: %w", err)
	}
	if !(rate >= 0) || math.IsInf(rate, 0) {
		return nil, fmt.Errorf("solve an open model at the rate %v; it must be a finite number from 0 up", rate)
	}
	o := m.open(m.queues(), rate)
	return &o, nil
}

func (m Model) open(qs []queue, rate float64) Open {
	o := Open{Rate: rate, Stable: true, Loads: make([]Load, len(m.Stations)), delay: m.Delay.Value}
	means, squares := make([]float64, len(m.Stations)), make([]float64, len(m.Stations))
	for i, s := range m.Stations {
		o.Loads[i].Name = s.Name
	}
	for _, q := range qs {
		s := m.Stations[q.station]
		l := &o.Loads[q.station]
		busy := rate * q.demand / float64(q.servers)
		l.Utilisation = max(l.Utilisation, busy)
		if busy >= 1 {
			o.Stable = false
			continue
		}
		mean, variance := s.sojourn(busy)
		w := q.count * q.share
		means[q.station] += w * mean
		squares[q.station] += w * (variance + mean*mean)
	}
	if !o.Stable {
		return o
	}
	variance := 0.0
	for i, s := range m.Stations {
		perVisit, square := means[i], squares[i]
		l := &o.Loads[i]
		l.Response = s.Visits * perVisit
		l.Queue = rate * l.Response // Little's law
		o.Mean += l.Response
		// Fewer than one visit is a visit that some requests make.
		if s.Visits < 1 {
			variance += s.Visits*square - l.Response*l.Response
		} else {
			variance += s.Visits * (square - perVisit*perVisit)
		}
	}
	o.Mean += m.Delay.Value
	o.Deviation = math.Sqrt(max(0, variance))
	return o
}

// sojourn is mean and variance of the time that one visit takes at an instance
// whose servers are busy so much of the time.
func (s Station) sojourn(busy float64) (mean, variance float64) {
	if s.bursts() {
		return s.throttled(busy)
	}
	service := s.Demand.Value / s.Visits / s.speed()
	c := float64(s.Servers)
	wait := ErlangC(s.Servers, c*busy)
	rest := service / (c * (1 - busy)) // mean wait of those who wait, at exponential service
	spread := wait * (2 - wait) * rest * rest
	switch s.Discipline {
	case InOrder:
		by := (1 + s.Variation) / 2
		mean = service + by*wait*rest
		variance = s.Variation*service*service + by*by*spread
	default:
		mean = service + wait*rest
		variance = (service*service + spread) * (1 + 2*wait/(2-busy))
	}
	if s.Overlaps && s.Discipline == InOrder {
		return mean - service, variance - s.Variation*service*service
	}
	return mean, variance
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

// Within is the share of requests answered within so many seconds: the delay,
// and a gamma distribution with the mean and variance of the rest. It is exact
// for one queue with exponential response (M/M/1) and a sum of such (Erlang).
func (o *Open) Within(seconds float64) float64 {
	if !o.Stable {
		return 0
	}
	left, mean := seconds-o.delay, o.Mean-o.delay
	switch {
	case left < 0:
		return 0
	case o.Deviation <= 1e-9*mean:
		if mean <= left {
			return 1
		}
		return 0
	case left == 0:
		return 0
	}
	shape := mean / o.Deviation * (mean / o.Deviation)
	return mathext.GammaIncReg(shape, left/mean*shape)
}

// Percentile is the response time that a share of requests, 0 to 1, stays
// within, in seconds. ok is false if the system is not stable.
func (o *Open) Percentile(share float64) (seconds float64, ok bool) {
	if !o.Stable || !(share >= 0 && share < 1) {
		return 0, false
	}
	low, high := o.delay, o.Mean+o.Deviation
	for o.Within(high) < share {
		high += 2 * (high - o.delay)
	}
	for range 100 {
		mid := low + (high-low)/2
		if o.Within(mid) < share {
			low = mid
		} else {
			high = mid
		}
	}
	return high, true
}
