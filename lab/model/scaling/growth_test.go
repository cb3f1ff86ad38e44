package scaling

import (
	"slices"
	"testing"
)

func TestPointsAreOfTrialsThatFoundACapacity(t *testing.T) {
	t.Parallel()
	points, warnings := Points([]Sample{
		{Name: "two", N: 2, Capacities: []float64{190, 0, 210}, LowerBound: true},
		{Name: "one", N: 1, Capacities: []float64{100, 100}},
	})
	if want := []Point{{2, 190}, {2, 210}, {1, 100}, {1, 100}}; !slices.Equal(points, want) {
		t.Errorf("points %v, want %v", points, want)
	}
	if want := []string{"the capacity of two is only a lower bound, so the curve may bend too early"}; !slices.Equal(warnings, want) {
		t.Errorf("warnings %q, want %q", warnings, want)
	}
	if got := Sizes(points); !slices.Equal(got, []float64{1, 2}) {
		t.Errorf("sizes %v, want 1 and 2", got)
	}
}

// A curve over shares of a CPU has its bend among its points, in cores.
func TestCurveHasItsBend(t *testing.T) {
	t.Parallel()
	d, err := Describe(measure(func(n float64) float64 { return min(1000*n, 3500) }, []float64{1, 2, 3, 4, 6, 8}, 6, 0.001, 1))
	if err != nil {
		t.Fatal(err)
	}
	curve := d.Curve(0.5, 4, 0.5)
	if len(curve) != curvePoints+1 || curve[0][0] != 0.5 || curve[len(curve)-1][0] != 4 {
		t.Errorf("%d points from %v to %v, want %d from 0.5 to 4", len(curve), curve[0], curve[len(curve)-1], curvePoints+1)
	}
	if !slices.ContainsFunc(curve, func(p [2]float64) bool { return p[0] > 1.7 && p[0] < 1.8 && p[1] == d.Ceiling.Flat.Value }) {
		t.Errorf("no point where the line ends: %v", curve)
	}
	if note := d.PeakNote(); note != "no peak inside the measured range" {
		t.Errorf("peak: %q", note)
	}
}
