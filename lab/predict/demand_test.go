package predict

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"loadstone/lab/archive/archivetest"
	"loadstone/lab/format"
	"loadstone/lab/result"
)

// sized is a system whose api uses some CPU whatever the rate, and whose lb needs
// less for each request when it is busy. Of each, capacity is known.
type sized struct {
	idle, each     float64 // of the api: cores, and seconds for each request
	lbBusy, lbFree float64 // of the lb at its limit and below it, in seconds
	seed           uint64
}

func (s sized) capacity(api, lb float64) float64 {
	return 0.96 * min((api-s.idle)/s.each, lb/s.lbBusy)
}

func (s sized) variant(name string, api, lb float64) archivetest.Variant {
	r := rand.New(rand.NewPCG(s.seed, uint64(1000*api+lb)))
	x := s.capacity(api, lb)
	perLB := s.lbFree
	if x*s.lbBusy > 0.9*lb {
		perLB = s.lbBusy
	}
	v := archivetest.Variant{
		Name: name, Service: 2 * time.Millisecond,
		Components: []archivetest.Component{
			{Name: "api", Instances: 1, CPUs: api, Demand: time.Duration(1e9 * (0.96*s.idle/x + s.each))},
			{Name: "lb", Instances: 1, CPUs: lb, Demand: time.Duration(1e9 * perLB)},
		},
	}
	for range 6 {
		v.Capacities = append(v.Capacities, x*math.Exp(0.02*r.NormFloat64()))
	}
	return v
}

// derived has the overlays that real variants of these sizes have.
func (s sized) derived(t *testing.T, sizes map[string][2]float64) *result.Result {
	t.Helper()
	var variants []archivetest.Variant
	var overlays []string
	for _, name := range []string{"v", "v-wide", "v-lb"} {
		if size, ok := sizes[name]; ok {
			variants = append(variants, s.variant(name, size[0], size[1]))
			overlays = append(overlays, "  "+name+": {}\n", "  "+name+": {services: {"+
				"lb: {deploy: {resources: {limits: {cpus: \""+format.Setting(size[1])+"\"}}}}, "+
				"api: {deploy: {resources: {limits: {cpus: \""+format.Setting(size[0])+"\"}}}, environment: {CACHE: redis}}}}\n")
		}
	}
	res := derive(t, variants...)
	res.Source = strings.NewReplacer(overlays...).Replace(res.Source)
	return res
}

// What a component uses whatever the rate is told apart where the run has it at
// its limit with two shares of CPU, and a prediction for a third is right then.
func TestTwoSharesTellWhatIsUsedWhateverTheRate(t *testing.T) {
	t.Parallel()
	world := sized{idle: 0.05, each: 30e-6, lbBusy: 30e-6, lbFree: 45e-6, seed: 3}
	res := world.derived(t, map[string][2]float64{"v": {0.1, 0.2}, "v-wide": {0.2, 0.2}})
	want := world.capacity(0.15, 0.2)
	a := ask(t, of(t, res, "v"), "api.cpus=0.15")
	if e := a.Capacity.Value/want - 1; math.Abs(e) > 0.05 {
		t.Errorf("%.0f predicted, %.0f true", a.Capacity.Value, want)
	}
	if !(a.Capacity.Low < want && want < a.Capacity.High) {
		t.Errorf("%.0f is not in %.0f to %.0f", want, a.Capacity.Low, a.Capacity.High)
	}
	if idle := a.Loads[0].Idle; math.Abs(idle/0.05-1) > 0.1 {
		t.Errorf("%v cores whatever the rate, want 0.05", idle)
	}
	if all := strings.Join(a.Assumptions, "\n"); !strings.Contains(all, "from its capacity in v, v-wide") {
		t.Errorf("the assumptions do not say where it is from: %s", all)
	}
	// From one share it cannot be told, and the prediction is wrong.
	alone := ask(t, of(t, world.derived(t, map[string][2]float64{"v": {0.1, 0.2}}), "v"), "api.cpus=0.15")
	if e := alone.Capacity.Value/want - 1; e > -0.15 {
		t.Errorf("%.0f predicted from one share, %.0f true: this test tests nothing", alone.Capacity.Value, want)
	}
	system := of(t, res, "v")
	tiny := 0.04
	if _, err := system.Ask(Question{Changes: []Change{{Service: "api", CPUs: &tiny}}}); err == nil || !strings.Contains(err.Error(), "that share leaves nothing for requests") {
		t.Errorf("got %v", err)
	}
}

// The demand of a component is taken from the variant in which it limits; if there
// is none, and it will limit, a warning says so.
func TestDemandIsFromWhereItLimits(t *testing.T) {
	t.Parallel()
	world := sized{idle: 0.05, each: 30e-6, lbBusy: 30e-6, lbFree: 45e-6, seed: 4}
	sizes := map[string][2]float64{"v": {0.1, 0.2}, "v-lb": {0.2, 0.06}}
	a := ask(t, of(t, world.derived(t, sizes), "v"), "api.replicas=4", "lb.cpus=0.1")
	want := world.capacity(1, 0.1)
	if e := a.Capacity.Value/want - 1; math.Abs(e) > 0.06 || a.Limit.Station != "lb" {
		t.Errorf("%.0f by %s predicted, %.0f by lb true", a.Capacity.Value, a.Limit.Station, want)
	}
	if all := strings.Join(a.Warnings, "\n"); strings.Contains(all, "busy at most") {
		t.Errorf("lb limited in the run, and there is a warning: %s", all)
	}
	delete(sizes, "v-lb")
	a = ask(t, of(t, world.derived(t, sizes), "v"), "api.replicas=4", "lb.cpus=0.1")
	if all := strings.Join(a.Warnings, "\n"); !strings.Contains(all, "lb limits, and was") {
		t.Errorf("lb never limited in the run, and no warning says so: %s", all)
	}
}

// Replicas with the same share say nothing of what is used whatever the rate, even
// if each of them sustained less.
func TestLineNeedsTwoShares(t *testing.T) {
	t.Parallel()
	at := func(variant string, limit, rate float64) usage {
		u := usage{variant: variant, limit: limit, busy: 0.95, rate: rate}
		u.each.Value = 0.95 * limit / rate
		return u
	}
	if _, ok := line([]usage{at("a", 0.2, 5000), at("b", 0.2, 2500)}); ok {
		t.Error("a line through two points of one share")
	}
	if d, ok := line([]usage{at("a", 0.1, 1000), at("b", 0.2, 3000)}); !ok || math.Abs(d.Idle.Value-0.05) > 1e-9 || math.Abs(d.PerRequest.Value-50e-6) > 1e-9 {
		t.Errorf("%+v, %v; want 0.05 and 50 µs", d, ok)
	}
	if _, ok := line([]usage{at("a", 0.1, 1000), at("b", 0.2, 1900)}); ok {
		t.Error("a line that has less than nothing apart")
	}
	if _, ok := line([]usage{at("a", 0.1, 1000), at("b", 0.2, 900)}); ok {
		t.Error("a line that falls")
	}
	full := addUsage(addUsage(addUsage(nil, at("x", 0.2, 1), "own"), at("own", 0.1, 1), "own"), usage{variant: "y", limit: 0.1, busy: 1}, "own")
	if len(full) != 2 || full[1].variant != "own" {
		t.Errorf("%+v, want the variant's own figures kept", full)
	}
}

func TestVariantsThatDifferInSize(t *testing.T) {
	t.Parallel()
	exp := parse(t, strings.Replace(file, "variants:\n", `variants:
  a: {services: {lb: {deploy: {replicas: 2}}, api: {command: [a, b], environment: {CACHE: "on"}, deploy: {resources: {limits: {cpus: "0.5", memory: 1G}}}}}}
  b: {services: {api: {deploy: {resources: {limits: {memory: 1G}}}, environment: {CACHE: "on"}, command: [a, b]}}}
  c: {services: {api: {deploy: {resources: {limits: {memory: 1G}}}, environment: {CACHE: "on"}, command: [b, a]}}}
`, 1))
	a, b, c := exp.Variants[0], exp.Variants[1], exp.Variants[2]
	if !same(a, b, isSize) {
		t.Errorf("%q\n%q\nare the same but for sizes", a.Settings(), b.Settings())
	}
	if same(a, b, func([]string) bool { return false }) {
		t.Error("sizes make no difference")
	}
	if same(b, c, isSize) {
		t.Error("the order of a list makes no difference")
	}
}
