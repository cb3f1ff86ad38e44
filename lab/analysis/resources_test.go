package analysis

import (
	"strings"
	"testing"
	"time"

	"loadstone/lab/topology"
	"loadstone/lab/verdict"
)

// idle spends a tenth of its CPU share at 100 req/s, so that only what it
// declares can limit.
func idle(d topology.Resource, tells func(s float64) map[string]float64) planted {
	return planted{capacity: 100, demand: 250 * time.Microsecond, instances: 1, resources: []topology.Resource{d}, tells: tells}
}

func TestDeriveNamesDeclaredResources(t *testing.T) {
	t.Parallel()
	pool := topology.Resource{Name: "connections", Kind: topology.Pool, Size: "size", InUse: "used", Waiting: "waiting", WaitSeconds: "waited"}
	lock := topology.Resource{Name: "ledger", Kind: topology.Lock, BusySeconds: `busy{of="ledger"}`, WaitSeconds: "asked"}
	queue := topology.Resource{Name: "jobs", Kind: topology.Queue, Depth: "depth", Capacity: "places", Done: "done"}
	slots := func(used float64) func(float64) map[string]float64 {
		return func(s float64) map[string]float64 {
			return map[string]float64{"size": 4, "used": used, "waiting": 2, "waited": 3 * s}
		}
	}
	held := func(share float64) func(float64) map[string]float64 {
		return func(s float64) map[string]float64 {
			return map[string]float64{`busy{of="ledger"}`: share * s, `busy{of="other"}`: s, "asked": 3 * s}
		}
	}
	deep := func(depth, slope float64) func(float64) map[string]float64 {
		return func(s float64) map[string]float64 {
			return map[string]float64{"depth": depth + slope*s, "places": 1000, "done": 100 * s}
		}
	}
	for name, c := range map[string]struct {
		full, spare planted
		want        string // kind
		demandMS    float64
		bound       float64
	}{
		"pool":  {idle(pool, slots(3.8)), idle(pool, slots(1.2)), "pool", 38, 100 / 0.95},
		"lock":  {idle(lock, held(0.95)), idle(lock, held(0.4)), "lock", 9.5, 100 / 0.95},
		"queue": {idle(queue, deep(5, 10)), idle(queue, deep(0, 0)), "queue", 10, 100},
	} {
		res := derive(t, map[string]planted{"one": c.full, "two": c.spare})
		one, two := res.Variants[0], res.Variants[1]
		v := one.Verdict
		if v.Status != verdict.Named || v.Component != "api" || v.Resource != c.want || v.ResourceName == "" || v.Agreement != "2/2" || v.Advice == "" {
			t.Errorf("%s: got %+v, want it named", name, v)
		}
		r := one.Components[0].Resources[0]
		if !near(r.DemandMS, c.demandMS, 0.01) || !near(r.Bound, c.bound, 0.01) || !(r.BoundLow > 0) {
			t.Errorf("%s: got %+v, want %v ms and %v req/s", name, r, c.demandMS, c.bound)
		}
		if two.Verdict.Status == verdict.Named || two.Verdict.Component != "" {
			t.Errorf("%s with room: got %+v, want nobody named", name, two.Verdict)
		}
		if len(one.Warnings)+len(two.Warnings) > 0 {
			t.Errorf("%s: warnings %q, %q", name, one.Warnings, two.Warnings)
		}
	}
	r := derive(t, map[string]planted{"one": idle(pool, slots(3.8)), "two": idle(pool, slots(4))}).Variants[1].Components[0].Resources[0]
	if r.Capacity != 4 || r.Full != 1 || r.Waiting != 2 || !near(r.WaitMS, 30, 0.01) {
		t.Errorf("got %+v, want 4 slots, always full, 2 waiting, 30 ms each", r)
	}
}

// What nobody publishes is a warning, and neither a 0 nor a failure.
func TestAResourceThatNobodyTellsOf(t *testing.T) {
	t.Parallel()
	v := idle(topology.Resource{Name: "jobs", Kind: topology.Queue, Depth: "nothing"}, nil)
	one := derive(t, map[string]planted{"one": v, "two": v}).Variants[0]
	if len(one.Components[0].Resources) > 0 || len(one.Warnings) != 1 || !strings.Contains(one.Warnings[0], "api: its queue jobs is not judged") {
		t.Errorf("got %+v, warnings %q", one.Components[0].Resources, one.Warnings)
	}
}

// A metric that is declared and not told, of a resource that tells the others, is no 0: a
// pool of which nobody says who waits is not one for which nobody does.
func TestAResourceThatDoesNotTellAll(t *testing.T) {
	t.Parallel()
	pool := topology.Resource{Name: "connections", Kind: topology.Pool, Size: "size", InUse: "used", Waiting: "waiting", WaitSeconds: "waited"}
	queue := topology.Resource{Name: "jobs", Kind: topology.Queue, Depth: "depth", Capacity: "places", Done: "done"}
	all := func(s float64) map[string]float64 {
		return map[string]float64{"size": 4, "used": 3.8, "waiting": 2, "waited": 3 * s, "depth": 5 + 10*s, "places": 1000, "done": 100 * s}
	}
	for metric, resource := range map[string]topology.Resource{
		"size": pool, "used": pool, "waiting": pool, "waited": pool, "depth": queue, "places": queue, "done": queue,
	} {
		without := idle(resource, func(s float64) map[string]float64 {
			values := all(s)
			delete(values, metric)
			return values
		})
		one := derive(t, map[string]planted{"one": without, "two": without}).Variants[0]
		if len(one.Components[0].Resources) > 0 || len(one.Warnings) != 1 || !strings.Contains(one.Warnings[0], "does not tell its metric "+metric) {
			t.Errorf("without %s: got %+v, warnings %q", metric, one.Components[0].Resources, one.Warnings)
		}
	}
}

func TestCostlyWatchingIsAWarning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cores   float64
		machine int
		want    bool
	}{{0.03, 2, false}, {0.05, 2, true}, {0.05, 0, false}, {0.5, 64, false}} {
		if got := len(costly(c.cores, c.machine)) > 0; got != c.want {
			t.Errorf("%v of %d cores: got a warning: %v, want %v", c.cores, c.machine, got, c.want)
		}
	}
}

// TestDeriveSaysWhatCPUGoesInto: counters of a component's work are in the verdict on its
// CPU. What is little is not, and counters that cannot be of that CPU time are not used.
func TestDeriveSaysWhatCPUGoesInto(t *testing.T) {
	t.Parallel()
	work := func(name string) topology.Resource {
		return topology.Resource{Name: name, Kind: topology.Work, BusySeconds: name + "_seconds"}
	}
	const used = 4800 * 50e-6 // cores
	busy := func(serializing, compressing float64) planted {
		return planted{
			capacity: 4800, demand: 50 * time.Microsecond, instances: 1,
			resources: []topology.Resource{work("compressing"), work("parsing"), work("serializing"), work("unheard")},
			tells: func(s float64) map[string]float64 {
				return map[string]float64{"serializing_seconds": serializing * s, "compressing_seconds": compressing * s, "parsing_seconds": 0.02 * used * s}
			},
		}
	}
	res := derive(t, map[string]planted{"one": busy(0.41*used, 0.12*used), "two": busy(0.41*used, 0.9)})
	one, two := res.Variants[0], res.Variants[1]
	const want = "each request costs it 50 µs, 41 % of it serializing and 12 % compressing, so its 0.25 CPU allows"
	if v := one.Verdict; !strings.Contains(v.Summary, want) || !strings.Contains(v.Witnesses[0].Evidence, "41 % of it serializing") {
		t.Errorf("got %q with the evidence %q, want %q", v.Summary, v.Witnesses[0].Evidence, want)
	}
	if w := one.Components[0].Work; len(w) != 3 || w[2].Name != "serializing" || !near(w[2].DemandMS, 0.41*0.05, 0.01) {
		t.Errorf("work %+v, want three kinds, the last serializing for 0.0205 ms", w)
	}
	if got := strings.Join(one.Warnings, "\n"); !strings.Contains(got, "its work unheard is not known") {
		t.Errorf("warnings %q, want that nobody tells of one", got)
	}
	// A counter of 0.9 s in each second, of a component that used 0.24 of CPU.
	if v := two.Verdict; v.Component != "api" || strings.Contains(v.Summary, "serializing") || len(two.Components[0].Work) > 0 {
		t.Errorf("got %q and %+v, want api, and nothing of counters that count more than its CPU", v.Summary, two.Components[0].Work)
	}
	if got := strings.Join(two.Warnings, "\n"); !strings.Contains(got, "its work compressing and parsing and serializing counts 4.18 s for each second of CPU") {
		t.Errorf("warnings %q, want one about counters of waiting", got)
	}
}
