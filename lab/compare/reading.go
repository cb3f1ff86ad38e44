package compare

import (
	"fmt"

	"loadstone/lab/format"
	"loadstone/lab/stats"
)

// NoDifference is what a comparison says that found nothing.
const NoDifference = "~ no difference was shown"

// TooFew is what a comparison says that could not have found anything.
func TooFew(needed int) string {
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
		out.P, out.Reading = "", TooFew(c.Needed)
	case note != "":
		out.Reading = note
	case c.Outcome == stats.Indistinct:
		out.Reading = NoDifference
	default:
		out.Reading = string(change)
	}
	return out
}

// changeText writes a ratio as a change in per cent, or as a factor.
func changeText(ratio float64, times bool) string {
	if times {
		return "×" + format.Measured(ratio)
	}
	return format.Change(ratio - 1)
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
