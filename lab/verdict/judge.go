package verdict

import (
	"fmt"
	"slices"
	"strings"

	"loadstone/lab/load"
)

// MachineFull is the share of the machine's cores in use at which nothing can be
// said of a component apart from the machine.
const MachineFull = load.FullMachine

// Evaluate names what limits the variant. Its rule:
//
//  1. A measurement that ended before the system did, or that filled the
//     machine, gives "lower bound only", whoever the witnesses name.
//  2. Intervention decides. What was changed and clearly moved nothing is out,
//     whoever names it: no voice counts for it. What was changed and clearly moved
//     throughput has two voices for that, more than either observation, unless its
//     own bound lies far above the capacity: then closed load sought another limit; or
//     unless the load meanwhile carried far less than the capacity: then only what
//     clearly moved it has a voice, and nothing is out.
//  3. Demand and saturation have a voice each for the limit that they name, or for
//     each of those that they cannot tell apart; and one together for a limit of
//     which both read the same counter. Where every CPU was changed and none of them
//     moved anything, what could not be changed and is named by one of the two has
//     a further voice, by elimination.
//     Where requests wait has a voice for what another method names there, and names
//     nothing by itself: they may wait in front of what limits. It breaks no tie: of what
//     another method names together with something elsewhere, it says nothing.
//  4. The limit with most voices is "named" if these are at least two.
//  5. Several limits with as many voices, two or more, are "tied". So are those that were
//     changed one by one and of which each clearly moved throughput and none clearly less
//     than another, if no group moved it as much, none of their bounds is above twice the
//     capacity, and both observations name nothing that was not changed; and those of
//     which two witnesses say that they cannot be told apart, the very same ones, even
//     if the third names one of them: more of that one alone gives next to nothing.
//     Of a pipeline's stages the witnesses have a voice only for the first busy one
//     that no later one holds back (see the function stages).
//  6. Anything else is "undecided", with what each of them said: a wrong name sends
//     somebody to change what does not matter.
//
// A witness that names something else dissents, and the summary says what it names.
// One that names nothing is silent: that is less than agreement and no contradiction,
// as perturbation knows nothing of a lock that it could not change, and demand nothing
// of a queue that misses an objective long before a share is used up. The agreement says
// who is silent. One that names the limit and others with it has a voice for it, but
// agrees only in part: the agreement and the summary say what it cannot tell the limit from.
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
	located := in.located()
	if len(in.Waits) > 0 {
		heard = append(heard, waiting(located))
	}
	v := Verdict{Witnesses: heard, Located: located}
	c := count(in, heard, limits)
	first, voices := c.most(heard)
	switch {
	case in.LowerBound != "":
		v.Status = LowerBoundOnly
		v.Summary = fmt.Sprintf("Capacity is at least %s: %s.", in.rate(in.Capacity), in.LowerBound)
		if len(first) == 0 {
			v.Summary += " No component showed a limit inside the tested range" + in.butUnseen() + "."
		}
	case in.MachineBusy >= MachineFull:
		v.Status = LowerBoundOnly
		v.Summary = fmt.Sprintf("Capacity is at least %s: the machine was %.0f %% busy, load generator included, so its cores were the limit.",
			in.rate(in.Capacity), 100*in.MachineBusy)
	case voices >= 2 && len(first) == 1:
		v.name(in, limits, first[0])
		v.Summary += c.eliminated(first[0])
	case voices >= 2:
		v.tie(first, c)
	default:
		v.Status = Undecided
		v.Summary = c.undecided(in, heard) + located.sentence()
		v.Advice = located.advice(in)
	}
	if !v.Decided() && v.Advice == "" {
		v.Advice = in.limitless()
	}
	return v
}

// noCapacity says that there is no capacity, and why.
func (in Input) noCapacity() string {
	text := "No rate met the objectives, so there is no capacity to explain"
	if in.LowerBound != "" { // the measurement ended first, whatever the system would have done
		text = "No rate could be judged, so there is no capacity to explain"
	}
	if in.Missed != "" {
		text += ": " + in.Missed
	}
	return text + "."
}

func (v *Verdict) name(in Input, limits []limit, l Limit) {
	v.Status, v.Component, v.Resource, v.ResourceName = Named, l.Component, l.Resource, l.Name
	v.agreement([]Limit{l})
	v.Summary = l.Component + " is limited by its " + l.what() + "."
	if found := find(limits, l); found != nil {
		v.Summary = found.summary(in)
		v.Advice = advice(in, limits, *found)
	}
	v.addDissent([]Limit{l})
}

// tie says that the limits are tied, and why.
func (v *Verdict) tie(tied []Limit, c *counted) {
	v.Status, v.Tied = Tied, tied
	v.agreement(tied)
	names := limitNames(tied)
	why, alone := c.whyTied()
	v.Summary = list(names) + " are equally limiting: " + why + "."
	v.Advice = fmt.Sprintf("Change %s together: more of one alone gives %s.", list(names), alone)
	v.addDissent(tied)
}

// agreement is how many witnesses name all of the limits, of those that were heard, and
// what kept the others from it.
func (v *Verdict) agreement(limits []Limit) {
	n := 0
	for i := range v.Witnesses {
		if v.Witnesses[i].namesAll(limits) {
			n++
		}
	}
	v.Agreement = fmt.Sprintf("%d/%d", n, len(v.Witnesses))
	var why []string
	if len(limits) == 1 {
		why = v.unsure(limits[0])
	}
	if silent := v.silent(); len(silent) > 0 {
		why = append(why, fmt.Sprintf("%s %s nothing", list(silent), namesVerb(len(silent))))
	}
	if len(why) > 0 {
		v.Agreement += " (" + strings.Join(why, "; ") + ")"
	}
}

// silent are the witnesses that name nothing at all.
func (v *Verdict) silent() []string {
	var names []string
	for i := range v.Witnesses {
		w := &v.Witnesses[i]
		if len(w.named()) == 0 && (w.Name != Waiting || v.Located == nil) {
			names = append(names, w.Name)
		}
	}
	return names
}

func namesVerb(n int) string {
	if n == 1 {
		return "names"
	}
	return "name"
}

// namesAll says whether the witness has a voice for each of the limits.
func (w *Witness) namesAll(limits []Limit) bool {
	if w.Name == Waiting {
		return len(limits) == 1 && limits[0].Component == w.Component
	}
	named := w.named()
	return !slices.ContainsFunc(limits, func(l Limit) bool { return !slices.Contains(named, l) })
}

// namesOnlyIn says whether the witness names l, and nothing of another component.
func (w *Witness) namesOnlyIn(l Limit) bool {
	named := w.named()
	return w.Name != Waiting && slices.Contains(named, l) &&
		!slices.ContainsFunc(named, func(n Limit) bool { return n.Component != l.Component })
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
// for that alone, whom they do name. Those that name only something else dissent.
func (v *Verdict) addDissent(named []Limit) {
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
		switch {
		case len(w.named()) == 0 || w.Name == Waiting: // requests may wait in front of what limits
		case voices == 0:
			v.Dissent = append(v.Dissent, w.Name)
			v.Summary += fmt.Sprintf(" But %s names %s.", w.Name, list(limitNames(w.named())))
		case voices > 0 && voices < len(named):
			v.Summary += fmt.Sprintf(" But %s names only %s of them.", w.Name, list(limitNames(w.named())))
		}
	}
}

// allNamed says what each of the methods names that can name something by itself, those
// that name nothing together.
func allNamed(heard []Witness) string {
	var words, silent []string
	for i := range heard {
		switch w := &heard[i]; {
		case w.Name == Waiting:
		case len(w.named()) == 0:
			silent = append(silent, w.Name)
		default:
			words = append(words, w.Name+" names "+list(limitNames(w.named())))
		}
	}
	if len(silent) > 0 {
		words = append(words, fmt.Sprintf("%s %s nothing", list(silent), namesVerb(len(silent))))
	}
	return strings.Join(words, "; ")
}
