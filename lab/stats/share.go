package stats

import "gonum.org/v1/gonum/stat/distuv"

// Share is k of n as a share, with the interval of Clopper and Pearson (1934) at Level:
// never narrower than its confidence promises, however few there are. n is 1 at least.
func Share(k, n int) Interval {
	const tail = (1 - Level) / 2
	i := Interval{Value: float64(k) / float64(n), High: 1, Confidence: Level}
	if k > 0 {
		i.Low = distuv.Beta{Alpha: float64(k), Beta: float64(n - k + 1)}.Quantile(tail)
	}
	if k < n {
		i.High = distuv.Beta{Alpha: float64(k + 1), Beta: float64(n - k)}.Quantile(1 - tail)
	}
	return i
}
