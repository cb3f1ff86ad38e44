package analysis

import (
	"testing"

	"loadstone/lab/result"
	"loadstone/lab/stats"
)

// What is only known from below predicts nothing, and may carry more.
func TestRequiredSizeOfWhatIsUncertain(t *testing.T) {
	t.Parallel()
	at := func(size, low, high float64, bound bool) result.ScalingPoint {
		return result.ScalingPoint{Size: size, Capacity: result.Estimate{Interval: stats.Interval{Value: (low + high) / 2, Low: low, High: high, Confidence: 0.95}, LowerBound: bound}}
	}
	for name, c := range map[string]struct {
		points      []result.ScalingPoint
		size, maybe float64
	}{
		"sure of one":       {[]result.ScalingPoint{at(1, 80, 90, false), at(2, 100, 120, false)}, 2, 0},
		"perhaps a smaller": {[]result.ScalingPoint{at(1, 90, 110, false), at(2, 150, 170, false)}, 2, 1},
		"perhaps":           {[]result.ScalingPoint{at(1, 90, 110, false), at(2, 95, 120, false)}, 0, 1},
		"one trial alone":   {[]result.ScalingPoint{{Size: 1, Capacity: result.Estimate{Interval: stats.Interval{Value: 120, Low: 120, High: 120}}}}, 0, 1},
		"none":              {[]result.ScalingPoint{at(1, 50, 60, false)}, 0, 0},
		"a lower bound":     {[]result.ScalingPoint{at(1, 50, 60, true)}, 0, 1},
		"a lower bound below the demands' bound": {[]result.ScalingPoint{
			{Size: 1, Bound: 70, Capacity: at(1, 50, 60, true).Capacity}, {Size: 2, Bound: 140, Capacity: at(2, 50, 60, true).Capacity},
		}, 0, 2},
		"a sure lower bound": {[]result.ScalingPoint{at(1, 110, 120, true)}, 1, 0},
	} {
		got := requiredSize(&result.Scaling{Service: "api", Setting: "replicas", Points: c.points}, 100, "req/s")
		if got.Size != c.size || got.Maybe != c.maybe {
			t.Errorf("%s: %+v, want %g and perhaps %g", name, got, c.size, c.maybe)
		}
	}
}
