// Package stats tells a real difference between two variants, or two runs,
// from the noise of the machine. Its input is one figure per trial (a capacity,
// a latency, a demand); its output is the factor between the two with an
// interval, a test, and an Outcome that says "~" where the test found
// nothing.
//
// It is arithmetic and nothing else: it reads no runs and prints no tables.
// Whoever prints owns the text; Table gives the rows.
//
// The figures are positive and their errors multiply rather than add, so all
// work is done on logarithms. The trials are few and a disturbance only ever
// makes one slower, so the tests here are exact ones by ranks, which assume no
// distribution, but for Joint, for all pairs of an experiment's variants, where ranks of six
// rounds could hardly tell anything; it says why that is safe. The interval
// and the test of a Result come from the same ranks and agree: without ties,
// P is below Alpha exactly where the interval leaves out 1.
//
// Two tests by ranks are at hand. Trials of an experiment are interleaved in rounds, and
// the drift of the machine is nearly the same for all trials of one round: the
// signed-rank test on the log ratios by round removes it. With fewer than six
// rounds that test cannot reach 5 %, and for runs made at different times there
// are no rounds in common: the rank-sum test is used then, and in a Table with
// more rows than the signed-rank test of so few rounds can be corrected for.
// Drift between rounds makes it miss differences, not invent them. Which test is
// used depends on the number of rounds and rows only, never on the values, so
// that the error rate stays what it says.
package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

const (
	// Alpha is the share of comparisons between equals that may be called different.
	Alpha = 0.05
	// Level is the confidence that intervals aim at.
	Level = 0.95
)

// Trial is the figure of one trial.
type Trial struct {
	// Round is the round of the experiment that the trial belonged to. It
	// matters to interleaved samples only.
	Round int `json:"round"`
	// Value is in the unit of its metric, and above 0.
	Value float64 `json:"value"`
}

// Sample is what was measured of one variant.
type Sample struct {
	Name   string  `json:"name"`
	Trials []Trial `json:"trials"`
}

// Values are the sample's figures, in the order of its trials.
func (s Sample) Values() []float64 {
	out := make([]float64, len(s.Trials))
	for i, t := range s.Trials {
		out[i] = t.Value
	}
	return out
}

// Design is how two samples were measured.
type Design string

const (
	// Interleaved samples were measured in the same rounds, one trial of each
	// per round.
	Interleaved Design = "interleaved"
	// Separate samples were measured at different times, as two runs are.
	Separate Design = "separate"
	// Referenced samples are separate ones of which each is relative to a
	// baseline that was measured in its own rounds; see Relative. The speed of
	// the machine cancels out of them.
	Referenced Design = "referenced"
)

// Relative divides a sample by the baseline of its own run, round by round. Two
// runs that share a baseline are compared by this: with machines (or days) that
// differ by ±10 %, separate samples of equals look different in nearly half of
// all comparisons, and relative ones in no more than Alpha.
func Relative(sample, base Sample) (Sample, error) {
	if err := errors.Join(check(sample, Interleaved), check(base, Interleaved)); err != nil {
		return Sample{}, err
	}
	of := make(map[int]float64, len(base.Trials))
	for _, t := range base.Trials {
		of[t.Round] = t.Value
	}
	out := Sample{Name: sample.Name + " / " + base.Name}
	for _, t := range sample.Trials {
		if b, ok := of[t.Round]; ok {
			out.Trials = append(out.Trials, Trial{Round: t.Round, Value: t.Value / b})
		}
	}
	if len(out.Trials) == 0 {
		return Sample{}, fmt.Errorf("%q and %q have no round in common", sample.Name, base.Name)
	}
	return out, nil
}

// Test names the test that was used.
type Test string

const (
	// SignedRank is Wilcoxon's test on the log ratios by round.
	SignedRank Test = "signed rank"
	// RankSum is Wilcoxon's test of two independent samples, also called Mann
	// and Whitney's.
	RankSum Test = "rank sum"
)

// Outcome is what a comparison found.
type Outcome string

const (
	// Different means that equals would look this different in fewer than
	// Alpha of comparisons.
	Different Outcome = "different"
	// Indistinct means that no difference was found. It does not mean that
	// there is none: the interval says how large it may be.
	Indistinct Outcome = "~"
	// TooFew means that no result of so few trials could have been significant.
	TooFew Outcome = "too few trials"
)

// Result is a comparison of a sample with a baseline.
type Result struct {
	// Ratio is by which factor the sample exceeds the baseline.
	Ratio Interval `json:"ratio"`
	Test  Test     `json:"test"`
	// P is the probability that equals look this different or more.
	P float64 `json:"p"`
	// N and BaseN are how many trials of each took part. In a signed-rank test
	// both are the number of rounds.
	N       int     `json:"n"`
	BaseN   int     `json:"base_n"`
	Outcome Outcome `json:"outcome"`
	// Needed is how many trials of each the smallest experiment has that can
	// find a difference of this design, in a Table of as many rows; it says what to
	// do about TooFew.
	Needed   int      `json:"needed"`
	Warnings []string `json:"warnings,omitempty"`
}

// minRounds is the fewest rounds in which the signed-rank test can fall below
// Alpha: 2·0.5⁶ = 0.031.
const minRounds = 6

// compare tells sample and base apart, as one of so many rows, whose p-values will be
// corrected for their number, with an interval that aims at a level. Values that have no logarithm, an empty sample, or a round
// that occurs twice in an interleaved sample are errors; too few trials are an Outcome.
func compare(rows int, level float64, sample, base Sample, design Design) (Result, error) {
	if err := errors.Join(check(sample, design), check(base, design)); err != nil {
		return Result{}, err
	}
	var r Result
	logs := pairs(sample, base)
	if testFor(rows, len(logs), design) == SignedRank {
		r = signedRank(logs, level)
	} else {
		r = rankSum(sample.Values(), base.Values(), level)
	}
	r.Needed = needed(rows, design)
	r.Outcome = outcome(r.P, r.least())
	r.Warnings = warnings(sample, base, design, r.Test)
	return r, nil
}

func check(s Sample, design Design) error {
	if design != Interleaved && design != Separate && design != Referenced {
		return fmt.Errorf("the design of a comparison is %q; it must be %q, %q or %q", design, Interleaved, Separate, Referenced)
	}
	if len(s.Trials) == 0 {
		return fmt.Errorf("%q has no trials to compare", s.Name)
	}
	if len(s.Trials) > MaxTrials {
		return fmt.Errorf("%q has %d trials; a comparison takes %d at most", s.Name, len(s.Trials), MaxTrials)
	}
	seen := make(map[int]bool, len(s.Trials))
	for _, t := range s.Trials {
		if !(t.Value > 0) || math.IsInf(t.Value, 0) {
			return fmt.Errorf("%q has the value %v in round %d; only finite values above 0 have a ratio", s.Name, t.Value, t.Round)
		}
		if design == Interleaved && seen[t.Round] {
			return fmt.Errorf("%q has two trials in round %d; an interleaved sample has one of each round", s.Name, t.Round)
		}
		seen[t.Round] = true
	}
	return nil
}

// MaxTrials is how many trials a sample has at most. It bounds the exact
// arithmetic, whose cost grows with the cube.
const MaxTrials = 300

// pairs are the logarithms of the ratios of the rounds that both samples have.
func pairs(sample, base Sample) []float64 {
	of := make(map[int]float64, len(base.Trials))
	for _, t := range base.Trials {
		of[t.Round] = t.Value
	}
	var out []float64
	for _, t := range sample.Trials {
		if b, ok := of[t.Round]; ok {
			out = append(out, math.Log(t.Value)-math.Log(b))
		}
	}
	return out
}

func outcome(p, least float64) Outcome {
	switch {
	case least >= Alpha:
		return TooFew
	case p < Alpha:
		return Different
	default:
		return Indistinct
	}
}

// least is the lowest p that so many trials can give.
func (r Result) least() float64 {
	if r.Test == SignedRank {
		return math.Exp2(1 - float64(r.N))
	}
	return Rarest(r.N, r.BaseN)
}

// Rarest is the lowest two-sided p that the rank-sum test of n and m trials can give: that
// of equals all trials of one are above all of the other.
func Rarest(n, m int) float64 { return 2 / choose(n+m, n) }

// Apart is the chance that the intervals of Median of n and of m trials, at Level, have
// nothing in common although the trials are of equals. Up to eight trials these are from the
// least to the greatest, and it is Rarest; the intervals of more trials leave some out.
func Apart(n, m int) float64 {
	left, leftOf := cut(n), cut(m)
	// All but the leftOf greatest of the m are below all but the left least of the n: so many
	// of the n, j, come before the last of these.
	p := 0.0
	for j := range left + 1 {
		p += choose(m-leftOf-1+j, j) * choose(n-j+leftOf, leftOf)
	}
	return min(1, 2*p/choose(n+m, n))
}

func choose(n, k int) float64 {
	c := 1.0
	for i := 1; i <= k; i++ {
		c = c * float64(n-k+i) / float64(i)
	}
	return c
}

func warnings(sample, base Sample, design Design, test Test) []string {
	if design == Separate {
		return []string{"measured at different times: if the machine was faster in one run, that counts as a difference here"}
	}
	lost := len(sample.Trials) + len(base.Trials) - 2*len(pairs(sample, base))
	if test == SignedRank && lost > 0 {
		return []string{fmt.Sprintf("trials without a partner in their round, left out: %d", lost)}
	}
	return nil
}

// middle is the median of sorted values.
func middle(sorted []float64) float64 {
	n := len(sorted)
	return sorted[(n-1)/2]/2 + sorted[n/2]/2
}

// between makes the interval of a factor from sorted log ratios: their middle,
// and the pair that leaves out k at either end.
func between(logs []float64, k int, confidence float64) Interval {
	return Interval{
		Value: math.Exp(middle(logs)), Low: math.Exp(logs[k]), High: math.Exp(logs[len(logs)-1-k]), Confidence: confidence,
	}
}

func sorted(xs []float64) []float64 { return slices.Sorted(slices.Values(xs)) }
