package analysis

import (
	"cmp"
	"fmt"
	"strings"

	"loadstone/lab/archive"
	"loadstone/lab/format"
)

// missedBy is why no rate of a trial held: what the lowest rate that was tried
// missed, and what the requests there ended as that failed.
func missedBy(t archive.Trial) string {
	var lowest *archive.Measure
	for i := range t.Measures {
		if m := &t.Measures[i]; m.Kind != archive.Sweep && m.Kind != archive.AsWritten && !m.Held && (lowest == nil || m.Rate <= lowest.Rate) {
			lowest = m
		}
	}
	if lowest == nil {
		return ""
	}
	text := fmt.Sprintf("at %s %s, %s", format.Measured(lowest.Rate), cmp.Or(lowest.Unit, "a second"), lowest.Reason)
	if what := lowest.Result.Failures(); what != "" && !strings.Contains(text, what) {
		text += "; " + what
	}
	return text
}
