package analysis

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/format"
	"loadstone/lab/host"
	"loadstone/lab/load"
	"loadstone/lab/probe"
	"loadstone/lab/verdict"
)

// missedBy is why no rate of a trial held: what the lowest rate that was tried
// missed, and what the requests there ended as that failed.
func missedBy(t archive.Trial) string {
	lowest := lowestMissed(t)
	if lowest == nil {
		return ""
	}
	text := fmt.Sprintf("at %s %s, %s", format.Measured(lowest.Rate), cmp.Or(lowest.Unit, "a second"), lowest.Reason)
	if what := lowest.Result.Failures(); what != "" && !strings.Contains(text, what) {
		text += "; " + what
	}
	return text
}

// lowestMissed is the measure of the lowest rate that did not hold; nil if there is none.
func lowestMissed(t archive.Trial) *archive.Measure {
	var lowest *archive.Measure
	for i := range t.Measures {
		if m := &t.Measures[i]; m.Kind != archive.Sweep && m.Kind != archive.AsWritten && !m.Held && (lowest == nil || m.Rate <= lowest.Rate) {
			lowest = m
		}
	}
	return lowest
}

// unjudged is why not even the lowest rate that was tried tells anything of the system: the
// generator, or what the system shares with it, was the limit there. It is empty if it does.
func unjudged(t archive.Trial) string {
	lowest := lowestMissed(t)
	switch {
	case lowest == nil:
	case lowest.Result.Generator.MachineBusy >= load.FullMachine:
		return fullMachine
	default:
		if why := lowest.Result.Validity(); len(why) > 0 {
			return why[0].Text
		}
	}
	return ""
}

const (
	// above is how many times the capacity a rate may be that was missed just above it: far
	// above, everything is saturated that comes before what limits.
	above = 1.30
	// missedFor is how long it must have been offered: in half a second a scheduler has
	// some periods of each instance.
	missedFor = 500 * time.Millisecond
)

// try is a measure with what was used meanwhile.
type try struct {
	*archive.Measure
	span probe.Span
}

func (t try) long() time.Duration { return t.Result.To.Sub(t.Result.From) }

// tries are the measures that took long enough to tell of CPU, and were watched.
func tries(t archive.Trial, samples []host.Sample) (all []try) {
	for i := range t.Measures {
		seen := try{Measure: &t.Measures[i]}
		var ok bool
		if seen.span, ok = probe.Over(samples, seen.Result.From, seen.Result.To); ok && seen.long() >= missedFor {
			all = append(all, seen)
		}
	}
	return all
}

// justAbove is the longest of the tries that were not sustained just above the capacity; nil
// if there is none.
func justAbove(seen []try, capacity float64) *try {
	var longest *try
	for i := range seen {
		m := &seen[i]
		tried := m.Kind != archive.Sweep && m.Kind != archive.AsWritten && !m.Held
		if !tried || m.Rate <= capacity || m.Rate > above*capacity {
			continue
		}
		if longest == nil || m.long() > longest.long() {
			longest = m
		}
	}
	return longest
}

// missedAt is how a service did in a try that was not sustained; nil if there was none.
func missedAt(m *try, t archive.Trial, service string) *verdict.Missed {
	if m == nil {
		return nil
	}
	c := component(t, service, m.span, &m.Result)
	return &verdict.Missed{Rate: m.Rate, Busy: c.Busy, Throttled: c.Throttled, RunDelay: c.RunDelay}
}

// joinMissed are the medians over the trials that know of a rate that was not sustained: most
// of them, or it is not known.
func joinMissed(trials []verdict.Component) *verdict.Missed {
	var seen []verdict.Missed
	for _, c := range trials {
		if c.Missed != nil {
			seen = append(seen, *c.Missed)
		}
	}
	if 2*len(seen) <= len(trials) {
		return nil
	}
	m := medians(seen, func(m *verdict.Missed) []*float64 { return []*float64{&m.Rate, &m.Busy, &m.Throttled, &m.RunDelay} })
	return &m
}
