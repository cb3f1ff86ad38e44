package result

import "slices"

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
		if slices.ContainsFunc(known, func(other *Variant) bool { return r.compare(other, v) == above }) {
			k.Lower = append(k.Lower, v)
		} else {
			k.Highest = append(k.Highest, v)
		}
	}
	for i, v := range k.Highest {
		k.TooFew = k.TooFew || slices.ContainsFunc(k.Highest[:i], func(other *Variant) bool { return r.compare(v, other) == tooFew })
	}
	k.AboveAll = len(k.Bounds) == 1 && len(known) > 0 &&
		!slices.ContainsFunc(known, func(v *Variant) bool { return r.compare(k.Bounds[0], v) != above })
	return k
}

// relation is what the run shows of one variant's capacity beside another's.
type relation int

const (
	notAbove relation = iota
	above             // significantly
	tooFew            // trials to show a difference
)

// compare says whether a is above b. Where one of the two is the baseline the test
// decides, because it pairs trials; for others it takes that their intervals do
// not overlap, which is more than the test would ask for.
func (r *Result) compare(a, b *Variant) relation {
	c, d := r.Comparison(a.Name), r.Comparison(b.Name)
	base := r.Baseline()
	var shown bool
	switch {
	case a.Name == b.Name:
		return notAbove
	case c.TooFew() || d.TooFew():
		return tooFew
	case b.Name == base && c.HasRange():
		shown = c.Significant && c.Ratio > 1
	case a.Name == base && d.HasRange():
		shown = d.Significant && d.Ratio < 1
	case !a.HasInterval() || !b.HasInterval():
		return tooFew
	default:
		shown = !b.Capacity.HighOpen && b.Capacity.High < a.Capacity.Low
	}
	if shown && a.Capacity.Value > b.Capacity.Value { // the medians may contradict the pairs
		return above
	}
	return notAbove
}
