package analysis

import (
	"cmp"
	"fmt"

	"loadstone/lab/archive"

	"loadstone/lab/format"
)

// missedBy is why no rate of a trial held: what the lowest rate that was tried
// missed, and the commonest error there, if there were any.
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
	kind, most := "", uint64(0)
	for k, e := range lowest.Result.Errors {
		if e.Count > most || e.Count == most && k < kind {
			kind, most = k, e.Count
		}
	}
	if most == 0 {
		return text
	}
	text += fmt.Sprintf("; %d requests failed with %s", most, kind)
	if example := lowest.Result.Errors[kind].Example; example != "" {
		text += ", such as " + example
	}
	return text
}
