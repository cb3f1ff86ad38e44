package result

import "loadstone/lab/format"

// HasRange says whether there is an interval that tells something: that of a single trial
// has no ends, and one from 0 without an upper end leaves everything open.
func (i *Estimate) HasRange() bool {
	return i.Interval.HasRange() && (i.Low > 0 || !i.HighOpen)
}

// Range writes the ends of an interval with the last digit of its value:
// "[4,180, 4,420]", "[4,180 or more]" where it has no upper end, and a dash where there is
// no interval.
func (i *Estimate) Range() string {
	if !i.HasRange() {
		return format.Missing
	}
	return "[" + i.ends(", ") + "]"
}

// InWords writes the ends of an interval, which there is: "4,180 to 4,420", "4,180 or more".
func (i *Estimate) InWords() string { return i.ends(" to ") }

func (i *Estimate) ends(between string) string {
	_, low, high := format.Interval(i.Value, i.Low, i.High)
	if i.HighOpen {
		return low + " or more"
	}
	return low + between + high
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
