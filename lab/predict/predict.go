// Package predict says what a topology that was not run will sustain, from a run of
// one that was: it makes a queueing model of what each component was seen to
// need, changes it, and gives the answer back in the run's own terms, with every
// assumption that it rests on.
//
// The mathematics is package queueing's. This one decides what the model is made
// of:
//   - Demand is the CPU per request at capacity, where it belongs: below capacity a
//     request costs more, because wake-ups are shared by fewer. Its interval is over
//     the run's trials. It is taken from that variant of the run, among those that
//     differ in sizes alone, in which the component was nearest to its limit.
//   - A quota changes when a request is served and not what it costs, so demand is
//     carried over from one share to another. That is not quite so: a component
//     that is throttled batches. Where the run has it at its limit in two sizes,
//     what it uses whatever the rate is kept apart.
//   - A component's pools are stations beside its CPU: slots, and how long a
//     request holds one.
//   - The hottest instance stays as much hotter as it was.
//   - The model's capacity is multiplied by what it was off where the same component limited.
//
// It reads no files and runs nothing.
package predict

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"loadstone/block/spelling"
	"loadstone/lab/experiment"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/model/queueing"
	"loadstone/lab/result"
	"loadstone/lab/stats"
	"loadstone/lab/threshold"
	"loadstone/lab/verdict"
)

// System is a measured variant as a model.
type System struct {
	Run, Variant string
	Unit         string // of rates
	Model        queueing.Model
	Objective    queueing.Objective
	// Measured is its capacity; nil if the run searched none, or found but a
	// lower bound.
	Measured *stats.Interval
	// Error is how far the run's variants are predicted wrongly from each other.
	Error queueing.ModelError
	// Cores are those of the machine that it was measured on, and Other what the
	// load generator needs of them for each request, in seconds.
	Cores int
	Other float64
	// Assumptions and Warnings are sentences about the model as it was measured.
	Assumptions, Warnings []string
	objective             string // as written
	unlimited             []string
	busiest               map[string]float64 // by component: the share of its CPU where its demand is from
	elsewhere             []string           // whose demands are from other variants
	component             map[string]string  // by station of a pool
	oneThread             map[string]float64 // by component: the share of its CPU that one thread used
	compared              []string           // families of variants that Error is from
	named                 []string           // components that the verdict names
	offs                  []off              // of the variants that differ in sizes alone
	tooFew                string             // says that trials are too few for an interval; empty if they are not
}

// Of makes a model of one of a run's variants, of the first if variant is
// empty. What cannot be predicted from is an error of one sentence.
func Of(r *result.Result, name, variant string) (*System, error) {
	v, err := find(r, variant)
	if err != nil {
		return nil, err
	}
	var s *System
	if _, family, err := kin(r, name, v); err == nil && len(family) > 0 && family[0].Variant == v.Name {
		s = family[0]
		correct(family)
	} else if s, err = model(r, name, v.Name); err != nil { // or what limits it is not in the model
		return nil, err
	}
	s.Error, s.compared = modelError(r, name)
	return s, nil
}

// model is Of without the model's error and without what other variants say of its correction.
func model(r *result.Result, name, variant string) (*System, error) {
	v, err := find(r, variant)
	if err != nil {
		return nil, err
	}
	if unit := r.RateUnit(); unit == experiment.Connections || unit == experiment.Rooms {
		return nil, fmt.Errorf("run %s measured how many %s are held at a time, and the model is of work that arrives at a rate; predict from a search that raises messages, or measure the changed system", name, unit)
	}
	s := &System{Run: name, Variant: v.Name, Unit: r.RateUnit(), Cores: max(1, r.Environment.Cores), busiest: make(map[string]float64), component: make(map[string]string), oneThread: make(map[string]float64)}
	measured := slices.DeleteFunc(slices.Clone(v.Figures), func(f result.Figure) bool { return !f.Measured })
	if len(measured) == 0 {
		return nil, fmt.Errorf("%s held no rate in any trial of run %s, so nothing is known of what it needs", v.Name, name)
	}
	family, err := relatives(r, v, name)
	if err != nil {
		return nil, err
	}
	if err := s.stations(r, family, measured); err != nil {
		return nil, err
	}
	s.addCapacity(r, v)
	s.setObjective(v)
	var other []float64
	for _, f := range measured {
		if f.Throughput > 0 {
			other = append(other, f.Generator/f.Throughput)
		}
	}
	s.Other = stats.Median(other).Value
	s.addVerdict(v)
	if len(s.elsewhere) > 0 {
		s.Assumptions = append(s.Assumptions, "CPU per request is from where each was nearest to its limit: "+strings.Join(s.elsewhere, ", "))
	}
	return s, nil
}

// ErrVariant marks a variant that the run has not.
var ErrVariant = errors.New("no such variant")

func find(r *result.Result, variant string) (*result.Variant, error) {
	if len(r.Variants) == 0 {
		return nil, errors.New("the run has no variants")
	}
	if variant == "" {
		return &r.Variants[0], nil
	}
	var names []string
	for i := range r.Variants {
		if r.Variants[i].Name == variant {
			return &r.Variants[i], nil
		}
		names = append(names, r.Variants[i].Name)
	}
	return nil, fmt.Errorf("%w: the run has no variant %s; %s", ErrVariant, spelling.Quote(variant), spelling.ChooseName(variant, names))
}

// stations makes one of every component.
func (s *System) stations(r *result.Result, family []*result.Variant, figures []result.Figure) error {
	v := family[0]
	for _, c := range v.Components {
		if c.Unseen > 0 {
			return fmt.Errorf("not all of what %s used in variant %s of run %s was seen, and nothing can be predicted without it", c.Name, v.Name, s.Run)
		}
		var skews []float64
		for _, f := range figures {
			i := slices.IndexFunc(f.Components, func(o verdict.Component) bool { return o.Name == c.Name })
			if i < 0 || !(f.Components[i].DemandMS > 0) || f.Components[i].Unseen > 0 {
				continue
			}
			skews = append(skews, skew(f.Components[i]))
		}
		if used := c.Busy * c.LimitCPUs; used > 0 {
			s.oneThread[c.Name] = min(1, c.ThreadBusy/used)
		}
		share := c.LimitCPUs
		if share == 0 {
			share = float64(s.Cores)
			s.unlimited = append(s.unlimited, c.Name)
		}
		each, idle := s.demand(c.Name, family)
		station := queueing.CPU(c.Name, each, max(1, c.Instances), share)
		station.Idle = idle
		if len(skews) > 0 {
			station.Skew = min(max(1, stats.Median(skews).Value), float64(station.Instances))
		}
		station.Period = period(r, c.LimitCPUs)
		s.Model.Stations = append(s.Model.Stations, station)
		s.pools(c, figures)
	}
	if len(s.Model.Stations) == 0 {
		return fmt.Errorf("run %s has no component that was watched in %s", s.Run, v.Name)
	}
	return s.Model.Validate()
}

// skew is the hottest instance's share of the work relative to the mean one:
// its bound is the limit divided by its work.
func skew(c verdict.Component) float64 {
	if !(c.Bound > 0) || !(c.DemandMS > 0) {
		return 1
	}
	return (1 - c.Stranded) * c.LimitCPUs / c.Bound * float64(c.Instances) / (c.DemandMS / 1000)
}

// kernelPeriod is how often the kernel, and so Docker, renews a quota.
const kernelPeriod = 0.1

// period is how often the quota of a component is renewed, in seconds.
func period(r *result.Result, share float64) float64 {
	switch {
	case share == 0 || !r.Environment.LimitsEnforced:
		return 0
	case r.Environment.Driver == "docker":
		return kernelPeriod
	default:
		return cgroup.DefaultPeriod.Seconds()
	}
}

// addCapacity is what corrects the model.
func (s *System) addCapacity(r *result.Result, v *result.Variant) {
	switch c := v.Capacity; {
	case c == nil || !(c.Value > 0):
		s.Warnings = append(s.Warnings, fmt.Sprintf("the run measured the %s as written, not a capacity: the prediction stands on CPU per request alone, and below capacity that is higher", r.Measure))
	case c.LowerBound:
		s.Warnings = append(s.Warnings, "the capacity of the run is only a lower bound, so it does not correct the model: the prediction stands on CPU per request alone")
	default:
		e := stats.Median(positive(v.PerTrial))
		if c.Confidence > 0 && c.Low > 0 && c.Low <= c.Value && c.Value <= c.High { // a trial that sustained nothing has no logarithm
			e = c.Interval
			e.HighOpen = false // a warning says so
		}
		if c.HighOpen {
			s.Warnings = append(s.Warnings, "too many trials of the run ended before the system did, so the interval may end too low")
		}
		s.Measured = &e
	}
	if len(v.Figures) < 6 {
		s.tooFew = fmt.Sprintf("%d trials are too few for a 95 %% interval: the one given is narrower than it should be, or missing", len(v.Figures))
	}
}

func positive(xs []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(xs), func(x float64) bool { return !(x > 0) })
}

// endless stands for an objective that no queue crosses before its server is
// full, for runs that have none on response time.
const endless = 3600

// setObjective takes the percentile that was nearest to its limit.
func (s *System) setObjective(v *result.Variant) {
	s.Objective = queueing.Objective{Share: 0.95, Seconds: endless}
	nearest := math.Inf(-1)
	var left []string
	for _, o := range v.SLO {
		t, err := threshold.Parse(o.Metric, o.Threshold)
		if err != nil || s.Unit != result.RequestsPerSecond || !usable(t) {
			left = append(left, o.Metric+": "+o.Threshold)
			continue
		}
		if use := o.Observed / t.Value; use > nearest {
			nearest = use
			s.Objective = queueing.Objective{Share: share(t), Seconds: t.Value / 1000}
			s.objective = o.Metric + ": " + o.Threshold
		}
	}
	if s.objective == "" {
		s.Warnings = append(s.Warnings, "the run has no percentile of http_req_duration of single requests as its objective: the prediction is the rate at which CPU is used up")
	}
	if len(left) > 0 {
		s.Assumptions = append(s.Assumptions, "these objectives do not bind before the predicted rate: "+strings.Join(left, ", "))
	}
}

// usable says whether an objective is one that the model knows: a percentile of
// all requests that bounds them from above.
func usable(t threshold.Threshold) bool {
	return t.Metric == threshold.HTTPReqDuration && t.Scenario == "" && t.Step == "" && t.Over == 0 &&
		(t.Operator == "<" || t.Operator == "<=") && t.Value > 0 && share(t) > 0 && share(t) < 1
}

func share(t threshold.Threshold) float64 {
	switch t.Aggregation {
	case "p":
		return t.Percentile / 100
	case "med":
		return 0.5
	default:
		return 0
	}
}

// addVerdict warns if what limited the run is not in the model.
func (s *System) addVerdict(v *result.Variant) {
	warn := func(format string, args ...any) { s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...)) }
	if !v.Verdict.Decided() {
		warn("the verdict of the run is %q: what limited it may not be in the model, which has only CPU and pools", v.Verdict.Status)
		return
	}
	for _, l := range v.Verdict.Limits() {
		s.named = append(s.named, l.Component)
	}
	equally := ""
	if v.Verdict.Status == verdict.Tied {
		equally = "equally "
	}
	for _, l := range s.unmodelled(v) {
		warn("the run was limited %sby the %s of %s, which is not in the model: only CPU and pools are", equally, l.Resource, l.Component)
	}
}
