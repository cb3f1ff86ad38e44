package loadpage

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// noNumber stands where a number is missing or not finite.
const noNumber = "–"

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// measured writes a number with three significant digits and commas between
// thousands: 4,990, 43.1, 0.0431. Trailing zeros stay, they are part of the
// precision.
func measured(v float64) string {
	switch size := math.Abs(v); {
	case !isFinite(v):
		return noNumber
	case size == 0:
		return "0"
	case size >= 1e12 || size < 1e-6:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case size >= 999.5:
		unit := math.Pow10(int(math.Floor(math.Log10(size))) - 2)
		text := count(uint64(math.Round(size/unit) * unit))
		if v < 0 {
			return "-" + text
		}
		return text
	case size >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	default:
		decimals := 2 - int(math.Floor(math.Log10(size*(1+1e-9))))
		if rounded := math.Round(size*math.Pow10(decimals)) / math.Pow10(decimals); rounded >= math.Pow10(3-decimals) {
			decimals-- // 9.996 becomes 10.0
		}
		return strconv.FormatFloat(v, 'f', decimals, 64)
	}
}

// precise writes a number with five significant digits, and all of those before
// the point.
func precise(v float64) string {
	switch {
	case !isFinite(v):
		return noNumber
	case v >= 1e4 && v < 1e15:
		return count(uint64(math.Round(v)))
	default:
		return strconv.FormatFloat(v, 'g', 5, 64)
	}
}

// setting writes a number that somebody chose: without trailing zeros.
func setting(v float64) string {
	text := measured(v)
	if !strings.Contains(text, ".") || strings.Contains(text, "e") {
		return text
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// count writes a whole number with commas between thousands.
func count(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// counted writes a count with its noun: 1 request, 6 requests.
func counted(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// percent writes a share of 1 as a percentage: 96.9 %, 100 %, 0.04 %. What is
// not all is never written as all.
func percent(share float64) string {
	if !isFinite(share) {
		return noNumber
	}
	if share < 1 && share > 0.9995 {
		text := strconv.FormatFloat(math.Floor(share*1e6)/1e4, 'f', -1, 64)
		return text + " %"
	}
	return setting(share*100) + " %"
}

// millis writes milliseconds with their unit, and seconds from ten on. A
// latency of 0 is one that was not measured.
func millis(ms float64) string {
	switch {
	case !isFinite(ms) || ms == 0:
		return noNumber
	case math.Abs(ms) >= 10_000:
		return measured(ms/1000) + " s"
	default:
		return measured(ms) + " ms"
	}
}

// bare is millis without the unit, for a column that names it.
func bare(ms float64) string {
	if ms == 0 {
		return noNumber
	}
	return measured(ms)
}

// axisMillis writes a round number of milliseconds for an axis: 0.5 ms, 5 s.
func axisMillis(ms float64) string {
	if ms >= 1000 {
		return setting(ms/1000) + " s"
	}
	return setting(ms) + " ms"
}

// bytesText writes a size in binary units.
func bytesText(n uint64) string {
	v, units, i := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}, 0
	for v >= 1000 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return setting(v) + " " + units[i]
}

// seconds writes a length of time that somebody chose: 30 s, 1 min 30 s.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case !isFinite(s):
		return noNumber
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute && d%time.Minute < time.Second:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d >= time.Minute:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return setting(s) + " s"
	}
}
