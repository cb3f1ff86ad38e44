package load

import (
	"math"
	"time"
)

// RateCurve is the arrival rate of an open scenario as a function of time:
// legs on which it is linear, as k6's stages make it. Its integral, the number
// of arrivals due by a time, is inverted exactly, leg by leg.
type RateCurve struct {
	legs  []leg
	end   time.Duration
	total float64 // arrivals due over the whole curve
}

// leg is a stretch of a RateCurve on which the rate goes linearly from one
// value to another, in arrivals per second.
type leg struct {
	start, length time.Duration
	from, to      float64
	before        float64 // arrivals due before start
}

// NewRateCurve returns the curve of a constant-arrival-rate or
// ramping-arrival-rate scenario. Times count from the scenario's start.
func NewRateCurve(s *Scenario) *RateCurve {
	c := &RateCurve{}
	if s.Executor == ConstantArrivalRate {
		c.add(s.Duration, s.Rate, s.Rate)
		return c
	}
	rate := s.StartRate
	for _, stage := range s.Stages {
		c.add(stage.Duration, rate, stage.Target)
		rate = stage.Target
	}
	return c
}

// add appends a leg. One of no length is a jump and needs no leg.
func (c *RateCurve) add(length time.Duration, from, to float64) {
	if length <= 0 {
		return
	}
	l := leg{start: c.end, length: length, from: from, to: to, before: c.total}
	c.legs = append(c.legs, l)
	c.end += length
	c.total += l.area()
}

// area is the number of arrivals due on the leg.
func (l *leg) area() float64 { return (l.from + l.to) / 2 * l.length.Seconds() }

// Due is the number of arrivals due by time t.
func (c *RateCurve) Due(t time.Duration) float64 {
	if t <= 0 {
		return 0
	}
	for i := range c.legs {
		l := &c.legs[i]
		if t < l.start+l.length {
			s := (t - l.start).Seconds()
			slope := (l.to - l.from) / l.length.Seconds()
			return l.before + s*(l.from+slope*s/2)
		}
	}
	return c.total
}

// when inverts due: the time by which n arrivals are due, for n below total.
// It begins to look at leg number from and returns the leg it found, so that
// rising n cost one step each.
func (c *RateCurve) when(n float64, from int) (t time.Duration, legIndex int) {
	for i := from; i < len(c.legs); i++ {
		if l := &c.legs[i]; n < l.before+l.area() {
			return l.start + l.when(n-l.before), i
		}
	}
	return c.end, len(c.legs)
}

// when returns how long after the leg's start n arrivals of it are due. It
// solves from·s + slope·s²/2 = n for s in the form that stays exact when the
// slope is near zero: s = 2n / (from + √(from² + 2·slope·n)).
func (l *leg) when(n float64) time.Duration {
	if n <= 0 && l.from == 0 {
		return 0
	}
	slope := (l.to - l.from) / l.length.Seconds()
	root := math.Sqrt(math.Max(0, l.from*l.from+2*slope*n))
	s := time.Duration(2 * n / (l.from + root) * float64(time.Second))
	return min(s, l.length)
}
