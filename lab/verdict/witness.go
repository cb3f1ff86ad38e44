package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"loadstone/lab/format"
)

// The witnesses.
const (
	Demanding  = "demand"
	Saturating = "saturation"
	Perturbing = "perturbation"
	Waiting    = "waiting"
)

// The rule's thresholds. They are far enough apart from what an unlimited
// component shows (see the planted systems in the tests) for their exact
// values not to matter.
const (
	// explains is how close a bound must lie above the capacity to explain it:
	// capacity/bound is the utilisation of the hottest instance.
	explains = 0.80
	// tied is how close a second bound must lie for the two to be told apart
	// no more: trials differ by about as much. Where enoughTrials show by how much,
	// so are two whose intervals overlap, unless they are further apart than
	// explains: fewer trials have intervals that overlap with nearly everything.
	tied         = 0.90
	enoughTrials = 4
	// throttledMuch is the share of scheduler periods in which an instance
	// that is at its limit gets throttled.
	throttledMuch = 0.40
	// delayedMuch is how long the threads of one that is at its limit wait for a
	// core, for each second that they run: as long as they run, at least. Planted
	// ones that were throttled waited for ten times as long and more.
	delayedMuch = 1.0
	// BusyMuch is the share of its limit that a saturated instance uses.
	BusyMuch = 0.85
	// fullMuch is the share of time in which a pool that limits has no free slot.
	fullMuch = 0.40
	// waitingMuch is the share of time in which something waits in a queue whose
	// consumer is busy for BusyMuch of it: 1 − (1−ρ)·e^ρ for random arrivals and
	// work of one size (M/D/1; Kleinrock 1975).
	waitingMuch = 0.65
	// exceeds is by how much more than its lowest bound a system may seem to sustain
	// before something is wrong: medians over trials differ by less.
	exceeds = 0.05
	// pilesUp is the share of what comes that stays in a queue which is too slow.
	pilesUp = 0.05
	// stalledMuch is the share of time that is waited for memory by who thrashes,
	// and faultsMuch how many pages it then reads from disk each second.
	stalledMuch = 0.20
	faultsMuch  = 100
	// waitMuch is how many wait for a pool or a lock that limits, at the least, or
	// how long each waits for it, as a share of how long it then holds it.
	waitMuch = 0.5
)

// nameLimits sets what a method names: one limit, or several that it cannot
// distinguish.
func (w *Witness) nameLimits(limits []limit) {
	if len(limits) == 1 {
		w.Component, w.Resource, w.ResourceName = limits[0].Component, limits[0].Resource, limits[0].Name
		return
	}
	for _, l := range limits {
		w.Tied = append(w.Tied, l.Limit)
	}
}

// demand names the limit with the lowest bound, if that bound explains the
// capacity, and with it those whose bounds are as low. A pool or a lock is held
// while a CPU is waited for, so where bounds are that close, the CPU counts.
func demand(in Input, limits []limit) Witness {
	w := Witness{Name: Demanding}
	limited := slices.DeleteFunc(slices.Clone(limits), func(l limit) bool { return l.bound <= 0 })
	if len(limited) == 0 {
		w.Evidence = in.none() + "with a CPU share used measurable CPU time" + in.butUnseen()
		return w
	}
	slices.SortStableFunc(limited, func(a, b limit) int { return cmp.Compare(a.bound, b.bound) })
	near := slices.DeleteFunc(slices.Clone(limited), func(l limit) bool { return !limited[0].closeTo(l) })
	near = hardFirst(withoutFollowers(near))
	first := near[0]
	w.Evidence = fmt.Sprintf("%s, which bounds throughput at %s; capacity is %.0f %% of that", first.needs(in), in.bounded(first), 100*in.Capacity/first.bound)
	w.Evidence += in.contradiction(first)
	if in.Capacity < explains*first.bound {
		return w
	}
	for _, other := range near[1:] {
		w.Evidence += fmt.Sprintf("; %s is bounded at %s, too close to distinguish", limitNames([]Limit{other.Limit})[0], in.bounded(other))
	}
	w.nameLimits(near)
	return w
}

// closeTo says whether a bound that is as low or higher cannot be told from l's.
func (l *limit) closeTo(higher limit) bool {
	overlap := min(l.trials, higher.trials) >= enoughTrials && l.high > l.low && higher.high > higher.low && higher.low <= l.high
	return l.bound > tied*higher.bound || overlap && l.bound >= explains*higher.bound
}

// contradiction says where more was measured than a bound allows.
func (in Input) contradiction(l limit) string {
	switch {
	case in.Capacity <= (1+exceeds)*l.bound:
		return ""
	case l.resource.Behind() || l.resource.Left > 0 || l.Resource == Queue && l.saturated:
		return ", because what it could not do in time waited"
	}
	return ", so the measurement contradicts itself: it was too short for a backlog to show, the demand is not of the work at that rate, or the limit was not kept"
}

// hardFirst leaves out soft limits if there are others.
func hardFirst(limits []limit) []limit {
	hard := slices.DeleteFunc(slices.Clone(limits), func(l limit) bool { return l.soft })
	if len(hard) > 0 {
		return hard
	}
	return limits
}

// needs says how much an iteration takes.
func (l *limit) needs(in Input) string {
	switch l.Resource {
	case CPU:
		text := fmt.Sprintf("%s needs %s CPU for each %s%s", l.Component, format.Demand(l.component.DemandMS), in.one(), l.component.visited())
		if c := l.component; c.UserMS > 0 && c.SystemMS > 0 {
			text += fmt.Sprintf(" (%.0f %% in the kernel)", 100*c.SystemMS/(c.UserMS+c.SystemMS))
		}
		return text + l.component.spent() + l.component.skewed() + l.component.stranded()
	case Thread:
		return fmt.Sprintf("the busiest thread of %s works for %s in each %s", l.Component, format.Demand(1000*l.component.ThreadBusy/in.Capacity), in.one())
	case Pool:
		return fmt.Sprintf("%s holds a slot of its pool %s for %s in each %s", l.Component, l.Name, format.Demand(l.resource.DemandMS), in.one())
	case Queue:
		return fmt.Sprintf("the queue %s of %s keeps its consumer for %s in each %s", l.Name, l.Component, format.Demand(l.resource.DemandMS), in.one())
	case Stage:
		return fmt.Sprintf("the hottest worker of %s works in its stage %s for %s in each %s", l.Component, l.Name, format.Demand(l.resource.DemandMS), in.one())
	default:
		return fmt.Sprintf("%s holds its lock %s for %s in each %s", l.Component, l.Name, format.Demand(l.resource.DemandMS), in.one())
	}
}

// stranded says, behind a demand, how much of its share it could use, where that was not all.
func (c Component) stranded() string {
	if c.Stranded <= 0 {
		return ""
	}
	return fmt.Sprintf(" and could use %.0f %% of its share, throttled in every scheduler period", 100*(1-c.Stranded))
}

// bounded is a bound with its interval, if it has one.
func (in Input) bounded(l limit) string {
	if l.low <= 0 || l.high <= l.low {
		return in.rate(l.bound)
	}
	return fmt.Sprintf("%s (%s to %s)", in.rate(l.bound), format.Rounded(l.low), format.Rounded(l.high))
}

// saturation names what was held back, if it is the only one or clearly the
// busiest: throttled in many periods, all slots in use, work that piles up. Where nothing
// was at the capacity, it names whose CPU was at a rate just above, which was not sustained:
// short bursts may cross an objective long before a share is used up.
func saturation(in Input, limits []limit) Witness {
	w := Witness{Name: Saturating}
	saturated := slices.DeleteFunc(slices.Clone(limits), func(l limit) bool { return !l.saturated })
	slices.SortStableFunc(saturated, func(a, b limit) int { return cmp.Compare(b.busy, a.busy) })
	switch {
	case len(saturated) == 0:
		w.Evidence = in.none() + "was saturated" + coolest(limits) + in.butUnseen()
		above := saturatedAbove(limits)
		for _, l := range above {
			w.Evidence += fmt.Sprintf("; at %s, which was not sustained, %s", in.rate(l.component.Missed.Rate), evidenceOf(l.component.atMissed()))
		}
		w.nameLimits(above)
	case len(saturated) == 1:
		w.Evidence = saturated[0].evidence
		w.nameLimits(saturated)
	default:
		w.Evidence = "more than one component was saturated"
		for _, l := range saturated {
			w.Evidence += "; " + l.evidence
		}
		// One that is at its limit and one that is well below it are not equals.
		most := saturated[0].busy
		if most >= BusyMuch {
			saturated = slices.DeleteFunc(saturated, func(l limit) bool { return l.busy < explains*most })
		}
		if hard := hardFirst(saturated); hard[0].busy >= tied*most {
			saturated = hard
		}
		w.nameLimits(saturated)
	}
	w.Evidence += beside(in)
	return w
}

// saturatedAbove are the limits whose CPU was saturated at a rate just above the capacity,
// without those that clearly were so for less of the time than another.
func saturatedAbove(limits []limit) []limit {
	above := slices.DeleteFunc(slices.Clone(limits), func(l limit) bool {
		c := l.component
		return l.Resource != CPU || !c.shared() || c.Missed == nil || !c.atMissed().waitedForCPU()
	})
	most := 0.0
	for _, l := range above {
		most = max(most, l.component.Missed.Throttled)
	}
	return slices.DeleteFunc(above, func(l limit) bool { return l.component.Missed.Throttled < explains*most })
}

// atMissed is the component as it was at the rate that was missed.
func (c Component) atMissed() Component {
	return Component{Name: c.Name, Busy: c.Missed.Busy, Throttled: c.Missed.Throttled, RunDelay: c.Missed.RunDelay}
}

// coolest says how hot the hottest was, where that was not enough.
func coolest(limits []limit) string {
	if len(limits) == 0 {
		return ""
	}
	hottest := slices.MaxFunc(limits, func(a, b limit) int { return cmp.Compare(a.busy, b.busy) })
	return "; the hottest, " + hottest.evidence
}

// beside is what tells of waiting and names no component by itself: threads without a
// share that wait for the machine's cores, and connections turned away.
func beside(in Input) string {
	var text strings.Builder
	for _, c := range in.Components {
		if !c.shared() && c.RunDelay >= delayedMuch {
			fmt.Fprintf(&text, "; the threads of %s, which %s, %s", c.Name, c.unlimited(), c.waited())
		}
		for _, r := range c.Resources {
			text.WriteString(r.flush(in, c))
		}
	}
	if in.ListenOverflows >= 1 {
		fmt.Fprintf(&text, "; %.0f connections a second were turned away by full backlogs", in.ListenOverflows)
	}
	return text.String()
}
