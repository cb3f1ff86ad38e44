package analysis

import (
	"slices"
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
		got, _, err := comparisons([]result.Variant{c.base, c.sample})
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

// In the demo, query-3 was above snapshot in each of six rounds, and no difference was shown.
func TestVariantsAreComparedJointly(t *testing.T) {
	t.Parallel()
	vs := []result.Variant{
		variantOf("query", 9740, 10814, 7826, 7686, 8468, 10037),
		variantOf("query-3", 30477, 31864, 31383, 22784, 30044, 26502),
		variantOf("cached", 7103, 6639, 7654, 5884, 7086, 6667),
		variantOf("snapshot", 21026, 24251, 24955, 16633, 25290, 21012),
	}
	out, others, err := comparisons(vs)
	if err != nil || len(out) != 3 || len(others) != 3 {
		t.Fatalf("got %+v, %+v, %v; want three against the baseline and three others", out, others, err)
	}
	for _, c := range append(out, others...) {
		if !c.Significant || !c.Joint || c.Confidence != stats.Level || (c.Low > 1) == (c.High < 1) {
			t.Errorf("got %+v, want it to be significant, with an interval that leaves out 1", c)
		}
	}
	r := result.Result{Variants: vs, Comparisons: out, Others: others}
	if k := r.Ranking(); len(k.Highest) != 1 || k.Highest[0].Name != "query-3" {
		t.Errorf("got %d that may be the highest, want query-3", len(k.Highest))
	}

	// Of a trial that ended before the system did the rate is at least as measured: that of
	// the higher one changes nothing, that of the lower one may be any amount more.
	for name, want := range map[string]bool{"query-3": true, "snapshot": false} {
		bounded := make([]result.Variant, len(vs))
		for i, v := range vs {
			v.Figures = slices.Clone(v.Figures)
			bounded[i] = v
			if v.Name == name {
				for j := range v.Figures {
					v.Figures[j].LowerBound = j < 3
				}
			}
		}
		_, others, err := comparisons(bounded)
		if err != nil {
			t.Fatal(err)
		}
		if c := others[1]; c.Variant != "snapshot" || c.Baseline != "query-3" || c.Significant != want {
			t.Errorf("half of the trials of %s are lower bounds: got %+v, want it to be significant: %v", name, c, want)
		}
	}

	// Without a rate in one trial, or with fewer rounds, it is by ranks, against the baseline alone.
	for i := range vs {
		vs[i].Figures = vs[i].Figures[:5]
	}
	if out, others, err := comparisons(vs); err != nil || len(out) != 3 || len(others) != 0 || out[0].Joint {
		t.Errorf("five rounds: got %+v, %+v, %v; want ranks", out, others, err)
	}
}
