package summary

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// decimals is how many digits after the point leave v with the given number of
// significant ones, once it is rounded: 9.996 has one fewer than 9.994.
func decimals(v float64, significant int) int {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	_, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', significant-1, 64), "e")
	power, err := strconv.Atoi(exponent)
	if err != nil {
		return 0 // not reached: FormatFloat wrote it
	}
	return max(significant-1-power, 0)
}

// rounded writes v with the given number of significant digits. Digits before
// the point are never made noughts of: 4312.4 is 4,312.
func rounded(v float64, significant int) string {
	return commas(strconv.FormatFloat(v, 'f', min(decimals(v, significant), 9), 64))
}

// commas puts commas between the thousands of a decimal number.
func commas(number string) string {
	number, negative := strings.CutPrefix(number, "-")
	whole, fraction, point := strings.Cut(number, ".")
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

// count writes a whole number: 94,435.
func count[T int | uint64](n T) string {
	return commas(strconv.FormatUint(uint64(n), 10))
}

// plural writes a number with its noun: 1 connection, 64 connections.
func plural[T int | uint64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// trimmed is a decimal number without noughts at its end.
func trimmed(number string) string {
	if !strings.Contains(number, ".") {
		return number
	}
	return strings.TrimSuffix(strings.TrimRight(number, "0"), ".")
}

// percent writes a share: 98%, 0.0123%, 99.98%. It reads as 100% only if it is.
func percent(share float64) string {
	text := trimmed(rounded(share*100, 3))
	if text == "100" && share < 1 {
		text = trimmed(strconv.FormatFloat(math.Floor(share*1e6)/1e4, 'f', 4, 64))
	}
	return text + "%"
}

// milliseconds writes a time, given in milliseconds, in the unit that fits:
// 35 µs, 94.8 µs, 3.73 ms, 12.0 s.
func (p *page) milliseconds(ms float64) string {
	const significant = 3
	switch us := ms * 1000; {
	case us < 999.5:
		return trimmed(rounded(us, significant)) + " " + p.micro() + "s"
	case ms < 999.5:
		return rounded(ms, significant) + " ms"
	default:
		return rounded(ms/1000, significant) + " s"
	}
}

func (p *page) micro() string {
	if p.style.ASCII {
		return "u"
	}
	return "µ"
}

// wrkBytes writes a size as wrk does, whose MB are 1024·1024 bytes.
func wrkBytes(n float64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	i := 0
	for n >= 1024 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	return strconv.FormatFloat(n, 'f', 2, 64) + units[i]
}

// length writes how long a load was: 30s, 2m30s, 1.1s.
func length(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < 10*time.Second {
		d = d.Round(10 * time.Millisecond)
	} else {
		d = d.Round(time.Second)
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
