package report

import "loadstone/lab/format"

// noEnd stands where an interval has no upper end.
const noEnd = "…)"

// RangeOf writes the ends of an interval with the last digit of its value:
// "[4,180, 4,420]", or "[4,180, …)" where it has no upper end.
func RangeOf(i Interval) string {
	_, low, high := format.Interval(i.Value, i.Low, i.High)
	if i.HighOpen {
		return "[" + low + ", " + noEnd
	}
	return "[" + low + ", " + high + "]"
}

// endsMean says what the ends of capacities' intervals are, as far as they occur.
func (r *Result) endsMean() string {
	intervals, open := false, false
	for i := range r.Variants {
		v := &r.Variants[i]
		intervals = intervals || v.hasInterval()
		open = open || v.hasInterval() && v.Capacity.HighOpen
	}
	text := ""
	if intervals {
		text = " It runs from a rate that held to one that did not."
	}
	if open {
		text += " …: no upper end, too many trials ended before the system did."
	}
	return text
}
