package analysis

import (
	"testing"
	"time"

	"loadstone/lab/perturb"
	"loadstone/lab/run"
)

// Twelve slots in which throughput follows the share of lb and of nobody else.
func TestPerturbationsReachTheVerdict(t *testing.T) {
	t.Parallel()
	lb := []perturb.Target{{Component: "lb", Resource: perturb.CPU}}
	rest := []perturb.Target{{Component: "api", Resource: perturb.CPU}, {Component: "redis", Resource: perturb.CPU}}
	slot := func(targets []perturb.Target, factor float64, requests uint64) perturb.Slot {
		return perturb.Slot{Seconds: 1, Targets: targets, Factor: factor, Requests: requests}
	}
	var slots []perturb.Slot
	for range 4 {
		slots = append(slots,
			slot(nil, 1, 1000), slot(lb, 1.25, 1250), slot(lb, 0.8, 800),
			slot(nil, 1, 1000), slot(rest, 0.8, 1001), slot(rest, 1.25, 999))
	}
	slots = append(slots, slot(nil, 1, 1000))
	began := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	for i := range slots {
		slots[i].Start, slots[i].P95 = began.Add(time.Duration(i)*time.Second), 10
	}
	got := perturbations(run.Trial{Perturbations: slots})
	if len(got) != 3 {
		t.Fatalf("got %+v, want lb, api and redis", got)
	}
	for _, p := range got {
		if want := p.Component == "lb"; (p.Elasticity > 0.9 && p.Low > 0) != want {
			t.Errorf("got %+v, want it to move throughput: %v", p, want)
		}
	}
	if got := perturbations(run.Trial{}); got != nil {
		t.Errorf("a trial that was not perturbed: got %+v", got)
	}
}
