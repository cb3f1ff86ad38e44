package report

import "loadstone/lab/result"

// endsMean says what the ends of capacities' intervals are, as far as they occur, and by what
// variants are compared.
func endsMean(r *result.Result) string {
	if len(r.Comparisons) > 0 {
		return ends(r) + " Variants are compared by where all attempts together put what is sustained."
	}
	return ends(r)
}

func ends(r *result.Result) string {
	intervals, open := false, false
	for i := range r.Variants {
		v := &r.Variants[i]
		intervals = intervals || v.HasInterval()
		open = open || v.HasInterval() && v.Capacity.HighOpen
	}
	switch {
	case open:
		return " It runs from a rate that was sustained to one that was not; \"or more\" stands where too many trials ended before the system did."
	case intervals:
		return " It runs from a rate that was sustained to one that was not."
	}
	return ""
}
