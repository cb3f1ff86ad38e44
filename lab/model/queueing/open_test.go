package queueing

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func open(t *testing.T, m Model, rate float64) *Open {
	t.Helper()
	o, err := m.Open(rate)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestErlangC(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		servers int
		load    float64
		want    float64
	}{
		{1, 0.7, 0.7}, {2, 1, 1.0 / 3}, {14, 10, 0.1741}, {3, 3, 1}, {5, 0, 0},
	} {
		if got := ErlangC(c.servers, c.load); math.Abs(got-c.want) > 5e-4 {
			t.Errorf("%d servers, load %v: %v, want %v", c.servers, c.load, got, c.want)
		}
	}
	if got := ErlangC(1_000_000, 999_000); !(got > 0 && got < 1) {
		t.Errorf("a million servers: %v", got)
	}
}

func TestOneServerByHand(t *testing.T) {
	t.Parallel()
	// M/M/1 in order: response is exponential with mean s/(1−ρ).
	s := station("a", 0.010, 1)
	s.Discipline = InOrder
	o := open(t, Model{Stations: []Station{s}}, 80)
	if !near(o.Mean, 0.05, 1e-12) || !near(o.Deviation, 0.05, 1e-12) || !near(o.Loads[0].Queue, 4, 1e-12) {
		t.Errorf("%+v, want a mean and deviation of 50 ms and 4 requests", o)
	}
	if got, ok := o.Percentile(0.95); !ok || !near(got, 0.05*math.Log(20), 1e-9) {
		t.Errorf("p95 %v, want %v", got, 0.05*math.Log(20))
	}
	// M/D/1: half the wait.
	s.Variation = 0
	if o := open(t, Model{Stations: []Station{s}}, 80); !near(o.Mean, 0.03, 1e-12) {
		t.Errorf("constant service: %v, want 30 ms", o.Mean)
	}
	if o := open(t, Model{Stations: []Station{s}, Delay: Known(0.1)}, 0); !near(o.Mean, 0.11, 1e-12) || o.Within(0.2) != 1 || o.Within(0.05) != 0 {
		t.Errorf("without load: %+v", o)
	}
	if o := open(t, Model{Stations: []Station{s}}, 100); o.Stable || o.Within(1e9) != 0 {
		t.Errorf("at full load: %+v, want unstable", o)
	}
}

// shareOut simulates processor sharing by c servers at full speed, of which a
// quota per period may be used: CFS bandwidth control. A quota of the whole
// period is no throttling. It returns when each request is done.
func shareOut(arrivals, work []float64, c int, quota, period float64) []float64 {
	type job struct {
		id   int
		left float64
	}
	var active []job
	done := make([]float64, len(arrivals))
	now, next, budget, renewal := 0.0, 0, quota, period
	for next < len(arrivals) || len(active) > 0 {
		for now >= renewal {
			renewal += period
			budget = quota
		}
		running := float64(min(c, len(active)))
		until := renewal
		if next < len(arrivals) {
			until = min(until, arrivals[next])
		}
		first := -1
		if running > 0 && budget > 0 {
			for i, j := range active {
				if first < 0 || j.left < active[first].left {
					first = i
				}
			}
			until = min(until, now+budget/running, now+active[first].left*float64(len(active))/running)
			spent := (until - now) * running
			budget -= spent
			if budget < 1e-12 {
				budget = 0
			}
			for i := range active {
				active[i].left -= spent / float64(len(active))
			}
		}
		now = until
		active = slices.DeleteFunc(active, func(j job) bool {
			if j.left <= 1e-12 {
				done[j.id] = now
			}
			return j.left <= 1e-12
		})
		for next < len(arrivals) && arrivals[next] <= now {
			active = append(active, job{next, work[next]})
			next++
		}
	}
	return done
}

// inOrder simulates c servers that serve in order of arrival.
func inOrder(arrivals, work []float64, c int) []float64 {
	free := make([]float64, c)
	done := make([]float64, len(arrivals))
	for i, a := range arrivals {
		first := slices.Index(free, slices.Min(free))
		done[i] = max(a, free[first]) + work[i]
		free[first] = done[i]
	}
	return done
}

func poisson(r *rand.Rand, rate float64, n int) []float64 {
	out := make([]float64, n)
	at := 0.0
	for i := range out {
		at += r.ExpFloat64() / rate
		out[i] = at
	}
	return out
}

func exponential(r *rand.Rand, mean float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = mean * r.ExpFloat64()
	}
	return out
}

// observed are mean and 95th percentile of the responses of the second half.
func observed(arrivals, done []float64) (mean, p95 float64) {
	var rs []float64
	for i := len(done) / 2; i < len(done); i++ {
		rs = append(rs, done[i]-arrivals[i])
		mean += done[i] - arrivals[i]
	}
	slices.Sort(rs)
	return mean / float64(len(rs)), rs[len(rs)*95/100]
}

// simulate runs a model of stations one after another, without replicas.
func simulate(m Model, rate float64, n int, seed uint64) (mean, p95 float64) {
	r := rand.New(rand.NewPCG(seed, 2))
	arrivals := poisson(r, rate, n)
	at := arrivals
	for _, s := range m.Stations {
		work := exponential(r, s.Demand.Value, n)
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { return int(math.Copysign(1, at[a]-at[b])) })
		in, w := make([]float64, n), make([]float64, n)
		for i, id := range order {
			in[i], w[i] = at[id], work[id]
		}
		var out []float64
		switch {
		case s.Discipline == InOrder:
			for i := range w {
				w[i] /= s.Speed
			}
			out = inOrder(in, w, s.Servers)
		case s.Period > 0:
			out = shareOut(in, w, s.Servers, s.Speed*float64(s.Servers)*s.Period, s.Period)
		default:
			for i := range w {
				w[i] /= s.Speed
			}
			out = shareOut(in, w, s.Servers, float64(s.Servers), 1)
		}
		next := make([]float64, n)
		for i, id := range order {
			next[id] = out[i]
		}
		at = next
	}
	return observed(arrivals, at)
}

func TestAgainstSimulation(t *testing.T) {
	t.Parallel()
	with := func(s Station, f func(*Station)) Station { f(&s); return s }
	queue := func(s *Station) { s.Discipline = InOrder }
	quota := func(s *Station) { s.Period = 0.02 }
	for _, c := range []struct {
		name          string
		m             Model
		rate          float64
		meanBy, p95By float64 // tolerated
	}{
		{"in order, one", Model{Stations: []Station{with(station("a", 0.01, 1), queue)}}, 70, 0.05, 0.05},
		{"in order, four", Model{Stations: []Station{with(station("a", 0.04, 4), queue)}}, 80, 0.05, 0.06},
		{"sharing, one", Model{Stations: []Station{station("a", 0.01, 1)}}, 70, 0.05, 0.12},
		{"sharing, three", Model{Stations: []Station{station("a", 0.03, 3)}}, 80, 0.05, 0.12},
		{"two in a row", Model{Stations: []Station{station("a", 0.01, 1), with(station("b", 0.008, 1), queue)}}, 70, 0.05, 0.08},
		{"quota, 70 %, large requests", Model{Stations: []Station{with(CPU("a", Known(0.002), 1, 0.25), quota)}}, 87, 1.05, 0.6},
		{"quota, 90 %, large requests", Model{Stations: []Station{with(CPU("a", Known(0.002), 1, 0.25), quota)}}, 112, 0.4, 0.4},
		{"quota, 90 %, a twentieth", Model{Stations: []Station{with(CPU("a", Known(0.00025), 1, 0.25), quota)}}, 900, 0.2, 0.2},
		{"quota, 80 %, small requests", Model{Stations: []Station{with(CPU("a", Known(0.0001), 1, 0.25), quota)}}, 2000, 0.4, 0.2},
		{"quota, 95 %, small requests", Model{Stations: []Station{with(CPU("a", Known(0.0002), 1, 0.25), quota)}}, 1187, 0.2, 0.2},
		{"quota, 97 %, two cores", Model{Stations: []Station{with(CPU("a", Known(0.0002), 1, 1.5), quota)}}, 7275, 0.3, 0.2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mean, p95 := simulate(c.m, c.rate, 200_000, 7)
			o := open(t, c.m, c.rate)
			got, _ := o.Percentile(0.95)
			t.Logf("mean %.3g ms against %.3g (%+.1f %%), p95 %.3g ms against %.3g (%+.1f %%)",
				1000*o.Mean, 1000*mean, 100*(o.Mean/mean-1), 1000*got, 1000*p95, 100*(got/p95-1))
			if !near(o.Mean, mean, c.meanBy) || !near(got, p95, c.p95By) {
				t.Error("too far off")
			}
		})
	}
}
