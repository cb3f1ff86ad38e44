package perturb

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"loadstone/lab/stats"
)

// truth is a system that was never built: its throughput answers with known
// elasticities.
type truth struct {
	elasticity map[string]float64 // by component
	noise      float64            // deviation of a slot's ln
	drift      float64            // of the ln, over a minute, and half of it as a wave
	outliers   float64            // share of slots that a disturbance has halved
	random     *rand.Rand
}

func (tr *truth) slot(at float64, a *arm, s step) Slot {
	ln := math.Log(1000) + tr.drift*at/60 + tr.drift/2*math.Sin(at/7) + tr.noise*tr.random.NormFloat64()
	slot := Slot{Start: time.Unix(0, int64(at*1e9)), Seconds: 1, Factor: s.factor, P95: 5}
	if a != nil {
		slot.Targets = a.targets
		for _, t := range a.targets {
			ln += tr.elasticity[t.Component] * math.Log(s.factor)
		}
	}
	if tr.random.Float64() < tr.outliers {
		ln -= math.Ln2
	}
	slot.Requests = uint64(math.Exp(ln))
	slot.P95 = 1e6 / math.Exp(ln)
	return slot
}

func knobs(names ...string) []Knob {
	var out []Knob
	for i, n := range names {
		out = append(out, Knob{
			Target: Target{Component: n, Resource: CPU}, Utilisation: 0.9 - 0.1*float64(i),
			Set: func(context.Context, float64) error { return nil },
		})
	}
	return out
}

// simulate carries a whole plan out on tr.
func simulate(c Config, k []Knob, tr *truth) []Slot {
	p := newPlanner(c, k)
	var slots []Slot
	for {
		s, ok := p.next(slots, int(c.Budget.Seconds())-len(slots))
		if !ok {
			return slots
		}
		var a *arm
		if s.arm >= 0 {
			a = &p.arms[s.arm]
		}
		slots = append(slots, tr.slot(float64(len(slots)), a, s))
	}
}

func TestIntervalsHoldTheTruthAsOftenAsTheySay(t *testing.T) {
	t.Parallel()
	f := func(name string, tr truth) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const runs = 500
			tr.elasticity = map[string]float64{"front": 1, "store": 0, "log": 0, "mail": 0}
			tr.random = rand.New(rand.NewPCG(3, 4))
			held, all := 0, 0
			for seed := range uint64(runs) {
				c := DefaultConfig()
				c.Seed = seed
				for _, e := range Estimate(simulate(c, knobs("front", "store", "log", "mail"), &tr)) {
					want := 0.0
					for _, target := range e.Targets {
						want += tr.elasticity[target.Component]
					}
					all++
					if e.Throughput.Low <= want && want <= e.Throughput.High {
						held++
					}
				}
			}
			share := float64(held) / float64(all)
			t.Logf("%d of %d intervals hold the truth: %.3f", held, all, share)
			if share < 0.92 || all < 3*runs {
				t.Errorf("%d of %d intervals hold the truth (%.3f), want 0.92 or more", held, all, share)
			}
		})
	}
	f("5 % noise", truth{noise: 0.05})
	f("15 % noise", truth{noise: 0.15})
	f("10 % noise and 20 % drift a minute", truth{noise: 0.1, drift: 0.2})
	f("5 % noise and outliers", truth{noise: 0.05, outliers: 0.03})
}

func TestThePlanEndsEarlyWhenItKnowsAndInTimeWhenItDoesNot(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	f := func(noise float64) []Slot {
		return simulate(c, knobs("front", "store", "log"), &truth{
			elasticity: map[string]float64{"front": 1}, noise: noise, random: rand.New(rand.NewPCG(1, 2)),
		})
	}
	quiet, loud := f(0.01), f(0.3)
	// 3 components, MinBlocks of 3 slots each, and the first.
	if got, want := len(quiet), 1+3*3*3; got != want {
		t.Errorf("without noise it took %d slots, want %d", got, want)
	}
	if got, most := len(loud), int(c.Budget.Seconds()); got > most || got < most-2*blockSlots {
		t.Errorf("with noise it took %d slots, want nearly %d", got, most)
	}
	idle := 0
	for i := range loud {
		if len(loud[i].Targets) == 0 {
			idle++
		} else if i+1 == len(loud) {
			t.Error("the last slot is perturbed: nothing to compare it with")
		}
	}
	if 4*idle < len(loud) {
		t.Errorf("%d of %d slots are unperturbed, want a quarter", idle, len(loud))
	}
	if again := f(0.3); !reflect.DeepEqual(again, loud) {
		t.Error("the same seed led to another plan")
	}
}

// In the default budget: a group that matters is split while there is time for its
// members, and who limits among them is found.
func TestAGroupThatMattersIsSplit(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	slots := simulate(c, knobs("a", "b", "c", "d", "e"), &truth{
		elasticity: map[string]float64{"d": 1}, noise: 0.03, random: rand.New(rand.NewPCG(1, 2)),
	})
	got := map[string]bool{}
	for _, e := range Estimate(slots) {
		var names []string
		for _, target := range e.Targets {
			names = append(names, target.Component)
		}
		got[strings.Join(names, "")] = e.Throughput.Low > 0.5
	}
	want := map[string]bool{"a": false, "b": false, "cde": true, "c": false, "d": true, "e": false}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("limiting: %v, want %v", got, want)
	}
}

// What a member of a group does is told nearly always, and hardly ever another is
// taken for it, where slots vary by 5 %.
func TestMembersOfAGroupAreToldApartInTime(t *testing.T) {
	t.Parallel()
	const runs = 200
	tr := truth{elasticity: map[string]float64{"d": 1}, noise: 0.05, random: rand.New(rand.NewPCG(5, 6))}
	found, wrong := 0, 0
	for seed := range uint64(runs) {
		c := DefaultConfig()
		c.Seed = seed
		slots := simulate(c, knobs("a", "b", "c", "d"), &tr)
		if most := int(c.Budget.Seconds()); len(slots) > most {
			t.Fatalf("seed %d: %d slots of a second, want %d at most", seed, len(slots), most)
		}
		for _, e := range Estimate(slots) {
			switch moves := e.Throughput.Low > 0 && e.Throughput.Value > 0.3; {
			case !moves || len(e.Targets) > 1:
			case e.Targets[0].Component == "d":
				found++
			default:
				wrong++
			}
		}
	}
	t.Logf("of %d: found %d, another %d", runs, found, wrong)
	if found < runs*9/10 || wrong > runs/20 {
		t.Errorf("of %d runs the limit was found in %d and another in %d, want %d or more and %d or fewer", runs, found, wrong, runs*9/10, runs/20)
	}
}

// An arm that is known gets no more blocks: they are for those that are not.
func TestNarrowArmsGiveTheirTimeAway(t *testing.T) {
	t.Parallel()
	p := newPlanner(DefaultConfig(), knobs("a", "b"))
	narrow := stats.Interval{Low: -0.1, High: 0.1}
	found := []Elasticity{
		{Targets: p.arms[0].targets, Throughput: narrow, Blocks: 3},
		{Targets: p.arms[1].targets, Throughput: stats.Interval{Low: -1, High: 1}, Blocks: 3},
	}
	p.refill(found)
	if len(p.queue) != blockSlots || p.queue[0].arm != 1 {
		t.Errorf("planned %+v, want one block of the second", p.queue)
	}
	p.queue, found[1].Throughput = nil, narrow
	if p.refill(found); len(p.queue) > 0 {
		t.Errorf("all are narrow: planned %+v, want nothing", p.queue)
	}
}

func TestWhatCannotBeUsedIsLeftOut(t *testing.T) {
	t.Parallel()
	at := func(i int, factor float64) Slot {
		s := Slot{Start: time.Unix(int64(i), 0), Seconds: 1, Factor: factor, Requests: 100, P95: 1}
		if factor != 1 {
			s.Targets = []Target{{Component: "front", Resource: CPU}}
		}
		return s
	}
	f := func(name string, change func([]Slot), want int) {
		t.Helper()
		var slots []Slot
		for i, factor := range []float64{1, 0.8, 1.25, 1, 1.25, 0.8, 1, 0.9, 1.1, 1} {
			slots = append(slots, at(i, factor))
		}
		change(slots)
		if got := len(blocksOf(slots, (*Slot).Throughput)); got != want {
			t.Errorf("%s: %d blocks, want %d", name, got, want)
		}
	}
	f("all is well", func([]Slot) {}, 3)
	f("a slot without an answer", func(s []Slot) { s[1].Requests, s[2].Failed = 0, 100 }, 2)
	f("a setting that came late", func(s []Slot) { s[3].Set = 0.5 }, 1)
	if got := Estimate([]Slot{at(0, 1), at(1, 0.8), at(2, 1)}); got != nil {
		t.Errorf("from one block: %v, want nothing", got)
	}
}
