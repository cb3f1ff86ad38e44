package format

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Percent writes a share of 1 as a percentage with at most three significant
// digits: 96.9 %, 100 %, 0.04 %.
func Percent(share float64) string {
	if !Finite(share) {
		return Missing
	}
	return Rounded(share*100) + " %"
}

// Share is Percent for a part of what was counted: what is not all is never
// written as all.
func Share(share float64) string {
	text := Percent(share)
	if text == "100 %" && share < 1 {
		return strconv.FormatFloat(math.Floor(share*1e6)/1e4, 'f', -1, 64) + " %"
	}
	return text
}

// FixedShare writes a part of a whole as a percentage that does not change its
// width from second to second.
func FixedShare(part, whole uint64) string {
	if whole == 0 {
		return "0 %"
	}
	percent := 100 * float64(part) / float64(whole)
	if part > 0 && percent < 0.01 {
		return "< 0.01 %"
	}
	return strconv.FormatFloat(percent, 'f', 2, 64) + " %"
}

// Change writes a relative change with its sign: +6.1 %, −0.4 %, 0.0 %.
func Change(share float64) string {
	percent := 100 * share
	switch {
	case math.Abs(percent) < 0.05:
		return "0.0 %"
	case percent < 0:
		return fmt.Sprintf("−%.1f %%", -percent)
	default:
		return fmt.Sprintf("+%.1f %%", percent)
	}
}

// Demand writes a service demand given in milliseconds: 340 µs, 2.5 ms.
func Demand(ms float64) string {
	if ms < 1 {
		return Rounded(1000*ms) + " µs"
	}
	return Rounded(ms) + " ms"
}

// Milliseconds writes a time given in milliseconds: 0.42 ms, 187 ms, 1,840 ms,
// and seconds from ten seconds on.
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

// Latency is Milliseconds for a measured latency, which is never 0: a zero is
// one that was not measured.
func Latency(ms float64) string {
	if ms == 0 {
		return Missing
	}
	return Milliseconds(ms)
}

// LatencyNumber is Latency in milliseconds without the unit, for a column that
// names it.
func LatencyNumber(ms float64) string {
	if ms == 0 {
		return Missing
	}
	return Measured(ms)
}

// LatencyTick writes a round number of milliseconds for an axis: 0.5 ms, 5 s.
func LatencyTick(ms float64) string {
	if ms >= 1000 {
		return Setting(ms/1000) + " s"
	}
	return Setting(ms) + " ms"
}

// Bytes writes a size in binary units.
func Bytes(n uint64) string {
	v, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for v >= 1000 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return Rounded(v) + " " + units[i]
}

// Duration writes a length of time in its two largest units: 5 min 12 s.
func Duration(d time.Duration) string {
	d = d.Round(time.Second)
	h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case h > 0:
		return fmt.Sprintf("%d h %d min", h, m)
	case m > 0 && s == 0:
		return fmt.Sprintf("%d min", m)
	case m > 0:
		return fmt.Sprintf("%d min %d s", m, s)
	default:
		return fmt.Sprintf("%d s", s)
	}
}

// Seconds writes a length of time that somebody chose, in seconds: 0.5 s, 30 s,
// 1 min 30 s.
func Seconds(s float64) string {
	switch {
	case !Finite(s):
		return Missing
	case math.Abs(s) < 60:
		return Setting(s) + " s"
	default:
		return Duration(time.Duration(s * float64(time.Second)))
	}
}

// Remaining writes an estimate of a time that is left, with no more digits than
// it is worth.
func Remaining(d time.Duration) string {
	if d > 0 {
		d = max(d, time.Second) // "0 s" is for what is over
	}
	switch d = d.Round(time.Second); {
	case d < time.Minute:
		return Duration(d)
	case d < 10*time.Minute:
		return Duration(d.Round(10 * time.Second))
	case d < 2*time.Hour-30*time.Second:
		return fmt.Sprintf("%.0f min", d.Minutes())
	default:
		return Duration(d.Round(time.Minute))
	}
}

// Approximate is Remaining for an estimate that is only good to ten seconds:
// 20 s, 5 min, 1.6 h.
func Approximate(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return fmt.Sprintf("%d s", 10*max(1, int(d.Seconds()+5)/10))
	case d < 90*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	default:
		return fmt.Sprintf("%.1f h", d.Hours())
	}
}

// One is one of what a unit of rates or amounts counts: "connection" of connections, "message"
// of messages/s, "request" of req/s and of none.
func One(unit string) string {
	switch one := strings.TrimSuffix(strings.TrimSuffix(unit, "/s"), "s"); one {
	case "", "req":
		return "request"
	default:
		return one
	}
}
