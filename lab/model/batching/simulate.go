package batching

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// A simulation is of several stretches, each with quotas that are renewed at other moments:
// which of two is renewed first decides who sends bursts to whom.
const (
	stretches = 8
	warmup    = 1000 // requests of each stretch, before those that count
	counted   = 3000
)

// Simulate says what each part does at the rate that the system sustains.
func (s System) Simulate() ([]Use, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("simulate how requests gather: %w", err)
	}
	total := make([]tally, len(s.Parts))
	r := rand.New(rand.NewPCG(s.Seed, 0xba7c4))
	for range stretches {
		m := newMachine(s, r)
		m.run(warmup + s.InHand)
		clear(m.tallies)
		m.run(counted)
		for i, t := range m.tallies {
			total[i].cpu += t.cpu
			total[i].served += t.served
			total[i].wakes += t.wakes
		}
	}
	out := make([]Use, len(total))
	for i, t := range total {
		out[i] = Use{PerRequest: t.cpu / float64(max(1, t.served)), Together: float64(t.served) / float64(max(1, t.wakes))}
	}
	return out, nil
}

// tally is what a part did.
type tally struct {
	cpu           float64
	served, wakes int
}

// instance is one replica of a part. It serves in batches: what has come when it begins one.
type instance struct {
	part           int
	quota, period  float64 // period is 0 without a quota
	used, renewed  float64 // of the quota, and when the next period begins
	waiting, batch int     // requests that have come, and those left of the batch
	left           float64 // work until the first of the batch is done
}

// works says whether it has something to do and may.
func (in *instance) works() bool {
	return in.batch > 0 && (in.period == 0 || in.used < in.quota-tiny)
}

// tiny is below any time that matters, and above what rounding leaves of one.
const tiny = 1e-12

// machine is a system at work.
type machine struct {
	System

	rand      *rand.Rand
	now       float64
	instances []instance
	first     []int // of each part's instances
	turn      []int // whose turn it is, by part
	tallies   []tally
}

func newMachine(s System, r *rand.Rand) *machine {
	m := &machine{System: s, rand: r, turn: make([]int, len(s.Parts)), tallies: make([]tally, len(s.Parts))}
	for i, p := range s.Parts {
		m.first = append(m.first, len(m.instances))
		for range p.Instances {
			m.instances = append(m.instances, instance{part: i, quota: p.Share * p.Period, period: p.Period, renewed: r.Float64() * p.Period})
		}
	}
	for range s.InHand {
		m.send(0)
	}
	return m
}

// send brings a request to a part.
func (m *machine) send(part int) {
	in := &m.instances[m.first[part]+m.turn[part]]
	m.turn[part] = (m.turn[part] + 1) % m.Parts[part].Instances
	in.waiting++
	m.begin(in)
}

// begin takes what has gathered, if it may and the batch before is done.
func (m *machine) begin(in *instance) {
	if in.batch > 0 || in.waiting == 0 || in.period > 0 && in.used >= in.quota-tiny {
		return
	}
	in.batch, in.waiting = in.waiting, 0
	p := m.Parts[in.part]
	in.left = p.Wake * m.rand.ExpFloat64()
	for range in.batch {
		in.left += p.Each * m.rand.ExpFloat64()
	}
	m.tallies[in.part].wakes++
}

// run goes on until so many requests have left the last part.
func (m *machine) run(requests int) {
	last := &m.tallies[len(m.tallies)-1]
	for until := last.served + requests; last.served < until; {
		m.renew()
		m.advance()
	}
}

// renew gives new quotas to those whose period is over.
func (m *machine) renew() {
	for i := range m.instances {
		in := &m.instances[i]
		for in.period > 0 && in.renewed <= m.now+tiny {
			in.used = 0
			in.renewed += in.period
			m.begin(in)
		}
	}
}

// advance goes to the next moment at which a request is done, or a quota is used up or
// renewed. Those who work share the cores evenly.
func (m *machine) advance() {
	working := 0
	for i := range m.instances {
		if m.instances[i].works() {
			working++
		}
	}
	speed := min(1, float64(m.Cores)/float64(max(1, working)))
	next := math.Inf(1)
	for i := range m.instances {
		in := &m.instances[i]
		if in.period > 0 {
			next = min(next, in.renewed-m.now)
		}
		if !in.works() {
			continue
		}
		next = min(next, in.left/speed)
		if in.period > 0 {
			next = min(next, (in.quota-in.used)/speed)
		}
	}
	m.now += max(0, next)
	work := max(0, next) * speed
	for i := range m.instances {
		in := &m.instances[i]
		if !in.works() {
			continue
		}
		in.left -= work
		in.used += work
		m.tallies[in.part].cpu += work
	}
	for i := range m.instances {
		if in := &m.instances[i]; in.batch > 0 && in.left <= tiny {
			m.done(in)
		}
	}
}

// done sends the batch on, to begin anew from the last part, and begins the next.
func (m *machine) done(in *instance) {
	m.tallies[in.part].served += in.batch
	for ; in.batch > 0; in.batch-- {
		m.send((in.part + 1) % len(m.Parts))
	}
	m.begin(in)
}
