package verdict

import (
	"fmt"
	"slices"

	"loadstone/lab/format"
)

// counted are the voices that each limit has.
type counted struct {
	voices map[Limit]int
	order  []Limit // those with a voice, as they were first named
	// vetoed are those that a witness names and whose change moved nothing.
	vetoed []Limit
	// single are those that demand and saturation name by the same counter.
	single []Limit
	// together are those of which an intervention showed that each of them limits.
	together []Limit
	// byElimination is true if no CPU mattered when all of them were changed, and left are those
	// with a voice for that.
	byElimination bool
	left          []Limit
}

// count counts the voices: see Evaluate.
func count(in Input, heard []Witness, limits []limit) *counted {
	c := &counted{voices: make(map[Limit]int), byElimination: in.eliminated(), together: in.movers(limits)}
	for i := range heard {
		w := &heard[i]
		if w.Name == Waiting {
			continue
		}
		for _, l := range w.named() {
			switch found := find(limits, l); {
			case in.vetoed(l):
				if !slices.Contains(c.vetoed, l) {
					c.vetoed = append(c.vetoed, l)
				}
			case w.Name == Perturbing:
				c.add(l, in.weight(w.named(), limits))
			case c.voices[l] > 0 && found != nil && found.oneCounter():
				c.single = append(c.single, l)
			default:
				c.add(l, 1)
			}
		}
	}
	c.unchanged(in)
	c.waited(in.located(), heard)
	if c.byElimination {
		for _, l := range c.order {
			if !in.changed(l) {
				c.voices[l]++
				c.left = append(c.left, l)
			}
		}
	}
	return c
}

// unchanged leaves nothing together where both observations name what was not changed, and may
// hold the others up.
func (c *counted) unchanged(in Input) {
	for l, voices := range c.voices {
		if voices >= 2 && !in.changed(l) {
			c.together = nil
		}
	}
}

// waited gives a voice to what a method names where requests wait. It breaks no tie: of
// several that limit equally, requests wait more in front of one by chance, or because it
// comes first.
func (c *counted) waited(at *Located, heard []Witness) {
	for _, l := range c.order {
		if at != nil && at.Component == l.Component && slices.ContainsFunc(heard, func(w Witness) bool { return w.namesOnlyIn(l) }) {
			c.voices[l]++
		}
	}
}

func (c *counted) add(l Limit, voices int) {
	if voices == 0 {
		return
	}
	if c.voices[l] == 0 {
		c.order = append(c.order, l)
	}
	c.voices[l] += voices
}

// most are the limits with most voices, and how many these are.
func (c *counted) most(heard []Witness) (first []Limit, most int) {
	if len(c.together) > 1 {
		return c.together, 2 // as an intervention names them, whatever was observed
	}
	for i := range heard {
		same := heard[i].Tied
		if len(same) < 2 || slices.ContainsFunc(same, func(l Limit) bool { return c.voices[l] == 0 }) {
			continue
		}
		if n := tiedBy(heard, same); n >= 2 {
			return same, n
		}
	}
	for _, l := range c.order {
		most = max(most, c.voices[l])
	}
	return slices.DeleteFunc(slices.Clone(c.order), func(l Limit) bool { return c.voices[l] < most }), most
}

// whyTied says why limits are tied, and what more of one alone gives.
func (c *counted) whyTied() (why, alone string) {
	if len(c.together) > 1 {
		return "changed one at a time, each of them moves throughput, and none clearly less than another", "only a part of what all give"
	}
	return "their bounds are too close to distinguish", "next to nothing"
}

// tiedBy counts the witnesses that name these very limits, in whatever order.
func tiedBy(heard []Witness, limits []Limit) int {
	n := 0
	for i := range heard {
		if len(heard[i].Tied) == len(limits) && heard[i].namesAll(limits) {
			n++
		}
	}
	return n
}

// eliminated says, behind a summary, that a limit was named by elimination.
func (c *counted) eliminated(l Limit) string {
	if !slices.Contains(c.left, l) {
		return ""
	}
	return " Changing the CPU of every component moved nothing, which leaves this."
}

// undecided says why nothing is named.
func (c *counted) undecided(in Input, heard []Witness) string {
	switch {
	case len(c.vetoed) > 0 && len(c.order) == 0:
		return fmt.Sprintf("%s would be named by what was observed, but changing %s moved nothing, so something else limits: "+
			"waiting, a lock or a pool that no x-resources tell of, or a service outside the file.", list(limitNames(c.vetoed)), it(c.vetoed))
	case len(c.vetoed) > 0:
		return fmt.Sprintf("The methods do not agree: %s; but changing %s moved nothing.", allNamed(heard), list(limitNames(c.vetoed)))
	case len(c.order) == 0 && c.byElimination:
		return "Changing the CPU of every component moved nothing, and no resource that a component declares was at its limit: " +
			"what limits is a lock or a pool that no x-resources tell of, a single thread, a disk, or a service outside the file."
	case len(c.order) == 0 && !in.anyNamed(heard) && !slices.ContainsFunc(in.Components, func(c Component) bool { return !c.NoneSeen() }):
		return "What the components used was not seen: a CPU may be the limit, or what no x-resources tell of."
	case len(c.order) == 0 && !in.anyNamed(heard):
		return format.Capital(in.none()) + "was near the limit of its CPU share or of a resource that it declares: " +
			"the objectives were missed for another reason, such as waiting, or a lock or a pool that no x-resources tell of" + in.butUnseen() + "."
	case len(c.order) == 1 && slices.Contains(c.single, c.order[0]):
		return fmt.Sprintf("%s may be the limit, but one counter alone says so: demand and saturation read the same one. "+
			"Let it be changed under load, or declare who waits for it.", limitNames(c.order)[0])
	}
	if len(c.order) == 1 {
		return fmt.Sprintf("%s may be the limit, but one method alone says so: %s.", limitNames(c.order)[0], allNamed(heard))
	}
	return fmt.Sprintf("The methods do not agree: %s.", allNamed(heard))
}

// anyNamed says whether a witness names anything.
func (in Input) anyNamed(heard []Witness) bool {
	return slices.ContainsFunc(heard, func(w Witness) bool { return w.Name != Waiting && len(w.named()) > 0 })
}

func it(limits []Limit) string {
	if len(limits) == 1 {
		return "it"
	}
	return "them"
}
