package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// slopeLevel is how sure Slope is that no slope is below its least.
	slopeLevel = 0.99
	// knownWorth is of how many degrees of freedom a variance is that is known beforehand.
	knownWorth = 8
)

// Slope is the least-squares slope of y over x, and the least that it may be, at 99 %:
//
//	β - t·√(s²/Σ(x-x̄)² + 6/5·w/(xₙ-x₁)),   s² = (d₀·s₀² + Σe²)/(d₀ + n - 2)
//
// where t is Student's at d₀ + n - 2 degrees of freedom. With s₀² and w of 0 it is the textbook's (Draper and Smith,
// Applied Regression Analysis, 3rd ed. 1998, 1.4). known is s₀², a variance of each y that is known beforehand and is pooled
// with that of the residuals e: three points that happen to lie in a line say little of how they vary (Smyth, Linear models
// and empirical Bayes methods, Stat. Appl. Genet. Mol. Biol. 3, 2004). walk is w, what the variance of a random
// walk below y grows by for each 1 of x (Durlauf and Phillips, Trends versus random walks in time series analysis,
// Econometrica 56, 1988). Other errors are to be independent. The slope is 0, and the least of it -Inf, if all x are the same.
func Slope(x, y []float64, known, walk float64) (slope, least float64) {
	meanX, meanY := Mean(x), Mean(y)
	var square, product, residual float64
	for i := range x {
		square += (x[i] - meanX) * (x[i] - meanX)
		product += (x[i] - meanX) * (y[i] - meanY)
	}
	if square == 0 {
		return 0, math.Inf(-1)
	}
	slope = product / square
	for i := range x {
		e := y[i] - meanY - slope*(x[i]-meanX)
		residual += e * e
	}
	freedom := knownWorth + float64(len(x)-2)
	t := distuv.StudentsT{Sigma: 1, Nu: freedom}.Quantile(slopeLevel)
	return slope, slope - t*math.Sqrt((knownWorth*known+residual)/freedom/square+1.2*walk/(x[len(x)-1]-x[0]))
}

// Falling is the chance that as many pairs of values fall as do in these series, or more,
// if nothing but chance orders each of them: the exact test of Mann and Kendall, one-sided,
// over series that are independent of each other. A tie counts against a fall. It is 1
// without a pair.
func Falling(series ...[]float64) (p float64) {
	rising, dist := 0, []float64{1} // the chance of each number of pairs that do not fall
	for _, xs := range series {
		for i, x := range xs {
			for _, before := range xs[:i] {
				if x >= before {
					rising++
				}
			}
			// The value is at each of the i+1 ranks among those so far alike.
			next := make([]float64, len(dist)+i)
			for n, chance := range dist {
				for rank := range i + 1 {
					next[n+rank] += chance / float64(i+1)
				}
			}
			dist = next
		}
	}
	return min(1, cumulative(dist)[rising])
}
