// Package chart draws every chart of the pages as SVG: lanes over one axis, with
// series, shades, limits and points. A page says what to draw, in numbers; scales
// with round ends, places, paths, the markup and the style sheet are here. It
// knows nothing of what the numbers mean.
package chart

import (
	"math"
	"strconv"
	"strings"
)

// Scale maps numbers to places on one side of a chart. Its ends are round, so
// that ticks can stand on them.
type Scale struct {
	Low, High float64 // low < high, both finite; positive if logarithmic
	Log       bool
}

// At returns the place of v between 0 (the low end) and 1. What is outside, or
// no number, is put on the nearer end, so that no drawing leaves its chart.
func (a Scale) At(v float64) float64 {
	low, high := a.Low, a.High
	if a.Log {
		low, high, v = math.Log(low), math.Log(high), math.Log(math.Max(v, a.Low))
	}
	share := (v - low) / (high - low)
	if math.IsNaN(share) { // both are beyond what a float64 can subtract
		return 0
	}
	return min(max(share, 0), 1)
}

// Percent returns the place of v as an SVG length, from left to right.
func (a Scale) Percent(v float64) string { return Percent(a.At(v)) }

// Percent writes a share of 1 as an SVG percentage.
func Percent(share float64) string { return Number(share*100, 2) + "%" }

// Number writes v for an SVG attribute: short, and never NaN or infinite.
func Number(v float64, decimals int) string {
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

// Extent collects the smallest and the largest of the finite numbers it sees.
type Extent struct {
	Low, High float64
	Any       bool
}

// See takes in numbers; those that are not finite are passed over.
func (e *Extent) See(values ...float64) {
	for _, v := range values {
		if !isFinite(v) {
			continue
		}
		if !e.Any {
			e.Low, e.High, e.Any = v, v, true
		}
		e.Low, e.High = min(e.Low, v), max(e.High, v)
	}
}

// SeePositive is see for an axis that is logarithmic.
func (e *Extent) SeePositive(values ...float64) {
	for _, v := range values {
		if v > 0 {
			e.See(v)
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

// Linear covers e with about n steps between ticks. With fromZero it
// starts at zero, which bars need.
func Linear(e Extent, n int, fromZero bool) (Scale, []float64) {
	if !e.Any {
		e.See(0, 1)
	}
	if fromZero {
		e.See(0)
	}
	if e.High-e.Low <= math.Abs(e.High)*1e-9 { // a single value still needs room
		e.See(e.Low*0.9, e.High*1.1)
		if e.High == e.Low {
			e.See(e.Low + 1)
		}
	}
	step := niceStep((e.High - e.Low) / float64(n))
	first, last := math.Floor(e.Low/step+1e-9), math.Ceil(e.High/step-1e-9)
	ticks := make([]float64, 0, n+2)
	for i := first; i <= last && len(ticks) < 4*n; i++ {
		ticks = append(ticks, i*step)
	}
	return Scale{Low: first * step, High: last * step}, ticks
}

// maxLogTicks is how many labels fit on a phone's width.
const maxLogTicks = 6

// Log covers e, whose numbers are positive, with ends at 1, 2 or 5 times a
// power of ten. Its ticks are the finest of 1-2-5, 1-5 and powers of ten of
// which there are not too many, or else every second, third … power of ten.
func Log(e Extent) (Scale, []float64) {
	if !e.Any || e.Low <= 0 {
		e = Extent{Low: 1, High: 10, Any: true}
	}
	a := Scale{Low: niceBelow(e.Low), High: niceStep(e.High), Log: true}
	if a.High <= a.Low {
		a.Low, a.High = a.Low/10, a.Low*10
	}
	var ticks []float64
	for _, factors := range [][]float64{{1, 2, 5}, {1, 5}, {1}} {
		ticks = ticks[:0]
		for power := math.Floor(math.Log10(a.Low)); power <= math.Ceil(math.Log10(a.High)); power++ {
			for _, factor := range factors {
				if v := factor * math.Pow(10, power); v >= a.Low*(1-1e-9) && v <= a.High*(1+1e-9) {
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

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
