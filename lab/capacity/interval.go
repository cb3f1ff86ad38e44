package capacity

import (
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"
	"gonum.org/v1/gonum/stat/distuv"
)

// Level is the confidence that intervals aim at.
const Level = 0.95

// Interval is a value with the interval that holds it at a confidence.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Confidence is the actual one, such as 0.969: never more than the number
	// of trials allows. It is 0 for a single trial, which has no interval.
	Confidence float64 `json:"confidence"`
	Unit       string  `json:"unit"`
	// LowerBound is true where the measurement ended before the system did:
	// the system bears at least Value.
	LowerBound bool `json:"lower_bound"`
}

// Median returns the median of xs with a distribution-free interval: the
// narrowest symmetric pair of order statistics whose confidence reaches Level,
// or, with fewer than six values, the whole range at the confidence that it
// has, 1 − 2·0.5ⁿ. (The number of values below the median is binomial with
// p = 1/2; see Conover, Practical Nonparametric Statistics, 3.2.)
//
// An empty xs gives a zero Interval.
func Median(xs []float64) Interval {
	n := len(xs)
	if n == 0 {
		return Interval{}
	}
	s := slices.Sorted(slices.Values(xs))
	iv := Interval{Value: middle(s), Low: s[0], High: s[n-1]}
	if n == 1 {
		return iv
	}
	b := distuv.Binomial{N: float64(n), P: 0.5}
	// [s[k], s[n-1-k]] misses the median if at most k values lie on one side.
	for k := range (n + 1) / 2 {
		conf := 1 - 2*b.CDF(float64(k))
		if k > 0 && conf < Level {
			break
		}
		iv.Low, iv.High, iv.Confidence = s[k], s[n-1-k], conf
	}
	return iv
}

func middle(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// Ratio returns by which factor xs exceed base: the median of all pairwise
// ratios, with the exact interval of the rank-sum test (Hodges and Lehmann's
// estimator on the logarithms). It assumes only that the two distributions
// have the same shape on a logarithmic scale. ok is false if either is empty
// or holds a value that is not positive.
func Ratio(xs, base []float64) (iv Interval, ok bool) {
	ratios := make([]float64, 0, len(xs)*len(base))
	for _, x := range xs {
		for _, b := range base {
			if !(x > 0) || !(b > 0) || math.IsInf(x, 0) || math.IsInf(b, 0) {
				return Interval{}, false
			}
			ratios = append(ratios, x/b)
		}
	}
	if len(ratios) == 0 {
		return Interval{}, false
	}
	slices.Sort(ratios)
	n := len(ratios)
	iv = Interval{Value: middle(ratios), Low: ratios[0], High: ratios[n-1]}
	if len(xs) == 1 && len(base) == 1 {
		return iv, true
	}
	u := stats.UDist{N1: len(xs), N2: len(base)}
	// The interval from the (k+1)-th smallest to the (k+1)-th largest ratio
	// misses the true shift with probability 2·P(U ≤ k).
	for k := range (n + 1) / 2 {
		conf := 1 - 2*u.CDF(float64(k))
		if k > 0 && conf < Level {
			break
		}
		iv.Low, iv.High, iv.Confidence = ratios[k], ratios[n-1-k], conf
	}
	return iv, true
}
