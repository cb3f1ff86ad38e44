package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// The rule's thresholds. They are far enough apart from what an unlimited
// component shows (see the planted systems in the tests) for their exact
// values not to matter.
const (
	// explains is how close a component's bound must lie above the capacity to
	// explain it: capacity/bound is the utilisation of its hottest instance.
	explains = 0.80
	// tied is how close a second bound must lie for the two to be told apart
	// no more: trials differ by about as much.
	tied = 0.90
	// throttledMuch is the share of scheduler periods in which an instance
	// that is at its limit gets throttled.
	throttledMuch = 0.40
	// busyMuch is the share of its limit that a saturated instance uses.
	busyMuch = 0.85
	// machineFull is the share of the machine's cores in use at which nothing
	// can be said of a component apart from the machine.
	machineFull = 0.97
)

// Judge names what limits the variant. Its rule:
//
//  1. A measurement that ended before the system did, or that filled the
//     machine, gives "lower bound only".
//  2. Both witnesses name the same component: "named".
//  3. Anything else is "undecided", with what each of them said.
func Judge(in Input) Verdict {
	if in.Capacity <= 0 {
		return Verdict{Status: Undecided, Summary: "No rate met the objectives, so there is no capacity to explain."}
	}
	d, s := demand(in), saturation(in)
	v := Verdict{Witnesses: []Witness{d, s}}
	switch {
	case in.LowerBound != "":
		v.Status = LowerBoundOnly
		v.Summary = fmt.Sprintf("It bears at least %s: %s.", in.rate(in.Capacity), in.LowerBound)
	case in.MachineBusy >= machineFull:
		v.Status = LowerBoundOnly
		v.Summary = fmt.Sprintf("It bears at least %s: the machine was %.0f %% busy, load generator included, so its cores were the limit.",
			in.rate(in.Capacity), 100*in.MachineBusy)
	case d.Component != "" && d.Component == s.Component:
		v.Status, v.Component, v.Resource = Named, d.Component, d.Resource
		v.Summary = named(in, d.Component)
	case d.Component == "" && s.Component == "":
		v.Status = Undecided
		v.Summary = "No component was near the limit of its CPU share: the objectives were missed for another reason, such as waiting, a lock or a pool."
	default:
		v.Status = Undecided
		v.Summary = fmt.Sprintf("The witnesses do not agree: demand names %s, saturation names %s.", who(d), who(s))
	}
	return v
}

func named(in Input, name string) string {
	c := find(in.Components, name)
	return fmt.Sprintf("%s is limited by its CPU: each %s costs it %s, so %s %s at most %s.",
		c.Name, in.one(), millis(c.DemandMS), share(c), allow(c), in.rate(c.Bound))
}

// demand names the component with the lowest bound, if that bound explains the
// capacity and no other component's is as low.
func demand(in Input) Witness {
	w := Witness{Name: "demand"}
	limited := slices.DeleteFunc(slices.Clone(in.Components), func(c Component) bool { return c.Bound <= 0 })
	if len(limited) == 0 {
		w.Evidence = "no component with a CPU share used measurable CPU time"
		return w
	}
	slices.SortFunc(limited, func(a, b Component) int { return cmp.Compare(a.Bound, b.Bound) })
	first := limited[0]
	w.Evidence = fmt.Sprintf("%s needs %s CPU for each %s, which bounds throughput at %s; capacity is %.0f %% of that",
		first.Name, millis(first.DemandMS), in.one(), in.rate(first.Bound), 100*in.Capacity/first.Bound)
	if in.Capacity < explains*first.Bound {
		return w
	}
	if len(limited) > 1 && first.Bound > tied*limited[1].Bound {
		w.Evidence += fmt.Sprintf("; %s is bounded at %s, too close to tell them apart", limited[1].Name, in.rate(limited[1].Bound))
		return w
	}
	w.Component, w.Resource = first.Name, CPU
	return w
}

// saturation names the component whose hottest instance was held back, if it
// is the only one: throttled in many periods, or using nearly all of its share.
func saturation(in Input) Witness {
	w := Witness{Name: "saturation"}
	var held []Component
	var hottest Component
	for _, c := range in.Components {
		if c.LimitCPUs > 0 && c.Busy >= hottest.Busy {
			hottest = c
		}
		if c.LimitCPUs > 0 && (c.Busy >= busyMuch || c.Throttled >= throttledMuch) {
			held = append(held, c)
		}
	}
	switch len(held) {
	case 0:
		w.Evidence = "nobody was held back"
		if hottest.Name != "" {
			w.Evidence += "; the hottest, " + heat(hottest)
		}
	case 1:
		w.Component, w.Resource = held[0].Name, CPU
		w.Evidence = heat(held[0])
	default:
		slices.SortFunc(held, func(a, b Component) int { return cmp.Compare(b.Busy, a.Busy) })
		w.Evidence = fmt.Sprintf("more than one was held back: %s; %s", heat(held[0]), heat(held[1]))
		// One that is at its limit and one that is well below it are not equals.
		if held[0].Busy >= busyMuch && held[1].Busy < explains*held[0].Busy {
			w.Component, w.Resource = held[0].Name, CPU
		}
	}
	return w
}

func heat(c Component) string {
	return fmt.Sprintf("%s used %.0f %% of its CPU share and was throttled in %.0f %% of scheduler periods",
		c.Name, 100*c.Busy, 100*c.Throttled)
}

func find(cs []Component, name string) Component {
	i := slices.IndexFunc(cs, func(c Component) bool { return c.Name == name })
	return cs[i]
}

func who(w Witness) string { return cmp.Or(w.Component, "nobody") }

func share(c Component) string {
	if c.Instances == 1 {
		return fmt.Sprintf("its %g CPU", c.LimitCPUs)
	}
	return fmt.Sprintf("its %d × %g CPU", c.Instances, c.LimitCPUs)
}

func allow(c Component) string {
	if c.Instances == 1 {
		return "allows"
	}
	return "allow"
}

// millis prints a demand: microseconds where that reads better.
func millis(ms float64) string {
	if ms < 1 {
		return fmt.Sprintf("%.3g µs", 1000*ms)
	}
	return fmt.Sprintf("%.3g ms", ms)
}

// one is what rates count.
func (in Input) one() string {
	if in.Several {
		return "iteration"
	}
	return "request"
}

// rate prints a rate with three significant digits and thousands set apart.
func (in Input) rate(r float64) string {
	unit := " req/s"
	if in.Several {
		unit = " iterations/s"
	}
	return thousands(r) + unit
}

func thousands(r float64) string {
	if r < 100 {
		return fmt.Sprintf("%.3g", r)
	}
	unit := math.Pow(10, math.Floor(math.Log10(r))-2)
	n := int64(math.Round(r/unit) * unit)
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
