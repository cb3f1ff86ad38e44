package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/experiment"
	"loadstone/lab/format"
	"loadstone/lab/host"
	"loadstone/lab/probe"
	"loadstone/lab/result"
	"loadstone/lab/stats"
	"loadstone/lab/verdict"
)

// fullMachine is why a trial that filled the machine has but a lower bound.
const fullMachine = "the machine was full, load generator included, so its cores were the limit"

// outsideMuch is how many cores others than this run use before a full machine is
// their doing. On a machine that does nothing else the kernel's own work and the
// ticks in which it counts come to less than 0.2.
const outsideMuch = 0.3

// search takes over what the search found, and between which rates it left the
// system's edge.
func (o *observed) search(out capacity.Outcome) {
	o.capacity, o.rejected, o.edge, o.confirmed = out.Rate, out.Rejected, out.Edge, out.Confirmed
	if out.LowerBound {
		o.bounded(out.Reason)
	}
}

// held takes over whether the capacity lasted as long as the experiment asks.
func (o *observed) held(exp *experiment.Experiment, t archive.Trial) {
	o.lasted = exp.Search.Hold == 0
	for i := range t.Measures {
		switch m := &t.Measures[i]; {
		case m.Kind != string(capacity.Hold):
		case m.Held:
			o.lasted = o.lasted || m.Rate == o.capacity
		case o.short == "":
			o.short = fmt.Sprintf("%s %s: %s", format.Measured(m.Rate), cmp.Or(m.Unit, "a second"), m.Reason)
		}
	}
}

// lasting says in how many trials a lower rate lasted than the search found, and in how many
// none was seen to last; each is empty if in none.
func lasting(trials []observed, hold time.Duration) (lower, none string) {
	var lowers, nones []string // why, as far as that is known
	for _, t := range trials {
		switch {
		case t.capacity > 0 && !t.lasted:
			nones = append(nones, t.short)
		case t.short != "":
			lowers = append(lowers, t.short)
		}
	}
	if n := len(lowers); n > 0 {
		lower = fmt.Sprintf("in %d of %d trials the rate that the search found did not last for %v (%s); the capacity is the highest that did", n, len(trials), hold, lowers[0])
	}
	if n := len(nones); n > 0 {
		none = fmt.Sprintf("in %d of %d trials no rate was seen to last for %v, and the capacity is what short attempts sustained", n, len(trials), hold)
		if why := cmp.Or(nones...); why != "" {
			none += " (" + why + ")"
		}
	}
	return lower, none
}

// judgedByFew says of which objectives there was too little at the capacity, and how long
// it takes at that rate until there is enough; empty if of none.
func judgedByFew(trials []observed) (text string, takes time.Duration) {
	n, what := 0, ""
	for _, t := range trials {
		if t.few != "" {
			n++
			what, takes = cmp.Or(what, t.few), max(takes, t.fewTakes)
		}
	}
	if n == 0 {
		return "", 0
	}
	return fmt.Sprintf("in %d of %d trials the capacity rests on few requests: %s", n, len(trials), what), takes
}

// bounded makes the trial's capacity a lower bound: what was rejected was not
// rejected by the system.
func (o *observed) bounded(why string) { o.lowerBound, o.rejected = why, 0 }

// filled makes a capacity a lower bound if the machine was full at it, or where
// the search was rejected above it: neither tells the system's own edge.
func (o *observed) filled(t archive.Trial, samples []host.Sample) {
	if !(o.capacity > 0) || o.lowerBound != "" {
		return
	}
	busy, quota := o.machineBusy, o.shared(t)
	for i := range t.Measures {
		m := &t.Measures[i]
		if m.Kind == archive.Sweep || m.Held || m.Rate != o.rejected {
			continue
		}
		if span, ok := probe.Over(samples, m.Result.From, m.Result.To); ok {
			busy = max(busy, span.MachineBusy)
		}
	}
	switch outside := o.conditions.Outside; {
	case busy < verdict.MachineFull && quota != "":
		o.bounded(quota)
	case busy < verdict.MachineFull:
	case outside > outsideMuch:
		o.bounded(fmt.Sprintf("the machine was full, and something other than this run used %.1f of its cores", outside))
	default:
		o.bounded(fullMachine)
	}
}

// shared is what the generator and the system had used up together at the ends of the
// search; empty if nothing.
func (o *observed) shared(t archive.Trial) string {
	for i := range t.Measures {
		m := &t.Measures[i]
		if m.Kind == archive.Sweep || m.Rate != o.capacity && m.Rate != o.rejected {
			continue
		}
		for _, why := range m.Result.Validity() {
			if why.Shared {
				return why.Text
			}
		}
	}
	return ""
}

// rejectedOr is the lowest rate that did not hold, +Inf if the system rejected
// none: nothing is known of its edge then but that it is not below the capacity.
func rejectedOr(rejected float64) float64 {
	if rejected > 0 {
		return rejected
	}
	return math.Inf(1)
}

// between is the median of the lows with an interval that runs from lows to
// highs; see stats.Bracketed.
func between(lows, highs []float64, unit string) result.Estimate {
	iv := result.Estimate{Interval: stats.Bracketed(lows, highs), Unit: unit}
	if !math.IsInf(iv.High, 1) {
		return iv
	}
	iv.HighOpen, iv.High = true, iv.Value
	for _, x := range slices.Concat(lows, highs) {
		if !math.IsInf(x, 1) {
			iv.High = max(iv.High, x)
		}
	}
	return iv
}

// capacityOf is the variant's capacity: the median of the highest rates that
// held, with an interval from these to the lowest that did not.
func capacityOf(trials []observed, unit string) *result.Estimate {
	var held, rejected []float64
	for _, t := range trials {
		held, rejected = append(held, t.capacity), append(rejected, rejectedOr(t.rejected))
	}
	iv := between(held, rejected, unit)
	return &iv
}

// ended is in how many trials the measurement ended before the system did, and
// the commonest reason.
func ended(trials []observed) (n int, reason string) {
	times := make(map[string]int)
	for _, t := range trials {
		if t.lowerBound == "" {
			continue
		}
		n++
		times[t.lowerBound]++
		if times[t.lowerBound] > times[reason] {
			reason = t.lowerBound
		}
	}
	return n, reason
}

// lowerBound is why the variant's capacity is only a lower bound: because that
// of half its trials or more is.
func lowerBound(trials []observed) string {
	n, reason := ended(trials)
	if n == 0 || 2*n < len(trials) {
		return ""
	}
	return reason
}

const (
	// budgetTimes is how much longer a search should be that ended too early: its attempts have as many
	// times the requests.
	budgetTimes = 3
	// budgetAttempts is how many times its longest attempt a search takes, at least.
	budgetAttempts = 2
)

// searchWarnings say what the capacity leaves open: trials that ended before the
// system did, rates that did not last, and searches that had too little time. What to do
// about these is one advice: a longer search, whose attempts are longer, or, where there
// were only too few requests, to hold the rate for longer.
func searchWarnings(trials []observed, search experiment.Search) []string {
	var out []string
	if n, reason := ended(trials); n > 0 {
		out = append(out, fmt.Sprintf("%d of %d trials ended before the system did: %s", n, len(trials), reason))
	}
	lower, none := lasting(trials, search.Hold)
	if lower != "" {
		out = append(out, lower)
	}
	wide := early(trials, float64(search.Tolerance))
	few, takes := judgedByFew(trials)
	found := strings.Join(slices.DeleteFunc([]string{none, wide, few}, func(s string) bool { return s == "" }), "; ")
	switch enough := inTens(takes); {
	case found == "":
		return out
	case found == few && search.Hold < takes:
		return append(out, fmt.Sprintf("%s; search: {hold: %ds} offers enough", few, enough))
	default:
		took := capacity.Config{Budget: search.Budget}.For(slowest(trials)).Budget
		longer := max(budgetTimes*took.Seconds(), budgetAttempts*float64(enough))
		return append(out, fmt.Sprintf("%s; a longer search, such as search: {budget: %.0fs}, tells more", found, longer))
	}
}

// slowest is the lowest capacity that a trial found, or infinite if none did.
func slowest(trials []observed) float64 {
	low := math.Inf(1)
	for i := range trials {
		if trials[i].measured {
			low = min(low, trials[i].capacity)
		}
	}
	return low
}

// inTens is a time in seconds, rounded up to tens of them.
func inTens(d time.Duration) int {
	const round = 10
	return round * int(math.Ceil(d.Seconds()/round))
}

// early says by what it shows that searches ended before they had closed in on the edge;
// empty if they did not.
func early(trials []observed, tolerance float64) string {
	var wide []string
	var apart []float64
	found, once := 0, 0
	for _, t := range trials {
		if !(t.capacity > 0) {
			continue
		}
		found++
		if !t.confirmed {
			once++
		}
		if t.rejected > 0 {
			apart = append(apart, t.rejected/t.capacity)
		}
	}
	if m := median(apart); m > 1+2*tolerance {
		wide = append(wide, fmt.Sprintf("in the median trial the lowest rate that did not hold is %s above the highest that did", format.Percent(m-1)))
	}
	if 2*once > found {
		wide = append(wide, fmt.Sprintf("in %d of %d trials the highest rate that held was not measured again", once, found))
	}
	if len(wide) == 0 {
		return ""
	}
	return "the search ended early: " + strings.Join(wide, ", and ")
}

// typical is the trial of median capacity.
func typical(trials []observed) observed {
	sorted := slices.SortedFunc(slices.Values(trials), func(a, b observed) int { return cmp.Compare(a.capacity, b.capacity) })
	return sorted[(len(sorted)-1)/2]
}
