package analysis

import (
	"testing"

	"loadstone/lab/result"
	"loadstone/lab/stats"
)

// variantOf is a variant with these capacities, one a round.
func variantOf(name string, capacities ...float64) result.Variant {
	v := result.Variant{Name: name, Trials: len(capacities), Capacity: &result.Estimate{Interval: stats.Median(capacities)}}
	for i, c := range capacities {
		v.Figures = append(v.Figures, result.Figure{Trial: i + 1, Round: i + 1, Capacity: c, Measured: c > 0})
	}
	return v
}

// A trial in which no rate held is the lowest of all, and no reason to leave the variant
// out. What it makes unknown is in no interval.
func TestATrialWithoutARateRemovesNoVariant(t *testing.T) {
	t.Parallel()
	base := variantOf("base", 100, 101, 102, 103, 104, 105)
	for name, c := range map[string]struct {
		base, sample result.Variant
		compared     bool
		significant  bool
		interval     bool
	}{
		"above but for one trial":    {base, variantOf("b", 200, 210, 0, 205, 215, 220), true, false, true},
		"below, and one trial at 0":  {base, variantOf("b", 50, 51, 0, 52, 53, 54), true, true, true},
		"of the baseline":            {variantOf("base", 100, 0, 102, 103, 104, 105), variantOf("b", 200, 201, 202, 203, 204, 205), true, true, false},
		"two of six":                 {base, variantOf("b", 200, 0, 0, 205, 215, 220), false, false, false},
		"without any, two and three": {variantOf("base", 0, 0, 0), variantOf("b", 1, 2, 3), false, false, false},
	} {
		got, err := comparisons([]result.Variant{c.base, c.sample})
		if err != nil || len(got) > 0 != c.compared {
			t.Errorf("%s: got %+v, %v; want a comparison: %v", name, got, err, c.compared)
			continue
		}
		if !c.compared {
			continue
		}
		if r := got[0]; r.Significant != c.significant || r.HasRange() != c.interval || r.Ratio < 0.4 || r.Ratio > 2.5 {
			t.Errorf("%s: got %+v, want significant %v, an interval %v, and the ratio of the others", name, r, c.significant, c.interval)
		}
		if r := got[0]; c.interval && r.Low != 0 {
			t.Errorf("%s: got %+v, want an interval down to 0: how bad that trial was is not known", name, r)
		}
	}
}
