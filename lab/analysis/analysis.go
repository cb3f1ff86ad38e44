// Package analysis turns the raw data of a run into what it found: capacity
// with an interval, figures at capacity, the verdict, and the comparison of
// variants. It is a function of the run's directory and nothing else, so a
// report can be derived again at any time, by any later version.
package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/load/roundtrip"
	"loadstone/lab/probe"
	"loadstone/lab/result"
	"loadstone/lab/stats"
	"loadstone/lab/verdict"
)

// Derive works out what a run found.
func Derive(r *archive.Run) (*result.Result, error) {
	exp, err := experiment.Parse(r.Path+"/experiment.yaml", r.Source)
	if err != nil {
		return nil, fmt.Errorf("the experiment of run %s: %w", r.Path, err)
	}
	res := &result.Result{
		Schema: result.Schema, Experiment: exp.Name, Question: exp.Question, Seed: r.Seed,
		Started: r.Started, Finished: r.Finished, Environment: result.Environment{Environment: r.Environment},
		Measure: exp.Measure, Unit: unit(exp), WarmupSeconds: exp.Load.Warmup.Seconds(), SLO: append(written(exp.SLO), bounds(exp)...), Warnings: slices.Clone(r.Warnings), Source: string(r.Source),
	}
	if r.Partial != nil { // above all other warnings: it is about every figure
		res.Partial = r.Partial.String()
		res.Warnings = slices.Insert(res.Warnings, 0, "partial: "+res.Partial)
	}
	var costs []float64
	for _, v := range variants(r, exp) {
		seen, err := variantTrials(r, exp, v)
		if err != nil {
			return nil, err
		}
		for _, t := range seen {
			if !t.conditions.Unwatched {
				costs = append(costs, t.probeCPU)
			}
		}
		res.Variants = append(res.Variants, summarise(exp, v, seen, r.Environment.Cores))
	}
	res.Environment.ProbeCPU = median(costs)
	res.Warnings = append(res.Warnings, costly(res.Environment.ProbeCPU, r.Environment.Cores)...)
	res.Warnings = append(res.Warnings, mixedNetworks(r.Trials)...)
	var unsteady []string
	res.Environment.Speed, unsteady = machineSpeed(r.Trials)
	res.Warnings = append(res.Warnings, unsteady...)
	if res.Comparisons, res.Others, err = comparisons(res.Variants); err != nil {
		return nil, fmt.Errorf("run %s: %w", r.Path, err)
	}
	res.Scaling = growth(exp, res.Variants)
	return res, nil
}

// variants are those that have a trial, in the order of the experiment file.
func variants(r *archive.Run, exp *experiment.Experiment) []string {
	var names []string
	for i := range exp.Variants {
		name := exp.Variants[i].Name
		if slices.ContainsFunc(r.Trials, func(t archive.Trial) bool { return t.Variant == name }) {
			names = append(names, name)
		}
	}
	for i := range r.Trials {
		if p := r.Trials[i].Planned; !slices.Contains(names, p.Variant) {
			names = append(names, p.Variant)
		}
	}
	return names
}

func written(slo experiment.SLO) []result.SLO {
	var out []result.SLO
	for _, o := range slo {
		for _, t := range o.Thresholds {
			out = append(out, result.SLO{Metric: o.Metric, Threshold: t.String()})
		}
	}
	return out
}

// several says whether an iteration is several requests. Rates are counted in
// iterations then, else in requests, which are the same.
func several(exp *experiment.Experiment) bool {
	return slices.ContainsFunc(exp.Load.Scenarios, func(s experiment.Scenario) bool { return !s.OneRequest() })
}

func unit(exp *experiment.Experiment) string {
	raised := exp.Raised()
	switch {
	case raised.What != "":
		return raised.Unit()
	case several(exp):
		return result.IterationsPerSecond
	}
	return result.RequestsPerSecond
}

// asked is the load that the variant was to get as written; empty for a search, which
// asks for many rates.
func asked(exp *experiment.Experiment, variant string) string {
	switch {
	case exp.Measure == experiment.Capacity:
		return ""
	case exp.Load.K6 != nil:
		return "k6 script " + filepath.Base(exp.Load.K6.Script)
	}
	plan := exp.PlanOf(variant)
	return plan.Asked()
}

// summarise joins a variant's trials.
func summarise(exp *experiment.Experiment, name string, trials []observed, cores int) result.Variant {
	v := result.Variant{Name: name, Trials: len(trials), Asked: asked(exp, name)}
	for _, t := range trials {
		v.Curve = append(v.Curve, t.curve...)
		v.Warnings = append(v.Warnings, t.warnings...)
		v.Figures = append(v.Figures, t.figure())
	}
	slices.SortStableFunc(v.Curve, func(a, b result.CurvePoint) int { return cmp.Compare(a.Rate, b.Rate) })
	slices.Sort(v.Warnings)
	v.Warnings = slices.Compact(v.Warnings)
	good := slices.DeleteFunc(slices.Clone(trials), func(t observed) bool { return !t.measured })
	in := verdict.Input{
		LowerBound: lowerBound(trials), Unit: unit(exp), Cores: float64(cores),
		MachineBusy: medianOf(sighted(good), func(t observed) float64 { return t.machineBusy }),
	}
	for _, t := range trials {
		in.Missed = cmp.Or(in.Missed, t.missed)
		in.Perturbations = append(in.Perturbations, t.perturbations...)
		in.PerturbedRate = max(in.PerturbedRate, t.unperturbed)
		if s := t.settling; s.share > in.Settling {
			in.Settling, in.SettleSeconds, in.LongSlots = s.share, s.seconds, s.enough
		}
		if t.perturbed != nil {
			v.Perturbation = t.perturbed // one trial of a variant has it
		}
	}
	if exp.Measure == experiment.Capacity {
		capacityFound(&v, &in, exp, trials)
	}
	if len(good) == 0 {
		v.Verdict = verdict.Evaluate(in)
		if len(trials) > 0 {
			disturbed(&v, joinConditions(trials)) // perhaps that is why no rate held
		}
		return v
	}
	atPoint(&v, good)
	disturbed(&v, v.Conditions)
	if in.Capacity == 0 && exp.Measure != experiment.Capacity {
		in.Capacity = medianOf(good, func(t observed) float64 { return t.throughput })
		if in.LowerBound == "" && allMet(v.SLO) {
			in.LowerBound = "the load as written met every objective, and no more was offered"
		}
	}
	in.Carried = medianOf(good, func(t observed) float64 { return t.throughput })
	in.Components = v.Components
	v.Hops, in.Waits = hopsOf(good)
	v.Warnings = append(v.Warnings, stalls(v.Hops)...)
	in.ListenOverflows = medianOf(sighted(good), func(t observed) float64 { return t.overflows })
	v.Verdict = verdict.Evaluate(in)
	return v
}

// disturbed warns if measurements were not valid, or the machine did much for others.
func disturbed(v *result.Variant, c *result.Conditions) {
	if n := len(c.Invalid); n > 0 {
		v.Warnings = append(v.Warnings, fmt.Sprintf("in %d of %d trials the load generator, or what it shares with the system, was the limit of what was measured: %s", n, v.Trials, c.Invalid[0]))
	}
	if c.Outside > outsideMuch {
		who, process := c.MostOutside()
		text := fmt.Sprintf("something other than this run used %.1f cores meanwhile%s", c.Outside, who)
		if process {
			text += ": stop it and repeat"
		}
		v.Warnings = append(v.Warnings, text)
	}
}

// capacityFound fills in the capacity that the trials found.
func capacityFound(v *result.Variant, in *verdict.Input, exp *experiment.Experiment, trials []observed) {
	for _, t := range trials {
		v.PerTrial = append(v.PerTrial, t.capacity)
	}
	v.Capacity = capacityOf(trials, unit(exp))
	in.Capacity = v.Capacity.Value
	v.Capacity.LowerBound = in.LowerBound != "" || in.Capacity > 0 && in.MachineBusy >= verdict.MachineFull
	v.Warnings = append(v.Warnings, searchWarnings(trials, exp.Search)...)
	v.Warnings = append(v.Warnings, warming(trials, float64(exp.Search.Tolerance))...)
	if in.Capacity > 0 && in.LowerBound == fullMachine && in.MachineBusy >= verdict.MachineFull {
		in.LowerBound = "" // the verdict says how full
	}
}

func allMet(slo []result.SLO) bool {
	return !slices.ContainsFunc(slo, func(s result.SLO) bool { return !s.Met })
}

// atPoint fills in the figures at capacity (or under the load as written).
func atPoint(v *result.Variant, trials []observed) {
	v.Rate = medianOf(trials, func(t observed) float64 { return t.rate })
	v.Failed = medianOf(trials, func(t observed) float64 { return t.failed })
	v.Generator = medianOf(trials, func(t observed) float64 { return t.generator })
	latency := func(t *observed) []*float64 {
		r, s := &t.latency.Response, &t.latency.Service
		return []*float64{&r.P50, &r.P95, &r.P99, &r.Max, &s.P50, &s.P95, &s.P99, &s.Max}
	}
	v.Latency = medians(trials, latency).latency
	v.Steps, v.Journeys = joinSteps(trials), joinJourneys(trials)
	v.SLO = objectives(trials)
	v.Conditions = joinConditions(trials)
	v.Components = components(trials)
	v.Ratios = ratios(trials)
	v.Faults, v.Course = faults(trials), courseOf(trials)
	v.Timeline = typical(sighted(trials)).timeline
}

// joinSteps are the medians over trials of each step's figures.
func joinSteps(trials []observed) []result.Step {
	return joined(trials, func(t *observed) []result.Step { return t.steps },
		func(s *result.Step) [2]string { return [2]string{s.Scenario, s.Name} },
		func(s *result.Step) []*float64 {
			r := &s.Response
			return []*float64{&s.PerIteration, &s.Failed, &s.Sent, &s.Received, &r.P50, &r.P95, &r.P99, &r.Max}
		})
}

// joinJourneys are the medians over trials of each scenario's iterations.
func joinJourneys(trials []observed) []result.Journey {
	out := joined(trials, func(t *observed) []result.Journey { return t.journeys },
		func(j *result.Journey) [2]string { return [2]string{j.Scenario} },
		func(j *result.Journey) []*float64 {
			d, c := &j.Duration, &j.Cache
			return []*float64{
				&j.BrokenOff, &d.P50, &d.P95, &d.P99, &d.Max, &j.Calls, &j.Sent, &j.Received,
				&c.Hits, &c.Revalidations, &c.Fetched, &c.LargestBytes,
			}
		})
	for i := range out {
		out[i].Far = joinFar(trials, out[i].Scenario)
	}
	return out
}

// joinFar are the medians of how long a scenario's journeys take over networks, if each trial
// knows that.
func joinFar(trials []observed, scenario string) []roundtrip.JourneyTime {
	known := make([][]roundtrip.JourneyTime, len(roundtrip.Phones()))
	for i := range trials {
		for _, j := range trials[i].journeys {
			if j.Scenario != scenario {
				continue
			}
			for at, far := range j.Far {
				known[at] = append(known[at], far)
			}
		}
	}
	var out []roundtrip.JourneyTime
	for _, far := range known {
		if len(far) < len(trials) {
			return nil
		}
		out = append(out, medians(far, func(t *roundtrip.JourneyTime) []*float64 { return []*float64{&t.Open, &t.New} }))
	}
	return out
}

// joined are the medians over trials of what each of them has of the same name. What not
// every trial has is left out: a k6 script may make a request in one and not in another.
func joined[T any](trials []observed, of func(*observed) []T, name func(*T) [2]string, fields func(*T) []*float64) []T {
	var out []T
	for _, first := range of(&trials[0]) {
		var seen []T
		for i := range trials {
			for _, item := range of(&trials[i]) {
				if name(&item) == name(&first) {
					seen = append(seen, item)
				}
			}
		}
		if len(seen) == len(trials) {
			out = append(out, medians(seen, fields))
		}
	}
	return out
}

// sighted are the trials in which a machine was seen; all, if there is none.
func sighted(trials []observed) []observed {
	seen := slices.DeleteFunc(slices.Clone(trials), func(t observed) bool { return t.conditions.Unwatched })
	if len(seen) == 0 {
		return trials
	}
	return seen
}

// components are the medians over trials of what is known of each component.
func components(trials []observed) []verdict.Component {
	out := make([]verdict.Component, len(trials[0].components))
	for i := range out {
		var all []verdict.Component
		for _, t := range trials {
			all = append(all, t.components[i])
		}
		// Figures of a part of it are not of the whole: those count in which most of it was seen.
		least := slices.MinFunc(all, func(a, b verdict.Component) int { return cmp.Compare(a.Unseen, b.Unseen) }).Unseen
		seen := slices.DeleteFunc(slices.Clone(all), func(c verdict.Component) bool { return c.Unseen > least })
		c := medians(seen, func(c *verdict.Component) []*float64 {
			return []*float64{
				&c.DemandMS, &c.CollectMS, &c.UserMS, &c.SystemMS, &c.HottestMS, &c.Busy, &c.Throttled,
				&c.RunDelay, &c.ThreadBusy, &c.MemoryStall, &c.MemoryFails, &c.MajorFaults, &c.DiskBytes, &c.Stranded,
			}
		})
		c.Visits = medianOf(all, func(c verdict.Component) float64 { return c.Visits })
		c.OOMKills = uint64(medianOf(seen, func(c verdict.Component) float64 { return float64(c.OOMKills) }))
		c.MemoryBytes = uint64(medianOf(seen, func(c verdict.Component) float64 { return float64(c.MemoryBytes) }))
		c.Bound, c.BoundLow, c.BoundHigh, c.BoundTrials = bounded(seen, func(c verdict.Component) float64 { return c.Bound })
		c.Resources, c.Work, c.Missed = joinResources(all), joinWork(seen), joinMissed(seen)
		out[i] = c
	}
	return out
}

// ratios are the medians over trials and instances of each component's hit ratios.
func ratios(trials []observed) []result.Ratio {
	type key struct{ component, name string }
	values := make(map[key][]float64)
	for _, t := range trials {
		for _, r := range t.ratios {
			k := key{r.Component, r.Name}
			values[k] = append(values[k], r.Value)
		}
	}
	var out []result.Ratio
	for k, vs := range values {
		out = append(out, result.Ratio{Name: k.name, Component: k.component, Value: median(vs)})
	}
	slices.SortFunc(out, func(a, b result.Ratio) int {
		return cmp.Or(cmp.Compare(a.Component, b.Component), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func medianOf[T any](items []T, of func(T) float64) float64 { return median(values(items, of)) }

func median(xs []float64) float64 { return stats.Median(xs).Value }

func values[T any](items []T, of func(T) float64) []float64 {
	xs := make([]float64, len(items))
	for i, item := range items {
		xs[i] = of(item)
	}
	return xs
}

// medians is the first of items, with each of these fields at its median over all.
func medians[T any](items []T, fields func(*T) []*float64) T {
	joined := items[0]
	for i, field := range fields(&joined) {
		*field = medianOf(items, func(item T) float64 { return *fields(&item)[i] })
	}
	return joined
}

// instancesByService groups a trial's instances, services in order of name.
func instancesByService(t archive.Trial, span probe.Span) ([]string, map[string][]string) {
	names := make(map[string][]string)
	for _, in := range t.Instances {
		if _, ok := span.Instances[in.Name]; ok || in.Unseen { // which tells of its resources
			names[in.Service] = append(names[in.Service], in.Name)
		}
	}
	return slices.Sorted(maps.Keys(names)), names
}
