package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is a value with the interval that holds it at a confidence.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// HighOpen is true where the interval has no upper end, because too many
	// trials ended before the system did. High is then the highest value that is
	// known to lie in it.
	HighOpen bool `json:"high_open,omitempty"`
	// Confidence is the actual one, such as 0.969: never more than the number
	// of trials allows. It is 0 where there is a value but no interval.
	Confidence float64 `json:"confidence"`
}

// HasRange says whether an interval has ends: that of a single trial has none.
func (i Interval) HasRange() bool {
	return i.Confidence > 0 && finite(i.Confidence) && finite(i.Low) && finite(i.High)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Median returns the median of xs with a distribution-free interval: the
// narrowest symmetric pair of order statistics whose confidence reaches Level,
// or, with fewer than six values, the whole range at the confidence that it
// has, 1 − 2·0.5ⁿ (Conover, Practical Nonparametric Statistics, 3.2). An empty
// xs gives a zero Interval.
func Median(xs []float64) Interval { return Bracketed(xs, xs) }

// Bracketed is Median for values of which only the two ends are known that each
// lies between, as an edge between a rate that held and one that did not. Value
// is the median of the lows. Low and High are the order statistics of Median, Low
// of the lows and High of the highs, so the interval holds the median of the values
// as surely as Median's does, wherever they lie between their ends. A high may be
// +Inf, and so may High be then. There are as many highs as lows.
func Bracketed(lows, highs []float64) Interval {
	n := len(lows)
	if n == 0 {
		return Interval{}
	}
	low, high := sorted(lows), sorted(highs)
	if n == 1 {
		return Interval{Value: low[0], Low: low[0], High: low[0]}
	}
	k, confidence := medianCut(n)
	return Interval{Value: middle(low), Low: low[k], High: high[n-1-k], Confidence: confidence}
}

// medianCut is how many of n values Median leaves out at either end, and its confidence.
func medianCut(n int) (k int, confidence float64) {
	b := distuv.Binomial{N: float64(n), P: 0.5}
	return widestCut(n, Level, func(k int) float64 { return b.CDF(float64(k)) })
}

func cut(n int) int {
	k, _ := medianCut(n)
	return k
}
