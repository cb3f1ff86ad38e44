package verdict

import (
	"fmt"
	"slices"

	"loadstone/lab/format"
)

// collectsMuch is the share of a component's CPU from which on its collector, and not
// its work, is what to do something about. One with memory to spare takes a tenth.
const collectsMuch = 0.30

// advice is what to change first and what that is expected to give. It stands on
// bounds alone: throughput follows the limit's bound until the next one, which
// holds where the balance between instances stays as it is and demands do not
// depend on load. Where one instance does clearly more than its part, the balance is
// what to change, and an even one is the most that it can give.
func advice(in Input, limits []limit, first limit) string {
	change, factor := first.change(in)
	if first.bound <= 0 || factor <= 1 {
		return change + "."
	}
	about := "about"
	if first.uneven() {
		about = "up to"
	}
	next := nextLimit(limits, first)
	if next == nil {
		return fmt.Sprintf("%s → %s +%.0f %%; no other upper bound is known%s.", change, about, 100*(factor-1), in.butUnseen())
	}
	who := limitNames([]Limit{next.Limit})[0]
	if next.bound < factor*first.bound {
		return fmt.Sprintf("%s → %s +%.0f %%, then %s limits at %s%s.", change, about, 100*max(0, next.bound/first.bound-1), who, in.rate(next.bound), in.butUnseen())
	}
	return fmt.Sprintf("%s → %s +%.0f %%; %s would limit at %s%s.", change, about, 100*(factor-1), who, in.rate(next.bound), in.butUnseen())
}

// uneven says whether one instance limits because it does more than its part, or some workers of a stage.
func (l *limit) uneven() bool {
	return l.Resource == CPU && l.component.skew() > skewMuch || l.Resource == Stage && l.resource.uneven()
}

// uneven says whether one worker limits because it does more than its part.
func (r Resource) uneven() bool { return r.Skew > skewMuch }

// change is the smallest step that is worth a try, and by what it multiplies the
// bound.
func (l *limit) change(in Input) (words string, factor float64) {
	c, r := l.component, l.resource
	switch l.Resource {
	case CPU:
		if l.uneven() { // a replica more does nothing for one hot key or one slow machine
			return fmt.Sprintf("balance %s: spread its work evenly over its %d instances", c.Name, c.Instances), c.skew()
		}
		if share := c.collecting(); share >= collectsMuch {
			return fmt.Sprintf("%s: more memory, or less garbage: %.0f %% of its CPU goes into collecting it, and more cores would collect more of it", c.Name, 100*share), 1
		}
		return c.moreCPU()
	case Thread:
		return fmt.Sprintf("%s: run more processes of it, or more threads that share its work; more CPU is of no use to one thread", c.Name), 2
	case Pool:
		more := max(1, float64(int(r.Capacity/4)))
		if others, known := in.explainsHolding(l); known {
			return fmt.Sprintf("%s %s: find out what its slots wait for: the CPU of the components in the file is %.0f %% of the %s for which one is held; more slots help only if whoever they wait for can do more at once",
				c.Name, r.Name, 100*others, format.Demand(r.DemandMS)), 1
		}
		if r.Capacity <= 0 {
			return fmt.Sprintf("%s %s: more slots", c.Name, r.Name), 1
		}
		return fmt.Sprintf("%s %s: %.0f → %.0f slots", c.Name, r.Name, r.Capacity, r.Capacity+more), 1 + more/r.Capacity
	case Lock:
		return fmt.Sprintf("%s %s: hold it half as long, or make two of it", c.Name, r.Name), 2
	case Queue:
		return fmt.Sprintf("%s %s: twice as many consumers", c.Name, r.Name), 2
	case Stage:
		if r.uneven() {
			return fmt.Sprintf("%s %s: spread its work evenly over its %.3g workers; more of them do nothing for what comes to one", c.Name, r.Name, r.Workers), r.Skew
		}
		return fmt.Sprintf("%s %s: twice as many workers", c.Name, r.Name), 2
	default:
		return c.Name + ": more memory", 1
	}
}

// collecting is the share of its CPU that goes into collecting garbage.
func (c Component) collecting() float64 {
	if c.DemandMS <= 0 || c.Unseen > 0 {
		return 0
	}
	return c.CollectMS / c.DemandMS
}

// explainsHolding is what part of the time for which a pool's slot is held is CPU of
// other components of the file. known is false where that is most of it, or where the
// number of slots was changed and throughput followed: more slots help then.
func (in Input) explainsHolding(l *limit) (share float64, known bool) {
	if l.resource.DemandMS <= 0 || slices.ContainsFunc(in.Perturbations, func(p Perturbation) bool {
		return len(p.Group) == 0 && p.changed() == l.Limit && p.Low > 0 && p.Elasticity >= moves
	}) {
		return 0, false
	}
	for _, c := range in.Components {
		switch {
		case c.Name == l.Component:
		case c.Unseen > 0:
			return 0, false
		default:
			share += c.DemandMS / l.resource.DemandMS
		}
	}
	return share, share < 0.5
}

// moreCPU is what to do about a CPU that limits. A single thread cannot use more than a
// core, so that what runs as one is not told to get more of them.
func (c Component) moreCPU() (words string, factor float64) {
	one := c.ThreadBusy > 0 && c.ThreadBusy >= explains*c.Busy*c.LimitCPUs // the work is one thread's
	switch {
	case c.Unenforced:
		return c.Name + " CPU: a machine with more cores, or less beside it on this one", 1
	case c.Instances > 1:
		return c.Name + " CPU: +1 replica", 1 + 1/float64(c.Instances)
	case one && c.LimitCPUs >= explains:
		return fmt.Sprintf("%s: run a second process of it, with %.3g cores of its own: its work is that of one thread, which cannot use more than a core", c.Name, c.LimitCPUs), 2
	case one && 1.5*c.LimitCPUs > 1:
		return fmt.Sprintf("%s CPU: %.3g → 1 core, which is all that its one busy thread can use", c.Name, c.LimitCPUs), 1 / c.LimitCPUs
	}
	return fmt.Sprintf("%s CPU: %.3g → %.3g cores", c.Name, c.LimitCPUs, 1.5*c.LimitCPUs), 1.5
}

// nextLimit is the lowest bound beside the first one's. Pools and locks whose
// bound is as low are full because the first one is, and are left out.
func nextLimit(limits []limit, first limit) *limit {
	var next *limit
	for i := range limits {
		l := &limits[i]
		follows := l.soft && first.bound > tied*l.bound
		if l.Limit == first.Limit || l.bound <= 0 || follows {
			continue
		}
		if next == nil || l.bound < next.bound {
			next = l
		}
	}
	return next
}
