// Package scaling says how throughput grows with size (replicas, CPUs, users)
// and how far it will.
//
// Two shapes are fitted to the same measurements. A Law is the Universal
// Scalability Law (Gunther, Guerrilla Capacity Planning, 2007),
//
//	X(N) = λN / (1 + σ(N−1) + κN(N−1)),   σ, κ ≥ 0,
//
// of which linear scaling (σ = κ = 0) and Amdahl's law (κ = 0) are special
// cases. A Ceiling is a line that ends at a limit, min(λN, B), which is what
// replicas behind a proxy do: they add up until the proxy is the limit. Describe
// fits both and says which one the measurements speak for, and when neither is good.
//
// FindTakeover needs no fit: from the bounds of the components, c/D, it says at
// which size another component becomes the limit. It tells before what a
// Ceiling tells afterwards.
//
// A good fit is no licence to extrapolate. Users who think and saturate a station
// follow neither shape: there the law meets all measurements and is 31 % too low
// at twice the largest (see the tests). Where demands are known, predict from
// them (lab/model/queueing), and use a law to describe what was measured and for
// replicas, sizes of which the next is near.
//
// The package has no I/O and no randomness. Errors are relative: everything is
// fitted by least squares on ln X, so that a system with 1e6 req/s and one with
// 0.1 are treated alike.
package scaling

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"loadstone/lab/stats"
)

// Level is the confidence that intervals aim at.
const Level = 0.95

// Point is one trial at one size.
type Point struct {
	// N is the size, at least 1: replicas, users, or a CPU share divided by
	// the smallest one.
	N float64 `json:"n"`
	// X is the throughput or the capacity measured there, above 0.
	X float64 `json:"x"`
}

// Model names the simplest law that the measurements do not contradict.
type Model string

// The models, each containing the one before it.
const (
	Linear Model = "linear" // σ = κ = 0
	Amdahl Model = "amdahl" // κ = 0
	USL    Model = "usl"
)

// Law is a fitted law. Its values, curve and intervals are those of the fullest
// law that the number of sizes allows, whatever Model says: that a parameter
// could not be told from 0 does not mean that it is 0. In simulations (sizes 1
// to 6, six trials, 5 % noise) predictions at twice the largest size are off by
// 3 to 14 % so; from the chosen model they are off by 1 to 4 % where it is true,
// and by 17 to 25 % where it is not.
type Law struct {
	Model  Model          `json:"model"`
	Lambda stats.Interval `json:"lambda"` // throughput at size 1
	Sigma  stats.Interval `json:"sigma"`  // contention: the share of work that is serial
	Kappa  stats.Interval `json:"kappa"`  // coherence: the cost of each pair that must agree
	Peak   Peak           `json:"peak"`
	// Fit says how well the curve meets the measurements.
	Fit      Fit      `json:"fit"`
	Warnings []string `json:"warnings,omitempty"`

	full    *problem
	largest float64 // size measured
	at      theta
	// chosen is the sum of squares of Model, free the number of its parameters.
	chosen float64
	free   int
}

// Peak is the size beyond which throughput falls: √((1−σ)/κ).
type Peak struct {
	// Inside is true where a peak lies within the measured range, and κ can be
	// told from 0. If it is false, say "no peak inside the measured range".
	Inside bool `json:"inside"`
	// N is the size at the peak. Its Value is 0 if the chosen model has none;
	// its interval holds what the measurements leave possible.
	N stats.Interval `json:"n"`
	// X is the throughput at the peak; 0 if there is none.
	X float64 `json:"x"`
}

// FitLaw fits the law. It needs two sizes or more; with two it
// fits Amdahl's law, because a third parameter would be a guess. As many trials
// as parameters give a curve without intervals.
//
// Sizes below 1, throughputs that are not above 0, and values that are not
// finite are errors.
func FitLaw(points []Point) (*Law, error) {
	sizes, err := check(points)
	if err != nil {
		return nil, err
	}
	p := newProblem(points, len(sizes) >= 3)
	best := p.solve(none)
	l := &Law{full: p, largest: sizes[len(sizes)-1], at: best.theta}
	l.choose(p, best)
	df := len(points) - p.parameters()
	l.Fit = fitness(points, df, p.parameters(), l.curve)
	p.limit(best.sum, df)
	l.parameters()
	l.peak()
	l.warn(df, len(sizes))
	return l, nil
}

func check(points []Point) (sizes []float64, err error) {
	for i, p := range points {
		if !(p.N >= 1 && p.N <= maxSize) {
			return nil, fmt.Errorf("point %d has the size %v; a size is a number from 1 to %.0e", i+1, p.N, float64(maxSize))
		}
		if !(p.X >= minRate && p.X <= maxRate) {
			return nil, fmt.Errorf("point %d (size %v) has the throughput %v; it must be a number from %.0e to %.0e", i+1, p.N, p.X, minRate, maxRate)
		}
	}
	sizes = Sizes(points)
	if len(sizes) < 2 {
		return nil, errors.New("a scaling law needs measurements at two sizes or more")
	}
	return sizes, nil
}

// The range in which the arithmetic keeps its precision; no system leaves it.
const (
	maxSize = 1e9
	minRate = 1e-9
	maxRate = 1e15
)

// choose drops κ, and then σ, where the measurements do not contradict it: an
// F-test of the nested laws, one-sided because neither can be below 0 (Bates
// and Watts, Nonlinear Regression Analysis and Its Applications, 3.10).
func (l *Law) choose(p *problem, best solution) {
	l.Model, l.chosen, l.free = USL, best.sum, p.parameters()
	if !p.coherence {
		l.Model = Amdahl
	}
	df := len(p.rows) - p.parameters()
	// With no degree of freedom left there is nothing to test with; a
	// parameter that was fitted as 0 is 0 all the same.
	if s := p.without(true, false); p.coherence && simpler(s, best, df) {
		l.Model, l.chosen, l.free = Amdahl, s.sum, 2
		best, df = s, df+1
	}
	if s := p.without(true, true); l.Model == Amdahl && simpler(s, best, df) {
		l.Model, l.chosen, l.free = Linear, s.sum, 1
	}
}

func simpler(s, full solution, df int) bool {
	if df < 1 {
		return s.sum <= full.sum*(1+1e-9)
	}
	critical := distuv.F{D1: 1, D2: float64(df)}.Quantile(0.90) // one-sided 5 %
	return s.sum <= floor(full.sum, df)*(1+critical/float64(df))
}

// floor keeps the noise of data that have none (computed, or rounded) from
// being so small that rounding errors look significant: 1e-6 relative.
func floor(sum float64, df int) float64 { return max(sum, 1e-12*float64(df)) }

func (l *Law) curve(n float64) float64 { return n / l.at.dot(regressors(n)) }

// parameters fills in λ, σ and κ.
func (l *Law) parameters() {
	l.Lambda = l.full.interval(1/l.at[0], positive, func(v float64) equality { return equality{g: theta{1}, h: 1 / v} })
	l.Sigma = l.full.interval(l.at[1]/l.at[0], nonNegative, func(v float64) equality { return equality{g: theta{-v, 1}} })
	l.Kappa = stats.Interval{}
	if l.full.coherence {
		l.Kappa = l.full.interval(l.at[2]/l.at[0], nonNegative, func(v float64) equality { return equality{g: theta{-v, 0, 1}} })
	}
}

func (l *Law) peak() {
	if !l.full.coherence {
		return
	}
	n := farthest
	if l.at[2] > 0 {
		n = min(max(1, math.Sqrt(max(0, l.at[0]-l.at[1])/l.at[2])), farthest)
	}
	l.Peak.N = l.full.interval(n, beyondOne, func(v float64) equality { return equality{g: theta{1, -1, -v * v}} })
	if l.Model != USL {
		l.Peak.N.Value = 0
		return
	}
	l.Peak.X, l.Peak.Inside = l.curve(n), n <= l.largest
}

func (l *Law) warn(df, sizes int) {
	switch {
	case df < 1:
		l.Warnings = append(l.Warnings, "as many parameters as trials: the curve meets every point and has no interval")
	case sizes == 2:
		l.Warnings = append(l.Warnings, "two sizes only: a peak cannot be seen")
	}
	if !l.Fit.Good {
		l.Warnings = append(l.Warnings, "the law does not describe these measurements: "+l.Fit.Reason)
	}
}

// At is the throughput at size n, with the interval of the curve: where the
// median of very many trials would lie. n must be at least 1.
func (l *Law) At(n float64) (stats.Interval, error) {
	if !(n >= 1 && n <= maxSize) {
		return stats.Interval{}, fmt.Errorf("predict throughput at size %v; a size is a number from 1 to %.0e", n, float64(maxSize))
	}
	z := regressors(n)
	return l.full.interval(l.curve(n), positive, func(v float64) equality { return equality{g: z, h: n / v} }), nil
}
