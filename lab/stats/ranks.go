package stats

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/aclements/go-moremath/stats"
	"gonum.org/v1/gonum/stat/distuv"
)

// signedRank is Wilcoxon's exact signed-rank test of log ratios, with Hodges
// and Lehmann's estimator: the median of the averages of all pairs (Walsh
// averages), and the interval that inverts the test (Hollander, Wolfe and
// Chicken, Nonparametric Statistical Methods, 3.1 to 3.3).
//
// It assumes that within a round the two could be exchanged if they were equal;
// interleaving in random order makes that true by construction.
func signedRank(logs []float64, level float64) Result {
	n := len(logs)
	r := Result{Test: SignedRank, N: n, BaseN: n, P: signedRankP(logs)}
	walsh := make([]float64, 0, n*(n+1)/2)
	for i, a := range logs {
		for _, b := range logs[i:] {
			walsh = append(walsh, a/2+b/2)
		}
	}
	slices.Sort(walsh)
	below := cumulative(signedRankDistribution(untied(n)))
	// Doubled ranks, so the chance of a rank sum of at most k is at 2k.
	k, confidence := widestCut(len(walsh), level, func(k int) float64 { return below[2*k] })
	r.Ratio = between(walsh, k, confidence)
	return r
}

// widestCut returns how many values may be left out at either end of the
// interval while it still reaches a level, and its confidence. miss(k) is the
// chance that more than k must be left out at one end to reach the true value.
// Where even the whole range falls short it returns the whole range.
func widestCut(n int, level float64, miss func(k int) float64) (k int, confidence float64) {
	k = max(0, sort.Search((n+1)/2, func(k int) bool { return 1-2*miss(k) < level })-1)
	return k, max(0, 1-2*miss(k))
}

// signedRankP is the two-sided p, exact also with ties, which share the mean of
// their ranks. A ratio of exactly 1 keeps its rank and has no sign (Pratt 1959).
func signedRankP(logs []float64) float64 {
	byRank := slices.SortedFunc(slices.Values(logs), func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	var signed []int
	plus, total := 0, 0
	for i := 0; i < len(byRank); {
		j := i
		for j < len(byRank) && math.Abs(byRank[j]) == math.Abs(byRank[i]) {
			j++
		}
		rank := i + 1 + j // twice the mean of the ranks i+1 to j
		for ; i < j; i++ {
			if byRank[i] == 0 {
				continue
			}
			signed, total = append(signed, rank), total+rank
			if byRank[i] > 0 {
				plus += rank
			}
		}
	}
	if 2*plus == total {
		return 1
	}
	below := cumulative(signedRankDistribution(signed))
	return min(1, 2*below[min(plus, total-plus)])
}

// untied are the doubled ranks of n values that all differ.
func untied(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = 2 * (i + 1)
	}
	return out
}

// signedRankDistribution is the chance of each sum of the ranks that a fair
// coin picks. Every step halves, so it cannot overflow.
func signedRankDistribution(ranks []int) []float64 {
	dist := []float64{1}
	for _, r := range ranks {
		next := make([]float64, len(dist)+r)
		for s, p := range dist {
			next[s] += p / 2
			next[s+r] += p / 2
		}
		dist = next
	}
	return dist
}

func cumulative(dist []float64) []float64 {
	sum := 0.0
	for i, p := range dist {
		sum += p
		dist[i] = sum
	}
	return dist
}

// rankSum is the exact test of Mann and Whitney, with Hodges and Lehmann's
// estimator: the median of all pairwise ratios, and the interval that inverts
// the test (Hollander, Wolfe and Chicken, 4.1 to 4.3). Above the library's
// limits for exact distributions (50 trials, 25 with ties) it is the normal
// approximation.
//
// It assumes that the two distributions have the same shape on a logarithmic
// scale.
func rankSum(xs, base []float64, level float64) Result {
	r := Result{Test: RankSum, N: len(xs), BaseN: len(base), P: 1}
	// The only error left after check is that all values are equal: P is 1.
	if t, err := stats.MannWhitneyUTest(xs, base, stats.LocationDiffers); err == nil {
		r.P = min(1, t.P)
	}
	logs := make([]float64, 0, len(xs)*len(base))
	for _, x := range xs {
		for _, b := range base {
			logs = append(logs, math.Log(x)-math.Log(b))
		}
	}
	slices.Sort(logs)
	if len(logs) == 1 {
		r.Ratio = between(logs, 0, 0)
		return r
	}
	k, confidence := widestCut(len(logs), level, rankSumBelow(len(xs), len(base)))
	r.Ratio = between(logs, k, confidence)
	return r
}

// rankSumBelow returns the chance that U is at most k.
func rankSumBelow(n, m int) func(k int) float64 {
	if n <= stats.MannWhitneyExactLimit && m <= stats.MannWhitneyExactLimit {
		u := stats.UDist{N1: n, N2: m}
		return func(k int) float64 { return u.CDF(float64(k)) }
	}
	mean := float64(n) * float64(m) / 2
	normal := distuv.Normal{Mu: mean, Sigma: math.Sqrt(mean * float64(n+m+1) / 6)}
	return func(k int) float64 { return normal.CDF(float64(k) + 0.5) }
}
