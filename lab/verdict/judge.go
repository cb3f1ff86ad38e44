package verdict

import (
	"fmt"
	"slices"
	"strings"
)

// MachineFull is the share of the machine's cores in use at which nothing can be
// said of a component apart from the machine.
const MachineFull = 0.97

// Evaluate names what limits the variant. Its rule:
//
//  1. A measurement that ended before the system did, or that filled the
//     machine, gives "lower bound only", whoever the witnesses name.
//  2. Each witness has a voice for the limit that it names, or for each of those
//     that it cannot tell apart. The limit with most voices is "named" if these
//     are at least two: of two witnesses both, of three most.
//  3. Several limits with as many voices, two or more, are "tied". So are those of
//     which two witnesses say that they cannot be told apart, the very same ones, even
//     if the third names one of them: more of that one alone gives next to nothing.
//     Only a perturbation that clearly moved nothing takes one out of a tie.
//     Of a pipeline's stages the witnesses have a voice only for the first busy one
//     that no later one holds back (see the function stages).
//  4. Anything else is "undecided", with what each of them said.
//
// A witness that does not name the limit dissents, and is named. Perturbation
// does so only if it changed that very resource and nothing moved: what it could not
// change, such as a lock, or only together with others, it knows nothing of. One
// that names the limit and others with it has a voice for it, but agrees only in
// part: the agreement and the summary say what it cannot tell the limit from.
//
// Where the capacity lies more than a twentieth above the bound of what is named,
// the evidence says that this cannot be, or that work piled up meanwhile.
func Evaluate(in Input) Verdict {
	if in.Capacity <= 0 {
		return Verdict{Status: Undecided, Summary: in.noCapacity()}
	}
	limits := in.limits()
	heard := []Witness{demand(in, limits), saturation(in, limits)}
	if len(in.Perturbations) > 0 {
		heard = append(heard, perturbation(in, limits))
	}
	v := Verdict{Witnesses: heard}
	first, voices := mostNamed(heard, in.Perturbations)
	switch {
	case in.LowerBound != "":
		v.Status = LowerBoundOnly
		v.Summary = fmt.Sprintf("Capacity is at least %s: %s.", in.rate(in.Capacity), in.LowerBound)
		if len(first) == 0 {
			v.Summary += " No component showed a limit inside the tested range."
		}
	case in.MachineBusy >= MachineFull:
		v.Status = LowerBoundOnly
		v.Summary = fmt.Sprintf("Capacity is at least %s: the machine was %.0f %% busy, load generator included, so its cores were the limit.",
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
		v.Summary = fmt.Sprintf("The methods do not agree: %s.", allNamed(heard))
	}
	return v
}

// noCapacity says that there is no capacity, and why.
func (in Input) noCapacity() string {
	text := "No rate met the objectives, so there is no capacity to explain"
	if in.Missed != "" {
		text += ": " + in.Missed
	}
	return text + "."
}

// mostNamed counts voices: the limits with most of them, and how many these are.
func mostNamed(heard []Witness, moved []Perturbation) (first []Limit, most int) {
	voices := make(map[Limit]int)
	var order []Limit
	for i := range heard {
		for _, l := range heard[i].named() {
			if voices[l]++; voices[l] == 1 {
				order = append(order, l)
			}
		}
	}
	for i := range heard {
		if same := heard[i].Tied; len(same) > 1 && tiedBy(heard, same) >= 2 && !refuted(moved, same) {
			return same, tiedBy(heard, same)
		}
	}
	for _, l := range order {
		most = max(most, voices[l])
	}
	return slices.DeleteFunc(order, func(l Limit) bool { return voices[l] < most }), most
}

// tiedBy counts the witnesses that name these very limits, in whatever order.
func tiedBy(heard []Witness, limits []Limit) int {
	n := 0
	for i := range heard {
		missing := func(l Limit) bool { return !slices.Contains(heard[i].Tied, l) }
		if len(heard[i].Tied) == len(limits) && !slices.ContainsFunc(limits, missing) {
			n++
		}
	}
	return n
}

func (v *Verdict) name(in Input, limits []limit, l Limit, voices int) {
	v.Status, v.Component, v.Resource, v.ResourceName = Named, l.Component, l.Resource, l.Name
	v.Agreement = fmt.Sprintf("%d/%d", voices, len(v.Witnesses))
	if unsure := v.unsure(l); len(unsure) > 0 {
		v.Agreement += " (" + strings.Join(unsure, "; ") + ")"
	}
	v.Summary = l.Component + " is limited by its " + l.what() + "."
	if found := find(limits, l); found != nil {
		v.Summary = found.summary(in)
		v.Advice = advice(in, limits, *found)
	}
	v.addDissent(in, []Limit{l})
}

func (v *Verdict) tie(in Input, tied []Limit, voices int) {
	v.Status, v.Tied = Tied, tied
	v.Agreement = fmt.Sprintf("%d/%d", voices, len(v.Witnesses))
	names := limitNames(tied)
	v.Summary = list(names) + " are equally limiting: their bounds are too close to distinguish."
	v.Advice = fmt.Sprintf("Change %s together: more of one alone gives next to nothing.", list(names))
	v.addDissent(in, tied)
}

// unsure says of each witness that names l and others with it what it cannot tell
// l from.
func (v *Verdict) unsure(l Limit) []string {
	var words []string
	for i := range v.Witnesses {
		w := &v.Witnesses[i]
		if !slices.Contains(w.Tied, l) || len(w.Tied) < 2 {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(w.Tied), func(t Limit) bool { return t == l })
		words = append(words, fmt.Sprintf("%s cannot distinguish it from %s", w.Name, list(limitNames(others))))
	}
	return words
}

// addDissent says of the witnesses that have no voice for what was named, or not
// for that alone, whom they do name. Those without a voice dissent.
func (v *Verdict) addDissent(in Input, named []Limit) {
	if len(named) == 1 {
		for _, words := range v.unsure(named[0]) {
			v.Summary += " But " + words + "."
		}
	}
	for i := range v.Witnesses {
		w := &v.Witnesses[i]
		voices := 0
		for _, l := range w.named() {
			if slices.Contains(named, l) {
				voices++
			}
		}
		silent := w.Name == Perturbing && len(w.named()) == 0 && !denied(in.Perturbations, named)
		switch {
		case voices == 0 && !silent:
			v.Dissent = append(v.Dissent, w.Name)
			v.Summary += fmt.Sprintf(" But %s names %s.", w.Name, namedText(w))
		case voices > 0 && voices < len(named):
			v.Summary += fmt.Sprintf(" But %s names only %s of them.", w.Name, namedText(w))
		}
	}
}

func allNamed(heard []Witness) string {
	words := make([]string, len(heard))
	for i := range heard {
		words[i] = heard[i].Name + " names " + namedText(&heard[i])
	}
	return list(words)
}
