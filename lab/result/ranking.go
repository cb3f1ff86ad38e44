package result

import (
	"slices"

	"loadstone/lab/stats"
)

// Ranking is what a run shows about which of its variants has the highest
// capacity. It follows from the comparisons alone: an order of medians that the
// test does not confirm is not in it.
type Ranking struct {
	// Highest are the variants that may have the highest capacity, in the order of
	// the experiment: one if it is significantly above all others. Lower are those
	// that another is significantly above.
	Highest, Lower []*Variant
	// Bounds are the variants whose capacity is only a lower bound. What is said of
	// the others holds among these others.
	Bounds []*Variant
	// TooFew says that Highest are several because there are too few trials to tell
	// some of them apart.
	TooFew bool
	// AboveAll says that there is one lower bound, and that it is significantly above
	// all other capacities.
	AboveAll bool
}

// Ranking ranks the variants that have a capacity.
func (r *Result) Ranking() Ranking {
	var known []*Variant
	var k Ranking
	others := r.others()
	for i := range r.Variants {
		switch v := &r.Variants[i]; {
		case !v.HasCapacity():
		case v.IsLowerBound():
			k.Bounds = append(k.Bounds, v)
		default:
			known = append(known, v)
		}
	}
	for _, v := range known {
		if slices.ContainsFunc(known, func(other *Variant) bool { return r.compare(other, v, others) == above }) {
			k.Lower = append(k.Lower, v)
		} else {
			k.Highest = append(k.Highest, v)
		}
	}
	for i, v := range k.Highest {
		k.TooFew = k.TooFew || slices.ContainsFunc(k.Highest[:i], func(other *Variant) bool { return r.compare(v, other, others) == tooFew })
	}
	k.AboveAll = len(k.Bounds) == 1 && len(known) > 0 &&
		!slices.ContainsFunc(known, func(v *Variant) bool { return r.compare(k.Bounds[0], v, others) != above })
	return k
}

// relation is what the run shows of one variant's capacity beside another's.
type relation int

const (
	notAbove relation = iota
	above             // significantly
	tooFew            // trials to show a difference
)

// others is how many variants each is compared with. What is to be shown of the true
// highest is that none of these is above it: in one run of 20 at most it may be left out
// (multiple comparisons with the best; Hsu, Multiple Comparisons, 1996, here by
// Bonferroni). So the variant that is left as the only one may have been chosen for it.
func (r *Result) others() float64 {
	n := -1.0
	for i := range r.Variants {
		if r.Variants[i].HasCapacity() {
			n++
		}
	}
	return n
}

// compare says whether a is above b, where each has so many others. Where one of the two
// is the baseline the test decides, because it pairs trials, less what the others take of
// its chance to be wrong. For those it takes that their intervals do not overlap, of whose
// chance among equals package stats knows. Where all pairs were compared jointly, none of
// them takes of another's chance.
func (r *Result) compare(a, b *Variant, others float64) relation {
	if j := r.joint(a.Name, b.Name); j != nil {
		return j.above(a.Name)
	}
	c, d := r.Comparison(a.Name), r.Comparison(b.Name)
	base := r.Baseline()
	apart := stats.Apart(a.Trials, b.Trials)
	spent := (others - 1) * apart
	var shown bool
	switch {
	case a.Name == b.Name:
		return notAbove
	case c.TooFew() || d.TooFew():
		return tooFew
	case b.Name == base && c.HasRange():
		shown = c.stands(spent) && c.Ratio > 1
	case a.Name == base && d.HasRange():
		shown = d.stands(spent) && d.Ratio < 1
	case !a.Capacity.Interval.HasRange() || !b.Capacity.Interval.HasRange(), others*apart >= stats.Alpha:
		return tooFew
	default:
		shown = !b.Capacity.HighOpen && b.Capacity.High < a.Capacity.Low
	}
	return shownAbove(a, b, shown)
}

// above is the relation of the variant to the other one of the two that were compared.
func (c *Comparison) above(variant string) relation {
	if c.Significant && (c.Ratio > 1) == (c.Variant == variant) {
		return above
	}
	return notAbove
}

// shownAbove is the relation of two variants of which a was shown to be above b, or was not: the
// medians may contradict the pairs.
func shownAbove(a, b *Variant, shown bool) relation {
	if shown && a.Capacity.Value > b.Capacity.Value {
		return above
	}
	return notAbove
}

// joint is the comparison of two variants, if all pairs were compared jointly; nil if not.
func (r *Result) joint(a, b string) *Comparison {
	for _, all := range [][]Comparison{r.Comparisons, r.Others} {
		for i := range all {
			if c := &all[i]; c.Joint && (c.Variant == a && c.Baseline == b || c.Variant == b && c.Baseline == a) {
				return c
			}
		}
	}
	return nil
}

// stands says whether a difference was shown, where so much of the chance to be wrong is
// spent on others.
func (c *Comparison) stands(spent float64) bool { return c.Significant && c.P+spent < stats.Alpha }
