package capacity

import (
	"math"
)

// Tries waver: the same rate holds once and does not another time. These are how far, as a
// share of the rate and as a standard deviation, the edge seems to be from where it is, in a
// try of each purpose: 3 % in a fifth of the budget, and more in a shorter try by the root of
// the time. They need not be right: of an edge that wavers from 0.1 to 6 %, Outcome.Edge is
// better than Outcome.Rate (TestATenthIsFound).
const (
	searchWavers  = 0.05
	confirmWavers = 0.035
	holdWavers    = 0.02
	// lapse is the share of tries whose judgement has nothing to do with the edge: a machine
	// that stood still.
	lapse = 0.01
)

func (p Purpose) wavers() float64 {
	switch p {
	case Confirm:
		return confirmWavers
	case Hold:
		return holdWavers
	case Search:
	}
	return searchWavers
}

// edgeSteps is of how many rates the likelihood is computed: a thousandth apart, where all
// tries are within a factor of 1.1.
const edgeSteps = 400

// edgeOf is the mean, of logarithms, of where the edge may be after what each try said: its
// posterior mean with a flat prior from a fifth below the lowest to a fifth above the
// highest rate that was tried. Each try is weighed: where a rate held three times and once did
// not, it is most likely below the edge. That is a psychometric function with a known slope
// and a lapse rate (Wichmann and Hill, The psychometric function I, 2001).
func edgeOf(history []Try) float64 {
	low, high := math.Inf(1), 0.0
	for _, t := range history {
		if !t.GeneratorLimited {
			low, high = min(low, t.Rate), max(high, t.Rate)
		}
	}
	if !(low > 0) || high == 0 {
		return 0
	}
	const beyond = 1.2
	low, high = math.Log(low/beyond), math.Log(high*beyond)
	logs := make([]float64, edgeSteps) // of the likelihood
	most := math.Inf(-1)
	for i := range logs {
		for _, t := range history {
			if !t.GeneratorLimited {
				logs[i] += math.Log(t.likelihood(math.Exp(edgeAt(low, high, i))))
			}
		}
		most = max(most, logs[i])
	}
	sum, weights := 0.0, 0.0
	for i, l := range logs {
		w := math.Exp(l - most)
		sum, weights = sum+w*edgeAt(low, high, i), weights+w
	}
	return math.Exp(sum / weights)
}

// edgeAt is the i-th logarithm of a rate from low to high.
func edgeAt(low, high float64, i int) float64 {
	return low + (high-low)*(float64(i)+0.5)/edgeSteps
}

// likelihood is that of the try's judgement if the edge is there.
func (t *Try) likelihood(edge float64) float64 {
	holds := lapse/2 + (1-lapse)*normal((edge/t.Rate-1)/t.Purpose.wavers())
	if t.Held {
		return holds
	}
	return 1 - holds
}

// normal is the normal distribution.
func normal(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
