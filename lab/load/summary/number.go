package summary

import (
	"strconv"
	"strings"
	"time"

	"loadstone/lab/format"
)

// percent writes a share as k6 does, without a blank: 98%, 0.0123%, 99.98%.
func percent(share float64) string { return strings.Replace(format.Share(share), " ", "", 1) }

// milliseconds writes a time, given in milliseconds, in the unit that fits:
// 35 µs, 94.8 µs, 3.73 ms, 12.0 s.
func (p *page) milliseconds(ms float64) string {
	switch us := ms * 1000; {
	case us < 999.5:
		return format.Short(us, 3) + p.or(" µs", " us")
	case ms < 999.5:
		return format.Figure(ms) + " ms"
	default:
		return format.Figure(ms/1000) + " s"
	}
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
