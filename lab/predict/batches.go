package predict

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"loadstone/lab/experiment"
	"loadstone/lab/format"
	"loadstone/lab/model/batching"
	"loadstone/lab/model/queueing"
	"loadstone/lab/result"
	"loadstone/lab/verdict"
)

// A component that finds several requests at a time serves each for less. How many it finds
// changes with replicas and shares: eight replicas find fewer of the same requests than three.
// Package batching simulates that, with what the run measured: the CPU per request at a tenth
// of the capacity and at it, how many requests are in hand there, and the sizes.
//
// Only the ratio of two simulations is used: of the changed topology, and of the variant that
// a demand is from. What the simulation does not know is in both.

// batches is what that takes.
type batches struct {
	measured batching.System
	costs    []batching.Measured // by part
	most     float64             // requests that the load can have in hand
	variants map[string]batching.System
}

const (
	// reached is how many of the requests a component must see, at least, to be a part: what
	// others use is not of requests.
	reached = 0.05
	// oneCore is how much of a core an instance without a limit may use so that one thread
	// is enough for it.
	oneCore = 0.8
)

// mostInHand is how many requests the load of a variant can have in hand.
func mostInHand(exp *experiment.Experiment, variant string) float64 {
	plan, n := exp.PlanOf(variant), 0
	for i := range plan.Scenarios {
		n += plan.Scenarios[i].PeakVUs()
	}
	return float64(n)
}

// batchesOf is nil if the run does not tell what it takes: if nobody saw who asks whom, or
// what a request costs alone, or if an instance has more than a core.
func batchesOf(r *result.Result, family []*result.Variant, most float64) *batches {
	v := family[0]
	if r.RateUnit() != result.RequestsPerSecond || v.Capacity == nil {
		return nil
	}
	b := &batches{most: most, variants: make(map[string]batching.System)}
	names := visited(v.Hops)
	for _, name := range names {
		m, ok := costs(v, name)
		if !ok {
			return nil
		}
		b.costs = append(b.costs, m)
	}
	var ok bool
	if b.measured, ok = asMeasured(r, v, names); !ok {
		return nil
	}
	for _, o := range family {
		if system, ok := asMeasured(r, o, names); ok {
			b.variants[o.Name] = system
		}
	}
	return b
}

// visited are the components that requests reach, nearest to the load first.
func visited(h *result.Hops) []string {
	if h == nil {
		return nil
	}
	near := map[string]bool{"": true}
	var out []string
	for grown := true; grown; {
		grown = false
		level := maps.Clone(near)
		for _, a := range h.Arrows {
			box := slices.IndexFunc(h.Boxes, func(x result.HopBox) bool { return x.Name == a.To })
			if !level[a.From] || near[a.To] || box < 0 || h.Boxes[box].Outside || h.Boxes[box].Visits < reached {
				continue
			}
			near[a.To], grown = true, true
			out = append(out, a.To)
		}
	}
	return out
}

// costs are what a request costs a component, alone and at the capacity. One trial tells the
// first: the ratio in that one counts, as the machine may have been another in others.
func costs(v *result.Variant, name string) (m batching.Measured, ok bool) {
	u, known := use(v, name)
	if !known {
		return m, false
	}
	m.Together = u.each.Value
	for _, f := range v.Figures {
		for _, c := range f.Components {
			if c.Name == name && f.Measured && c.LightDemandMS > 0 && c.DemandMS > 0 {
				m.Alone = c.LightDemandMS / c.DemandMS * m.Together
			}
		}
	}
	return m, m.Alone > 0
}

// asMeasured is a variant as it was measured, still without costs; ok is false if the model is
// not for it.
func asMeasured(r *result.Result, v *result.Variant, names []string) (s batching.System, ok bool) {
	if v.Hops == nil || v.Capacity == nil || len(names) == 0 {
		return s, false
	}
	s = batching.System{Cores: max(1, r.Environment.Cores), Seed: r.Seed}
	for _, name := range names {
		i := slices.IndexFunc(v.Components, func(c verdict.Component) bool { return c.Name == name })
		if i < 0 {
			return s, false
		}
		c := v.Components[i]
		n := max(1, c.Instances)
		p := batching.Part{Name: name, Instances: n, Period: period(r, c.LimitCPUs)}
		if p.Period > 0 {
			p.Share = c.LimitCPUs
		}
		if p.Share > 1 || p.Share == 0 && v.Rate*c.DemandMS/1000/float64(n) > oneCore {
			return s, false
		}
		s.Parts = append(s.Parts, p)
	}
	var hands float64
	for _, a := range v.Hops.Arrows {
		if a.From == "" {
			hands += a.InFlight
		}
	}
	s.InHand = int(math.Round(max(1, hands)))
	return s, hands > 0
}

// regathered is scaled at the rate that the topology would sustain if a request cost what it
// did.
func (s *System) regathered(cs []queueing.Change) ([]queueing.Change, error) {
	if s.batches == nil || len(cs) == 0 {
		return nil, nil
	}
	before, err := queueing.Predict(s.certain(), queueing.Question{Objective: s.Objective})
	if err != nil {
		return nil, err
	}
	after, err := queueing.Predict(s.certain(), queueing.Question{Changes: cs, Objective: s.Objective})
	if err != nil || !(before.Capacity.Value > 0) {
		return nil, err
	}
	return s.scaled(cs, after.Capacity.Value/before.Capacity.Value), nil
}

// scaled are changes that multiply demands by what a request costs in the changed topology
// relative to where its demand is from; none if that is not known. expected is the rate that
// the topology is expected to sustain, relative to the measured one: with the same response
// times, as an objective has them, requests in hand change with it (Little's law).
func (s *System) scaled(cs []queueing.Change, expected float64) []queueing.Change {
	b := s.batches
	fitted, uses, err := b.measured.Fit(b.costs)
	if err != nil {
		return nil
	}
	changed, ok := b.changed(fitted, cs, expected)
	if !ok {
		return nil
	}
	then, err := changed.Simulate()
	if err != nil {
		return nil
	}
	var out []queueing.Change
	for i, p := range fitted.Parts {
		was, ok := uses, true
		if from := s.from[p.Name]; from != s.Variant {
			was, ok = b.of(fitted, from)
		}
		if ok && was[i].PerRequest > 0 {
			out = append(out, queueing.Change{Station: p.Name, Demand: new(then[i].PerRequest / was[i].PerRequest)})
		}
	}
	return out
}

// changed is the measured system with the changes; ok is false if the model is not for it.
func (b *batches) changed(fitted batching.System, cs []queueing.Change, expected float64) (batching.System, bool) {
	out := fitted
	out.Parts = slices.Clone(fitted.Parts)
	out.InHand = int(math.Round(max(1, min(float64(fitted.InHand)*expected, max(b.most, float64(fitted.InHand))))))
	for _, c := range cs {
		i := slices.IndexFunc(out.Parts, func(p batching.Part) bool { return p.Name == c.Station })
		if i < 0 {
			continue
		}
		if c.Instances != nil {
			out.Parts[i].Instances = *c.Instances
		}
		if c.CPUs != nil && out.Parts[i].Period > 0 {
			out.Parts[i].Share = *c.CPUs
		}
	}
	return out, out.Validate() == nil
}

// of is what a variant's parts do, by the costs of the measured one.
func (b *batches) of(fitted batching.System, variant string) ([]batching.Use, bool) {
	system, ok := b.variants[variant]
	if !ok {
		return nil, false
	}
	for i := range system.Parts {
		system.Parts[i].Cost = fitted.Parts[i].Cost
	}
	uses, err := system.Simulate()
	return uses, err == nil
}

// noticed is a change of CPU per request that is said.
const noticed = 0.05

// gathering says what of the demands comes from the simulation.
func gathering(before queueing.Model, scaled []queueing.Change) string {
	var out []string
	for _, c := range scaled {
		i := slices.IndexFunc(before.Stations, func(st queueing.Station) bool { return st.Name == c.Station })
		if i < 0 || math.Abs(*c.Demand-1) < noticed {
			continue
		}
		d := 1000 * before.Stations[i].Demand.Value
		out = append(out, fmt.Sprintf("%s %s in place of %s", c.Station, format.Demand(*c.Demand*d), format.Demand(d)))
	}
	if len(out) == 0 {
		return ""
	}
	return "a component that finds fewer requests at a time needs more CPU for each, by what it needed at a tenth of the capacity: " + strings.Join(out, ", ")
}
