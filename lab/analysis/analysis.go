// Package analysis turns the raw data of a run into what it found: capacity
// with an interval, figures at capacity, the verdict, and the comparison of
// variants. It is a function of the run's directory and nothing else, so a
// report can be derived again at any time, by any later version.
package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
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
		Measure: exp.Measure, Unit: unit(exp), SLO: append(written(exp.SLO), bounds(exp)...), Warnings: slices.Clone(r.Warnings), Source: string(r.Source),
	}
	if r.Partial != nil { // above all other warnings: it is about every figure
		res.Partial = r.Partial.String()
		res.Warnings = slices.Insert(res.Warnings, 0, "partial: "+res.Partial)
	}
	var costs []float64
	for _, v := range variants(r) {
		seen, err := variantTrials(r, exp, v)
		if err != nil {
			return nil, err
		}
		for _, t := range seen {
			costs = append(costs, t.probeCPU)
		}
		res.Variants = append(res.Variants, summarise(exp, v, seen))
	}
	res.Environment.ProbeCPU = median(costs)
	res.Warnings = append(res.Warnings, costly(res.Environment.ProbeCPU, r.Environment.Cores)...)
	if res.Comparisons, err = comparisons(res.Variants); err != nil {
		return nil, fmt.Errorf("run %s: %w", r.Path, err)
	}
	res.Scaling = growth(exp, res.Variants)
	return res, nil
}

// variants are those that have a trial, in the order of the experiment file, which
// is the order of the first round.
func variants(r *archive.Run) []string {
	var names []string
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
	if several(exp) {
		return result.IterationsPerSecond
	}
	return result.RequestsPerSecond
}

// summarise joins a variant's trials.
func summarise(exp *experiment.Experiment, name string, trials []observed) result.Variant {
	v := result.Variant{Name: name, Trials: len(trials)}
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
		LowerBound: lowerBound(trials), Several: several(exp),
		MachineBusy: medianOf(good, func(t observed) float64 { return t.machineBusy }),
	}
	for _, t := range trials {
		in.Missed = cmp.Or(in.Missed, t.missed)
		in.Perturbations = append(in.Perturbations, t.perturbations...)
		if t.perturbed != nil {
			v.Perturbation = t.perturbed // one trial of a variant has it
		}
	}
	if exp.Measure == experiment.Capacity {
		capacityFound(&v, &in, exp, trials)
	}
	if len(good) == 0 {
		v.Verdict = verdict.Evaluate(in)
		return v
	}
	atPoint(&v, good)
	if c := v.Conditions; c.Outside > outsideMuch {
		v.Warnings = append(v.Warnings, fmt.Sprintf("something other than this run used %.1f cores meanwhile: stop it and repeat", c.Outside))
	}
	if in.Capacity == 0 && exp.Measure != experiment.Capacity {
		in.Capacity = medianOf(good, func(t observed) float64 { return t.throughput })
		if in.LowerBound == "" && allMet(v.SLO) {
			in.LowerBound = "the load as written met every objective, and no more was offered"
		}
	}
	in.Components = v.Components
	in.ListenOverflows = medianOf(good, func(t observed) float64 { return t.overflows })
	v.Verdict = verdict.Evaluate(in)
	return v
}

// capacityFound fills in the capacity that the trials found.
func capacityFound(v *result.Variant, in *verdict.Input, exp *experiment.Experiment, trials []observed) {
	for _, t := range trials {
		v.PerTrial = append(v.PerTrial, t.capacity)
	}
	v.Capacity = capacityOf(trials, unit(exp))
	in.Capacity = v.Capacity.Value
	v.Capacity.LowerBound = in.Capacity > 0 && (in.LowerBound != "" || in.MachineBusy >= verdict.MachineFull)
	v.Warnings = append(v.Warnings, searchWarnings(trials, float64(exp.Search.Tolerance))...)
	if in.LowerBound == fullMachine && in.MachineBusy >= verdict.MachineFull {
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
	v.Latency = result.LatencyPair{
		Response: percentiles(trials, func(t observed) result.Percentiles { return t.latency.Response }),
		Service:  percentiles(trials, func(t observed) result.Percentiles { return t.latency.Service }),
	}
	v.SLO = objectives(trials)
	var met []result.Conditions
	for _, t := range trials {
		met = append(met, t.conditions)
	}
	v.Conditions = joinConditions(met)
	v.Components = components(trials)
	v.Ratios = ratios(trials)
	v.Faults, v.Course = faults(trials), courseOf(trials)
	v.Timeline = typical(trials).timeline
}

func percentiles(trials []observed, of func(observed) result.Percentiles) result.Percentiles {
	return result.Percentiles{
		P50: medianOf(trials, func(t observed) float64 { return of(t).P50 }),
		P95: medianOf(trials, func(t observed) float64 { return of(t).P95 }),
		P99: medianOf(trials, func(t observed) float64 { return of(t).P99 }),
		Max: medianOf(trials, func(t observed) float64 { return of(t).Max }),
	}
}

// objectives are met if they were met at that point in most trials; at a
// capacity they are, by its definition, in all.
func objectives(trials []observed) []result.SLO {
	out := slices.Clone(trials[0].slo)
	for i := range out {
		met := 0
		for _, t := range trials {
			if t.slo[i].Met {
				met++
			}
		}
		out[i].Met = 2*met > len(trials)
		out[i].Observed = medianOf(trials, func(t observed) float64 { return t.slo[i].Observed })
	}
	return out
}

func components(trials []observed) []verdict.Component {
	out := slices.Clone(trials[0].components)
	for i := range out {
		of := func(f func(verdict.Component) float64) float64 {
			return medianOf(trials, func(t observed) float64 { return f(t.components[i]) })
		}
		out[i].DemandMS = of(func(c verdict.Component) float64 { return c.DemandMS })
		bounds := make([]float64, len(trials))
		for j, t := range trials {
			bounds[j] = t.components[i].Bound
		}
		out[i].Bound, out[i].BoundLow, out[i].BoundHigh = bounded(bounds)
		out[i].UserMS = of(func(c verdict.Component) float64 { return c.UserMS })
		out[i].SystemMS = of(func(c verdict.Component) float64 { return c.SystemMS })
		out[i].HottestMS = of(func(c verdict.Component) float64 { return c.HottestMS })
		out[i].RunDelay = of(func(c verdict.Component) float64 { return c.RunDelay })
		out[i].MemoryStall = of(func(c verdict.Component) float64 { return c.MemoryStall })
		out[i].MemoryFails = of(func(c verdict.Component) float64 { return c.MemoryFails })
		out[i].MajorFaults = of(func(c verdict.Component) float64 { return c.MajorFaults })
		out[i].OOMKills = uint64(of(func(c verdict.Component) float64 { return float64(c.OOMKills) }))
		out[i].DiskBytes = of(func(c verdict.Component) float64 { return c.DiskBytes })
		joinDeclared(&out[i], trials, i)
		out[i].Busy = of(func(c verdict.Component) float64 { return c.Busy })
		out[i].Throttled = of(func(c verdict.Component) float64 { return c.Throttled })
		out[i].MemoryBytes = uint64(of(func(c verdict.Component) float64 { return float64(c.MemoryBytes) }))
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

func medianOf(trials []observed, of func(observed) float64) float64 {
	xs := make([]float64, len(trials))
	for i, t := range trials {
		xs[i] = of(t)
	}
	return median(xs)
}

func median(xs []float64) float64 { return stats.Median(xs).Value }

// instancesByService groups a trial's instances, services in order of name.
func instancesByService(t archive.Trial, span probe.Span) ([]string, map[string][]string) {
	names := make(map[string][]string)
	for _, in := range t.Instances {
		if _, ok := span.Instances[in.Name]; ok {
			names[in.Service] = append(names[in.Service], in.Name)
		}
	}
	return slices.Sorted(maps.Keys(names)), names
}
