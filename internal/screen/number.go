package screen

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// noNumber stands where there is nothing to say.
const noNumber = "–"

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

// measured writes a number with three significant digits, and all of those
// before the point.
func measured(v float64) string {
	switch size := math.Abs(v); {
	case !isFinite(v) || size >= 1e15:
		return noNumber
	case size >= 99.95:
		text := count(uint64(math.Round(size)))
		if v < 0 {
			return "-" + text
		}
		return text
	case size >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case size >= 0.9995 || size == 0:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
}

// precise writes a number with five significant digits, and all of those before
// the point: more than others have, so that what was observed does not read as
// the limit that it is just above.
func precise(v float64) string {
	if size := math.Abs(v); isFinite(v) && size < 1e4 {
		return strconv.FormatFloat(v, 'g', 5, 64)
	}
	return measured(v)
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// quantile is a histogram's value at a percentile, in milliseconds.
func quantile(h *hdrhistogram.Histogram, p float64) string {
	if h == nil || h.TotalCount() == 0 {
		return noNumber
	}
	return measured(float64(h.ValueAtPercentile(p)) / 1000)
}

// share writes a part of a whole as a percentage.
func share(part, whole uint64) string {
	if whole == 0 {
		return "0 %"
	}
	percent := 100 * float64(part) / float64(whole)
	if part > 0 && percent < 0.01 {
		return "< 0.01 %"
	}
	return strconv.FormatFloat(percent, 'f', 2, 64) + " %"
}

// clock writes seconds as minutes and seconds, and hours where there are some.
func clock(seconds float64) string {
	s := int(math.Round(seconds))
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
