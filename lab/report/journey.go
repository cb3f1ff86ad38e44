package report

import (
	"fmt"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/load/roundtrip"
	"loadstone/lab/result"
)

// journeyTables are what an iteration of several requests is to its user: what it asks for
// and how long it took, how long it takes over phones' networks, and what users' caches did. Each is
// nil where no variant has it.
type journeyTables struct {
	Iterations []journeyRow
	Phones     []string // the round trips
	Far        []journeyRow
	Caches     []journeyRow
}

// journeyRow is one scenario of one variant, with the cells of a table.
type journeyRow struct {
	Variant string
	Span    int // as in objectiveRow
	Name    string
	Cells   []string
}

func newJourneyTables(r *result.Result) *journeyTables {
	t := &journeyTables{Phones: phones()}
	for i := range r.Variants {
		v := &r.Variants[i]
		t.Iterations = append(t.Iterations, journeyRows(v, func(j *result.Journey) []string {
			f := figures(j.Duration)
			return append([]string{format.Rounded(j.Calls), inBytes(j.Sent), inBytes(j.Received), format.Percent(j.BrokenOff)}, f[:]...)
		})...)
		t.Far = append(t.Far, journeyRows(v, func(j *result.Journey) (cells []string) {
			for _, at := range j.Far {
				cells = append(cells, format.Latency(at.Open), format.Latency(at.New))
			}
			return cells
		})...)
		t.Caches = append(t.Caches, journeyRows(v, func(j *result.Journey) []string {
			c := j.Cache
			if c == (result.Cache{}) {
				return nil
			}
			return []string{format.Measured(c.Hits), format.Measured(c.Revalidations), format.Measured(c.Fetched), inBytes(c.LargestBytes)}
		})...)
	}
	if t.Iterations == nil {
		return nil
	}
	return t
}

// journeyRows are a variant's journeys that have cells.
func journeyRows(v *result.Variant, cells func(*result.Journey) []string) (rows []journeyRow) {
	for i := range v.Journeys {
		if of := cells(&v.Journeys[i]); of != nil {
			rows = append(rows, journeyRow{Variant: v.Name, Name: v.Journeys[i].Scenario, Cells: of})
		}
	}
	if len(rows) > 0 {
		rows[0].Span = len(rows)
	}
	return rows
}

func phones() (out []string) {
	for _, rtt := range roundtrip.Phones() {
		out = append(out, format.LatencyTick(float64(rtt.Milliseconds())))
	}
	return out
}

// inBytes is a number of bytes that was measured, if it was.
func inBytes(n float64) string {
	if !(n > 0) || !format.Finite(n) {
		return format.Missing
	}
	return format.Bytes(uint64(n + 0.5))
}

// journey says in a line what an iteration is to its user.
func journey(j *result.Journey) string {
	text := format.Rounded(j.Calls) + " calls"
	if j.Received > 0 {
		text += fmt.Sprintf(", %s sent, %s received", inBytes(j.Sent), inBytes(j.Received))
	}
	var far []string
	for _, at := range j.Far {
		far = append(far, format.Latency(at.Open)+" at "+format.LatencyTick(at.RTT))
	}
	if far != nil {
		text += "; over a phone's network " + strings.Join(far, ", ")
	}
	if c := j.Cache; c != (result.Cache{}) {
		text += fmt.Sprintf("; %s without a request, from a cache of at most %s", format.Measured(c.Hits), inBytes(c.LargestBytes))
	}
	return text
}
