package queueing

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"loadstone/lab/stats"
)

// Usage is what a resource did during one measurement.
type Usage struct {
	Rate float64 // requests per second, above 0
	Busy float64 // seconds of the resource per second, from 0 up
}

// Demand is the use of a resource, split in two: Busy = Idle + PerRequest·Rate.
type Demand struct {
	// PerRequest is in seconds per request: what one more request costs at
	// capacity.
	PerRequest stats.Interval `json:"per_request"`
	// Idle is in seconds per second: what is used whatever the rate. It has no
	// interval of its own; Low and High are its value.
	Idle stats.Interval `json:"idle"`
}

// FitDemand splits the use of a resource over rates into what each request
// costs and what is always there, by least squares on relative errors; Idle is
// not below 0. Where use per request falls with load for other reasons
// (wake-ups shared by many requests), give it the rates from half of capacity
// up only: a line fits there.
//
// Two rates or more are needed, and three measurements for an interval.
func FitDemand(usages []Usage) (Demand, error) {
	for i, u := range usages {
		if !(u.Rate > 0) || math.IsInf(u.Rate, 0) || !(u.Busy > 0) || math.IsInf(u.Busy, 0) {
			return Demand{}, fmt.Errorf("fit a demand: measurement %d has the rate %v and the use %v; both must be finite numbers above 0", i+1, u.Rate, u.Busy)
		}
	}
	// Relative errors of Busy = a + b·Rate: 1 = a·(1/Busy) + b·(Rate/Busy).
	var uu, uv, vv, u, v float64
	for _, m := range usages {
		x, y := 1/m.Busy, m.Rate/m.Busy
		uu, uv, vv, u, v = uu+x*x, uv+x*y, vv+y*y, u+x, v+y
	}
	n := float64(len(usages))
	det := uu*vv - uv*uv
	if n < 2 || !(det > 1e-10*uu*vv) {
		return Demand{}, errors.New("fit a demand: it takes measurements at two different rates or more")
	}
	a, b := (u*vv-v*uv)/det, (v*uu-u*uv)/det
	variance := uu / det // of b, for errors of variance 1
	switch {
	case a < 0:
		a, b, variance = 0, v/vv, 1/vv
	case b <= 0:
		return Demand{}, errors.New("fit a demand: use does not rise with the rate, so it says nothing of a request's cost")
	}
	d := Demand{PerRequest: Known(b), Idle: Known(a)}
	df := n - 2
	if df < 1 {
		return d, nil
	}
	sum := 0.0
	for _, m := range usages {
		e := 1 - (a+b*m.Rate)/m.Busy
		sum += e * e
	}
	t := distuv.StudentsT{Sigma: 1, Nu: df}.Quantile((1 + stats.Level) / 2)
	// On the logarithm, so that the interval stays above 0.
	by := math.Exp(min(t*math.Sqrt(sum/df*variance)/b, 50))
	d.PerRequest = stats.Interval{Value: b, Low: b / by, High: b * by, Confidence: stats.Level}
	return d, nil
}
