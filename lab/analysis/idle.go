package analysis

import (
	"fmt"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/probe"
)

const (
	// idleShare is the share of the busiest instance's CPU below which another of
	// its service did next to nothing: what a runtime and the scrapes of its
	// metrics cost, and no share of the requests however unevenly they are spread.
	idleShare = 0.03
	// workedAt is what the busiest must have used for that to say something, in
	// cores: below it, idling is most of what anybody does.
	workedAt = 0.05
)

// idlers names the instances that did next to nothing while another of their
// service worked, but of services whose replicas were stopped and started by a policy. It
// says the same for every trial in which that is so.
func idlers(t archive.Trial, span probe.Span, length time.Duration, scaled scalings) []string {
	most := make(map[string]time.Duration)
	busiest := make(map[string]string)
	for _, in := range t.Instances {
		if cpu := span.Instances[in.Name].CPU; cpu > most[in.Service] {
			most[in.Service], busiest[in.Service] = cpu, in.Name
		}
	}
	var warnings []string
	for _, in := range t.Instances {
		if in.Unseen || scaled.has(in.Service) {
			continue
		}
		u, ok := span.Instances[in.Name]
		of := float64(most[in.Service])
		if !ok || of < workedAt*float64(length) || float64(u.CPU) >= idleShare*of {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s used less than %.0f %% of the CPU of %s: it gets no requests", in.Name, 100*idleShare, busiest[in.Service]))
	}
	return warnings
}
