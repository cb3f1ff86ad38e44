package chart_test

import (
	"math"
	"testing"

	"loadstone/lab/chart"
)

func TestAxesAreRound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		low, high float64
		log       bool
		wantLow   float64
		wantHigh  float64
		wantTicks int
	}{
		"bars":            {438, 4423, false, 0, 5000, 6},
		"one value":       {100, 100, false, 0, 100, 6},
		"nothing":         {0, 0, false, 0, 1, 6},
		"latencies":       {0.6, 3600, true, 0.5, 5000, 4},
		"one decade":      {12, 90, true, 10, 100, 4},
		"two decades":     {2.1, 480, true, 2, 500, 5},
		"one latency":     {10, 10, true, 1, 100, 5},
		"huge and finite": {1, 1e308, true, 1, 1e308, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var e chart.Extent
			e.See(c.low, c.high, math.NaN(), math.Inf(1))
			a, ticks := chart.Linear(e, 5, !c.log)
			if c.log {
				a, ticks = chart.Log(e)
			}
			if a.Low > c.low || a.High < c.high {
				t.Errorf("got an axis from %v to %v, which does not hold %v to %v", a.Low, a.High, c.low, c.high)
			}
			if math.Abs(a.Low-c.wantLow) > 1e-9 || math.Abs(a.High/c.wantHigh-1) > 1e-9 {
				t.Errorf("got an axis from %v to %v, want %v to %v", a.Low, a.High, c.wantLow, c.wantHigh)
			}
			if c.wantTicks > 0 && len(ticks) != c.wantTicks {
				t.Errorf("got ticks %v, want %d of them", ticks, c.wantTicks)
			}
		})
	}
}

func TestNothingIsDrawnOutsideItsChart(t *testing.T) {
	t.Parallel()
	for _, a := range []chart.Scale{{Low: 0, High: 10}, {Low: 1, High: 1000, Log: true}, {Low: -math.MaxFloat64, High: math.MaxFloat64}} {
		for _, v := range []float64{-5, 0, 5, 50, 1e9, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64} {
			if got := a.At(v); !(got >= 0 && got <= 1) {
				t.Errorf("%+v.At(%v): got %v, want between 0 and 1", a, v, got)
			}
		}
	}
}
