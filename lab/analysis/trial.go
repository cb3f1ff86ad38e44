package analysis

import (
	"fmt"
	"slices"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/experiment"
	"loadstone/lab/host"
	"loadstone/lab/load"
	"loadstone/lab/load/roundtrip"
	"loadstone/lab/probe"
	"loadstone/lab/result"
	"loadstone/lab/series"
	"loadstone/lab/topology"
	"loadstone/lab/verdict"
)

// observed is one trial, worked out.
type observed struct {
	index, round int           // of the trial
	speed        *result.Speed // the machine's; nil if it is not known
	// measured is false if no rate held: then only curve, warnings and conditions count.
	measured   bool
	capacity   float64       // iterations/s; 0 if no rate held
	rejected   float64       // the lowest that the system did not sustain; 0 if it is not known
	edge       float64       // where all attempts put it; capacity itself where the search found but a lower bound
	confirmed  bool          // capacity was measured again
	few        string        // of which objective there was too little at the capacity; empty if of none
	fewTakes   time.Duration // until there would have been enough of it
	short      string        // the highest rate that did not last as long as was asked, and why; empty if all did
	lasted     bool          // capacity did, or it was not asked
	missed     string        // why no rate held; empty if one did
	lowerBound string        // why the trial ended before the system did; empty if it did not

	// At capacity, or under the load as written:
	rate        float64 // offered
	throughput  float64 // completed, in iterations/s
	requests    uint64  // sent or dropped
	failed      float64
	generator   float64 // cores
	machineBusy float64
	probeCPU    float64
	overflows   float64 // connections that full backlogs turned away, each second
	latency     result.LatencyPair
	steps       []result.Step
	journeys    []result.Journey
	slo         []result.SLO
	components  []verdict.Component
	ratios      []result.Ratio

	perturbations []verdict.Perturbation // nil in trials that were not perturbed
	unperturbed   float64                // what the load meanwhile carried, in iterations/s
	settling      settling               // of their slots
	perturbed     *result.Perturbation   // as perturbations
	conditions    result.Conditions

	atCapacity, light passages // light is of one trial of each variant
	unseen            string   // why there are none

	attempts []attempt
	curve    []result.CurvePoint
	timeline result.Timeline
	course   course
	scaled   scalings
	warnings []string
}

// variantTrials reads and works out the trials of one variant.
func variantTrials(r *archive.Run, exp *experiment.Experiment, variant string) ([]observed, error) {
	var out []observed
	for _, t := range r.Trials {
		if t.Variant != variant {
			continue
		}
		o, err := observe(r.TrialDir(t.Planned), exp, t)
		if err != nil {
			return nil, fmt.Errorf("trial %d (%s): %w", t.Index, t.Variant, err)
		}
		out = append(out, o)
	}
	return out, nil
}

// watched is what the probe wrote about one trial.
type watched struct {
	samples []host.Sample
	scrapes []probe.Scrape
}

func readWatched(dir string) (w watched, err error) {
	err = archive.ReadLines(dir, probe.SamplesFile, func(s host.Sample) { w.samples = append(w.samples, s) })
	if err != nil {
		return w, err
	}
	err = archive.ReadLines(dir, probe.MetricsFile, func(s probe.Scrape) { w.scrapes = append(w.scrapes, s) })
	return w, err
}

func observe(dir string, exp *experiment.Experiment, t archive.Trial) (observed, error) {
	w, err := readWatched(dir)
	if err != nil {
		return observed{}, err
	}
	o := observed{index: t.Index, round: t.Round, speed: speedOf(&t), attempts: attempts(t, w.samples), curve: curve(t), timeline: timeline(t, w.samples), warnings: slices.Clone(t.Warnings), perturbations: perturbations(t), perturbed: perturbed(t, w.samples)}
	out, point := t.Conclude()
	o.search(out)
	if point == nil {
		o.missed, o.conditions = missedBy(t), longestAttempt(t, w.samples)
		if why := unjudged(t); why != "" && o.lowerBound == "" {
			o.bounded(why)
		}
		return o, nil
	}
	if o.held(exp, t); exp.Measure == experiment.Capacity && exp.Raised().What == "" {
		o.few, o.fewTakes = capacity.TooFew(&point.Result, exp.SLOOf(t.Variant).Thresholds())
	}
	o.measured, o.unperturbed, o.settling = true, unperturbedRate(t.Perturbations, &point.Result), settlingOf(t.Perturbations)
	if err := o.load(dir, exp, t.Variant, &point.Result); err != nil {
		return o, err
	}
	if err := o.followed(dir, exp, t, w, &point.Result); err != nil {
		return o, err
	}
	if err := o.watched(w, t, &point.Result); err != nil {
		return o, err
	}
	if err := o.hops(dir, t, exp.Entry, point.Result.From, point.Result.To); err != nil {
		return o, err
	}
	o.filled(t, w.samples)
	return o, nil
}

// longestAttempt is under which conditions the longest attempt went by, for a trial in
// which none held: it had the most time for whatever rejected it to be told.
func longestAttempt(t archive.Trial, samples []host.Sample) (c result.Conditions) {
	var longest time.Duration
	for i := range t.Measures {
		r := &t.Measures[i].Result
		span, ok := probe.Over(samples, r.From, r.To)
		if length := r.To.Sub(r.From); ok && length > longest && t.Measures[i].Kind != archive.Sweep {
			longest, c = length, conditions(samples, span, r)
		}
	}
	c.Outsiders = t.Outsiders
	return c
}

// load takes over what the generator measured.
func (o *observed) load(dir string, exp *experiment.Experiment, variant string, r *load.Result) error {
	o.rate, o.throughput, o.generator = r.OfferedRate(), float64(r.IterationsInTime)/r.Seconds(), r.Generator.Busy
	if o.requests = r.Requests + r.Dropped; o.requests > 0 {
		o.failed = float64(r.Failed+r.Dropped) / float64(o.requests)
	}
	o.latency = result.LatencyPair{Response: summary(r.Response), Service: summary(r.Service)}
	plan := exp.PlanOf(variant)
	o.steps, o.journeys = steps(r), journeys(&plan, r)
	outcomes, err := objectiveOutcomes(dir, exp.SLOOf(variant), r)
	if err != nil {
		return err
	}
	for _, x := range outcomes {
		o.slo = append(o.slo, result.SLO{Metric: x.Metric, Threshold: x.Threshold, Observed: x.Observed, Met: x.Met})
	}
	return nil
}

// steps are a result's steps, each by the request.
func steps(r *load.Result) []result.Step {
	var out []result.Step
	for _, s := range r.Steps {
		step := result.Step{Scenario: s.Scenario, Name: s.Name, Response: summary(s.Response)}
		if r.Iterations > 0 {
			step.PerIteration = float64(s.Requests) / float64(r.Iterations)
		}
		if n := float64(s.Requests); n > 0 {
			step.Failed, step.Sent, step.Received = float64(s.Failed)/n, float64(s.Sent)/n, float64(s.Received)/n
		}
		out = append(out, step)
	}
	return out
}

// journeys are a result's journeys, each by the iteration of its scenario.
func journeys(plan *load.Plan, r *load.Result) []result.Journey {
	var out []result.Journey
	for i := range r.Journeys {
		j := &r.Journeys[i]
		journey := result.Journey{Scenario: j.Scenario, Duration: summary(j.Duration), Far: roundtrip.OverPhones(plan, r, j)}
		if n := float64(j.Iterations); n > 0 {
			journey.BrokenOff = float64(j.BrokenOff) / n
			journey.Calls, journey.Sent, journey.Received = together(r.Steps, j.Scenario, n)
			journey.Cache = caches(r.Caches, j.Scenario, n)
		}
		out = append(out, journey)
	}
	return out
}

// together are a scenario's requests and their bytes, by its n iterations.
func together(steps []load.StepResult, scenario string, n float64) (calls, sent, received float64) {
	for i := range steps {
		if s := &steps[i]; s.Scenario == scenario {
			calls, sent, received = calls+float64(s.Requests)/n, sent+float64(s.Sent)/n, received+float64(s.Received)/n
		}
	}
	return calls, sent, received
}

// caches is what the caches of a scenario's users did, by its n iterations.
func caches(all []load.CacheResult, scenario string, n float64) result.Cache {
	for _, c := range all {
		if c.Scenario == scenario {
			return result.Cache{
				Hits: float64(c.Hits) / n, Revalidations: float64(c.Revalidations) / n, Fetched: float64(c.Fetched) / n,
				LargestBytes: float64(c.LargestBytes),
			}
		}
	}
	return result.Cache{}
}

func summary(l load.Latency) result.Percentiles {
	return result.Percentiles{P50: l.P50, P95: l.P95, P99: l.P99, Max: l.Max}
}

// watched works out what each component used while the load was measured.
func (o *observed) watched(w watched, t archive.Trial, r *load.Result) error {
	span, ok := probe.Over(w.samples, r.From, r.To)
	unwatched := len(w.samples) == 0 && !slices.ContainsFunc(t.Instances, isSeen)
	if !ok && !unwatched {
		return fmt.Errorf("the probe's samples do not cover the measured span from %s to %s",
			r.From.Format(time.RFC3339Nano), r.To.Format(time.RFC3339Nano))
	}
	o.machineBusy, o.probeCPU, o.overflows = span.MachineBusy, span.Self, span.ListenOverflows
	o.conditions = conditions(w.samples, span, r)
	o.conditions.Outsiders, o.conditions.Unwatched = t.Outsiders, unwatched
	seen := tries(t, w.samples)
	above := justAbove(seen, o.capacity)
	o.warnings = append(o.warnings, idlers(t, span, r.To.Sub(r.From), o.scaled)...)
	services, names := instancesByService(t, span)
	for _, s := range services {
		c := component(t, s, span, r)
		if !c.NoneSeen() {
			c.Missed = missedAt(above, t, s)
		}
		if c.Stranded = stranded(t, s, seen); c.Stranded > 0 {
			c.Bound *= 1 - c.Stranded
		}
		counts, warnings := declared(&c, t, w.scrapes, r)
		c.CollectMS = collecting(names[s], span, w.scrapes, r)
		o.components, o.ratios, o.warnings = append(o.components, c), append(o.ratios, counts...), append(o.warnings, warnings...)
		for _, n := range names[s] {
			for _, h := range series.HitRatios(w.scrapes, n, r.From, r.To) {
				o.ratios = append(o.ratios, result.Ratio{Name: h.Name + " hits", Component: s, Value: h.Value})
			}
		}
	}
	return nil
}

func isSeen(in topology.Instance) bool { return !in.Unseen }

// component works out demand, bound and saturation of one service. The
// instance that used most CPU, the hottest, sets the bound: it reaches its
// limit first.
func component(t archive.Trial, service string, span probe.Span, r *load.Result) verdict.Component {
	c := verdict.Component{Name: service}
	// Demand is for each iteration, as capacity is counted in iterations. Where
	// an iteration is one request it is for each request.
	seconds, done := r.Seconds(), float64(r.IterationsInTime)
	var total, user, system, hottest float64
	for _, in := range t.Instances {
		u, ok := span.Instances[in.Name]
		if in.Service != service || !ok && !in.Unseen {
			continue
		}
		c.Instances++
		if in.Unseen {
			c.Unseen++
			continue
		}
		c.MemoryBytes = max(c.MemoryBytes, u.Memory)
		total += u.CPU.Seconds()
		user += u.User.Seconds()
		system += u.System.Seconds()
		if seconds > 0 {
			pressed(&c, u, seconds)
		}
		if cpu := u.CPU.Seconds(); cpu >= hottest {
			hottest = cpu
			c.LimitCPUs, c.Unenforced = in.LimitCPUs, in.LimitCPUs > 0 && !in.Enforced
			c.Throttled, c.RunDelay = 0, 0
			if seconds > 0 {
				c.ThreadBusy = min(1, u.Busiest*cpu/seconds)
			}
			if cpu > 0 {
				c.RunDelay = u.RunDelay.Seconds() / cpu
			}
			if u.Periods > 0 {
				c.Throttled = u.Throttled / u.Periods
			}
		}
	}
	if done > 0 {
		c.DemandMS, c.HottestMS = 1000*total/done, 1000*hottest/done
		c.UserMS, c.SystemMS = 1000*user/done, 1000*system/done
	}
	if c.LimitCPUs > 0 && seconds > 0 {
		c.Busy = hottest / (c.LimitCPUs * seconds)
		c.Bound = verdict.Bound(c.LimitCPUs, hottest, done)
	}
	return c
}

// curve has every rate that the trial tried.
func curve(t archive.Trial) []result.CurvePoint {
	var out []result.CurvePoint
	for _, m := range t.Measures {
		if m.Kind == archive.Sweep {
			continue // closed: its rate is an answer, not an offer
		}
		l := m.Result.Response
		out = append(out, result.CurvePoint{
			Trial: t.Index, Rate: m.Result.OfferedRate(), P50: l.P50, P95: l.P95, P99: l.P99,
			Held: m.Held, Reason: m.Reason, Seconds: m.Result.Seconds(),
		})
	}
	return out
}

// timelinePoints is about how many points a timeline has.
const timelinePoints = 200

// timeline is CPU use over the trial, each point the mean since the one before.
func timeline(t archive.Trial, samples []host.Sample) result.Timeline {
	tl := result.Timeline{Trial: t.Index}
	if len(samples) < 2 {
		return tl
	}
	limits, unseen := make(map[string]float64), make(map[string]bool)
	for _, in := range t.Instances {
		limits[in.Name], unseen[in.Name] = in.LimitCPUs, in.Unseen
	}
	var at []int // of each series in a sample
	for i, in := range samples[0].Instances {
		if !unseen[in.Name] {
			tl.Series, at = append(tl.Series, result.TimelineSeries{Name: in.Name, LimitCPUs: limits[in.Name]}), append(at, i)
		}
	}
	generator := result.TimelineSeries{Name: "load generator"}
	step := max(1, (len(samples)+timelinePoints-1)/timelinePoints)
	for i := step; i < len(samples); i += step {
		a, b := samples[i-step], samples[i]
		m := during(t.Measures, b.At)
		tl.Seconds = append(tl.Seconds, b.At.Sub(t.Started).Seconds())
		for j, k := range at {
			tl.Series[j].CPU = append(tl.Series[j].CPU, cores(b.Instances[k].CPU-a.Instances[k].CPU, b.At.Sub(a.At)))
		}
		rate, busy := 0.0, 0.0
		if m != nil {
			rate, busy = m.Result.OfferedRate(), m.Result.Generator.Busy
		}
		tl.Rate, generator.CPU = append(tl.Rate, rate), append(generator.CPU, busy)
	}
	tl.Series = append(tl.Series, generator)
	return tl
}

func cores(cpu, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return float64(cpu) / float64(elapsed)
}

// during is the measure under way at a moment; nil between measures.
func during(ms []archive.Measure, at time.Time) *archive.Measure {
	i := slices.IndexFunc(ms, func(m archive.Measure) bool {
		return !at.Before(m.Result.From) && !at.After(m.Result.To)
	})
	if i < 0 {
		return nil
	}
	return &ms[i]
}
