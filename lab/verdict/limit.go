package verdict

import (
	"cmp"
	"fmt"
	"slices"

	"loadstone/lab/format"
)

// limit is a resource of a component with what the witnesses look at.
type limit struct {
	Limit
	// bound is the throughput that it allows, in iterations per second, with its
	// interval; 0 if none follows.
	bound, low, high float64
	trials           int     // of the interval
	busy             float64 // of the hottest instance
	saturated        bool    // throttled, with all slots in use, or with work piling up
	evidence         string  // how much, in words
	// soft is true of what is held while something else is waited for. When that
	// something is full, so is this.
	soft      bool
	component Component
	resource  Resource
}

// limits are all that could limit, in the order of the components.
func (in Input) limits() []limit {
	var out []limit
	for _, c := range in.Components {
		if c.LimitCPUs > 0 {
			out = append(out, limit{
				Limit: Limit{Component: c.Name, Resource: CPU}, component: c,
				bound: c.Bound, low: c.BoundLow, high: c.BoundHigh, trials: c.BoundTrials, busy: c.Busy,
				saturated: c.waitedForCPU(), evidence: evidenceOf(c),
			})
		}
		if short, how := c.shortOfMemory(); short {
			out = append(out, limit{Limit: Limit{Component: c.Name, Resource: Memory}, component: c, busy: 1, saturated: true, evidence: how})
		}
		for _, r := range c.Resources {
			out = append(out, limit{
				Limit: Limit{Component: c.Name, Resource: r.Kind, Name: r.Name}, component: c, resource: r,
				bound: r.Bound, low: r.BoundLow, high: r.BoundHigh, trials: r.BoundTrials, busy: r.Busy,
				saturated: r.saturated(in), evidence: r.evidence(c), soft: true,
			})
		}
	}
	stages(out)
	return out
}

// waitedForCPU says whether the hottest instance was held back by its CPU share:
// throttled, or, where the share is not enforced by a quota, so that nothing is
// throttled, with threads that waited for a core. A high share of its limit alone is
// not enough: it is the demand, divided by the bound, and no second observation.
func (c Component) waitedForCPU() bool {
	return c.Throttled >= throttledMuch || c.Busy >= busyMuch && c.RunDelay >= delayedMuch
}

// saturated says whether a resource had no more to give.
func (r Resource) saturated(in Input) bool {
	switch r.Kind {
	case Pool:
		return r.Busy >= busyMuch || r.Full >= fullMuch
	case Queue:
		return r.NotEmpty >= waitingMuch || r.Full >= fullMuch || r.Slope >= pilesUp*in.Capacity ||
			r.Capacity > 0 && r.Depth >= r.Capacity/2
	case Stage:
		return false // what holds whom back is for stages to say
	default:
		return r.Busy >= busyMuch
	}
}

func (r Resource) evidence(c Component) string {
	switch r.Kind {
	case Pool:
		text := fmt.Sprintf("%s used %.0f %% of the slots of its pool %s, all of them for %.0f %% of the time", c.Name, 100*r.Busy, r.Name, 100*r.Full)
		if r.Waiting > 0 {
			text += fmt.Sprintf(", with %.3g waiting", r.Waiting)
		}
		return text
	case Queue:
		text := fmt.Sprintf("%s had work in its queue %s for %.0f %% of the time, %.3g deep", c.Name, r.Name, 100*r.NotEmpty, r.Depth)
		if r.Capacity > 0 {
			text += fmt.Sprintf(" of %.3g", r.Capacity)
		}
		return text + fmt.Sprintf(" and growing by %.3g each second", r.Slope)
	case Stage:
		return r.stageEvidence(c)
	default:
		return fmt.Sprintf("%s held its lock %s for %.0f %% of the time", c.Name, r.Name, 100*r.Busy)
	}
}

// shortOfMemory says whether memory held the component back.
func (c Component) shortOfMemory() (short bool, how string) {
	switch {
	case c.OOMKills > 0:
		return true, fmt.Sprintf("%s lost %d processes for want of memory", c.Name, c.OOMKills)
	case c.MemoryStall >= stalledMuch:
		return true, fmt.Sprintf("%s waited for memory for %.0f %% of the time", c.Name, 100*c.MemoryStall)
	case c.MemoryFails > 0 && c.MajorFaults >= faultsMuch:
		return true, fmt.Sprintf("%s ran into its memory limit and read %.0f pages a second back from disk", c.Name, c.MajorFaults)
	}
	return false, ""
}

func evidenceOf(c Component) string {
	text := fmt.Sprintf("%s used %.0f %% of its CPU share and was throttled in %.0f %% of scheduler periods",
		c.Name, 100*c.Busy, 100*c.Throttled)
	if c.Throttled < throttledMuch && c.RunDelay >= delayedMuch {
		text += fmt.Sprintf(", and its threads waited %.1f s for a core for each second that they ran", c.RunDelay)
	}
	return text
}

// skewMuch is how much more than an even part of the work an instance does that is
// worth a word.
const skewMuch = 1.2

// skew is how many times an even part of the component's work its hottest instance
// does: 1 if all do the same, and as many as there are if one does everything.
func (c Component) skew() float64 {
	if c.Instances < 2 || c.DemandMS <= 0 {
		return 1
	}
	return max(1, c.HottestMS*float64(c.Instances)/c.DemandMS)
}

// skewed says, behind a demand, what part of it falls on the hottest instance, where
// that is clearly more than its part; empty if not.
func (c Component) skewed() string {
	if c.skew() <= skewMuch {
		return ""
	}
	return fmt.Sprintf(", %.0f %% of it in the hottest of its %d instances", 100*c.HottestMS/c.DemandMS, c.Instances)
}

func find(limits []limit, l Limit) *limit {
	i := slices.IndexFunc(limits, func(x limit) bool { return x.Limit == l })
	if i < 0 {
		return nil
	}
	return &limits[i]
}

// what names the resource without its component: CPU, pool connections.
func (l Limit) what() string {
	switch {
	case l.Resource == CPU:
		return "CPU"
	case l.Name == "":
		return l.Resource
	}
	return l.Resource + " " + l.Name
}

func limitNames(limits []Limit) []string {
	words := make([]string, len(limits))
	for i, l := range limits {
		words[i] = l.Component
		if l.Resource != CPU {
			words[i] += " (" + l.what() + ")"
		}
	}
	return words
}

// namedText is what a method names.
func namedText(w *Witness) string {
	return cmp.Or(list(limitNames(w.named())), "no component")
}

// summary says why it limits.
func (l *limit) summary(in Input) string {
	c, r := l.component, l.resource
	begin := fmt.Sprintf("%s is limited by its %s", c.Name, l.what())
	if l.bound <= 0 {
		return begin + ": " + l.evidence + "."
	}
	switch l.Resource {
	case CPU:
		if uneven := c.skewed(); uneven != "" {
			return fmt.Sprintf("%s: each %s costs it %s%s%s, whose %g CPU allow at most %s.",
				begin, in.one(), format.Demand(c.DemandMS), c.visited(), c.spent()+uneven, c.LimitCPUs, in.rate(l.bound))
		}
		return fmt.Sprintf("%s: each %s costs it %s%s, so %s %s at most %s.", begin, in.one(), format.Demand(c.DemandMS), c.visited()+c.spent(), share(c), allow(c), in.rate(l.bound))
	case Pool:
		return fmt.Sprintf("%s: each %s holds a slot for %s, so its %.3g slots allow at most %s.",
			begin, in.one(), format.Demand(r.DemandMS), r.Capacity*float64(max(1, c.Instances)), in.rate(l.bound))
	case Queue:
		return fmt.Sprintf("%s: %s is done with at most %s.", begin, consumer(c, r), in.rate(l.bound))
	case Stage:
		return fmt.Sprintf("%s: no later stage holds it back, and it is done with at most %s.", begin, in.rate(l.bound))
	default:
		return fmt.Sprintf("%s: each %s holds it for %s, so it allows at most %s.", begin, in.one(), format.Demand(r.DemandMS), in.rate(l.bound))
	}
}

func consumer(c Component, r Resource) string {
	if r.Consumer == "" || r.Consumer == c.Name {
		return "what takes from it"
	}
	return "its consumer " + r.Consumer
}
