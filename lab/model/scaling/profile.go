package scaling

import (
	"math"

	"loadstone/lab/stats"
)

// domain is where a figure can lie, and how it is searched: by factors.
type domain struct {
	low     float64 // its lowest value
	atLow   bool    // whether the lowest value itself is possible
	atStart float64 // where to start from, at the least
}

var (
	positive    = domain{low: 0, atStart: 0}
	nonNegative = domain{low: 0, atLow: true, atStart: 1e-9}
	beyondOne   = domain{low: 1, atLow: true, atStart: 1}
)

// farthest is where the search for an upper end stops, as a size and as a factor.
const farthest = 1e9

// interval is the region around value in which the profile, the least sum of
// squares under the equation for that value, stays within the threshold.
func (p *problem) interval(value float64, d domain, eq func(v float64) equality) stats.Interval {
	iv := stats.Interval{Value: value, Low: value, High: value}
	if p.threshold == 0 {
		return iv
	}
	iv.Confidence = Level
	inside := func(v float64) bool { return p.solve(eq(v)).sum <= p.threshold }
	iv.Low = lowEnd(value, d, inside)
	iv.High, iv.HighOpen = highEnd(max(value, d.atStart), inside)
	iv.High = max(iv.High, value)
	return iv
}

func lowEnd(value float64, d domain, inside func(float64) bool) float64 {
	if value <= d.low || d.atLow && inside(d.low) {
		return d.low
	}
	in := value
	for by := 1.1; by <= farthest; by *= by {
		out := value / by
		if !inside(out) {
			return bisect(in, max(out, d.low), inside)
		}
		in = out
	}
	return d.low
}

func highEnd(value float64, inside func(float64) bool) (high float64, open bool) {
	if value >= farthest && inside(value) {
		return value, true
	}
	in := value
	for by := 1.1; ; by *= by {
		out := value * by
		if !inside(out) {
			return bisect(in, out, inside), false
		}
		in = out
		if by > farthest {
			return out, true
		}
	}
}

// bisect narrows the edge of an interval to a millionth.
func bisect(in, out float64, inside func(float64) bool) float64 {
	for range 60 {
		if math.Abs(in-out) <= 1e-6*in {
			break
		}
		mid := math.Sqrt(in) * math.Sqrt(out)
		if out == 0 {
			mid = in / 2
		}
		if inside(mid) {
			in = mid
		} else {
			out = mid
		}
	}
	return in
}
