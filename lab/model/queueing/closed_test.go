package queueing

import (
	"math"
	"testing"

	"loadstone/lab/stats"
)

func near(got, want, relative float64) bool {
	return math.Abs(got-want) <= relative*math.Abs(want)+1e-15
}

// station has one instance, whose servers work at speed 1.
func station(name string, demand float64, servers int) Station {
	s := CPU(name, Known(demand), 1, 1)
	s.Servers = servers
	return s
}

func closed(t *testing.T, m Model, users int, think float64) *Closed {
	t.Helper()
	c, err := m.Closed(users, think)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The example of Lazowska et al., chapters 5 and 6: a CPU and two disks with 15
// seconds of thinking.
func TestLazowskaExample(t *testing.T) {
	t.Parallel()
	m := Model{Stations: []Station{station("cpu", 0.605, 1), station("disk1", 2.1, 1), station("disk2", 1.35, 1)}}
	for _, c := range []struct {
		users    int
		x        float64
		response [3]float64
		queue    [3]float64
	}{
		{1, 0.0525, [3]float64{0.605, 2.1, 1.35}, [3]float64{0.0318, 0.1102, 0.0708}},
		{2, 0.1031, [3]float64{0.624, 2.331, 1.446}, [3]float64{0.0643, 0.2403, 0.1490}},
		{3, 0.1515, [3]float64{0.644, 2.605, 1.551}, [3]float64{0.0976, 0.3947, 0.2350}},
	} {
		got := closed(t, m, c.users, 15)
		if got.Method != Exact || math.Abs(got.Throughput-c.x) > 6e-5 {
			t.Errorf("%d users: %s %.5f, want %v", c.users, got.Method, got.Throughput, c.x)
		}
		for i, l := range got.Loads {
			if math.Abs(l.Response-c.response[i]) > 1.1e-3 || math.Abs(l.Queue-c.queue[i]) > 1.1e-4 {
				t.Errorf("%d users, %s: response %.4f queue %.4f, want %v and %v", c.users, l.Name, l.Response, l.Queue, c.response[i], c.queue[i])
			}
		}
	}
	if b, err := m.Bounds(1000, 15); err != nil || !near(b.High, 1/2.1, 1e-12) || !near(b.Knee, 19.055/2.1, 1e-12) {
		t.Errorf("bounds %+v (%v), want X at most 0.476 and a knee at 9.07", b, err)
	}
}

// chain solves the Markov chain of a closed network by brute force: users move
// at random to a station (in proportion to nothing: in a cycle) when served.
func chain(demands []float64, servers []int, think float64, users int) float64 {
	k := len(demands) + 1 // the last place is thinking
	rate := func(i, n int) float64 {
		if i == k-1 {
			return float64(n) / think
		}
		return float64(min(n, servers[i])) / demands[i]
	}
	var states [][]int
	index := make(map[string]int)
	var fill func(prefix []int, left int)
	key := func(s []int) string {
		b := make([]byte, len(s))
		for i, n := range s {
			b[i] = byte(n)
		}
		return string(b)
	}
	fill = func(prefix []int, left int) {
		if len(prefix) == k-1 {
			s := append(append([]int(nil), prefix...), left)
			index[key(s)] = len(states)
			states = append(states, s)
			return
		}
		for n := range left + 1 {
			fill(append(append([]int(nil), prefix...), n), left-n)
		}
	}
	fill(nil, users)
	// Uniformisation and power iteration.
	top := 0.0
	for i := range k {
		top += rate(i, users)
	}
	p := make([]float64, len(states))
	p[0] = 1
	for range 60_000 {
		next := make([]float64, len(p))
		moved := 0.0
		for s, state := range states {
			stay := p[s]
			for i, n := range state {
				if n == 0 {
					continue
				}
				flow := p[s] * rate(i, n) / top
				stay -= flow
				to := append([]int(nil), state...)
				to[i]--
				to[(i+1)%k]++
				next[index[key(to)]] += flow
			}
			next[s] += stay
		}
		for s := range p {
			moved += math.Abs(next[s] - p[s])
		}
		p = next
		if moved < 1e-13 {
			break
		}
	}
	x := 0.0
	for s, state := range states {
		if state[0] > 0 {
			x += p[s] * rate(0, state[0])
		}
	}
	return x
}

func TestAgainstMarkovChains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		demands []float64
		servers []int
		think   float64
		users   int
	}{
		{[]float64{1, 0.5}, []int{1, 1}, 2, 4},
		{[]float64{1, 0.5}, []int{2, 1}, 2, 5},
		{[]float64{1, 0.7, 0.3}, []int{3, 2, 1}, 1, 5},
		{[]float64{1, 1}, []int{4, 3}, 0.5, 6},
	} {
		var m Model
		for i, d := range c.demands {
			m.Stations = append(m.Stations, station(string(rune('a'+i)), d, c.servers[i]))
		}
		want := chain(c.demands, c.servers, c.think, c.users)
		got := closed(t, m, c.users, c.think)
		if got.Method == Approximate || !near(got.Throughput, want, 1e-7) {
			t.Errorf("%+v: %s %.9f, want %.9f", c, got.Method, got.Throughput, want)
		}
		inside := got.Throughput * c.think
		for _, l := range got.Loads {
			inside += l.Queue
		}
		if !near(inside, float64(c.users), 1e-9) {
			t.Errorf("%+v: %v users in all", c, inside)
		}
		qs := m.queues()
		seidmann, _ := approximate(qs, c.users, c.think)
		t.Logf("%v on %v servers: %.5f; Seidmann %+.1f %%", c.demands, c.servers, got.Throughput, 100*(seidmann/want-1))
		if !near(seidmann, want, 0.12) {
			t.Errorf("Seidmann: %v, want %v within 12 %%", seidmann, want)
		}
	}
}

// Three replicas are three queues; the hottest sets the bound.
func TestReplicasAndSkew(t *testing.T) {
	t.Parallel()
	even := Model{Stations: []Station{CPU("api", Known(0.010), 3, 0.5)}}
	three := Model{Stations: []Station{station("a", 0.02/3, 1), station("b", 0.02/3, 1), station("c", 0.02/3, 1)}}
	if got, want := closed(t, even, 7, 0.1).Throughput, closed(t, three, 7, 0.1).Throughput; !near(got, want, 1e-12) {
		t.Errorf("replicas: %v, want %v", got, want)
	}
	skewed := even
	skewed.Stations = []Station{even.Stations[0]}
	skewed.Stations[0].Skew = 1.5
	hot := Model{Stations: []Station{station("a", 0.01, 1), station("b", 0.005, 1), station("c", 0.005, 1)}}
	if got, want := closed(t, skewed, 7, 0.1).Throughput, closed(t, hot, 7, 0.1).Throughput; !near(got, want, 1e-12) {
		t.Errorf("skew: %v, want %v", got, want)
	}
	if got := skewed.Stations[0].Bound(); !near(got, 100, 1e-12) {
		t.Errorf("bound %v, want 100", got)
	}
	// Convolution handles both as the exact method does.
	x, lengths := convolution(skewed.queues(), 7, 0.1)
	y, want := exact(skewed.queues(), 7, 0.1)
	if !near(x, y, 1e-9) || !near(lengths[0], want[0], 1e-9) || !near(lengths[1], want[1], 1e-9) {
		t.Errorf("convolution %v %v, want %v %v", x, lengths, y, want)
	}
}

func TestBoundsHoldTheSolution(t *testing.T) {
	t.Parallel()
	for _, m := range []Model{
		{Stations: []Station{station("a", 1, 1), station("b", 0.4, 1)}},
		{Stations: []Station{station("a", 1, 3), station("b", 0.4, 1)}, Delay: Known(0.3)},
		{Stations: []Station{CPU("a", Known(0.01), 3, 0.25), CPU("b", Known(0.001), 1, 0.1)}},
	} {
		for _, think := range []float64{0, 0.1, 5} {
			for _, n := range []int{1, 2, 5, 20, 100} {
				c := closed(t, m, n, think)
				b, err := m.Bounds(n, think)
				if err != nil || c.Throughput < b.Low*(1-1e-9) || c.Throughput > b.High*(1+1e-9) || c.Response < b.Fastest*(1-1e-9) {
					t.Errorf("%d users, think %v: X %v R %v outside %+v (%v)", n, think, c.Throughput, c.Response, b, err)
				}
			}
		}
	}
}

func TestManyUsersStayFinite(t *testing.T) {
	t.Parallel()
	single := Model{Stations: []Station{CPU("a", Known(20e-6), 3, 0.25), CPU("b", Known(5e-6), 1, 1), CPU("none", Known(0), 1, 1)}}
	multi := Model{Stations: []Station{CPU("a", Known(20e-6), 1, 64), Pool("p", Known(1e-5), 2, 100)}}
	for _, c := range []struct {
		m    Model
		n    int
		want Method
	}{{single, 1_000_000, Exact}, {multi, 400, Convolution}, {multi, 1_000_000, Approximate}, {single, 1_000_000_000, Approximate}} {
		got := closed(t, c.m, c.n, 1)
		b, _ := c.m.Bounds(c.n, 1)
		if got.Method != c.want || !(got.Throughput > 0) || got.Throughput > b.High*(1+1e-6) || math.IsNaN(got.Response) {
			t.Errorf("%d users: %+v, bounds %+v", c.n, got, b)
		}
	}
	// Both approximations against the exact solution.
	for _, n := range []int{10, 100, 1000} {
		qs := Model{Stations: []Station{station("a", 0.01, 1), station("b", 0.008, 1), station("c", 0.004, 1)}}.queues()
		x, _ := exact(qs, n, 0.5)
		y, _ := schweitzer(qs, n, 0.5)
		t.Logf("Schweitzer at %d users: %+.2f %%", n, 100*(y/x-1))
		if !near(y, x, 0.03) {
			t.Errorf("Schweitzer at %d users: %v, want %v within 3 %%", n, y, x)
		}
	}
}

func TestBadModelsAreRefused(t *testing.T) {
	t.Parallel()
	good := CPU("a", Known(0.01), 1, 1)
	bad := func(f func(s *Station)) Model {
		s := good
		f(&s)
		return Model{Stations: []Station{s}}
	}
	for name, m := range map[string]Model{
		"nothing":        {},
		"twice":          {Stations: []Station{good, good}},
		"NaN delay":      {Stations: []Station{good}, Delay: Known(math.NaN())},
		"NaN demand":     bad(func(s *Station) { s.Demand = Known(math.NaN()) }),
		"below 0":        bad(func(s *Station) { s.Demand = Known(-1) }),
		"infinite":       bad(func(s *Station) { s.Demand = Known(math.Inf(1)) }),
		"outside":        bad(func(s *Station) { s.Demand = stats.Interval{Value: 1, Low: 2, High: 3, Confidence: 0.95} }),
		"certain":        bad(func(s *Station) { s.Demand = stats.Interval{Value: 1, Low: 1, High: 1, Confidence: 1} }),
		"no instance":    bad(func(s *Station) { s.Instances = 0 }),
		"no server":      bad(func(s *Station) { s.Servers = 0 }),
		"speed 0":        bad(func(s *Station) { s.Speed = 0 }),
		"speed NaN":      bad(func(s *Station) { s.Speed = math.NaN() }),
		"skew below 1":   bad(func(s *Station) { s.Skew = 0.5 }),
		"skew above all": bad(func(s *Station) { s.Skew = 2 }),
		"all idle":       bad(func(s *Station) { s.Idle = 1 }),
		"period":         bad(func(s *Station) { s.Period = math.Inf(1) }),
		"NaN share":      {Stations: []Station{CPU("a", Known(1), 1, math.NaN())}},
	} {
		if _, err := m.Closed(1, 1); err == nil {
			t.Errorf("%s: no error from Closed", name)
		}
		if _, err := Predict(m, Question{Objective: Objective{0.95, 1}}); err == nil {
			t.Errorf("%s: no error from Predict", name)
		}
	}
	m := Model{Stations: []Station{good}}
	for _, think := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, err := m.Closed(1, think); err == nil {
			t.Errorf("think time %v: no error", think)
		}
	}
	if _, err := m.Closed(0, 1); err == nil {
		t.Error("no users: no error")
	}
	if _, err := m.Bounds(0, 1); err == nil {
		t.Error("bounds for no users: no error")
	}
	if _, err := (Model{Stations: []Station{CPU("a", Known(0), 1, 1)}}).Closed(1, 0); err == nil {
		t.Error("nothing takes time: no error")
	}
}
