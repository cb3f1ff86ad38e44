package analysis

import (
	"loadstone/lab/archive"
	"loadstone/lab/host/cgroup"
)

const (
	// strands is the share of a limit from which on it is worth a word that it could not be
	// used: one thread that is always busy leaves a few per cent.
	strands = 0.10
	// always is the share of scheduler periods in which one is throttled, and that it is
	// seen in, that never has enough.
	always = 0.95
)

// stranded is the share of a service's CPU limit that its hottest instance could not use in
// any try in which it was throttled in every period; 0 if it could, or if there was none. The
// kernel gives each core a slice of the quota, of 5 ms unless it was told otherwise, and what
// is left of a slice when a thread sleeps is lost at the end of the period: two threads that
// take turns get four fifths of 5 ms in 20.
func stranded(t archive.Trial, service string, seen []try) float64 {
	most := 0.0
	for _, s := range seen {
		r := &s.Result
		c, periods := component(t, service, s.span, r), 0.0
		for _, in := range t.Instances {
			if in.Service == service {
				periods = max(periods, s.span.Instances[in.Name].Periods)
			}
		}
		// One that sleeps between bursts has fewer periods, and has enough.
		if c.Throttled >= always && periods >= always*float64(r.To.Sub(r.From))/float64(cgroup.DefaultPeriod) {
			most = max(most, c.Busy)
		}
	}
	if most == 0 || most > 1-strands {
		return 0
	}
	return 1 - most
}
