package report

import (
	"fmt"
	"math"
	"strconv"

	"loadstone/lab/format"
	"loadstone/lab/stats"
)

// readAlike is what a comparison says that found nothing.
const readAlike = "~ no difference was shown"

func readTooFew(needed int) string {
	return fmt.Sprintf("too few trials, %d of each are needed", needed)
}

// Compared is a comparison of two variants or two runs in words, the same ones in
// a terminal, in a browser and in a pull request.
type Compared struct {
	Change   string // "+3.1 %", or "×2.94" where that reads better
	Interval string // of the change; "[no interval]" without one
	P        string // with its sign: "=0.041", "<0.001"; empty if nothing was tested
	Reading  string // "better", "~ no difference was shown"
}

// InWords puts a comparison into words. adjusted is its p-value after the correction for
// the other rows of its table, and change what it means to the reader; note stands
// in place of that, unless it is empty.
func InWords(c *stats.Result, adjusted float64, change stats.Change, note string) Compared {
	ratio := c.Ratio
	times := ratio.High > 2 || ratio.Low < 0.5 // so large a change reads better as a factor
	out := Compared{Change: changeText(ratio.Value, times), Interval: "[no interval]", P: fmt.Sprintf("=%.3f", adjusted)}
	if ratio.Confidence > 0 {
		out.Interval = "[" + changeText(ratio.Low, times) + ", " + changeText(ratio.High, times) + "]"
	}
	if adjusted < 0.001 {
		out.P = "<0.001"
	}
	switch {
	case c.Outcome == stats.TooFew:
		out.P, out.Reading = "", readTooFew(c.Needed)
	case note != "":
		out.Reading = note
	case c.Outcome == stats.Indistinct:
		out.Reading = readAlike
	default:
		out.Reading = string(change)
	}
	return out
}

// changeText writes a ratio as a change in per cent, or as a factor.
func changeText(ratio float64, times bool) string {
	percent := 100 * (ratio - 1)
	switch {
	case times:
		return "×" + format.Measured(ratio)
	case math.Abs(percent) < 0.05:
		return "0.0 %"
	case percent < 0:
		return fmt.Sprintf("−%.1f %%", -percent)
	default:
		return fmt.Sprintf("+%.1f %%", percent)
	}
}

// Median is what was measured with its interval, "4,310 [4,180, 4,420]", or a dash
// if it is 0. bound says that it is only a lower bound.
func Median(iv stats.Interval, bound bool) string {
	if iv.Value == 0 {
		return format.Missing
	}
	v, low, high := format.Interval(iv.Value, iv.Low, iv.High)
	if bound {
		v = "≥" + v
	}
	if iv.Confidence == 0 {
		return v
	}
	return v + " [" + low + ", " + high + "]"
}

// needed is how many trials of each variant the test takes at least; 0 if the run
// has as many.
func (r *Result) needed() int {
	most := 0
	for i := range r.Comparisons {
		most = max(most, r.Comparisons[i].Needed)
	}
	return most
}

// fewTrials is how many trials there were, as the beginning of a sentence: "1
// trial of each is", "2 trials of each are".
func (r *Result) fewTrials() string {
	few := 0
	for i := range r.Variants {
		n := r.Variants[i].Trials
		if few != 0 && n != few {
			return "so few trials are"
		}
		few = n
	}
	if few == 1 {
		return "1 trial of each is"
	}
	return strconv.Itoa(few) + " trials of each are"
}

// tildeMeans says what "~" stands for in this run.
func (r *Result) tildeMeans() string {
	test := "rank test"
	if n := len(r.Comparisons); n > 1 {
		test += ", corrected for " + format.Plural(n, "comparison")
	}
	if n := r.needed(); n > 0 {
		return fmt.Sprintf("%s too few to show a difference, it takes %d (%s).", r.fewTrials(), n, test)
	}
	return "no difference was shown (" + test + ")."
}
