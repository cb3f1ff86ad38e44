package stats

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"
)

// Range is Tukey's test of the means of logarithms by round; see Joint.
const Range Test = "studentized range"

// Joint compares samples that were measured in the same rounds, one trial of each per round.
// All pairs of them are one family, whichever lines ask for: the chance that any pair of
// equals is called different is at most Alpha, and all intervals together hold the true ratios at
// Level. So a pair may be picked because it looks different, and a result agrees with its interval.
// Samples of the same name are the same one.
//
// It is Tukey's test in a randomised block design (Miller, Simultaneous Statistical
// Inference, 1981): the speed of a round, which all of its trials share, cancels out of the
// log ratios, and what is left varies alike in all samples, so that few rounds of several
// samples tell how much. It assumes that this is about normal; a pair that varies more than the
// others do is judged by how much it varies itself. Log ratios within a round are symmetric if the
// two are equals, whatever their distribution is, because the order is random, and Student's test
// of symmetric values errs less often than it says where some are far off (Benjamini,
// Is the t test really conservative when the parent distribution is long-tailed?, 1983).
//
// joint is false with fewer than six rounds that all samples have: values that come in
// steps, as capacities of a search do, may not seem to vary at all then. Nothing is compared.
func Joint(lines []Line) (rows []Row, joint bool, err error) {
	var samples []Sample
	place := func(s Sample) int {
		i := slices.IndexFunc(samples, func(known Sample) bool { return known.Name == s.Name })
		if i < 0 {
			i = len(samples)
			samples, err = append(samples, s), errors.Join(err, check(s, Interleaved))
		}
		return i
	}
	places := make([][2]int, len(lines))
	for i, l := range lines {
		places[i] = [2]int{place(l.Sample), place(l.Base)}
	}
	if err != nil || len(samples) < 2 {
		return nil, false, err
	}
	logs := common(samples)
	k, n := len(logs), len(logs[0])
	if n < minRounds {
		return nil, false, nil
	}
	b := newBlock(logs, widestRange(k, float64((k-1)*(n-1))))
	for i, l := range lines {
		r := b.compare(places[i][0], places[i][1])
		row := Row{
			Metric: l.Metric, SampleName: l.Sample.Name, BaseName: l.Base.Name, Decidable: true,
			Sample: Median(l.Sample.Values()), Base: Median(l.Base.Values()), Result: r, Adjusted: r.P, Change: Unclear,
		}
		if r.Outcome == Different {
			row.Change = change(l.Metric, r.Ratio.Value)
		}
		rows = append(rows, row)
	}
	return rows, true, nil
}

// block are the logarithms of samples in the same rounds.
type block struct {
	logs    [][]float64
	freedom float64
	pooled  float64 // standard error of the difference of any two means
	far     float64 // how many of these an interval reaches to either side
}

// newBlock is one of at least two samples and rounds, whose studentized range exceeds far in
// Alpha of cases.
func newBlock(logs [][]float64, far float64) block {
	k, n := float64(len(logs)), float64(len(logs[0]))
	b := block{logs: logs, freedom: (k - 1) * (n - 1), far: far / math.Sqrt2}
	b.pooled = math.Sqrt(2 / n * residual(logs) / b.freedom)
	return b
}

// interval is the log ratio of two samples.
func (b *block) interval(sample, base int) (mean, low, high float64) {
	mean, own := difference(b.logs[sample], b.logs[base])
	off := b.far * max(b.pooled, own)
	return mean, mean - off, mean + off
}

func (b *block) compare(sample, base int) Result {
	mean, low, high := b.interval(sample, base)
	n := len(b.logs[base])
	r := Result{Test: Range, N: n, BaseN: n, P: 1, Needed: minRounds, Outcome: Indistinct}
	r.Ratio = Interval{Value: math.Exp(mean), Low: math.Exp(low), High: math.Exp(high), Confidence: Level}
	if low > 0 || high < 0 {
		r.Outcome = Different
	}
	switch {
	case high > mean:
		r.P = max(0, 1-rangeBelow(math.Sqrt2*math.Abs(mean)*b.far/(high-mean), len(b.logs), b.freedom))
	case mean != 0: // nothing varied at all
		r.P = 0
	}
	return r
}

// common are the logarithms of each sample in the rounds that all of them have.
func common(samples []Sample) [][]float64 {
	seen := make(map[int]int)
	for _, s := range samples {
		for _, t := range s.Trials {
			seen[t.Round]++
		}
	}
	out := make([][]float64, len(samples))
	for i, s := range samples {
		of := make(map[int]float64, len(s.Trials))
		for _, t := range s.Trials {
			of[t.Round] = t.Value
		}
		for _, t := range samples[0].Trials { // in one order
			if seen[t.Round] == len(samples) {
				out[i] = append(out[i], math.Log(of[t.Round]))
			}
		}
	}
	return out
}

// residual is the sum of squares that neither the samples nor the rounds explain.
func residual(logs [][]float64) float64 {
	k, n := len(logs), len(logs[0])
	rounds, all := make([]float64, n), 0.0
	for _, xs := range logs {
		for j, x := range xs {
			rounds[j] += x / float64(k)
			all += x / float64(k*n)
		}
	}
	sum := 0.0
	for _, xs := range logs {
		mean := Mean(xs)
		for j, x := range xs {
			e := x - mean - rounds[j] + all
			sum += e * e
		}
	}
	return sum
}

// difference is the mean of the log ratios of a pair, and its standard error.
func difference(a, b []float64) (mean, deviation float64) {
	n := float64(len(a))
	for i := range a {
		mean += (a[i] - b[i]) / n
	}
	sum := 0.0
	for i := range a {
		sum += (a[i] - b[i] - mean) * (a[i] - b[i] - mean)
	}
	return mean, math.Sqrt(sum / (n - 1) / n)
}

// rangeBelow is the chance that the studentized range of k normal values is at most q,
// with so many degrees of freedom of the deviation that it is divided by.
func rangeBelow(q float64, k int, freedom float64) float64 {
	const (
		points = 64
		wide   = 8 // deviations to either side, beyond which there is nothing
	)
	within := func(width float64) float64 {
		return quad.Fixed(func(z float64) float64 {
			return float64(k) * distuv.UnitNormal.Prob(z) * math.Pow(max(0, distuv.UnitNormal.CDF(z)-distuv.UnitNormal.CDF(z-width)), float64(k-1))
		}, -wide, wide, points, quad.Legendre{}, 0)
	}
	chi, spread := distuv.ChiSquared{K: freedom}, wide/math.Sqrt(2*freedom)
	return min(1, quad.Fixed(func(deviation float64) float64 {
		return 2 * deviation * freedom * chi.Prob(freedom*deviation*deviation) * within(q*deviation)
	}, max(0, 1-spread), 1+spread, points, quad.Legendre{}, 0))
}

// widestRange is the studentized range that so many normal values exceed in Alpha of cases.
func widestRange(k int, freedom float64) float64 {
	low, high := 0.0, 1.0
	for rangeBelow(high, k, freedom) < Level {
		low, high = high, 2*high
	}
	const precise = 1e-5
	for high-low > precise*high {
		if middle := (low + high) / 2; rangeBelow(middle, k, freedom) < Level {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}
