// Package queueing predicts throughput and response time of a topology from
// what one request demands of each of its stations.
//
// A Model is stations and a delay. It can be solved three ways: Bounds needs
// only demands and holds for any system in balance; Closed is mean-value
// analysis, for a fixed number of users who think between requests; Predict is
// for requests that arrive at a rate whatever the system does: it changes a model
// and gives the highest rate that meets an objective, with an interval, what limits
// it, and what would limit it next.
//
// What the models assume: one class of requests; arrivals without bursts
// (Poisson); stations that know nothing of each other, so no request holds two
// resources at once (a pool whose holder waits for the database is modelled as
// a station whose demand is the holding time; Predict does not count the database's
// share of it twice, and Closed and Bounds do); demands that do not depend on load. The last is the one
// that is wrong most often: CPU per request falls under load, because wake-ups
// and system calls are shared. Take demands measured at capacity, or let
// FitDemand split them into a part per request and a part that is always there.
//
// A component with a CPU quota (CFS bandwidth control) is taken as servers that
// are slower by its share. In truth it runs at full speed until the quota of a
// period is used up and then not at all until the next: small requests are
// answered faster than by the slower server, and some wait for the period to end.
// Where Station.Period is given, Predict follows the periods. Throughput is the
// same in both, so bounds and Closed take the slower server.
//
// The package has no I/O; its random draws come from a seed.
package queueing

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"loadstone/lab/stats"
)

// Known is a value without uncertainty.
func Known(v float64) stats.Interval { return stats.Interval{Value: v, Low: v, High: v} }

// spread is the standard deviation of the logarithm of what an interval describes.
func spread(e stats.Interval) float64 {
	if e.Confidence == 0 || e.Value == 0 || e.Low == e.High {
		return 0
	}
	z := distuv.UnitNormal.Quantile((1 + e.Confidence) / 2)
	return math.Log(e.High/e.Low) / (2 * z)
}

func checkInterval(e stats.Interval, what string) error {
	switch {
	case !(e.Value >= 0) || math.IsInf(e.Value, 0):
		return fmt.Errorf("%s is %v; it must be a finite number from 0 up", what, e.Value)
	case e.Confidence == 0:
		return nil
	case !(e.Confidence > 0 && e.Confidence < 1):
		return fmt.Errorf("%s has the confidence %v; it must be below 1", what, e.Confidence)
	case e.Value > 0 && !(e.Low > 0 && e.Low <= e.Value && e.Value <= e.High && !math.IsInf(e.High, 0)):
		return fmt.Errorf("%s is %v with the interval %v to %v; it must lie within it, above 0", what, e.Value, e.Low, e.High)
	}
	return nil
}

// Station is a resource that requests queue for: the CPU of a component, which serves
// all at once, each more slowly, or a pool, whose slots are given out in order.
type Station struct {
	Name string
	// Demand is how many seconds of the resource one request of the system
	// takes, over all instances: the utilisation law, D = U/X. For a CPU these are
	// seconds of a whole core.
	Demand stats.Interval
	// Instances each have a queue of their own and get an even share, but for Skew.
	Instances int
	// Servers work in parallel on the queue of one instance.
	Servers int
	// Speed is what one server does per second: 1 for a whole core, 0.25 for a
	// quarter of one.
	Speed float64
	// Skew is the load of the hottest instance relative to the mean one: 1 is
	// even, Instances at most.
	Skew float64
	// Idle is how much of one instance is used when no requests come, in
	// seconds per second.
	Idle float64
	// Period is how often a CPU quota is renewed, in seconds (0.1 unless it was
	// set otherwise); 0 where nothing throttles.
	Period float64
	// Pool says that it is a pool. What the holder of a slot does is done at other
	// stations of the model: where requests arrive at a rate, only waiting for a
	// slot adds to the response.
	Pool bool
}

// CPU is a component that runs on so many instances with a share of a CPU
// each. A share of 1.5 is two servers of speed 0.75.
func CPU(name string, demand stats.Interval, instances int, share float64) Station {
	s := Station{Name: name, Demand: demand, Instances: instances, Skew: 1}
	s.Servers, s.Speed = servers(share)
	return s
}

// servers are those that make up a share of CPUs.
func servers(cpus float64) (n int, speed float64) {
	if !(cpus > 0 && cpus < 1e6) {
		return 1, cpus // Validate says what is wrong with it
	}
	n = int(math.Ceil(cpus))
	return n, cpus / float64(n)
}

// Pool is a pool of so many slots per instance, each held for a time.
func Pool(name string, holding stats.Interval, instances, slots int) Station {
	return Station{Name: name, Demand: holding, Instances: instances, Servers: slots, Speed: 1, Skew: 1, Pool: true}
}

// Model is a system.
type Model struct {
	Stations []Station
	// Delay is what each request spends without queueing for anything, in
	// seconds: the network, a fixed wait.
	Delay stats.Interval
}

// Validate returns everything that is wrong with the model.
func (m Model) Validate() error {
	errs := []error{checkInterval(m.Delay, "the delay")}
	if len(m.Stations) == 0 {
		errs = append(errs, errors.New("a model has at least one station"))
	}
	seen := make(map[string]bool)
	for _, s := range m.Stations {
		if seen[s.Name] {
			errs = append(errs, fmt.Errorf("two stations are called %q", s.Name))
		}
		seen[s.Name] = true
		errs = append(errs, s.validate()...)
	}
	return errors.Join(errs...)
}

func (s Station) validate() []error {
	errs := []error{checkInterval(s.Demand, "the demand of "+s.Name)}
	number := func(what string, v, low, high float64, ok bool) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s of %s is %v; it must be from %g to %g", what, s.Name, v, low, high))
		}
	}
	whole := func(what string, n int) { number(what, float64(n), 1, 1e6, n >= 1 && n <= 1e6) }
	whole("the number of instances", s.Instances)
	whole("the number of servers", s.Servers)
	number("the speed", s.Speed, 1e-6, 1e6, s.Speed >= 1e-6 && s.Speed <= 1e6)
	number("the skew", s.Skew, 1, float64(s.Instances), s.Skew >= 1 && s.Skew <= float64(s.Instances))
	number("the period", s.Period, 0, 60, s.Period >= 0 && s.Period <= 60)
	whole0 := s.Speed * float64(s.Servers)
	number("the idle use", s.Idle, 0, whole0, s.Idle >= 0 && s.Idle < whole0)
	return errs
}

// speed is what one server has left for requests.
func (s Station) speed() float64 { return s.Speed - s.Idle/float64(s.Servers) }

// Bound is the highest rate that the station's hottest instance sustains, in
// requests of the system per second: the utilisation law at U = 1. It is +Inf
// for a demand of 0.
func (s Station) Bound() float64 {
	if s.Demand.Value == 0 {
		return math.Inf(1)
	}
	return float64(s.Instances) * float64(s.Servers) * s.speed() / (s.Demand.Value * s.Skew)
}

// queue is instances of a station that are alike.
type queue struct {
	station int
	count   float64 // how many
	share   float64 // of all requests that go to each of them
	demand  float64 // seconds at one instance per request of the system, at its speed
	servers int
}

// queues takes the stations apart into instances: the hottest, and the rest.
// Those without demand are left out.
func (m Model) queues() []queue {
	var out []queue
	for i, s := range m.Stations {
		if s.Demand.Value == 0 {
			continue
		}
		n := float64(s.Instances)
		q := queue{station: i, servers: s.Servers}
		add := func(count, share float64) {
			q.count, q.share, q.demand = count, share, share*s.Demand.Value/s.speed()
			if share > 0 {
				out = append(out, q)
			}
		}
		if s.Skew == 1 {
			add(n, 1/n)
			continue
		}
		add(1, s.Skew/n)
		add(n-1, (n-s.Skew)/(n-1)/n)
	}
	return out
}
