package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	// moves is the elasticity from which on a resource matters.
	moves = 0.30
	// decides is the elasticity from which on a resource is what limits: throughput
	// follows it by more than half. The whole interval has to lie above.
	decides = 0.50
	// within is how far a bound may lie above the capacity for an intervention to be
	// believed that names its resource: capacity/bound.
	within = 0.60
	// beyond is the same for limits that moved throughput alike: an objective that is missed at
	// two thirds of each of two has their bounds far above the capacity.
	beyond = 0.50
	// fills is the share of the capacity that the load of a perturbation has to carry
	// for what moved nothing to be out. With less, nothing needs to be at its limit, and
	// only what decides says something.
	fills = 0.80
	// unsettled is the share of a slot from which on nothing is out that was at its limit and
	// moved nothing: for that long, what waits before another component hides what it does.
	unsettled = 0.50
)

// Perturbation is what changing one resource, or several together, did to the whole
// system.
type Perturbation struct {
	Component string `json:"component,omitempty"`
	Resource  string `json:"resource,omitempty"` // CPU or another kind
	// Elasticity is the relative change of throughput for each relative change of the
	// resource: 1 where it limits alone, 0 where it does not matter. Low to High is
	// its interval.
	Elasticity float64 `json:"elasticity"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	// Faster is the same of the response time's 95th percentile, with its sign
	// turned: by how many per cent it falls. It is nil where it is not known.
	Faster *Elasticity `json:"faster,omitempty"`
	// More is Faster of steps up alone; nil where it is not known.
	More *Elasticity `json:"more,omitempty"`
	// Name is that of a pool.
	Name string `json:"name,omitempty"`
	// Group are the two or more that were changed together, where it is about
	// them: Component, Resource and Name are empty then. It is evidence, and
	// names none of them.
	Group []Limit `json:"group,omitempty"`
}

// Elasticity is a value with its interval.
type Elasticity struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// perturbation names the resource that moved throughput most, if the interval of
// its elasticity leaves out 0, and with it those that it cannot be told apart from.
// Where nothing moved throughput, it names what made answers faster, if more of it surely did: what is advised is
// more, and less of it may only spread response times more widely. Where a group that
// was changed together is among these, it names no component: which of
// the group it was is not known.
func perturbation(in Input, limits []limit) Witness {
	w := Witness{Name: Perturbing}
	sorted := slices.SortedStableFunc(slices.Values(in.Perturbations), func(a, b Perturbation) int { return cmp.Compare(b.Elasticity, a.Elasticity) })
	for i, p := range sorted {
		if i > 0 {
			w.Evidence += "; "
		}
		w.Evidence += p.evidence() + in.whyAboveOne(p)
	}
	if !in.filled() {
		w.Evidence += fmt.Sprintf("; but the load meanwhile carried only %s, so that what moved nothing may limit above it", in.rate(in.PerturbedRate))
		if len(sorted) == 0 || sorted[0].Low < decides {
			return w
		}
	}
	moved, together := movedBy(sorted, limits)
	if len(moved)+len(together) == 0 {
		faster := speeds(sorted)
		slices.SortStableFunc(faster, func(a, b Perturbation) int { return cmp.Compare(b.Elasticity, a.Elasticity) })
		moved, together = movedBy(faster, limits)
		if slices.ContainsFunc(faster, func(p Perturbation) bool { return p.asMuchAs(faster[0]) && !p.gains() }) {
			moved, together = nil, nil
			w.Evidence += "; that more of it makes answers faster is not shown"
		}
	}
	hidden := in.hidden(limits, moved)
	w.Evidence += in.tooShort(hidden)
	switch {
	case len(together) > 0:
		w.Evidence += fmt.Sprintf("; %s were changed only together, so which of them it is remains open", strings.Join(together, ", and "))
		return w
	case len(moved) == 0:
		w.Evidence += "; nothing that was changed moves it enough"
	default: // it cannot tell them apart
		moved = append(moved, hidden...)
	}
	w.nameLimits(moved)
	return w
}

// movedBy are the limits that moved as much as the first one did, and the groups.
func movedBy(sorted []Perturbation, limits []limit) (moved []limit, together []string) {
	for _, p := range sorted {
		switch {
		case !p.asMuchAs(sorted[0]) || p.explained(sorted):
		case len(p.Group) > 0:
			together = append(together, list(limitNames(p.Group)))
		default:
			moved = append(moved, matching(limits, p))
		}
	}
	return moved, together
}

// speeds are the perturbations, each with what it did to the response time in place of
// the throughput.
func speeds(all []Perturbation) []Perturbation {
	var out []Perturbation
	for _, p := range all {
		if p.Faster != nil {
			p.Elasticity, p.Low, p.High = p.Faster.Value, p.Faster.Low, p.Faster.High
			out = append(out, p)
		}
	}
	return out
}

func (p Perturbation) evidence() string {
	text := fmt.Sprintf("1 %% of the %s moves it by %.2f %% (%.2f to %.2f)", p.subject(), p.Elasticity, p.Low, p.High)
	if p.quickens() && p.High < moves {
		text += fmt.Sprintf(", and makes the 95th percentile of response times %.2f %% shorter (%.2f to %.2f)", p.Faster.Value, p.Faster.Low, p.Faster.High)
	}
	return text
}

// aboveOne is the elasticity from which on it is worth a word that a part of a share could not
// be used.
const aboveOne = 1.1

// whyAboveOne says why a CPU moves throughput by more than it is changed by, where it does: what
// is left for requests grows faster than the share if the rest of it does not grow.
func (in Input) whyAboveOne(p Perturbation) string {
	if len(p.Group) > 0 || p.Resource != CPU {
		return ""
	}
	i := slices.IndexFunc(in.Components, func(c Component) bool { return c.Name == p.Component })
	switch {
	case i >= 0 && in.Components[i].Stranded > 0 && p.Elasticity >= aboveOne:
		return fmt.Sprintf(", which is more than 1 %% because the part of its share that it could not use, %.0f %%, does not grow with the share", 100*in.Components[i].Stranded)
	case p.Low > 1:
		return ", which is more than 1 % as where a part of its CPU goes into work that does not grow with the load, so that what is left for requests grows faster than the share"
	}
	return ""
}

// quickens says whether answers clearly were the faster the more there was of it, and steps up do not
// clearly say otherwise.
func (p Perturbation) quickens() bool {
	return p.Faster != nil && p.Faster.Low > 0 && p.Faster.Value >= moves && (p.More == nil || p.More.High >= moves)
}

// gains says whether steps up surely made answers faster.
func (p Perturbation) gains() bool { return p.More != nil && p.More.Low > 0 }

// subject is what was changed, in words.
func (p Perturbation) subject() string {
	if len(p.Group) == 0 {
		return p.changed().what() + " of " + p.Component
	}
	parts := make([]string, len(p.Group))
	for i, l := range p.Group {
		parts[i] = l.what() + " of " + l.Component
	}
	return list(parts) + " together"
}

// explained says whether one of the group moved throughput as much by itself as the
// group did, so that the rest of it does not matter.
func (p Perturbation) explained(all []Perturbation) bool {
	return slices.ContainsFunc(all, func(one Perturbation) bool {
		return len(one.Group) == 0 && slices.Contains(p.Group, one.changed()) && one.Low > 0 && one.Elasticity >= explains*p.Elasticity
	})
}

// done is how much was done each second at the capacity. A short attempt may offer clearly more: the rest
// waited when it ended.
func (in Input) done() float64 {
	if in.Carried > 0 {
		return min(in.Capacity, in.Carried)
	}
	return in.Capacity
}

// filled says whether the load of the perturbation carried about as much as was done at the
// capacity.
func (in Input) filled() bool { return in.PerturbedRate <= 0 || in.PerturbedRate >= fills*in.done() }

// weight is how many voices an intervention has for each of the limits that it names: as
// many for one as for another, since it cannot tell them apart.
func (in Input) weight(named []Limit, limits []limit) int {
	for _, l := range named {
		i := slices.IndexFunc(in.Perturbations, func(p Perturbation) bool { return len(p.Group) == 0 && p.changed() == l })
		found := find(limits, l)
		switch {
		case !in.filled() || i < 0 || in.Perturbations[i].Low < decides:
			return 1
		case found != nil && found.bound > 0 && in.Capacity < within*found.bound:
			return 1
		}
	}
	return 2
}

// movers are the limits that were changed one by one and of which each clearly moved
// throughput, not clearly less than any other did. A limit alone would leave nothing for the
// others. None whose own bound lies far above the capacity is one of them, and there are none
// where a group may have moved as much: which of it did is not known.
func (in Input) movers(limits []limit) (movers []Limit) {
	if !in.filled() || len(in.Perturbations) == 0 {
		return nil
	}
	most := in.strongest()
	for _, p := range in.Perturbations {
		found := find(limits, p.changed())
		switch {
		case len(p.Group) > 0 && p.asMuchAs(most) && !p.explained(in.Perturbations):
			return nil
		case len(p.Group) > 0 || p.Low < moves || p.lessThan(most) || in.vetoed(p.changed()):
		case found != nil && found.bound > 0 && in.Capacity < beyond*found.bound:
		default:
			movers = append(movers, p.changed())
		}
	}
	return movers
}

// strongest is the perturbation that moved throughput most. There is one.
func (in Input) strongest() Perturbation {
	return slices.MaxFunc(in.Perturbations, func(a, b Perturbation) int { return cmp.Compare(a.Elasticity, b.Elasticity) })
}

// lessThan says whether p clearly moved throughput less than most did: the interval of the
// difference leaves out 0.
func (p Perturbation) lessThan(most Perturbation) bool {
	apart := math.Hypot(p.Elasticity-p.Low, most.Elasticity-most.Low)
	return p.Elasticity+apart < most.Elasticity
}

// vetoed says whether changing the limit, alone or with others, clearly moved nothing:
// the interval of its elasticity ends below what matters, or below a third of what the
// most effective one did; and answers became no faster. Of a component that is about at its
// limit, no more is known than slots tell that are short for its queues: while another
// works off what waits there, less from the one does not show.
func (in Input) vetoed(l Limit) bool {
	if !in.filled() || len(in.Perturbations) == 0 {
		return false
	}
	shown := 1.0
	if l.Resource == CPU && in.nearLimit(l.Component) {
		shown -= min(in.Settling, 1)
	}
	if shown <= 1-unsettled {
		return false
	}
	most := in.strongest()
	return slices.ContainsFunc(in.Perturbations, func(p Perturbation) bool {
		little := p.High < shown*moves || most.Low > 0 && len(p.Group) == 0 && p.High < shown*most.Elasticity/3
		return p.about(l) && little && !p.quickens()
	})
}

// hidden are the CPUs that were changed, about at their limits and not among those that moved
// it, in slots that were too short to show that.
func (in Input) hidden(limits, moved []limit) []limit {
	if in.Settling < unsettled || !in.filled() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(limits), func(l limit) bool {
		return l.Resource != CPU || !in.nearLimit(l.Component) || !in.changed(l.Limit) || find(moved, l.Limit) != nil
	})
}

// tooShort says that slots were, behind what they showed; empty if nothing was hidden.
func (in Input) tooShort(hidden []limit) string {
	if len(hidden) == 0 {
		return ""
	}
	var names []string
	for _, l := range hidden {
		names = append(names, l.Component)
	}
	text := fmt.Sprintf("; but slots were too short for queues to move from one component to another, which takes %.1f s, so that %s may limit all the same",
		in.SettleSeconds, list(names))
	if in.LongSlots > 0 {
		text += fmt.Sprintf(" (perturb: {budget: %.0fs} makes them long enough)", in.LongSlots)
	}
	return text
}

// nearLimit says whether a component used about all of its CPU at the capacity.
func (in Input) nearLimit(component string) bool {
	return slices.ContainsFunc(in.Components, func(c Component) bool {
		return c.Name == component && (c.Busy >= explains || c.waitedForCPU())
	})
}

// changed says whether the limit was changed, alone or with others.
func (in Input) changed(l Limit) bool {
	return slices.ContainsFunc(in.Perturbations, func(p Perturbation) bool { return p.about(l) })
}

// eliminated says whether the CPU of every component was changed and none of them moved
// anything.
func (in Input) eliminated() bool {
	if len(in.Perturbations) == 0 || len(in.Components) == 0 {
		return false
	}
	return !slices.ContainsFunc(in.Components, func(c Component) bool { return !in.vetoed(Limit{Component: c.Name, Resource: CPU}) })
}

// about says whether p changed the limit, alone or with others.
func (p Perturbation) about(l Limit) bool {
	if len(p.Group) == 0 {
		return p.changed() == l
	}
	return slices.Contains(p.Group, l)
}

// asMuchAs says whether p moved throughput as well, and not clearly less than most
// did. One that limits alone has an elasticity of 1 and the others 0, two that limit
// together share it: a third of the higher one is half way between these. It counts
// where it surely moved something, or where the intervals overlap.
func (p Perturbation) asMuchAs(most Perturbation) bool {
	if most.Low <= 0 || most.Elasticity < moves {
		return false
	}
	return p.Elasticity >= most.Elasticity/3 && (p.Low > 0 || p.High >= most.Low)
}

// changed is what a perturbation was about that is no group's.
func (p Perturbation) changed() Limit { return Limit{p.Component, p.Resource, p.Name} }

// matching is the limit that was changed.
func matching(limits []limit, p Perturbation) limit {
	if l := find(limits, p.changed()); l != nil {
		return *l
	}
	return limit{Limit: p.changed()}
}
