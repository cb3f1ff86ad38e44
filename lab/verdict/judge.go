package verdict

import (
	"fmt"
	"slices"
)

// machineFull is the share of the machine's cores in use at which nothing can be
// said of a component apart from the machine.
const machineFull = 0.97

// Judge names what limits the variant. Its rule:
//
//  1. A measurement that ended before the system did, or that filled the
//     machine, gives "lower bound only", whoever the witnesses name.
//  2. Each witness has a voice for the limit that it names, or for each of those
//     that it cannot tell apart. The limit with most voices is "named" if these
//     are at least two: of two witnesses both, of three most.
//  3. Several limits with as many voices, two or more, are "tied".
//     Of a pipeline's stages the witnesses have a voice only for the first busy one
//     that no later one holds back (see the function stages).
//  4. Anything else is "undecided", with what each of them said.
//
// A witness that does not name the limit dissents, and is named. Perturbation
// does so only if it changed that very resource: what it could not change, such as a
// lock, it knows nothing of.
//
// Where the capacity lies more than a twentieth above the bound of what is named,
// the evidence says that this cannot be, or that work piled up meanwhile.
func Judge(in Input) Verdict {
	if in.Capacity <= 0 {
		return Verdict{Status: Undecided, Summary: "No rate met the objectives, so there is no capacity to explain."}
	}
	limits := in.limits()
	heard := []Witness{demand(in, limits), saturation(in, limits)}
	if len(in.Perturbations) > 0 {
		heard = append(heard, perturbation(in, limits))
	}
	v := Verdict{Witnesses: heard}
	first, voices := elect(heard)
	switch {
	case in.LowerBound != "":
		v.Status = LowerBoundOnly
		v.Summary = fmt.Sprintf("It bears at least %s: %s.", in.rate(in.Capacity), in.LowerBound)
		if len(first) == 0 {
			v.Summary += " No component showed a limit inside the tested range."
		}
	case in.MachineBusy >= machineFull:
		v.Status = LowerBoundOnly
		v.Summary = fmt.Sprintf("It bears at least %s: the machine was %.0f %% busy, load generator included, so its cores were the limit.",
			in.rate(in.Capacity), 100*in.MachineBusy)
	case voices >= 2 && len(first) == 1:
		v.name(in, limits, first[0], voices)
	case voices >= 2:
		v.tie(in, first, voices)
	case len(first) == 0:
		v.Status = Undecided
		v.Summary = "No component was near the limit of its CPU share or of a resource that it declares: " +
			"the objectives were missed for another reason, such as waiting, or a lock or a pool that no x-resources tell of."
	default:
		v.Status = Undecided
		v.Summary = fmt.Sprintf("The witnesses do not agree: %s.", everyone(heard))
	}
	return v
}

// elect counts voices: those with most of them, and how many these are.
func elect(heard []Witness) (first []Limit, most int) {
	voices := make(map[Limit]int)
	var order []Limit
	for i := range heard {
		for _, l := range heard[i].named() {
			if voices[l]++; voices[l] == 1 {
				order = append(order, l)
			}
		}
	}
	for _, l := range order {
		most = max(most, voices[l])
	}
	return slices.DeleteFunc(order, func(l Limit) bool { return voices[l] < most }), most
}

func (v *Verdict) name(in Input, limits []limit, l Limit, voices int) {
	v.Status, v.Component, v.Resource, v.ResourceName = Named, l.Component, l.Resource, l.Name
	v.Agreement = fmt.Sprintf("%d/%d", voices, len(v.Witnesses))
	v.Summary = l.Component + " is limited by its " + l.what() + "."
	if found := find(limits, l); found != nil {
		v.Summary = found.summary(in)
		v.Advice = advice(in, limits, *found)
	}
	v.dissenters(in, []Limit{l})
}

func (v *Verdict) tie(in Input, tied []Limit, voices int) {
	v.Status, v.Tied = Tied, tied
	v.Agreement = fmt.Sprintf("%d/%d", voices, len(v.Witnesses))
	names := said(tied)
	v.Summary = list(names) + " limit equally: their bounds lie too close to tell which one is first."
	v.Advice = fmt.Sprintf("Change %s together: more of one alone gives next to nothing.", list(names))
	v.dissenters(in, tied)
}

// dissenters names the witnesses that have no voice for what was named.
func (v *Verdict) dissenters(in Input, named []Limit) {
	changed := slices.ContainsFunc(in.Perturbations, func(p Perturbation) bool { return slices.Contains(named, p.changed()) })
	for i := range v.Witnesses {
		w := &v.Witnesses[i]
		speaks := slices.ContainsFunc(w.named(), func(l Limit) bool { return slices.Contains(named, l) })
		silent := w.Name == Perturbing && len(w.named()) == 0 && !changed
		if speaks || silent {
			continue
		}
		v.Dissent = append(v.Dissent, w.Name)
		v.Summary += fmt.Sprintf(" But %s names %s.", w.Name, who(w))
	}
}

func everyone(heard []Witness) string {
	words := make([]string, len(heard))
	for i := range heard {
		words[i] = heard[i].Name + " names " + who(&heard[i])
	}
	return list(words)
}
