package result

import (
	"cmp"

	"loadstone/lab/format"
)

// RateUnit is what rates are in.
func (r *Result) RateUnit() string { return cmp.Or(r.Unit, RequestsPerSecond) }

// MeasuresLoad says whether the run drove the load as written instead of
// searching for capacity.
func (r *Result) MeasuresLoad() bool { return r.Measure == "load" }

// Baseline is the variant that the others are compared with: by convention the
// first.
func (r *Result) Baseline() string {
	if len(r.Comparisons) > 0 {
		return r.Comparisons[0].Baseline
	}
	if len(r.Variants) > 0 {
		return r.Variants[0].Name
	}
	return ""
}

// Comparison returns the variant's comparison, nil if it has none.
func (r *Result) Comparison(variant string) *Comparison {
	for i := range r.Comparisons {
		if r.Comparisons[i].Variant == variant {
			return &r.Comparisons[i]
		}
	}
	return nil
}

// HasCapacity says whether a capacity was found that can be shown.
func (v *Variant) HasCapacity() bool {
	return v.Capacity != nil && format.Finite(v.Capacity.Value)
}

// IsLowerBound says whether the measurement ended before the system did.
func (v *Variant) IsLowerBound() bool { return v.Capacity != nil && v.Capacity.LowerBound }

// HasInterval says whether the capacity has an interval; see Estimate.HasRange.
func (v *Variant) HasInterval() bool { return v.Capacity != nil && v.Capacity.HasRange() }

// HasRange says whether there is a ratio with an interval.
func (c *Comparison) HasRange() bool {
	return c != nil && c.Confidence > 0 && format.Finite(c.Confidence) && format.Finite(c.Low) && format.Finite(c.High)
}

// NoDifference says that 1 may be the true ratio: no difference was shown, by the
// test and not by the interval, which is not corrected for its number.
func (c *Comparison) NoDifference() bool { return c.TooFew() || c.HasRange() && !c.Significant }

// TooFew says whether no difference could have been shown with so few trials.
func (c *Comparison) TooFew() bool { return c != nil && c.Needed > 0 }

// TrialsNeeded is how many trials of each variant the test takes at least; 0 if the run
// has as many.
func (r *Result) TrialsNeeded() int {
	most := 0
	for i := range r.Comparisons {
		most = max(most, r.Comparisons[i].Needed)
	}
	return most
}
