package predict

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/lab/archive/archivetest"
	"loadstone/lab/model/batching"
	"loadstone/lab/result"
	"loadstone/lab/verdict"
)

// gathers is a balancer before replicas that serve together what has gathered.
func gathers(replicas int) batching.System {
	return batching.System{
		Parts: []batching.Part{
			{Name: "lb", Instances: 1, Share: 0.5, Period: 0.02, Cost: batching.Cost{Wake: 30e-6, Each: 10e-6}},
			{Name: "api", Instances: replicas, Share: 0.1, Period: 0.02, Cost: batching.Cost{Wake: 85e-6, Each: 12e-6}},
		},
		InHand: 64, Cores: 8, Seed: 7,
	}
}

// gathered is what its components need for a request, and its capacity.
func gathered(t *testing.T, replicas int) (each []float64, capacity float64) {
	t.Helper()
	system := gathers(replicas)
	uses, err := system.Simulate()
	if err != nil {
		t.Fatal(err)
	}
	capacity = math.Inf(1)
	for i, p := range system.Parts {
		each = append(each, uses[i].PerRequest)
		capacity = min(capacity, 0.96*p.Share*float64(p.Instances)/uses[i].PerRequest)
	}
	return each, capacity
}

// measuredWithThree is a run of three replicas in which it was seen what requests cost at a
// tenth of the capacity, and how many are in hand at it.
func measuredWithThree(t *testing.T) *result.Result {
	t.Helper()
	each, capacity := gathered(t, 3)
	v := archivetest.Variant{Name: "v", Service: 3 * time.Millisecond}
	for i, p := range gathers(3).Parts {
		v.Components = append(v.Components, archivetest.Component{Name: p.Name, Instances: p.Instances, CPUs: p.Share, Demand: time.Duration(each[i] * 1e9)})
	}
	v.Capacities = slices.Repeat([]float64{capacity}, 6)
	res := derive(t, v)
	res.Source = strings.Replace(res.Source, "executor: constant-arrival-rate,", "executor: constant-arrival-rate, preAllocatedVUs: 64, maxVUs: 64,", 1)
	measured := &res.Variants[0]
	measured.Hops = &result.Hops{
		Boxes: []result.HopBox{{Name: "api", Visits: 1}, {Name: "lb", Visits: 1}},
		// By who asks and who is asked, and not in the order in which requests visit them.
		Arrows: []result.HopArrow{{To: "lb", PerRequest: 1, InFlight: 64}, {From: "lb", To: "api", PerRequest: 1, InFlight: 50}},
	}
	last := measured.Figures[len(measured.Figures)-1].Components
	for _, p := range gathers(3).Parts {
		i := slices.IndexFunc(last, func(c verdict.Component) bool { return c.Name == p.Name })
		last[i].LightDemandMS = 1000 * (p.Wake + p.Each)
	}
	return res
}

// More replicas find fewer requests at a time, and so each costs more.
func TestFewerRequestsAtATimeCostMoreEach(t *testing.T) {
	t.Parallel()
	res := measuredWithThree(t)
	each, want := gathered(t, 8)
	s := of(t, res, "v")
	a := ask(t, s, "api.replicas=8")
	if e := a.Capacity.Value/want - 1; math.Abs(e) > 0.1 {
		t.Errorf("%.0f predicted, %.0f true", a.Capacity.Value, want)
	}
	if got := a.Loads[0].Demand.Value; a.Loads[0].Name != "api" || math.Abs(got/each[1]-1) > 0.1 {
		t.Errorf("%s needs %.1f µs for each, want %.1f", a.Loads[0].Name, 1e6*got, 1e6*each[1])
	}
	if said := strings.Join(a.Assumptions, "\n"); !strings.Contains(said, "finds fewer requests at a time") || !strings.Contains(said, "api ") || strings.Contains(said, "CPU per request stays") {
		t.Errorf("it says %s", said)
	}
	// Nothing is changed, so that what was measured is what is there.
	if a := ask(t, s); math.Abs(a.Loads[0].Demand.Value/s.Model.Stations[0].Demand.Value-1) > 1e-9 {
		t.Errorf("without changes api needs %v, measured %v", a.Loads[0].Demand, s.Model.Stations[0].Demand)
	}
}

// Where the run does not tell how requests gather, CPU per request stays what it was.
func TestCostStaysWhereNothingSaysHowRequestsGather(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]func(*result.Variant){
		"nobody saw who asks whom":  func(v *result.Variant) { v.Hops = nil },
		"no request was seen alone": func(v *result.Variant) { v.Figures[len(v.Figures)-1].Components[0].LightDemandMS = 0 },
		"more than a core":          func(v *result.Variant) { v.Components[0].LimitCPUs = 1.5 },
	} {
		res := measuredWithThree(t)
		without(&res.Variants[0])
		s := of(t, res, "v")
		a := ask(t, s, "api.replicas=8")
		if got, want := a.Loads[0].Demand.Value, s.Model.Stations[0].Demand.Value; got != want {
			t.Errorf("%s: api needs %v, want %v as measured", name, got, want)
		}
		if !strings.Contains(strings.Join(a.Assumptions, "\n"), "CPU per request stays") {
			t.Errorf("%s: it does not say that CPU per request stays: %q", name, a.Assumptions)
		}
	}
}

// A component that few requests reach uses its CPU for something else.
func TestVisitedInTheirOrder(t *testing.T) {
	t.Parallel()
	h := &result.Hops{
		Boxes: []result.HopBox{{Name: "api", Visits: 1}, {Name: "cache", Visits: 0.3}, {Name: "lb", Visits: 1}, {Name: "store", Visits: 0.001}, {Name: "far", Visits: 1, Outside: true}},
		Arrows: []result.HopArrow{
			{To: "lb"}, {From: "api", To: "cache"}, {From: "api", To: "far"}, {From: "api", To: "store"}, {From: "cache", To: "api"}, {From: "lb", To: "api"},
		},
	}
	if got, want := visited(h), []string{"lb", "api", "cache"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := visited(nil); got != nil {
		t.Errorf("%q of a run in which nobody looked", got)
	}
}
