package verdict

import "fmt"

// advice is what to change first and what that is expected to give. It stands on
// bounds alone: throughput follows the limit's bound until the next one, which
// holds where the balance between instances stays as it is and demands do not
// depend on load.
func advice(in Input, limits []limit, first limit) string {
	change, factor := first.change()
	if first.bound <= 0 || factor <= 1 {
		return change + "."
	}
	next := nextLimit(limits, first)
	if next == nil {
		return fmt.Sprintf("%s → about +%.0f %%; no other bound is known.", change, 100*(factor-1))
	}
	who := said([]Limit{next.Limit})[0]
	if next.bound < factor*first.bound {
		return fmt.Sprintf("%s → about +%.0f %%, then %s limits at %s.", change, 100*max(0, next.bound/first.bound-1), who, in.rate(next.bound))
	}
	return fmt.Sprintf("%s → about +%.0f %%; %s would limit at %s.", change, 100*(factor-1), who, in.rate(next.bound))
}

// change is the smallest step that is worth a try, and by what it multiplies the
// bound.
func (l *limit) change() (words string, factor float64) {
	c, r := l.component, l.resource
	switch l.Resource {
	case CPU:
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
