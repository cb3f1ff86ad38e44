package page

import (
	"math"
	"strconv"
	"strings"
)

// axis maps numbers to places on one side of a chart. Its ends are round, so
// that ticks can stand on them.
type axis struct {
	low, high float64 // low < high, both finite; positive if logarithmic
	log       bool
}

// at returns the place of v between 0 (the low end) and 1. What is outside, or
// no number, is put on the nearer end, so that no drawing leaves its chart.
func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		low, high, v = math.Log(low), math.Log(high), math.Log(math.Max(v, a.low))
	}
	share := (v - low) / (high - low)
	if math.IsNaN(share) { // both are beyond what a float64 can subtract
		return 0
	}
	return min(max(share, 0), 1)
}

// percent returns the place of v as an SVG length, from left to right.
func (a axis) percent(v float64) string { return percentLength(a.at(v)) }

// percentLength writes a share of 1 as an SVG percentage.
func percentLength(share float64) string { return svgNumber(share*100, 2) + "%" }

// svgNumber writes v for an SVG attribute: short, and never NaN or infinite.
func svgNumber(v float64, decimals int) string {
	if !isFinite(v) {
		return "0"
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if decimals > 0 {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}

// extent collects the smallest and the largest of the finite numbers it sees.
type extent struct {
	low, high float64
	any       bool
}

func (e *extent) see(values ...float64) {
	for _, v := range values {
		if !isFinite(v) {
			continue
		}
		if !e.any {
			e.low, e.high, e.any = v, v, true
		}
		e.low, e.high = min(e.low, v), max(e.high, v)
	}
}

// seePositive is see for an axis that is logarithmic.
func (e *extent) seePositive(values ...float64) {
	for _, v := range values {
		if v > 0 {
			e.see(v)
		}
	}
}

// niceStep returns the smallest of 1, 2 and 5 times a power of ten that is not
// below v.
func niceStep(v float64) float64 {
	if v <= 0 || !isFinite(v) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= v*(1-1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// linearAxis covers e with about n steps between ticks. With fromZero it
// starts at zero, which bars need.
func linearAxis(e extent, n int, fromZero bool) (axis, []float64) {
	if !e.any {
		e.see(0, 1)
	}
	if fromZero {
		e.see(0)
	}
	if e.high-e.low <= math.Abs(e.high)*1e-9 { // a single value still needs room
		e.see(e.low*0.9, e.high*1.1)
		if e.high == e.low {
			e.see(e.low + 1)
		}
	}
	step := niceStep((e.high - e.low) / float64(n))
	first, last := math.Floor(e.low/step+1e-9), math.Ceil(e.high/step-1e-9)
	ticks := make([]float64, 0, n+2)
	for i := first; i <= last && len(ticks) < 4*n; i++ {
		ticks = append(ticks, i*step)
	}
	return axis{low: first * step, high: last * step}, ticks
}

// maxLogTicks is how many labels fit on a phone's width.
const maxLogTicks = 6

// logAxis covers e, whose numbers are positive, with ends at 1, 2 or 5 times a
// power of ten. Its ticks are the finest of 1-2-5, 1-5 and powers of ten of
// which there are not too many, or else every second, third … power of ten.
func logAxis(e extent) (axis, []float64) {
	if !e.any || e.low <= 0 {
		e = extent{low: 1, high: 10, any: true}
	}
	a := axis{low: niceBelow(e.low), high: niceStep(e.high), log: true}
	if a.high <= a.low {
		a.low, a.high = a.low/10, a.low*10
	}
	var ticks []float64
	for _, factors := range [][]float64{{1, 2, 5}, {1, 5}, {1}} {
		ticks = ticks[:0]
		for power := math.Floor(math.Log10(a.low)); power <= math.Ceil(math.Log10(a.high)); power++ {
			for _, factor := range factors {
				if v := factor * math.Pow(10, power); v >= a.low*(1-1e-9) && v <= a.high*(1+1e-9) {
					ticks = append(ticks, v)
				}
			}
		}
		if len(ticks) <= maxLogTicks {
			return a, ticks
		}
	}
	every, kept := (len(ticks)+maxLogTicks-1)/maxLogTicks, ticks[:0]
	for i := 0; i < len(ticks); i += every {
		kept = append(kept, ticks[i])
	}
	return a, kept
}

// niceBelow is niceStep downwards: the largest of 1, 2 and 5 times a power of
// ten that is not above v.
func niceBelow(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
	for _, factor := range []float64{5, 2} {
		if factor*power <= v*(1+1e-9) {
			return factor * power
		}
	}
	return power
}
