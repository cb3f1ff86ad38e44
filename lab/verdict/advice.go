package verdict

import "fmt"

// advice is what to change first and what that is expected to give. It stands on
// bounds alone: throughput follows the limit's bound until the next one, which
// holds where the balance between instances stays as it is and demands do not
// depend on load. Where one instance does clearly more than its part, the balance is
// what to change, and an even one is the most that it can give.
func advice(in Input, limits []limit, first limit) string {
	change, factor := first.change()
	if first.bound <= 0 || factor <= 1 {
		return change + "."
	}
	about := "about"
	if first.uneven() {
		about = "up to"
	}
	next := nextLimit(limits, first)
	if next == nil {
		return fmt.Sprintf("%s → %s +%.0f %%; no other upper bound is known.", change, about, 100*(factor-1))
	}
	who := limitNames([]Limit{next.Limit})[0]
	if next.bound < factor*first.bound {
		return fmt.Sprintf("%s → %s +%.0f %%, then %s limits at %s.", change, about, 100*max(0, next.bound/first.bound-1), who, in.rate(next.bound))
	}
	return fmt.Sprintf("%s → %s +%.0f %%; %s would limit at %s.", change, about, 100*(factor-1), who, in.rate(next.bound))
}

// uneven says whether one instance limits because it does more than its part.
func (l *limit) uneven() bool { return l.Resource == CPU && l.component.skew() > skewMuch }

// change is the smallest step that is worth a try, and by what it multiplies the
// bound.
func (l *limit) change() (words string, factor float64) {
	c, r := l.component, l.resource
	switch l.Resource {
	case CPU:
		if l.uneven() { // a replica more does nothing for one hot key or one slow machine
			return fmt.Sprintf("balance %s: spread its work evenly over its %d instances", c.Name, c.Instances), c.skew()
		}
		if c.Instances > 1 {
			return c.Name + " CPU: +1 replica", 1 + 1/float64(c.Instances)
		}
		return fmt.Sprintf("%s CPU: %.3g → %.3g cores", c.Name, c.LimitCPUs, 1.5*c.LimitCPUs), 1.5
	case Pool:
		more := max(1, float64(int(r.Capacity/4)))
		if r.Capacity <= 0 {
			return fmt.Sprintf("%s %s: more slots", c.Name, r.Name), 1
		}
		return fmt.Sprintf("%s %s: %.0f → %.0f slots", c.Name, r.Name, r.Capacity, r.Capacity+more), 1 + more/r.Capacity
	case Lock:
		return fmt.Sprintf("%s %s: hold it half as long, or make two of it", c.Name, r.Name), 2
	case Queue:
		return fmt.Sprintf("%s %s: twice as many consumers", c.Name, r.Name), 2
	case Stage:
		return fmt.Sprintf("%s %s: twice as many workers", c.Name, r.Name), 2
	default:
		return c.Name + ": more memory", 1
	}
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
