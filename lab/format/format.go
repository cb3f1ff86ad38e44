// Package format writes numbers for people: measurements with the digits that
// they are worth, settings, shares, times, sizes and counts. Whatever shows a
// number, in a terminal, on a page or in a sentence, writes it with this
// package, so that one figure reads the same everywhere.
//
// It lays nothing out, which packages term and chart do, and knows nothing of
// what the numbers mean. JSON has its numbers in full and does not use it.
package format

import (
	"math"
	"strconv"
	"strings"
)

// Missing stands where a number is missing or not finite.
const Missing = "–"

// Finite says whether v is a number: neither NaN nor infinite.
func Finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Measured writes a measured number with three significant digits: 4,310, 43.1,
// 0.0431. Trailing zeros stay, they are part of the precision.
func Measured(v float64) string { return At(v, exponentOf(v, 3)) }

// Rounded is Measured without trailing zeros, for a number in a sentence: 4,310,
// 2.5, 100.
func Rounded(v float64) string { return trimZeros(Measured(v)) }

// Digits writes a number with that many significant digits and all of those
// before the point, with three: 4,312, 43.1, 0.0431.
func Digits(v float64, digits int) string { return At(v, min(exponentOf(v, digits), 0)) }

// Short is Digits without trailing zeros.
func Short(v float64, digits int) string { return trimZeros(Digits(v, digits)) }

// Figure is Digits with three of them.
func Figure(v float64) string { return Digits(v, 3) }

// Precise writes a number with five significant digits: what was observed must
// not read as the limit that it is just above.
func Precise(v float64) string { return Short(v, 5) }

// Setting writes a number that somebody chose, such as a CPU limit or a
// threshold: without trailing zeros, and with every digit before the point.
func Setting(v float64) string { return Short(v, 3) }

// Beside writes what was observed with as many digits as it takes to see on
// which side of a limit it lies: 200.3 must not be written as 200 if that is
// the limit.
func Beside(v, limit float64) string {
	exponent := exponentOf(v, 3)
	if limit != v {
		for range 4 {
			if At(v, exponent) != At(limit, exponent) {
				break
			}
			exponent--
		}
	}
	return trimZeros(At(v, exponent))
}

// Interval writes a value and the ends of its interval with the same last
// digit, so that they can be compared by eye.
func Interval(value, low, high float64) (v, l, h string) {
	exponent := exponentOf(value, 3)
	end := func(x float64) string {
		if Finite(x) && x != 0 && math.Abs(x) < math.Pow10(exponent) {
			return Measured(x) // rounding to the value's digit would say 0
		}
		return At(x, exponent)
	}
	return At(value, exponent), end(low), end(high)
}

// At writes v rounded to 10^exponent, with commas between thousands.
func At(v float64, exponent int) string {
	if !Finite(v) {
		return Missing
	}
	if exponent < -9 || exponent > 12 || math.Abs(v) >= 1e15 { // out of the range that people read as digits
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	if exponent >= 0 {
		v = math.Round(v/math.Pow10(exponent)) * math.Pow10(exponent)
	}
	text := Commas(strconv.FormatFloat(v, 'f', max(0, -exponent), 64))
	if strings.Trim(text, "-0.") == "" { // zero has no sign, even if it was rounded from below
		return strings.TrimPrefix(text, "-")
	}
	return text
}

// exponentOf returns the power of ten to which v is rounded to keep that many
// significant digits: for three of them 1 for 4312, -2 for 2.94. 999.6 becomes
// 1,000 and has then four digits before the point.
func exponentOf(v float64, digits int) int {
	if v == 0 || !Finite(v) {
		return 0
	}
	_, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', digits-1, 64), "e")
	power, err := strconv.Atoi(exponent)
	if err != nil {
		return 0 // not reached: FormatFloat wrote it
	}
	return power + 1 - digits
}

// Commas puts commas between the thousands of a decimal number.
func Commas(number string) string {
	digits, negative := strings.CutPrefix(number, "-")
	whole, fraction, point := strings.Cut(digits, ".")
	var b strings.Builder
	if negative {
		b.WriteByte('-')
	}
	for i, digit := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	if point {
		b.WriteString("." + fraction)
	}
	return b.String()
}

func trimZeros(s string) string {
	if !strings.Contains(s, ".") || strings.Contains(s, "e") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// Coefficient writes a parameter of a fitted law with two digits: it is never
// known better.
func Coefficient(v float64) string {
	if !Finite(v) {
		return Missing
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// Count writes a whole number with commas between thousands: 94,435.
func Count[T int | int64 | uint64](n T) string { return Commas(strconv.FormatInt(int64(n), 10)) }

// Capital has a text of which the first byte is a letter begin with a capital.
func Capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// Plural writes a count with its noun: 1 trial, 6 trials.
func Plural[T int | int64 | uint64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}
