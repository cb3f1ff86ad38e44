package cputime

import (
	"math"
	"testing"
	"time"
)

// TestSamplerIsUnbiased: what the clock's noise takes from one piece is taken from the sum.
func TestSamplerIsUnbiased(t *testing.T) {
	t.Parallel()
	var sum float64
	s := NewSampler(func(seconds float64) {
		if seconds < 0 {
			t.Errorf("%v was added to a counter", seconds)
		}
		sum += seconds
	})
	for range 1000 {
		for _, took := range []time.Duration{-300, 500, -100, -100, 100} {
			s.count(took)
		}
	}
	if want := Every * 100e-6; math.Abs(sum-want) > Every*1e-6 {
		t.Errorf("the sum is %v s, want %v", sum, want)
	}
}
