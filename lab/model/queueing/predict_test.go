package queueing

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loadstone/lab/stats"
)

func between(v, by float64) stats.Interval {
	return stats.Interval{Value: v, Low: v / (1 + by), High: v * (1 + by), Confidence: 0.95}
}

// results is the shape of a system behind a proxy: three replicas, then lb.
func results() Model {
	return Model{Stations: []Station{CPU("api", between(200e-6, 0.05), 3, 0.25), CPU("lb", between(50e-6, 0.05), 1, 0.25)}, Delay: Known(0.001)}
}

var objective = Objective{Share: 0.95, Seconds: 0.2}

func predict(t *testing.T, m Model, q Question) *Prediction {
	t.Helper()
	q.Objective = objective
	p, err := Predict(m, q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(p); err != nil {
		t.Errorf("a prediction that cannot be written: %v", err)
	}
	return p
}

func TestPredictNamesTheLimitAndTheNext(t *testing.T) {
	t.Parallel()
	now := predict(t, results(), Question{Seed: 1})
	if now.Limit.Station != "api" || !near(now.Limit.Bound, 3750, 1e-9) || now.Next == nil || now.Next.Station != "lb" {
		t.Errorf("%+v, next %+v; want api at 3750 and then lb", now, now.Next)
	}
	if c := now.Capacity; c.Value > 3750 || c.Value < 0.9*3750 || !(c.Low < c.Value && c.Value < c.High) || c.Confidence != stats.Level {
		t.Errorf("capacity %+v, want a little under 3750 with an interval", c)
	}
	eight := 8
	more := predict(t, results(), Question{Changes: []Change{{Station: "api", Instances: &eight}}, Seed: 1})
	if more.Limit.Station != "lb" || !near(more.Limit.Bound, 5000, 1e-9) || more.Next.Station != "api" || more.Sure < 0.99 {
		t.Errorf("%+v, want lb at 5000", more)
	}
	t.Logf("3 replicas: %+v, limit %+v, next %+v", now.Capacity, now.Limit, *now.Next)
	t.Logf("8 replicas: %+v, limit %+v, next %+v", more.Capacity, more.Limit, *more.Next)
	again := predict(t, results(), Question{Seed: 1})
	if again.Capacity != now.Capacity {
		t.Error("the same seed gives another interval")
	}
	cpus := 0.4
	both := predict(t, results(), Question{Changes: []Change{{Station: "api", Instances: &eight}, {Station: "lb", CPUs: &cpus}}})
	if both.Limit.Station != "lb" || !near(both.Limit.Bound, 8000, 1e-9) {
		t.Errorf("%+v, want lb at 8000", both.Limit)
	}
}

func TestPredictCorrectsByTheMeasuredCapacity(t *testing.T) {
	t.Parallel()
	plain := predict(t, results(), Question{})
	measured := between(0.9*plain.Capacity.Value, 0.02)
	six := 6
	p := predict(t, results(), Question{Measured: &measured})
	if !near(p.Capacity.Value, measured.Value, 1e-9) || !near(p.Factor, 0.9, 1e-9) {
		t.Errorf("unchanged: %+v, want what was measured", p)
	}
	// The demand's uncertainty cancels: the interval is that of the measurement.
	if w := p.Capacity.High / p.Capacity.Low; w > 1.045 {
		t.Errorf("the interval spans a factor of %v, want about 1.04", w)
	}
	if p := predict(t, results(), Question{Measured: &measured, Changes: []Change{{Station: "lb", Instances: &six}, {Station: "api", Instances: &six}}}); !near(p.Capacity.Value, 2*measured.Value, 0.02) {
		t.Errorf("twice the replicas: %v, want twice %v", p.Capacity.Value, measured.Value)
	}
	off := Known(0.5 * plain.Capacity.Value)
	if p := predict(t, results(), Question{Measured: &off}); len(p.Warnings) == 0 {
		t.Error("a model that is off by half gives no warning")
	}
}

// The interval holds the true capacity as often as it says, when the demands'
// intervals do.
func TestPredictionCoverage(t *testing.T) {
	t.Parallel()
	truth := results()
	eight := 8
	change := []Change{{Station: "api", Instances: &eight}}
	for i := range truth.Stations {
		truth.Stations[i].Demand = Known(truth.Stations[i].Demand.Value)
	}
	want := predict(t, truth, Question{Changes: change}).Capacity.Value
	const repetitions = 40
	hit := 0
	for i := range repetitions {
		r := rand.New(rand.NewPCG(5, uint64(i)))
		m := results()
		for j := range m.Stations {
			d := truth.Stations[j].Demand.Value * math.Exp(0.05*r.NormFloat64())
			z := math.Exp(1.96 * 0.05)
			m.Stations[j].Demand = stats.Interval{Value: d, Low: d / z, High: d * z, Confidence: 0.95}
		}
		c := predict(t, m, Question{Changes: change, Seed: uint64(i)}).Capacity
		if c.Low <= want && want <= c.High {
			hit++
		}
	}
	t.Logf("the interval holds the truth in %d of %d", hit, repetitions)
	if hit < 35 {
		t.Errorf("coverage %d of %d", hit, repetitions)
	}
}

// A model whose predictions are off by 6 %: what is drawn holds what is measured elsewhere as
// often as it says if it knows of that, from two times three topologies.
func TestCoverageOfAModelThatIsOff(t *testing.T) {
	t.Parallel()
	const repetitions, off = 500, 0.06 / math.Sqrt2
	hit, blind := 0, 0
	for i := range repetitions {
		r := rand.New(rand.NewPCG(6, uint64(i)))
		var offs [2][3]float64
		var squares []float64
		for kind := range offs {
			for j := range offs[kind] {
				offs[kind][j] = off * r.NormFloat64()
				for _, x := range offs[kind][:j] {
					squares = append(squares, (x-offs[kind][j])*(x-offs[kind][j]))
				}
			}
		}
		measured := between(math.Exp(offs[0][0]), 0.02)
		want := off * r.NormFloat64()
		holds := func(e *ModelError) int {
			drawn := Question{Measured: &measured}.offs(r, e)
			slices.Sort(drawn)
			tail := draws / 40
			if low, high := offs[0][0]+drawn[tail], offs[0][0]+drawn[draws-1-tail]; low <= want && want <= high {
				return 1
			}
			return 0
		}
		hit += holds(&ModelError{RMS: math.Sqrt(stats.Mean(squares)), DF: 4})
		blind += holds(nil)
	}
	t.Logf("with the error %d of %d intervals hold what was measured, without %d", hit, repetitions, blind)
	if hit < 0.92*repetitions || hit > 0.98*repetitions || blind > repetitions/2 {
		t.Errorf("with the error %d of %d intervals hold what was measured, want 95 %%; without %d, want half at most", hit, repetitions, blind)
	}
}

// Of a topology that was measured nothing is known less for the model's error, and of another
// never more.
func TestTheWiderOfTwoErrorsCounts(t *testing.T) {
	t.Parallel()
	m := results()
	for i := range m.Stations {
		m.Stations[i].Demand = Known(m.Stations[i].Demand.Value)
	}
	eight := 8
	change := []Change{{Station: "api", Instances: &eight}}
	measured := between(0.9*predict(t, m, Question{}).Capacity.Value, 0.05)
	span := func(cs []Change, e ModelError) float64 {
		p := predict(t, m, Question{Changes: cs, Measured: &measured, Error: e})
		if told := p.Error != nil; told != (e.DF > 0 && len(cs) > 0) {
			t.Errorf("%+v, %v: the prediction holds the error %v", e, cs, p.Error)
		}
		return math.Log(p.Capacity.High / p.Capacity.Low)
	}
	plain := span(change, ModelError{})
	if unchanged := span(nil, ModelError{RMS: 0.5, DF: 2}); !near(unchanged, plain, 0.1) {
		t.Errorf("unchanged spans %v, want %v", unchanged, plain)
	}
	for _, e := range []ModelError{{0, 2}, {0.001, 2}, {0.011, 2}, {0.012, 2}, {0.02, 2}, {0.02, 20}, {0.1, 2}, {0.1, 4}} {
		want := max(plain, 2*e.width())
		if got := span(change, e); !near(got, want, 0.1) {
			t.Errorf("%+v spans %v, want %v", e, got, want)
		}
	}
	// 2.776 is Student's quantile with four degrees of freedom.
	if w := (ModelError{RMS: 0.1, DF: 4}).width(); !near(w, 0.2776, 0.001) {
		t.Errorf("a width of %v, want 0.278", w)
	}
	for _, e := range []ModelError{{math.NaN(), 2}, {-1, 2}, {math.Inf(1), 2}, {0.1, -1}} {
		if _, err := Predict(m, Question{Objective: objective, Measured: &measured, Error: e}); err == nil || !strings.Contains(err.Error(), "the model's error is") {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

// A capacity under an objective against a simulated system: the highest rate
// whose simulated p95 meets it.
func TestPredictedCapacityAgainstSimulation(t *testing.T) {
	t.Parallel()
	quota := CPU("a", Known(0.001), 1, 0.5)
	quota.Period = 0.02
	for name, m := range map[string]Model{
		"shared":       {Stations: []Station{station("a", 0.002, 1)}},
		"two stations": {Stations: []Station{station("a", 0.002, 1), station("b", 0.0015, 1)}},
		"quota":        {Stations: []Station{quota}},
	} {
		p, err := Predict(m, Question{Objective: Objective{0.95, 0.05}})
		if err != nil {
			t.Fatal(err)
		}
		low, high := 0.0, p.Limit.Bound
		for range 8 {
			mid := (low + high) / 2
			if _, p95 := simulate(m, mid, 60_000, 3); p95 <= 0.05 {
				low = mid
			} else {
				high = mid
			}
		}
		t.Logf("%s: %.1f predicted, %.1f simulated (%+.1f %%)", name, p.Capacity.Value, low, 100*(p.Capacity.Value/low-1))
		if !near(p.Capacity.Value, low, 0.06) {
			t.Errorf("%s: predicted %v, simulated %v", name, p.Capacity.Value, low)
		}
	}
}

func TestPredictAtTheEdges(t *testing.T) {
	t.Parallel()
	slow := Model{Stations: []Station{station("a", 1, 1)}}
	if p := predict(t, slow, Question{}); p.Capacity.Value != 0 || len(p.Warnings) != 1 {
		t.Errorf("%+v, want 0 and a warning: one request takes a second", p)
	}
	if p := predict(t, Model{Stations: []Station{station("a", 1e-12, 1), station("none", 0, 1)}}, Question{}); p.Next != nil || p.Capacity.Confidence != 0 || p.Sure != 1 {
		t.Errorf("%+v, want no next limit and no interval", p)
	}
	zero, minus := 0, -1.0
	for want, q := range map[string]Question{
		"no station":          {Changes: []Change{{Station: "x"}}},
		"number of instances": {Changes: []Change{{Station: "api", Instances: &zero}}},
		"speed":               {Changes: []Change{{Station: "api", CPUs: &minus}}},
		"capacity is 0":       {Measured: &stats.Interval{}},
	} {
		q.Objective = objective
		if _, err := Predict(results(), q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	for _, o := range []Objective{{0, 1}, {1, 1}, {math.NaN(), 1}, {0.95, 0}, {0.95, math.Inf(1)}} {
		if _, err := Predict(results(), Question{Objective: o}); err == nil {
			t.Errorf("objective %+v: no error", o)
		}
	}
}

func TestFitDemand(t *testing.T) {
	t.Parallel()
	const repetitions = 500
	hit := 0
	for i := range repetitions {
		r := rand.New(rand.NewPCG(9, uint64(i)))
		var us []Usage
		for _, rate := range []float64{200, 500, 1000, 2000, 3000, 4000} {
			us = append(us, Usage{rate, (0.02 + 50e-6*rate) * (1 + 0.03*r.NormFloat64())})
		}
		d, err := FitDemand(us)
		if err != nil {
			t.Fatal(err)
		}
		if d.PerRequest.Low <= 50e-6 && 50e-6 <= d.PerRequest.High {
			hit++
		}
	}
	t.Logf("coverage %.1f %%", 100*float64(hit)/repetitions)
	if hit < 0.92*repetitions {
		t.Errorf("coverage %d of %d", hit, repetitions)
	}
	d, err := FitDemand([]Usage{{100, 0.03}, {200, 0.04}})
	if err != nil || !near(d.PerRequest.Value, 1e-4, 1e-9) || !near(d.Idle.Value, 0.02, 1e-9) || d.PerRequest.Confidence != 0 {
		t.Errorf("%+v (%v), want 0.1 ms and 0.02 without an interval", d, err)
	}
	if d, err := FitDemand([]Usage{{100, 0.01}, {200, 0.03}, {300, 0.06}}); err != nil || d.Idle.Value != 0 || d.PerRequest.Value <= 0 {
		t.Errorf("%+v (%v), want no idle use below 0", d, err)
	}
	for _, bad := range [][]Usage{nil, {{1, 1}}, {{1, 1}, {1, 2}}, {{1, 2}, {2, 1}}, {{0, 1}, {1, 1}}, {{1, math.NaN()}, {2, 1}}, {{1, 0}, {2, 1}}} {
		if d, err := FitDemand(bad); err == nil {
			t.Errorf("%v: %+v, want an error", bad, d)
		}
	}
}
