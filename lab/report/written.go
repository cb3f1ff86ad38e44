package report

// Measured writes a measured number with three significant digits: 4,310, 43.1.
func Measured(v float64) string { return formatMeasured(v) }

// MeasuredInterval writes a value and the ends of its interval with the same
// last digit.
func MeasuredInterval(value, low, high float64) (v, l, h string) {
	return formatInterval(value, low, high)
}

// Percent writes a share of 1 as a percentage: 96.9 %.
func Percent(share float64) string { return formatPercent(share) }

// Setting writes a number that somebody chose: without trailing zeros.
func Setting(v float64) string { return formatSetting(v) }
