package conduct

import (
	"fmt"
	"math"
	"runtime"
	"strings"

	"loadstone/lab/capacity"
	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

// What makes a failed try the generator's failure and not the system's.
const (
	// lateMuch is the share of requests that a generator with time to spare
	// sends more than load.LateAfter after their time.
	lateMuch = 0.05
	// busyMuch is the share of the machine's cores at which the generator
	// leaves too little for anyone else to be judged.
	busyMuch = 0.9
)

// fellBehindMuch is the share of the offered requests by which a backlog may
// grow during a try that is still held: the resolution of the search.
const fellBehindMuch = 0.05

// bore is how many iterations per second a load completed. Capacity is counted
// in iterations, because those are what a schedule starts; where an iteration
// is one request they are requests.
func bore(r *load.Result) float64 { return float64(r.IterationsInTime) / r.Seconds() }

// judge says whether a rate, in iterations per second, was held: it was really
// offered, the objectives were met, and no backlog grew. A backlog is looked for apart from the
// objectives because at a rate just above capacity latency climbs for minutes
// before it crosses any threshold.
func judge(rate float64, r *load.Result, outcomes []threshold.Outcome) capacity.Try {
	t := capacity.Try{Rate: rate}
	var reasons []string
	switch {
	case r.Aborted != "":
		reasons = append(reasons, r.Aborted)
	case r.IterationsInTime == 0:
		reasons = append(reasons, "nothing was answered in time")
	default:
		if r.InFlight.Growing(rate) || fellBehind(r) {
			reasons = append(reasons, fmt.Sprintf("the backlog grew by %.0f a second", r.InFlight.Slope))
		}
		for _, o := range outcomes {
			if !o.Met {
				reasons = append(reasons, missed(o))
			}
		}
	}
	t.Held = len(reasons) == 0
	t.Reason = strings.Join(reasons, "; ")
	if limit := generatorLimit(r); !t.Held && limit != "" {
		t.GeneratorLimited, t.Reason = true, limit
	}
	return t
}

// fellBehind says whether the backlog grew by more than fellBehindMuch of what
// was offered, and by more than chance explains (three standard deviations of
// a Poisson count). A short try has too few samples for the growth to be
// significant as a trend; if it is this large, the rate was not held all the
// same.
func fellBehind(r *load.Result) bool {
	growth, offered := r.InFlight.Slope*r.Seconds(), float64(r.Offered)
	return growth > fellBehindMuch*offered && growth > 3*math.Sqrt(offered)
}

func missed(o threshold.Outcome) string {
	if o.Observed == 0 && o.Reason != "" { // nothing to observe
		return fmt.Sprintf("%s %s: %s", o.Metric, o.Threshold, o.Reason)
	}
	text := fmt.Sprintf("%s %s: it was %.4g", o.Metric, o.Threshold, o.Observed)
	if o.Reason != "" {
		text += " " + o.Reason
	}
	return text
}

// generatorLimit says why the generator was the limit; empty if it was not.
func generatorLimit(r *load.Result) string {
	late := float64(r.Late) / float64(max(r.Offered, 1))
	switch cores := float64(runtime.NumCPU()); {
	case late > lateMuch:
		return fmt.Sprintf("the load generator sent %.0f %% of the requests late", 100*late)
	case r.Generator.Busy > busyMuch*cores:
		return fmt.Sprintf("the load generator used %.2g of the machine's %g cores", r.Generator.Busy, cores)
	}
	return ""
}
