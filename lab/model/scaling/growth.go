package scaling

import (
	"fmt"
	"slices"
)

// Sample is what the trials of one size found.
type Sample struct {
	Name       string    // of the variant, for warnings
	N          float64   // its size, as Point has it
	Capacities []float64 // of its trials; 0 where no rate was sustained
	LowerBound bool      // its capacity is only known from below
}

// Points are the capacities of all trials that found one, and what to be warned
// of in a curve through them.
func Points(samples []Sample) (points []Point, warnings []string) {
	for _, s := range samples {
		for _, x := range s.Capacities {
			if x > 0 {
				points = append(points, Point{N: s.N, X: x})
			}
		}
		if s.LowerBound {
			warnings = append(warnings, fmt.Sprintf("the capacity of %s is only a lower bound, so the curve may bend too early", s.Name))
		}
	}
	return points, warnings
}

// Sizes are the sizes of the points, each once, from the smallest.
func Sizes(points []Point) []float64 {
	var sizes []float64
	for _, p := range points {
		sizes = append(sizes, p.N)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// PeakNote says why there is no peak to report; empty if there is one, which is
// the law's. It means something only where the law describes what was measured.
func (d *Description) PeakNote() string {
	switch {
	case d.Shape == Neither:
		return "peak not known: neither curve describes the measurements"
	case d.Shape == Smooth && d.Law.Peak.Inside:
		return ""
	default:
		return "no peak inside the measured range"
	}
}

// curvePoints is how many points a curve has, beside its bend.
const curvePoints = 61

// Curve has points of the curve from one size to another, and its bend if that
// is between them. The sizes are in the caller's unit, of which one is the size 1.
func (d *Description) Curve(low, high, one float64) [][2]float64 {
	sizes := make([]float64, 0, curvePoints+1)
	for i := range curvePoints {
		sizes = append(sizes, low+(high-low)*float64(i)/(curvePoints-1))
	}
	if bend := d.Ceiling.From * one; d.Shape == Bent && bend > low && bend < high {
		sizes = append(sizes, bend)
		slices.Sort(sizes)
	}
	out := make([][2]float64, len(sizes))
	for i, n := range sizes {
		out[i] = [2]float64{n, d.Value(n / one)}
	}
	return out
}
