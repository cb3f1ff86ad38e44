package analysis

import (
	"cmp"
	"slices"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/host"
	"loadstone/lab/load"
	"loadstone/lab/perturb"
	"loadstone/lab/probe"
	"loadstone/lab/result"
	"loadstone/lab/stats"
	"loadstone/lab/verdict"
)

// perturbations are what changing the resources of a trial did. What several did
// that were changed together is that group's, and is left out once each of them was
// changed by itself.
func perturbations(t archive.Trial) []verdict.Perturbation {
	alone := make(map[perturb.Target]bool)
	estimates := perturb.Estimate(t.Perturbations)
	for _, e := range estimates {
		if len(e.Targets) == 1 {
			alone[e.Targets[0]] = true
		}
	}
	var out []verdict.Perturbation
	for _, e := range estimates {
		p := verdict.Perturbation{
			Elasticity: e.Throughput.Value, Low: e.Throughput.Low, High: e.Throughput.High,
			Faster: faster(&e.P95), More: faster(e.P95OfMore),
		}
		unsplit := false
		for _, target := range e.Targets {
			p.Group = append(p.Group, verdict.Limit{Component: target.Component, Resource: target.Resource, Name: target.Name})
			unsplit = unsplit || !alone[target]
		}
		switch {
		case len(p.Group) == 1:
			p.Component, p.Resource, p.Name, p.Group = p.Group[0].Component, p.Group[0].Resource, p.Group[0].Name, nil
		case !unsplit:
			continue
		}
		out = append(out, p)
	}
	return out
}

// faster is an elasticity of response times with its sign turned; nil if it is not known.
func faster(slower *stats.Interval) *verdict.Elasticity {
	if slower == nil {
		return nil
	}
	return &verdict.Elasticity{Value: -slower.Value, Low: -slower.High, High: -slower.Low}
}

// unperturbedRate is what the load of the perturbations carried while nothing was
// changed, in iterations a second, of which one was so many requests at the capacity; 0 if
// that is not known.
func unperturbedRate(slots []perturb.Slot, r *load.Result) float64 {
	rates := ofUnperturbed(slots, (*perturb.Slot).Throughput)
	if len(rates) == 0 || r.Requests == 0 {
		return 0
	}
	return median(rates) * float64(r.Iterations) / float64(r.Requests)
}

// ofUnperturbed are the values of the slots in which nothing was changed.
func ofUnperturbed(slots []perturb.Slot, value func(*perturb.Slot) float64) (all []float64) {
	for i := range slots {
		if s := &slots[i]; len(s.Targets) == 0 && s.Seconds > 0 {
			all = append(all, value(s))
		}
	}
	return all
}

// meanOfP95 is the mean of the response times of closed load that waits in one place, as a part
// of their 95th percentile.
const meanOfP95 = 0.8

// settling is how long queues took to move after a step of a perturbation.
type settling struct {
	share   float64 // of an unperturbed slot that still passed meanwhile, 0 to 1
	seconds float64
	enough  float64 // seconds to perturb for, so that slots are long enough
}

func settlingOf(slots []perturb.Slot) (out settling) {
	takes := func(s *perturb.Slot) float64 { return perturb.Settles * meanOfP95 * s.P95 / 1000 }
	shares := ofUnperturbed(slots, func(s *perturb.Slot) float64 { return min(max(takes(s)-s.Settled, 0)/s.Seconds, 1) })
	if len(shares) == 0 {
		return out
	}
	out.share, out.seconds = median(shares), median(ofUnperturbed(slots, takes))
	out.enough = perturb.Enough(time.Duration(out.seconds / perturb.Settles * float64(time.Second))).Seconds()
	return out
}

// perturbed is the perturbation experiment of a trial, for the report; nil if
// there was none.
func perturbed(t archive.Trial, samples []host.Sample) *result.Perturbation {
	if len(t.Perturbations) == 0 {
		return nil
	}
	first, last := t.Perturbations[0], t.Perturbations[len(t.Perturbations)-1]
	p := &result.Perturbation{Trial: t.Index, Effects: []result.PerturbedEffect{}}
	for _, s := range t.Perturbations {
		p.Slots = append(p.Slots, result.PerturbedSlot{
			At: s.Start.Sub(first.Start).Seconds(), Seconds: s.Seconds, Set: s.Set, Targets: targetNames(s.Targets),
			Factor: s.Factor, Throughput: throughput(&s), P95: s.P95,
		})
	}
	for _, e := range perturb.Estimate(t.Perturbations) {
		p.Effects = append(p.Effects, result.PerturbedEffect{
			Targets: targetNames(e.Targets), Throughput: result.Estimate{Interval: e.Throughput}, P95: result.Estimate{Interval: e.P95}, Blocks: e.Blocks,
		})
	}
	end := last.Start.Add(time.Duration(last.Seconds * float64(time.Second)))
	if span, ok := probe.Over(samples, first.Start, end); ok {
		p.CostCPU, p.MachineBusy = span.Self, span.MachineBusy
	}
	return p
}

// throughput is 0 of a slot without a length, which has none.
func throughput(s *perturb.Slot) float64 {
	if s.Seconds <= 0 {
		return 0
	}
	return s.Throughput()
}

func targetNames(targets []perturb.Target) []string {
	var names []string
	for _, t := range targets {
		names = append(names, t.String())
	}
	return names
}

// conditions are those under which a trial's measured part went by.
func conditions(samples []host.Sample, span probe.Span, r *load.Result) result.Conditions {
	c := result.Conditions{
		MachineBusy: span.MachineBusy, ProbeCPU: span.Self, Outside: max(0, span.Outside-r.Generator.Busy),
		Interrupts: span.Interrupts, Stolen: span.Stolen,
		Working: r.Generator.Working, Late: r.LateShare(), LateMS: r.Generator.Lateness.P99,
	}
	if why := r.Validity(); len(why) > 0 {
		c.Invalid = []string{why[0].Text}
	}
	var gaps []float64
	for i := 1; i < len(samples); i++ {
		if a, b := samples[i-1].At, samples[i].At; b.After(r.From) && a.Before(r.To) {
			gaps = append(gaps, b.Sub(a).Seconds())
		}
	}
	if len(gaps) > 0 {
		c.SampleSeconds, c.GapSeconds = stats.Median(gaps).Value, slices.Max(gaps)
	}
	return c
}

// joinConditions is the median over trials of each condition, the longest of
// the gaps, and why which of them are not valid.
func joinConditions(trials []observed) *result.Conditions {
	joined := medians(sighted(trials), func(t *observed) []*float64 {
		c := &t.conditions
		return []*float64{&c.MachineBusy, &c.ProbeCPU, &c.Outside, &c.Interrupts, &c.Stolen, &c.SampleSeconds}
	}).conditions
	generator := medians(trials, func(t *observed) []*float64 {
		return []*float64{&t.conditions.Working, &t.conditions.Late, &t.conditions.LateMS}
	}).conditions
	joined.Working, joined.Late, joined.LateMS = generator.Working, generator.Late, generator.LateMS
	joined.Invalid, joined.Outsiders = nil, joinOutsiders(sighted(trials))
	for _, t := range trials {
		joined.GapSeconds = max(joined.GapSeconds, t.conditions.GapSeconds)
		joined.Invalid = append(joined.Invalid, t.conditions.Invalid...)
	}
	return &joined
}

// joinOutsiders are the processes outside the run with what each used on average over all
// trials, also those in which it did nothing; the one that used most is the first.
func joinOutsiders(trials []observed) []host.Process {
	sums := map[host.Process]float64{} // by all but what it used
	for _, t := range trials {
		for _, p := range t.conditions.Outsiders {
			used := p.Cores / float64(len(trials))
			p.Cores = 0
			sums[p] += used
		}
	}
	var out []host.Process
	for p, cores := range sums {
		p.Cores = cores
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b host.Process) int { return cmp.Or(cmp.Compare(b.Cores, a.Cores), cmp.Compare(a.PID, b.PID)) })
	return out
}
