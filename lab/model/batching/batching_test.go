package batching

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// What is drawn averages over tens of thousands of requests; how far it may be off is
// several times what that leaves.
const drawn = 0.04

func near(got, want float64) bool { return math.Abs(got-want) <= drawn*want }

func simulate(t *testing.T, s System) []Use {
	t.Helper()
	uses, err := s.Simulate()
	if err != nil {
		t.Fatal(err)
	}
	return uses
}

func TestOneRequestFindsNoOther(t *testing.T) {
	t.Parallel()
	uses := simulate(t, System{
		Parts:  []Part{{Name: "lb", Instances: 1, Cost: Cost{40e-6, 20e-6}}, {Name: "api", Instances: 3, Share: 0.1, Period: 0.02, Cost: Cost{80e-6, 10e-6}}},
		InHand: 1, Cores: 2, Seed: 1,
	})
	for i, want := range []float64{60e-6, 90e-6} {
		if !near(uses[i].PerRequest, want) || uses[i].Together != 1 {
			t.Errorf("part %d: %+v, want %v for each and 1 at a time", i, uses[i], want)
		}
	}
}

// All requests are always at the only instance there is.
func TestOnlyPartServesAllAtOnce(t *testing.T) {
	t.Parallel()
	use := simulate(t, System{Parts: []Part{{Name: "api", Instances: 1, Share: 0.1, Period: 0.02, Cost: Cost{80e-6, 10e-6}}}, InHand: 16, Cores: 1, Seed: 1})[0]
	if !near(use.PerRequest, 10e-6+80e-6/16) || !near(use.Together, 16) {
		t.Errorf("%+v, want 15 µs for each and 16 at a time", use)
	}
}

// planted is a balancer before replicas that are at their limit.
func planted(replicas int) System {
	return System{
		Parts: []Part{
			{Name: "lb", Instances: 1, Share: 0.5, Period: 0.02, Cost: Cost{40e-6, 18e-6}},
			{Name: "api", Instances: replicas, Share: 0.1, Period: 0.02, Cost: Cost{85e-6, 12e-6}},
			{Name: "cache", Instances: 1, Cost: Cost{0, 5e-6}},
		},
		InHand: 64, Cores: 4, Seed: 1,
	}
}

func TestMoreReplicasFindFewerEach(t *testing.T) {
	t.Parallel()
	three, eight := simulate(t, planted(3))[1], simulate(t, planted(8))[1]
	if eight.Together > 0.7*three.Together || eight.PerRequest < 1.3*three.PerRequest {
		t.Errorf("three: %+v, eight: %+v; eight must find much fewer at a time and need much more for each", three, eight)
	}
}

func TestFitFindsWhatWasPlanted(t *testing.T) {
	t.Parallel()
	world := planted(3)
	uses := simulate(t, world)
	var measured []Measured
	blank := world
	blank.Parts = slices.Clone(world.Parts)
	for i, p := range world.Parts {
		measured = append(measured, Measured{Alone: p.Wake + p.Each, Together: uses[i].PerRequest})
		blank.Parts[i].Cost = Cost{}
	}
	blank.Seed = 2 // the draws are none that it knows
	fitted, _, err := blank.Fit(measured)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range fitted.Parts {
		want := world.Parts[i]
		if math.Abs(p.Wake-want.Wake) > 0.1*(want.Wake+want.Each) {
			t.Errorf("%s: %+v, planted %+v", p.Name, p.Cost, want.Cost)
		}
	}
	// What counts is what it says of another size.
	fitted.Parts[1].Instances = 8
	if got, want := simulate(t, fitted)[1].PerRequest, simulate(t, planted(8))[1].PerRequest; math.Abs(got/want-1) > 0.1 {
		t.Errorf("eight replicas need %.1f µs for each, want %.1f", 1e6*got, 1e6*want)
	}
	for i := range blank.Parts {
		if blank.Parts[i].Cost != (Cost{}) {
			t.Error("Fit changed the system that it was asked about")
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		measured Measured
		together float64
		want     Cost
	}{
		"four at a time":                     {Measured{100e-6, 40e-6}, 4, Cost{80e-6, 20e-6}},
		"no cheaper together":                {Measured{30e-6, 30e-6}, 4, Cost{0, 30e-6}},
		"somewhat cheaper than is explained": {Measured{30e-6, 5e-6}, 4, Cost{30e-6, 0}},
		"most of it is not of requests":      {Measured{60e-6, 3e-6}, 4, Cost{0, 3e-6}},
		"none at a time with another":        {Measured{60e-6, 50e-6}, 1, Cost{60e-6, 0}},
	} {
		if got := split(c.measured, c.together); math.Abs(got.Wake-c.want.Wake) > 1e-12 || math.Abs(got.Each-c.want.Each) > 1e-12 {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestValidateSaysAllThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := System{Parts: []Part{{Name: "api", Share: 1.5, Period: 0.02, Cost: Cost{Wake: -1}}}}.Simulate()
	if err == nil {
		t.Fatal("it was simulated")
	}
	for _, want := range []string{"api has 0 instances", "1.5 CPU", "costs -1", "0 requests are in hand", "0 cores"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	large := planted(3)
	large.Parts[1].Each = 2.1e-3
	if err := large.Validate(); err == nil || !strings.Contains(err.Error(), "its quota is 0.002") {
		t.Errorf("a request of more than a quota: %v", err)
	}
	if _, _, err := planted(3).Fit(nil); err == nil {
		t.Error("three parts were fitted to no costs")
	}
}
