package queueing

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func (m Model) at(rate float64) response { return m.open(m.queues(), rate) }

// percentile is the response time that a share of requests stays within, in seconds.
func (o response) percentile(share float64) float64 {
	low, high := 0.0, o.mean+o.deviation
	for o.within(high) < share {
		high *= 2
	}
	for range 100 {
		mid := (low + high) / 2
		if o.within(mid) < share {
			low = mid
		} else {
			high = mid
		}
	}
	return high
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
	// A response that is exponential, as that of M/M/1 in order.
	if got := (response{stable: true, mean: 0.05, deviation: 0.05}).percentile(0.95); !near(got, 0.05*math.Log(20), 1e-9) {
		t.Errorf("p95 %v, want %v", got, 0.05*math.Log(20))
	}
	s := station("a", 0.010, 1)
	if o := (Model{Stations: []Station{s}}).at(80); !near(o.mean, 0.05, 1e-12) {
		t.Errorf("%+v, want a mean of 50 ms", o)
	}
	if o := (Model{Stations: []Station{s}, Delay: Known(0.1)}).at(0); !near(o.mean, 0.11, 1e-12) || o.within(0.05) != 0 {
		t.Errorf("without load: %+v", o)
	}
	if o := (Model{Stations: []Station{s}}).at(100); o.stable || o.within(1e9) != 0 {
		t.Errorf("at full load: %+v, want unstable", o)
	}
	// M/M/1: 0.8 of the requests wait for a slot, 50 ms on average.
	s.Pool = true
	if o := (Model{Stations: []Station{s}}).at(80); !near(o.mean, 0.04, 1e-12) || !near(o.deviation, math.Sqrt(0.8*1.2)*0.05, 1e-12) {
		t.Errorf("pool: %+v, want a mean of 40 ms and a deviation of 49 ms", o)
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
		case s.Pool: // what its holders do is done elsewhere
			out = inOrder(in, w, s.Servers)
			for i := range out {
				out[i] -= w[i]
			}
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
	pool := func(s *Station) { s.Pool = true }
	quota := func(s *Station) { s.Period = 0.02 }
	for _, c := range []struct {
		name          string
		m             Model
		rate          float64
		meanBy, p95By float64 // tolerated
	}{
		{"pool, one slot", Model{Stations: []Station{with(station("a", 0.01, 1), pool)}}, 70, 0.05, 0.05},
		{"pool, four slots", Model{Stations: []Station{with(station("a", 0.04, 4), pool)}}, 80, 0.08, 0.06}, // waits vary more than responses
		{"sharing, one", Model{Stations: []Station{station("a", 0.01, 1)}}, 70, 0.05, 0.12},
		{"sharing, three", Model{Stations: []Station{station("a", 0.03, 3)}}, 80, 0.05, 0.12},
		{"two in a row", Model{Stations: []Station{station("a", 0.01, 1), with(station("b", 0.008, 1), pool)}}, 70, 0.05, 0.08},
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
			o := c.m.at(c.rate)
			got := o.percentile(0.95)
			t.Logf("mean %.3g ms against %.3g (%+.1f %%), p95 %.3g ms against %.3g (%+.1f %%)",
				1000*o.mean, 1000*mean, 100*(o.mean/mean-1), 1000*got, 1000*p95, 100*(got/p95-1))
			if !near(o.mean, mean, c.meanBy) || !near(got, p95, c.p95By) {
				t.Error("too far off")
			}
		})
	}
}
