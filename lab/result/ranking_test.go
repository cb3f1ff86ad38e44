package result

import (
	"testing"

	"loadstone/lab/stats"
)

// The variant that is named as the highest was chosen for it: what shows a difference
// between two does not show the highest of four.
func TestTheHighestIsChosenFromAll(t *testing.T) {
	t.Parallel()
	variant := func(name string, capacities ...float64) Variant {
		return Variant{Name: name, Trials: len(capacities), Capacity: &Estimate{Interval: stats.Median(capacities)}}
	}
	run := func(p float64, variants ...Variant) *Result {
		r := &Result{Variants: variants}
		for _, v := range variants[1:] {
			ratio := v.Capacity.Value / variants[0].Capacity.Value
			r.Comparisons = append(r.Comparisons, Comparison{
				Variant: v.Name, Baseline: variants[0].Name, Ratio: ratio, Low: ratio * 0.99, High: ratio * 1.01, Confidence: 0.95, P: p, Significant: p < 0.05,
			})
		}
		return r
	}
	base := variant("base", 100, 101, 102, 103, 104, 105)
	high := func(name string) Variant { return variant(name, 100, 101, 102, 103, 104, 105) }
	low := func(name string) Variant { return variant(name, 50, 51, 52, 53, 54, 55) }
	few := func(name string, at float64) Variant { return variant(name, at, at+1, at+2, at+3) }
	for name, c := range map[string]struct {
		result  *Result
		highest int
	}{
		"of two":                           {run(0.047, low("a"), high("b")), 1},
		"of four, by the same p":           {run(0.047, base, low("a"), low("b"), low("c")), 4},
		"of four, beyond doubt":            {run(0.007, base, low("a"), low("b"), low("c")), 1},
		"of others, four trials of each":   {run(0.001, few("base", 10), few("a", 100), few("b", 200), few("c", 300)), 4},
		"of others, six trials of each":    {run(0.001, low("base"), low("a"), high("b"), variant("c", 200, 201, 202, 203, 204, 205)), 1},
		"of others, of whom two are equal": {run(0.001, low("base"), high("a"), high("b")), 2},
	} {
		if k := c.result.Ranking(); len(k.Highest) != c.highest {
			var names []string
			for _, v := range k.Highest {
				names = append(names, v.Name)
			}
			t.Errorf("%s: %q may be the highest, want %d of them", name, names, c.highest)
		}
	}
}

// Where all pairs were compared jointly, the pair's own comparison decides, the baseline's
// or not, and no other takes of its chance.
func TestJointComparisonsRank(t *testing.T) {
	t.Parallel()
	variant := func(name string, value float64) Variant {
		return Variant{Name: name, Trials: 6, Capacity: &Estimate{Interval: stats.Interval{Value: value, Low: value / 2, High: 2 * value, Confidence: 0.95}}}
	}
	pair := func(sample, base string, ratio float64, significant bool) Comparison {
		return Comparison{Variant: sample, Baseline: base, Ratio: ratio, Low: ratio / 1.1, High: ratio * 1.1, Confidence: 0.95, P: 0.04, Significant: significant, Joint: true}
	}
	for _, shown := range []bool{true, false} {
		for _, swapped := range []bool{true, false} {
			r := &Result{
				Variants:    []Variant{variant("base", 100), variant("a", 300), variant("b", 230)},
				Comparisons: []Comparison{pair("a", "base", 3, true), pair("b", "base", 2.3, true)},
				Others:      []Comparison{pair("b", "a", 0.77, shown)},
			}
			if swapped {
				r.Others[0] = pair("a", "b", 1.3, shown)
			}
			k := r.Ranking()
			if want := 1; shown && (len(k.Highest) != want || k.Highest[0].Name != "a") || !shown && len(k.Highest) != 2 || k.TooFew {
				t.Errorf("a difference of a and b was shown: %v; got %d that may be the highest", shown, len(k.Highest))
			}
		}
	}
}
