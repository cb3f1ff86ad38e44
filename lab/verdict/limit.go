package verdict

import (
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
		if cpu, ok := in.cpuLimit(c); ok {
			out = append(out, cpu)
		}
		if thread, ok := in.threadLimit(c); ok {
			out = append(out, thread)
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

// cpuLimit is the CPU that a component may use: its share or, where nothing holds it to
// one, the machine's cores. ok is false if neither is known.
func (in Input) cpuLimit(c Component) (l limit, ok bool) {
	l = limit{Limit: Limit{Component: c.Name, Resource: CPU}, component: c, evidence: evidenceOf(c)}
	if c.shared() {
		l.bound, l.low, l.high, l.trials, l.busy = c.Bound, c.BoundLow, c.BoundHigh, c.BoundTrials, c.Busy
		l.saturated = c.waitedForCPU()
		return l, true
	}
	if in.Cores <= 0 || c.HottestMS <= 0 {
		return l, false
	}
	l.component.LimitCPUs, l.component.Unenforced = in.Cores, true
	l.bound = 1000 * in.Cores / c.HottestMS
	l.busy = in.Capacity / l.bound
	l.component.Busy = l.busy
	l.saturated = l.component.waitedForCPU()
	l.evidence = fmt.Sprintf("%s, which %s, used %.2g of the machine's %g cores", c.Name, c.unlimited(), l.busy*in.Cores, in.Cores)
	return l, true
}

// shared says whether the component has a CPU share that it is held to.
func (c Component) shared() bool { return c.LimitCPUs > 0 && !c.Unenforced }

// unlimited says why it has none.
func (c Component) unlimited() string {
	if c.LimitCPUs > 0 {
		return fmt.Sprintf("nothing holds to its %g CPU", c.LimitCPUs)
	}
	return "has no CPU share"
}

// threadLimit is the busiest thread of a component that may use more than the one core
// that a thread can.
func (in Input) threadLimit(c Component) (l limit, ok bool) {
	usable := c.LimitCPUs
	if !c.shared() {
		usable = in.Cores
	}
	if c.ThreadBusy <= 0 || usable*explains <= 1 {
		return l, false
	}
	return limit{
		Limit: Limit{Component: c.Name, Resource: Thread}, component: c,
		bound: in.Capacity / c.ThreadBusy, busy: c.ThreadBusy, saturated: c.ThreadBusy >= BusyMuch,
		evidence: fmt.Sprintf("the busiest thread of %s used %.0f %% of a core, which is all that it can use, out of %.3g", c.Name, 100*c.ThreadBusy, usable),
	}, true
}

// waitedForCPU says whether the hottest instance was held back by its CPU share:
// throttled, or, where the share is not enforced by a quota, so that nothing is
// throttled, with threads that waited for a core. A high share of its limit alone is
// not enough: it is the demand, divided by the bound, and no second observation.
func (c Component) waitedForCPU() bool {
	return c.Throttled >= throttledMuch || c.Busy >= BusyMuch && c.RunDelay >= delayedMuch
}

// oneCounter says whether what demand and saturation say of the limit comes from the
// same counter, so that one error in it would mislead both. How often a CPU's quota
// was used up, or how long its threads waited, is not how much it used.
func (l *limit) oneCounter() bool {
	switch r := l.resource; l.Resource {
	case Pool, Lock:
		return !r.waitedFor()
	case Queue:
		return !r.Counted
	case Stage:
		return r.Backpressured == nil && !r.Behind()
	case Thread:
		return true
	}
	return false
}

// waitedFor says whether it was waited for, as those who wait are counted, or the time
// that they do.
func (r Resource) waitedFor() bool {
	return r.Waiting >= waitMuch || r.DemandMS > 0 && r.WaitMS >= waitMuch*r.DemandMS
}

// saturated says whether a resource had no more to give.
func (r Resource) saturated(in Input) bool {
	switch r.Kind {
	case Pool:
		return r.Busy >= BusyMuch || r.Full >= fullMuch
	case Queue:
		return r.NotEmpty >= waitingMuch || r.Full >= fullMuch || r.Slope >= pilesUp*in.Capacity ||
			r.Capacity > 0 && r.Depth >= r.Capacity/2
	case Stage:
		return false // what holds whom back is for stages to say
	default:
		return r.Busy >= BusyMuch
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
	if c.Throttled < throttledMuch && c.waitedForCPU() { // so this is why it counts as saturated
		text += ", and its threads " + c.waited()
	}
	return text
}

// Waited is the share of the time in which its hottest instance's threads had something
// to do and waited for a core, 0 to 1.
func (c Component) Waited() float64 { return c.RunDelay / (1 + c.RunDelay) }

// waited says so in words, behind whose threads they are.
func (c Component) waited() string {
	return fmt.Sprintf("waited for a core for %.0f %% of the time in which they had something to do", 100*c.Waited())
}

// skewMuch is how much more than an even part of the work an instance does that is
// worth a word.
const skewMuch = 1.2

// skew is how many times an even part of the component's work its hottest instance
// does: 1 if all do the same, and as many as there are if one does everything.
func (c Component) skew() float64 {
	if c.Instances < 2 || c.DemandMS <= 0 || c.Unseen > 0 {
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
	case l.Resource == Thread:
		return "busiest thread"
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
	case Thread:
		return fmt.Sprintf("%s: it works for %s in each %s and cannot use more than one core, which allows at most %s.",
			begin, format.Demand(1000*c.ThreadBusy/in.Capacity), in.one(), in.rate(l.bound))
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
