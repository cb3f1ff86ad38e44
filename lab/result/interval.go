package result

import "loadstone/lab/format"

// Range writes the ends of an interval with the last digit of its value:
// "[4,180, 4,420]", "[4,180, …)" where it has no upper end, and a dash where it
// has no ends.
func (i *Estimate) Range() string {
	if !i.HasRange() {
		return format.Missing
	}
	_, low, high := format.Interval(i.Value, i.Low, i.High)
	if i.HighOpen {
		return "[" + low + ", …)"
	}
	return "[" + low + ", " + high + "]"
}

// Bounded writes the value: "4,310", or "≥ 4,310" of a lower bound.
func (i *Estimate) Bounded() string {
	text := format.Measured(i.Value)
	if i.LowerBound {
		text = "≥ " + text
	}
	return text
}

// WithRange writes the value and its interval, if it has one.
func (i *Estimate) WithRange() string {
	if !i.HasRange() {
		return i.Bounded()
	}
	return i.Bounded() + " " + i.Range()
}
