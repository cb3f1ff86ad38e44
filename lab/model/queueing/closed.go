package queueing

import (
	"fmt"
	"math"
)

// Method says how a closed model was solved.
type Method string

const (
	// Exact mean-value analysis (Reiser and Lavenberg 1980).
	Exact Method = "exact"
	// Convolution gives the same, also for stations with several servers
	// (Buzen 1973). It adds only positive numbers, on a logarithmic scale, and
	// so keeps its precision where mean-value analysis with several servers
	// loses it near saturation.
	Convolution Method = "convolution"
	// Approximate replaces a station with c servers by one that is c times as
	// fast and a delay (Seidmann, Schweitzer and Shalev-Oren 1987), and beyond
	// a few million steps takes the queue that an arriving request finds as
	// (N−1)/N of the mean one (Schweitzer 1979).
	Approximate Method = "approximate"
)

// Load is what a station does at a throughput.
type Load struct {
	Name string `json:"name"`
	// Utilisation is that of the hottest instance, 0 to 1, without Idle.
	Utilisation float64 `json:"utilisation"`
	// Queue is how many requests are there on average, waiting or served, over
	// all instances.
	Queue float64 `json:"queue"`
	// Response is how long one request of the system spends there, in seconds,
	// at all of its instances.
	Response float64 `json:"response"`
}

// Closed is a system with a fixed number of users.
type Closed struct {
	Users      int     `json:"users"`
	Throughput float64 `json:"throughput"` // requests per second
	Response   float64 `json:"response"`   // seconds, without thinking
	Loads      []Load  `json:"loads"`
	Method     Method  `json:"method"`
}

// Limits on the work of one solution: a second of it at most.
const (
	maxSteps    = 2e7 // of mean-value analysis: users × queues
	maxProducts = 2e7 // of convolution: users² × queues²
	maxUsers    = 1_000_000_000
)

// Closed solves the model for users who think between requests for so many
// seconds. Service times of pools are taken as exponential, and Period is left out:
// exact solutions are known for that only. A system
// without any demand, delay and think time has no finite throughput: an error.
func (m Model) Closed(users int, think float64) (*Closed, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("solve a closed model: %w", err)
	}
	if users < 1 || users > maxUsers {
		return nil, fmt.Errorf("solve a closed model for %d users; it takes from 1 to %d", users, maxUsers)
	}
	if !(think >= 0) || math.IsInf(think, 0) {
		return nil, fmt.Errorf("solve a closed model with a think time of %v; it must be a finite number from 0 up", think)
	}
	qs := m.queues()
	delay := m.Delay.Value + think
	if len(qs) == 0 && delay == 0 {
		return nil, fmt.Errorf("solve a closed model: nothing takes any time, so throughput has no limit")
	}
	c := &Closed{Users: users}
	var lengths []float64 // per instance
	parallel, products := false, float64(users)*float64(users)
	instances := 0.0
	for _, q := range qs {
		parallel = parallel || q.servers > 1
		instances += q.count
	}
	switch {
	case !parallel && float64(users)*float64(len(qs)) <= maxSteps:
		c.Method = Exact
		c.Throughput, lengths = exact(qs, users, delay)
	case parallel && products*instances*float64(len(qs)) <= maxProducts:
		c.Method = Convolution
		c.Throughput, lengths = convolution(qs, users, delay)
	default:
		c.Method = Approximate
		c.Throughput, lengths = approximate(qs, users, delay)
	}
	c.Response = max(0, float64(users)/c.Throughput-think)
	c.Loads = m.loads(qs, c.Throughput, lengths)
	return c, nil
}

func (m Model) loads(qs []queue, x float64, lengths []float64) []Load {
	out := make([]Load, len(m.Stations))
	for i, s := range m.Stations {
		out[i].Name = s.Name
	}
	for i, q := range qs {
		l := &out[q.station]
		l.Utilisation = max(l.Utilisation, min(1, x*q.demand/float64(q.servers)))
		l.Queue += q.count * lengths[i]
		l.Response = l.Queue / x // Little's law
	}
	return out
}

// exact is mean-value analysis for single servers: an arriving request finds
// what is there on average with one request less.
func exact(qs []queue, users int, delay float64) (x float64, lengths []float64) {
	lengths = make([]float64, len(qs))
	response := make([]float64, len(qs))
	for n := 1; n <= users; n++ {
		total := delay
		for i, q := range qs {
			response[i] = q.demand * (1 + lengths[i])
			total += q.count * response[i]
		}
		x = float64(n) / total
		for i := range qs {
			lengths[i] = x * response[i]
		}
	}
	return x, lengths
}

// convolution works with the logarithms of the normalisation constants g(n).
func convolution(qs []queue, users int, delay float64) (x float64, lengths []float64) {
	g := constants(qs, -1, users, delay)
	x = math.Exp(g[users-1] - g[users])
	for i, q := range qs {
		without := constants(qs, i, users, delay)
		f := factors(q, users)
		sum := 0.0
		for n := 1; n <= users; n++ {
			sum += float64(n) * math.Exp(f[n]+without[users-n]-g[users])
		}
		lengths = append(lengths, sum)
	}
	return x, lengths
}

// constants are ln g(0) to ln g(users), without one instance of the queue at
// index left out, if there is one.
func constants(qs []queue, left, users int, delay float64) []float64 {
	g := make([]float64, users+1)
	for n := 1; n <= users; n++ {
		g[n] = g[n-1] + math.Log(delay) - math.Log(float64(n)) // -Inf without a delay
	}
	for i, q := range qs {
		count := int(q.count)
		if i == left {
			count--
		}
		f := factors(q, users)
		for range count {
			g = convolve(g, f, q.servers == 1)
		}
	}
	return g
}

// factors are ln of demandⁿ over the product of the rates with 1 to n requests.
func factors(q queue, users int) []float64 {
	f := make([]float64, users+1)
	for n := 1; n <= users; n++ {
		f[n] = f[n-1] + math.Log(q.demand) - math.Log(float64(min(n, q.servers)))
	}
	return f
}

func convolve(g, f []float64, single bool) []float64 {
	out := make([]float64, len(g))
	for n := range g {
		if single { // a geometric series needs one step
			out[n] = g[n]
			if n > 0 {
				out[n] = logSum(g[n], f[1]+out[n-1])
			}
			continue
		}
		highest := math.Inf(-1)
		for j := range n + 1 {
			highest = max(highest, f[j]+g[n-j])
		}
		sum := 0.0
		for j := range n + 1 {
			sum += math.Exp(f[j] + g[n-j] - highest)
		}
		out[n] = highest + math.Log(sum)
	}
	return out
}

func logSum(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	return a + math.Log1p(math.Exp(b-a))
}

// approximate makes every station one server and a delay, and solves that.
func approximate(qs []queue, users int, delay float64) (x float64, lengths []float64) {
	single := make([]queue, len(qs))
	for i, q := range qs {
		c := float64(q.servers)
		delay += q.count * q.demand * (c - 1) / c
		single[i] = q
		single[i].demand, single[i].servers = q.demand/c, 1
	}
	if float64(users)*float64(len(qs)) <= maxSteps {
		x, lengths = exact(single, users, delay)
	} else {
		x, lengths = schweitzer(single, users, delay)
	}
	for i, q := range qs {
		c := float64(q.servers)
		lengths[i] += x * q.demand * (c - 1) / c // those in the delay are served
	}
	return x, lengths
}

// schweitzer finds the throughput at which all users are somewhere. Their
// number rises with throughput, so bisection finds it, and nothing can diverge.
func schweitzer(qs []queue, users int, delay float64) (x float64, lengths []float64) {
	n := float64(users)
	most, sum := 0.0, delay
	for _, q := range qs {
		most = max(most, q.demand)
		sum += q.count * q.demand
	}
	low, high := 0.0, n/sum
	if most > 0 {
		high = min(high, 1/most)
	}
	for range 200 {
		x = low + (high-low)/2
		placed := x * delay
		for _, q := range qs {
			placed += q.count * found(q, x, n)
		}
		if placed < n {
			low = x
		} else {
			high = x
		}
	}
	for _, q := range qs {
		lengths = append(lengths, found(q, x, n))
	}
	return x, lengths
}

// found is the length of a queue at throughput x among n users.
func found(q queue, x, n float64) float64 {
	busy := x * q.demand
	return busy / (1 - busy*(n-1)/n)
}

// Bounds are what throughput and response must lie between.
type Bounds struct {
	Users int `json:"users"`
	// Low and High bound throughput, in requests per second.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Fastest bounds mean response from below, in seconds.
	Fastest float64 `json:"fastest"`
	// Knee is the number of users at which queueing must begin.
	Knee float64 `json:"knee"`
	// Balanced is true if the tighter bounds of balanced jobs were used.
	Balanced bool `json:"balanced"`
}

// Bounds are the asymptotic bounds on a closed system (Lazowska, Zahorjan,
// Graham and Sevcik, Quantitative System Performance, 1984, 5.2): X is at most
// N/(D+Z) and the lowest bound of a station, and at least N/(N·D+Z). Where
// every station has a single server the bounds of balanced jobs (5.4) make both
// ends tighter. It errs as Closed does.
func (m Model) Bounds(users int, think float64) (Bounds, error) {
	// Solving for one user checks the arguments.
	if _, err := m.Closed(1, think); err != nil {
		return Bounds{}, err
	}
	if users < 1 || users > maxUsers {
		return Bounds{}, fmt.Errorf("bound a model for %d users; it takes from 1 to %d", users, maxUsers)
	}
	n, z := float64(users), think+m.Delay.Value
	sum, most, count := 0.0, 0.0, 0.0
	b := Bounds{Users: users, Balanced: true}
	for _, q := range m.queues() {
		sum += q.count * q.demand
		count += q.count
		most = max(most, q.demand/float64(q.servers))
		b.Balanced = b.Balanced && q.servers == 1
	}
	b.Low, b.High = n/(n*sum+z), n/(sum+z)
	if most > 0 {
		b.High = min(b.High, 1/most)
		b.Knee = (sum + z) / most
	}
	if b.Balanced && sum > 0 {
		b.Low = max(b.Low, n/(sum+z+(n-1)*most/(1+z/(n*sum))))
		b.High = min(b.High, n/(sum+z+(n-1)*sum/count/(1+z/sum)))
	}
	b.Fastest = max(sum+m.Delay.Value, n/b.High-think)
	return b, nil
}
