package screen

import (
	"fmt"
	"strconv"
	"time"

	"loadstone/lab/threshold"
)

// plain is a window as one line of key=value, for logs and for programs: times
// are of day and local, latencies are response times in milliseconds and
// counts are the window's own. A figure that there is none of is a dash.
func plain(t *tally, outcomes []threshold.Outcome) string {
	w := &t.now
	at := func(p float64) string {
		if t.nowResponse == nil || t.nowResponse.TotalCount() == 0 {
			return "-"
		}
		return strconv.FormatFloat(float64(t.nowResponse.ValueAtPercentile(p))/1000, 'f', 3, 64)
	}
	text := fmt.Sprintf("%s req/s=%.0f p50_ms=%s p95_ms=%s p99_ms=%s in_flight=%d failed=%d late=%d dropped=%d busy=%.2f",
		w.Start.Format(time.TimeOnly), rate(w), at(50), at(95), at(99), w.InFlight, w.Failed, w.Late, w.Dropped, w.Busy)
	if len(outcomes) > 0 {
		crossed := 0
		for _, o := range outcomes {
			if !o.Met {
				crossed++
			}
		}
		text += fmt.Sprintf(" crossed=%d", crossed)
	}
	switch {
	case w.Warmup:
		text += " warmup"
	case w.Drain:
		text += " drain"
	}
	return text + "\n"
}
