package analysis

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/host"
	"loadstone/lab/load"
	"loadstone/lab/perturb"
	"loadstone/lab/probe"
	"loadstone/lab/result"
	"loadstone/lab/stats"
	"loadstone/lab/verdict"
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
	got := perturbations(archive.Trial{Perturbations: slots})
	if len(got) != 2 || len(got[1].Group) != 2 || got[1].Group[0].Component != "api" || got[1].Component != "" {
		t.Fatalf("got %+v, want lb, and api and redis as one group", got)
	}
	for _, p := range got {
		if want := p.Component == "lb"; (p.Elasticity > 0.9 && p.Low > 0) != want {
			t.Errorf("got %+v, want it to move throughput: %v", p, want)
		}
	}
	if got := perturbations(archive.Trial{}); got != nil {
		t.Errorf("a trial that was not perturbed: got %+v", got)
	}
	// Once each of the group was changed by itself, the group says nothing more.
	for i, alone := range [][]perturb.Target{rest[:1], rest[1:]} {
		at := slots[len(slots)-1].Start
		for j, s := range []perturb.Slot{slot(alone, 0.8, 1000), slot(alone, 1.25, 1000), slot(nil, 1, 1000)} {
			s.Start, s.P95 = at.Add(time.Duration(j+1)*time.Second), 10
			slots = append(slots, s)
		}
		got := perturbations(archive.Trial{Perturbations: slots})
		grouped := slices.ContainsFunc(got, func(p verdict.Perturbation) bool { return len(p.Group) > 0 })
		if want := i == 0; grouped != want || len(got) != 3 {
			t.Errorf("after %d of 2 were changed alone: got %+v, want three, the group among them: %v", i+1, got, want)
		}
	}
}

// A pool that spreads response times more widely when it is made smaller, and gains nothing when it is made
// larger, makes no answers faster; one that does both ways does.
func TestFasterIsWithMore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		up, down float64 // the 95th percentile with a quarter more and a fifth less; 70 ms otherwise
		faster   bool
	}{
		"only less of it tells": {70, 90, false},
		"both ways tell":        {56, 87.5, true},
		"only more of it tells": {49, 70, true},
	} {
		pool := []perturb.Target{{Component: "api", Resource: "pool", Name: "connections"}}
		var slots []perturb.Slot
		add := func(targets []perturb.Target, factor, p95 float64) {
			at := time.Unix(1_700_000_000+int64(len(slots)), 0)
			slots = append(slots, perturb.Slot{Start: at, Seconds: 1, Targets: targets, Factor: factor, Requests: 264, P95: p95})
		}
		for range 4 {
			add(nil, 1, 70)
			add(pool, 1.25, c.up)
			add(pool, 0.8, c.down)
		}
		add(nil, 1, 70)
		got := perturbations(archive.Trial{Perturbations: slots})
		if len(got) != 1 || got[0].Faster == nil || got[0].More == nil || (got[0].More.Low > 0.3) != c.faster || math.Abs(got[0].Elasticity) > 1e-9 {
			t.Errorf("%s: got %+v, want answers to be faster with more of it: %v", name, got, c.faster)
		}
	}
}

// What the report shows of the experiment is its slots and what perturb.Estimate
// makes of them, with what it cost while it lasted and not before.
func TestPerturbedIsForTheReport(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	lb := []perturb.Target{{Component: "lb", Resource: perturb.CPU}}
	trial := archive.Trial{Planned: archive.Planned{Index: 3}}
	for i, s := range []perturb.Slot{
		{Requests: 1000}, {Targets: lb, Factor: 0.8, Requests: 820, Failed: 20, Set: 0.004}, {Targets: lb, Factor: 1.25, Requests: 1250},
		{Requests: 1000}, {Targets: lb, Factor: 1.25, Requests: 1240}, {Targets: lb, Factor: 0.8, Requests: 810},
		{Requests: 1000}, {Targets: lb, Factor: 0.8, Requests: 805}, {Targets: lb, Factor: 1.25, Requests: 1245}, {Requests: 1000},
	} {
		s.Start, s.Seconds, s.P95 = began.Add(time.Duration(i)*time.Second), 1, 10
		if s.Factor == 0 {
			s.Factor = 1
		}
		trial.Perturbations = append(trial.Perturbations, s)
	}
	var samples []host.Sample
	for i := range 41 { // from 10 s before to 10 s after, dearer while it lasts
		at := time.Duration(i-20) * 500 * time.Millisecond
		during := min(max(at, 0), 10*time.Second)
		samples = append(samples, host.Sample{At: began.Add(at), Self: during / 50, MachineBusy: during, MachineTotal: 2 * (at + 10*time.Second)})
	}
	p := perturbed(trial, samples)
	if p == nil || p.Trial != 3 || len(p.Slots) != 10 || len(p.Effects) != 1 {
		t.Fatalf("got %+v, want trial 3 with 10 slots and 1 effect", p)
	}
	if got := p.Slots[1]; got.At != 1 || got.Throughput != 800 || got.Targets[0] != "lb cpu" || got.Factor != 0.8 || got.Set != 0.004 {
		t.Errorf("slot: got %+v", got)
	}
	if e := p.Effects[0]; e.Throughput.Low <= 0 || e.Throughput.Confidence != stats.Level || e.Blocks != 3 {
		t.Errorf("effect: got %+v", e)
	}
	if math.Abs(p.CostCPU-0.02) > 1e-6 || math.Abs(p.MachineBusy-0.5) > 1e-6 {
		t.Errorf("cost: got %v cores with %v of the machine busy, want 0.02 and 0.5", p.CostCPU, p.MachineBusy)
	}
	if got := perturbed(trial, nil); got == nil || got.CostCPU != 0 {
		t.Errorf("without samples: got %+v, want the slots and no cost", got)
	}
	if got := perturbed(archive.Trial{}, samples); got != nil {
		t.Errorf("a trial that was not perturbed: got %+v", got)
	}
}

func TestConditionsAreOfTheMeasuredPart(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	at := func(seconds ...float64) (out []host.Sample) {
		for _, s := range seconds {
			out = append(out, host.Sample{At: began.Add(time.Duration(s * float64(time.Second)))})
		}
		return out
	}
	r := &load.Result{From: began.Add(time.Second), To: began.Add(2 * time.Second), Offered: 1000, Late: 3}
	r.Generator.Working, r.Generator.Lateness.P99, r.Generator.Busy = 0.3, 0.9, 0.25
	// The gaps of 0.7 s lie outside, that of 0.4 s inside.
	got := conditions(at(0.2, 0.9, 1.0, 1.1, 1.2, 1.6, 1.7, 1.8, 1.9, 2.0, 2.7), probe.Span{MachineBusy: 0.6, Self: 0.02, Outside: 0.75, Interrupts: 0.1, Stolen: 0.2}, r)
	want := result.Conditions{MachineBusy: 0.6, ProbeCPU: 0.02, Outside: 0.5, Interrupts: 0.1, Stolen: 0.2, Working: 0.3, Late: 0.003, LateMS: 0.9, SampleSeconds: 0.1, GapSeconds: 0.4}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	r.Late = 30
	if got := conditions(at(1, 2), probe.Span{}, r); len(got.Invalid) != 1 || !strings.Contains(got.Invalid[0], "sent 3.0 % of the requests") {
		t.Errorf("got %+v, want why the measurement is not valid", got)
	}
	want.Invalid = []string{"late"}
	calm := want
	calm.Invalid = nil
	calm.GapSeconds, calm.MachineBusy = 0.1, 0.4
	calm.Outsiders = []host.Process{{PID: 7, Name: "top", Cores: 0.03}}
	want.Outsiders = []host.Process{{PID: 9, Name: "make", Cores: 0.9}, {PID: 7, Name: "top", Cores: 0.03}}
	joined := joinConditions([]observed{{conditions: calm}, {conditions: want}, {conditions: calm}})
	if all := joined.Outsiders; len(all) != 2 || all[0].Name != "make" || !near(all[0].Cores, 0.3, 1e-9) || !near(all[1].Cores, 0.03, 1e-9) {
		t.Errorf("got %+v, want what each used on average", all)
	}
	if joined.GapSeconds != 0.4 || joined.MachineBusy != 0.4 || len(joined.Invalid) != 1 {
		t.Errorf("got %+v, want the longest gap and the median of the rest", joined)
	}
}

// What the load of a perturbation carried is in iterations, as the capacity is.
func TestUnperturbedRateIsOfIterations(t *testing.T) {
	t.Parallel()
	lb := []perturb.Target{{Component: "lb", Resource: perturb.CPU}}
	slots := []perturb.Slot{
		{Seconds: 1, Factor: 1, Requests: 300}, {Seconds: 1, Factor: 1.25, Targets: lb, Requests: 900}, {Seconds: 2, Factor: 1, Requests: 660, Failed: 60},
	}
	if got := unperturbedRate(slots, &load.Result{Requests: 300, Iterations: 100}); math.Abs(got-100) > 1e-9 {
		t.Errorf("got %v iterations/s, want 100 of three requests each", got)
	}
	if got := unperturbedRate(nil, &load.Result{Requests: 300, Iterations: 100}); got != 0 {
		t.Errorf("no slots: got %v, want 0", got)
	}
}
