package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/load"
	"loadstone/lab/result"
)

// What a check takes for good. Those of the generator are package load's.
const (
	fullMachine  = load.BusyLimit // share of all cores: beyond, components wait for each other's
	mostCost     = 0.02           // share of the machine, of watching and of perturbing
	mostOutside  = 0.15           // share of the machine, of whatever is not the run
	widestGap    = 3              // usual distances between two samples
	leastSure    = 0.9            // confidence
	widestSpread = 0.15           // half an interval, as a share of its value
	mostFailed   = 0.001          // share of requests
)

// check is one reason to believe the numbers of the page, or to doubt them.
type check struct {
	Name, Value, Why string
	Good             bool
}

// Mark is the check's outcome in words.
func (c check) Mark() string {
	if c.Good {
		return "good"
	}
	return "look at this"
}

// newChecks judges the measurement. What a result does not tell has no check.
func newChecks(r *result.Result) []check {
	if len(r.Variants) == 0 {
		return nil
	}
	checks := []check{{Name: "CPU limits", Value: limitsText(r.Environment), Good: r.Environment.LimitsEnforced,
		Why: "Without them every component may use the whole machine, and what limits is the machine."}}
	if !r.MeasuresLoad() {
		checks = append(checks, sureCheck(r), boundCheck(r))
		checks = append(checks, spreadCheck(r)...)
	}
	checks = append(checks, generatorChecks(r)...)
	checks = append(checks, machineChecks(r)...)
	checks = append(checks, costChecks(r)...)
	return append(checks, failedCheck(r))
}

// worst is the variant of which a figure is highest; ok is false if no variant
// has it.
func worst(r *result.Result, of func(*result.Variant) (float64, bool)) (highest float64, name string, ok bool) {
	for i := range r.Variants {
		v := &r.Variants[i]
		if x, has := of(v); has && format.Finite(x) && (!ok || x > highest) {
			highest, name, ok = x, v.Name, true
		}
	}
	return highest, name, ok
}

// conditions is worst for those that have Conditions.
func worstCondition(r *result.Result, of func(*result.Conditions) float64) (float64, string, bool) {
	return worst(r, func(v *result.Variant) (float64, bool) {
		if v.Conditions == nil {
			return 0, false
		}
		return of(v.Conditions), true
	})
}

// worstOfMachine is that of the variants whose machine was seen.
func worstOfMachine(r *result.Result, of func(*result.Conditions) float64) (float64, string, bool) {
	return worstCondition(r, func(c *result.Conditions) float64 {
		if c.Unwatched {
			return math.NaN()
		}
		return of(c)
	})
}

// at says of which variant a figure is, where there are several.
func ofVariant(r *result.Result, name string) string {
	if len(r.Variants) == 1 {
		return ""
	}
	return " (" + name + ")"
}

func sureCheck(r *result.Result) check {
	good := true
	for i := range r.Variants {
		v := &r.Variants[i]
		good = good && v.HasInterval() && v.Capacity.Confidence >= leastSure
	}
	return check{Name: "Confidence", Value: confidences(r), Good: good,
		Why: "An interval is only as sure as the number of trials allows: five trials give 93.8 %, six 96.9 %."}
}

func boundCheck(r *result.Result) check {
	c := check{Name: "Ends of the search", Value: "the system's own limit, in every variant", Good: true,
		Why: "A capacity that the measurement itself ended is a lower bound."}
	var bounds []string
	for i := range r.Variants {
		if v := &r.Variants[i]; v.IsLowerBound() || !v.HasCapacity() {
			bounds = append(bounds, v.Name)
		}
	}
	if len(bounds) > 0 {
		c.Good, c.Value = false, "not reached by "+joinNames(bounds)
	}
	return c
}

// spreadCheck is about how much trials of one variant differ.
func spreadCheck(r *result.Result) []check {
	half, name, ok := worst(r, func(v *result.Variant) (float64, bool) {
		if !v.HasInterval() || v.Capacity.Value <= 0 {
			return 0, false
		}
		return math.Max(v.Capacity.High-v.Capacity.Value, v.Capacity.Value-v.Capacity.Low) / v.Capacity.Value, true
	})
	if !ok {
		return nil
	}
	return []check{{Name: "Spread of trials", Good: half <= widestSpread,
		Value: "intervals reach up to " + format.Percent(half) + " from their capacity" + ofVariant(r, name),
		Why:   "Beyond " + format.Percent(widestSpread) + ", only large differences between variants can be told."}}
}

// generatorChecks are about whether the generator offered what it was to offer.
func generatorChecks(r *result.Result) []check {
	var checks []check
	cores, name, ok := worst(r, func(v *result.Variant) (float64, bool) { return v.Generator, v.Generator > 0 })
	if ok {
		value := "used " + format.Measured(cores) + " cores"
		if r.Environment.Cores > 0 {
			value += ", " + format.Percent(cores/float64(r.Environment.Cores)) + " of the machine"
		}
		if working, _, known := worstCondition(r, func(c *result.Conditions) float64 { return c.Working }); known {
			value += "; its busiest loop worked " + format.Percent(working) + " of the time"
		}
		invalid := invalidTrials(r)
		checks = append(checks, check{Name: "Load generator", Value: value + ofVariant(r, name) + invalid, Good: invalid == "",
			Why: "What the load generator could not offer, or offered late, says nothing of the system."})
	}
	if late, name, ok := worstCondition(r, func(c *result.Conditions) float64 { return c.Late }); ok {
		delay, _, _ := worstCondition(r, func(c *result.Conditions) float64 { return c.LateMS })
		checks = append(checks, check{Name: "Lateness", Good: late <= load.LateLimit,
			Value: format.Percent(late) + " of arrivals sent more than 5 ms late" + ofVariant(r, name) + "; 99 % within " + format.Milliseconds(delay),
			Why:   "Late by the generator's own doing: what the system delays counts as response time."})
	}
	return checks
}

// invalidTrials says in how many trials of which variant the load generator was the limit,
// or what it shares with the system, and why; empty if in none.
func invalidTrials(r *result.Result) string {
	for i := range r.Variants {
		v := &r.Variants[i]
		if v.Conditions == nil || len(v.Conditions.Invalid) == 0 {
			continue
		}
		return fmt.Sprintf("; the limit in %d of %d trials%s: %s", len(v.Conditions.Invalid), v.Trials, ofVariant(r, v.Name), v.Conditions.Invalid[0])
	}
	return ""
}

func machineChecks(r *result.Result) []check {
	var checks []check
	if busy, name, ok := worstOfMachine(r, func(c *result.Conditions) float64 { return c.MachineBusy }); ok {
		checks = append(checks, check{Name: "Machine", Good: busy <= fullMachine,
			Value: format.Percent(busy) + " of all cores busy" + ofVariant(r, name) + ", time given to other guests included",
			Why:   "Beyond " + format.Percent(fullMachine) + ", what limits may be the machine that all components share."})
	}
	if s := r.Environment.Speed; s != nil {
		checks = append(checks, check{Name: "Speed of the machine", Good: s.Most.Slower(s.Least, "") == "", Value: speedText(s) + ", from its fastest trial to its slowest",
			Why: "How long the same work took before and after each trial. Where it takes more CPU time, requests may as well."})
	}
	cores := float64(r.Environment.Cores)
	if outside, name, ok := worstOfMachine(r, func(c *result.Conditions) float64 { return c.Outside }); ok && cores > 0 {
		good, who := outside <= mostOutside*cores, ""
		if i := slices.IndexFunc(r.Variants, func(v result.Variant) bool { return v.Name == name }); !good {
			who, _ = r.Variants[i].Conditions.MostOutside()
		}
		checks = append(checks, check{Name: "Other processes", Good: good,
			Value: "used " + format.Measured(outside) + " cores, " + format.Percent(outside/cores) + " of the machine" + who + ofVariant(r, name),
			Why:   "Beyond " + format.Percent(mostOutside) + ", stop what else runs on the machine, or what shares it, and repeat."})
	}
	gap, name, ok := worst(r, func(v *result.Variant) (float64, bool) {
		if v.Conditions == nil || v.Conditions.SampleSeconds <= 0 {
			return 0, false
		}
		return v.Conditions.GapSeconds / v.Conditions.SampleSeconds, true
	})
	if ok {
		checks = append(checks, check{Name: "Clock", Good: gap <= widestGap,
			Value: "looks at the system came at most " + format.Measured(gap) + " times their usual distance apart" + ofVariant(r, name),
			Why:   "A long gap is a machine that stood still, whose time was stolen, or whose clock was set."})
	}
	return checks
}

// costChecks are what measuring took from the machine that was measured.
func costChecks(r *result.Result) []check {
	cores := float64(r.Environment.Cores)
	if cores <= 0 {
		return nil
	}
	var checks []check
	add := func(cost float64, name, title, when string) {
		share := cost / cores
		checks = append(checks, check{Name: title, Good: share <= mostCost,
			Value: strings.TrimSpace(format.Percent(share)+" of the machine ("+format.Measured(cost)+" cores) "+when) + ofVariant(r, name),
			Why:   "Up to " + format.Percent(mostCost) + " leave the figures alone."})
	}
	cost, name, ok := worstOfMachine(r, func(c *result.Conditions) float64 { return c.ProbeCPU })
	if !ok && len(r.Variants) > 0 {
		cost, name, ok = r.Environment.ProbeCPU, "median", r.Environment.ProbeCPU > 0 && format.Finite(r.Environment.ProbeCPU)
	}
	if ok {
		add(cost, name, "Cost of watching", "while load ran")
	}
	cost, name, ok = worst(r, func(v *result.Variant) (float64, bool) {
		return perturbationCost(v), perturbationCost(v) > 0
	})
	if ok {
		add(cost, name, "Cost of perturbing", "with watching, while it lasted")
	}
	return checks
}

// perturbationCost is in cores; 0 if it is not known.
func perturbationCost(v *result.Variant) float64 {
	if v.Perturbation == nil {
		return 0
	}
	return v.Perturbation.CostCPU
}

func failedCheck(r *result.Result) check {
	failed, name, _ := worst(r, func(v *result.Variant) (float64, bool) { return v.Failed, true })
	return check{Name: "Failed requests", Good: failed <= mostFailed,
		Value: fmt.Sprintf("%s at the measured point%s", format.Percent(failed), ofVariant(r, name)),
		Why:   "A failed request costs the system less than an answered one, and makes its demand look smaller."}
}
