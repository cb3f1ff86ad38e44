// Package batching says what a request costs a component that serves together whatever
// has gathered, in a system of other sizes than the measured one.
//
// A wake-up costs about the same however many requests it finds: the scheduler, a poll,
// caches that others have filled meanwhile. A request that is found among k others so costs
//
//	each + wake / k
//
// and k is nothing that a component has by itself. It gathers requests while it waits for
// a core or for its quota of CPU, and those in front of it send bursts for the same reasons.
// Averages do not give it: with fewer requests in hand a component behind a throttled one
// finds more at a time than one behind a component that is not. So the system is simulated,
// with its quotas and its cores.
//
// What a request costs alone, wake + each, is what it costs at a small part of the capacity,
// where hardly one finds another. From that, and from what it costs at the capacity, Fit
// tells the two apart: they are those with which the simulation of the measured system has
// the cost that was measured. Nothing else is fitted.
//
// What it assumes: each request visits every component once, in their order; a fixed number
// of requests is in hand, and the next begins where one ends (a load at the capacity, of which
// the generator or the objective bounds how many are under way); a component takes all that is
// there and sends it on together, as one that reads every ready connection, asks for all of
// them at once and then answers; one thread at a time works for an instance; those who work
// share the cores evenly; replicas get requests in turn; work varies as an exponential does.
//
// The package has no I/O; its random draws come from a seed.
package batching

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Part is a component: instances that are alike.
type Part struct {
	Name      string
	Instances int
	// Share is how much of a CPU each instance may use, renewed every Period, in seconds.
	// Both are 0 where nothing throttles.
	Share, Period float64
	Cost
}

// Cost is in seconds of CPU: of each wake-up, and of each request beside it.
type Cost struct{ Wake, Each float64 }

// System is parts in the order in which requests visit them.
type System struct {
	Parts []Part
	// InHand is how many requests are under way, and Cores how many instances can work at
	// once at full speed.
	InHand, Cores int
	Seed          uint64
}

// Use is what a part was seen to do.
type Use struct {
	PerRequest float64 // seconds of CPU
	Together   float64 // requests for each wake-up
}

// Most bounds the work of a simulation: its time grows with the instances for each event.
const (
	mostInstances = 256
	mostInHand    = 4096
)

// Validate returns everything that is wrong with the system.
func (s System) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(len(s.Parts) > 0, "a system has at least one part")
	check(s.InHand >= 1 && s.InHand <= mostInHand, "%d requests are in hand; it must be 1 to %d", s.InHand, mostInHand)
	check(s.Cores >= 1, "it has %d cores; it must be 1 or more", s.Cores)
	n, work := 0, 0.0
	for _, p := range s.Parts {
		n += max(0, p.Instances)
		work += p.Wake + p.Each
		check(p.Instances >= 1, "%s has %d instances; it must be 1 or more", p.Name, p.Instances)
		check(p.Share >= 0 && p.Share <= 1 && (p.Share > 0) == (p.Period > 0) && p.Period <= 60, "%s has %v CPU every %v s; it must be 1 at most, and both or none 0", p.Name, p.Share, p.Period)
		check(p.Wake >= 0 && p.Each >= 0, "%s costs %v and %v s; neither may be below 0", p.Name, p.Wake, p.Each)
		// One that outlasts quotas shares next to nothing, and would take long to simulate.
		check(p.Period == 0 || p.Wake+p.Each <= p.Share*p.Period, "a request costs %s %v s, and its quota is %v s; it must be that at most", p.Name, p.Wake+p.Each, p.Share*p.Period)
	}
	check(n <= mostInstances, "it has %d instances; it must be %d at most", n, mostInstances)
	check(work > 0 && !math.IsInf(work, 0), "a request costs %v s of CPU; it must be a finite number above 0", work)
	return errors.Join(errs...)
}

// Measured is what a request costs a part: Alone, and where it was Measured.
type Measured struct{ Alone, Together float64 }

// fits is how often Fit simulates. What it finds changes little after the fourth.
const fits = 6

// Fit returns the system with the costs that explain what was measured of it, part by part.
// A part that costs no less with others than alone has no cost of a wake-up, and likewise
// one whose cost fell by more than sharing its wake-ups explains: most of that is not of
// requests.
func (s System) Fit(measured []Measured) (System, []Use, error) {
	if len(measured) != len(s.Parts) {
		return System{}, nil, fmt.Errorf("fit the costs of %d parts to those of %d", len(s.Parts), len(measured))
	}
	s.Parts = slices.Clone(s.Parts)
	var uses []Use
	for n := range fits {
		for i, m := range measured {
			together := math.Inf(1) // to begin with
			if n > 0 {
				together = uses[i].Together
			}
			s.Parts[i].Cost = split(m, together)
		}
		var err error
		if uses, err = s.Simulate(); err != nil {
			return System{}, nil, fmt.Errorf("fit the costs of requests: %w", err)
		}
	}
	return s, uses, nil
}

// split is wake and each where k requests are served at a time:
// wake + each is the cost alone, each + wake/k that together.
func split(m Measured, k float64) Cost {
	if !(m.Alone > m.Together) || k*m.Together < explained*m.Alone {
		return Cost{Each: m.Together}
	}
	wake := m.Alone
	if k > 1 {
		wake = min(wake, (m.Alone-m.Together)/(1-1/k))
	}
	return Cost{Wake: wake, Each: m.Alone - wake}
}

// explained is how much of a cost together the wake-ups must leave to explain, at least, so
// that requests are taken to be what it is of.
const explained = 0.5
