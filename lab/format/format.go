// Package format writes numbers for people: how many digits, which unit, and a
// dash where a number is missing or not finite. It knows no type of the lab
// and lays nothing out.
package format

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Missing stands where a number is missing or not finite.
const Missing = "–"

// Finite says whether v is a number that can be shown.
func Finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Quantum returns the power of ten to which v is rounded to keep three
// significant digits: 10 for 4312, 0.01 for 2.94.
func Quantum(v float64) int {
	if v == 0 || !Finite(v) {
		return 0
	}
	exponent := int(math.Floor(math.Log10(math.Abs(v)))) - 2
	// 999.6 becomes 1,000 and has then four digits before the point.
	if rounded := Round(v, exponent); math.Abs(rounded) >= math.Pow10(exponent+3) {
		exponent++
	}
	return exponent
}

// Round returns v rounded to a multiple of 10^exponent.
func Round(v float64, exponent int) float64 {
	if exponent < 0 { // a division by 10^n is exact where a product by 10^-n is not
		return math.Round(v*math.Pow10(-exponent)) / math.Pow10(-exponent)
	}
	return math.Round(v/math.Pow10(exponent)) * math.Pow10(exponent)
}

// At writes v rounded to 10^exponent, with commas between thousands.
func At(v float64, exponent int) string {
	if !Finite(v) {
		return Missing
	}
	if exponent < -9 || exponent > 12 { // out of the range that people read as digits
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	rounded := Round(v, exponent)
	if math.Abs(v) >= 1e15 || !Finite(rounded) {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	v = rounded
	digits := strconv.FormatFloat(math.Abs(v), 'f', max(0, -exponent), 64)
	whole, fraction, _ := strings.Cut(digits, ".")
	var b strings.Builder
	if v < 0 { // so zero has no sign, even if it was rounded from below
		b.WriteByte('-')
	}
	for i, digit := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	if fraction != "" {
		b.WriteString("." + fraction)
	}
	return b.String()
}

// Measured writes a measured number with three significant digits:
// 4,310, 43.1, 0.0431. Trailing zeros stay, they are part of the precision.
func Measured(v float64) string { return At(v, Quantum(v)) }

// Setting writes a number that somebody chose, such as a CPU limit or a
// threshold: without trailing zeros.
func Setting(v float64) string { return TrimZeros(Measured(v)) }

// TrimZeros cuts trailing zeros off a decimal fraction.
func TrimZeros(s string) string {
	if !strings.Contains(s, ".") || strings.Contains(s, "e") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// Interval writes a value and the ends of its interval with the same
// last digit, so that they can be compared by eye.
func Interval(value, low, high float64) (v, l, h string) {
	exponent := Quantum(value)
	end := func(x float64) string {
		if Finite(x) && x != 0 && math.Abs(x) < math.Pow10(exponent) {
			return Measured(x) // rounding to the value's digit would say 0
		}
		return At(x, exponent)
	}
	return At(value, exponent), end(low), end(high)
}

// Percent writes a share of 1 as a percentage with at most three
// significant digits: 96.9 %, 100 %, 0.04 %.
func Percent(share float64) string {
	if !Finite(share) {
		return Missing
	}
	return Setting(share*100) + " %"
}

// Milliseconds writes milliseconds: 0.42 ms, 187 ms, 1,840 ms, and seconds from ten
// seconds on.
func Milliseconds(ms float64) string {
	switch {
	case !Finite(ms):
		return Missing
	case math.Abs(ms) >= 10_000:
		return Measured(ms/1000) + " s"
	default:
		return Measured(ms) + " ms"
	}
}

// Latency is Milliseconds for a measured latency, which is never 0: a zero
// is one that was not measured.
func Latency(ms float64) string {
	if ms == 0 {
		return Missing
	}
	return Milliseconds(ms)
}

// LatencyNumber is Latency without the unit, for a column that names it:
// a time of 0 is one that was not measured.
func LatencyNumber(ms float64) string {
	if ms == 0 {
		return Missing
	}
	return Measured(ms)
}

// Bytes writes a size in binary units.
func Bytes(n uint64) string {
	v, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for v >= 1000 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return Setting(v) + " " + units[i]
}

// Duration writes a length of time in its two largest units.
func Duration(d time.Duration) string {
	d = d.Round(time.Second)
	h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case h > 0:
		return fmt.Sprintf("%d h %d min", h, m)
	case m > 0:
		return fmt.Sprintf("%d min %d s", m, s)
	default:
		return fmt.Sprintf("%d s", s)
	}
}

// Plural writes a count with its noun: 1 trial, 6 trials.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
