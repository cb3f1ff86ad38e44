package stats

import (
	"cmp"
	"fmt"
	"slices"
)

// Metric is what a line of a table compares.
type Metric struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// HigherIsBetter is true of a capacity and false of a latency.
	HigherIsBetter bool `json:"higher_is_better"`
}

// Line asks for one comparison.
type Line struct {
	Metric       Metric
	Sample, Base Sample
}

// Change is what a row means to its reader.
type Change string

const (
	// Better is a difference for the better that stands after the correction.
	Better Change = "better"
	// Worse is one for the worse.
	Worse Change = "worse"
	// Unclear is everything else.
	Unclear Change = "unclear"
)

// Row is one comparison of a table.
type Row struct {
	Metric     Metric `json:"metric"`
	SampleName string `json:"sample_name"`
	BaseName   string `json:"base_name"`
	// Sample and Base are the medians of the trials, in the metric's unit.
	Sample Interval `json:"sample"`
	Base   Interval `json:"base"`
	// Result is the comparison by itself. Its Outcome takes account of the
	// other rows: it is Different only if Adjusted is below Alpha. Its interval
	// does not, so it may leave out 1 in a row whose outcome is "~".
	Result Result `json:"result"`
	// Adjusted is P after Holm's correction for the number of rows.
	Adjusted float64 `json:"adjusted"`
	Change   Change  `json:"change"`
	// Decidable is false if no values of so many trials could have made it
	// Different, the correction included: Result.Needed trials of each could.
	Decidable bool `json:"decidable"`
}

// Table compares every line. All its rows are one family: the chance that any
// row calls equals different is at most Alpha. Rows with too few trials are not
// counted in, because they cannot be wrong.
//
// Every row that is counted in costs the others power, and few trials allow
// few rows: six trials give P = 0.002 at best, which 23 rows survive. Put the
// question first, in a table of its own, and the rest in another. Where the
// signed-rank test of so few rounds could not survive the number of rows (more
// than one row of six rounds, three of seven), the rank-sum test is used.
func Table(lines []Line, design Design) ([]Row, error) { return table(lines, Level, design) }

// Variants is Table for the variants of one experiment, each against the same baseline in
// the same rounds, with simultaneous intervals: all of them together hold the true ratios
// at the confidence that each of them states, where so many trials allow it at Level
// (Bonferroni: each aims at 1 − (1−Level)/m of m by itself, and misses add up to no more
// than the sum, however the comparisons depend on each other; Miller, Simultaneous
// Statistical Inference, 1981). So they agree with the correction of the test, and an
// interval may be read after it was picked from the others.
func Variants(lines []Line) ([]Row, error) {
	m := float64(len(lines))
	rows, err := table(lines, 1-(1-Level)/max(m, 1), Interleaved)
	for i := range rows {
		c := &rows[i].Result.Ratio.Confidence
		if *c > 0 {
			*c = max(0, 1-m*(1-*c))
		}
	}
	return rows, err
}

func table(lines []Line, level float64, design Design) ([]Row, error) {
	rows := make([]Row, len(lines))
	var ps, least []float64
	var counted []int
	for i, l := range lines {
		r, err := compare(len(lines), level, l.Sample, l.Base, design)
		if err != nil {
			return nil, fmt.Errorf("compare %s: %w", l.Metric.Name, err)
		}
		rows[i] = Row{
			Metric: l.Metric, SampleName: l.Sample.Name, BaseName: l.Base.Name,
			Sample: Median(l.Sample.Values()), Base: Median(l.Base.Values()), Result: r, Adjusted: r.P, Change: Unclear,
		}
		if r.Outcome != TooFew {
			ps, least, counted = append(ps, r.P), append(least, r.least()), append(counted, i)
		}
	}
	for j, can := range decidable(least) {
		rows[counted[j]].Decidable = can
	}
	for j, p := range Holm(ps) {
		row := &rows[counted[j]]
		row.Adjusted = p
		row.Result.Outcome = outcome(p, 0)
		if row.Result.Outcome == Different {
			row.Change = change(row.Metric, row.Result.Ratio.Value)
		} else if row.Result.P < Alpha {
			row.Result.Warnings = append(row.Result.Warnings,
				fmt.Sprintf("significant by itself, but not among %d comparisons: more trials would tell", len(ps)))
		}
	}
	return rows, nil
}

func change(m Metric, ratio float64) Change {
	if (ratio > 1) == m.HigherIsBetter {
		return Better
	}
	return Worse
}

// Holm returns the p-values adjusted for their number, in their order: the
// i-th smallest of n, counted from 0, is multiplied by n−i, and none is below a
// smaller one (Holm 1979, A simple sequentially rejective multiple test
// procedure). It needs no assumption on how the comparisons depend on each other.
func Holm(ps []float64) []float64 {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ps[a], ps[b]) })
	out := make([]float64, len(ps))
	highest := 0.0
	for i, at := range order {
		highest = max(highest, min(1, ps[at]*float64(len(ps)-i)))
		out[at] = highest
	}
	return out
}
