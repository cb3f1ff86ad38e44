// Package roundtrip computes how long a journey takes over a network: from its calls,
// which of them wait for which, and their bytes. It measures nothing and knows no clock.
//
// # The formula
//
// A journey takes as long as the longest way through what depends on what (the critical
// path; Wang and others, "Demystifying Page Load Performance with WProf", NSDI 2013). Of
// each call that the next one waits for this is
//
//	round trip + time to answer + bytes of the answer / bandwidth
//
// What is done at once is given to lanes, each of which takes the next call when its last
// is done (list scheduling; Graham, "Bounds on Multiprocessing Timing Anomalies", 1969),
// and takes no less than a round trip and all its bytes over the one link that lanes share.
// A connection that is opened first costs Setup round trips: one for TCP (RFC 9293), one
// more for TLS 1.3 (RFC 8446). Lanes of HTTP/1.1 have a connection each; those of HTTP/2
// share one (RFC 9113).
//
// Packet loss, TCP's slow start and the upload of requests are left out. Of steps that not
// every journey makes, means are what is known: then it is an average journey's time, and
// with lanes no more than that (the mean of what is longest is no less than the longest mean).
package roundtrip

import (
	"math"
	"slices"
	"time"

	"loadstone/lab/load"
)

// Network is what lies between a user and the system.
type Network struct {
	// RTT is how long a packet takes there and back.
	RTT time.Duration
	// Bandwidth is how many bytes a second reach the user; math.Inf(1) for no bound.
	Bandwidth float64
	// Setup is how many round trips a new connection takes before its first request; 0 if
	// all are open.
	Setup int
	// Shared says that all requests share one connection, as over HTTP/2.
	Shared bool
}

// Call is what one step of a journey costs, on average.
type Call struct {
	// PerJourney is how often it is made in a journey, in all passes together.
	PerJourney float64
	// Bytes are those of its answer on the wire.
	Bytes float64
	// Answer is how long the system takes to answer.
	Answer time.Duration
}

// Duration is how long an average journey of the scenario takes, without its pauses.
// calls has the scenario's steps, in its order. A list has as many values as its steps are
// called, on average.
func (n Network) Duration(s *load.Scenario, calls []Call) time.Duration {
	flow := s.Flow
	if flow == nil {
		for i := range s.Steps {
			flow = append(flow, load.Part{Step: i})
		}
	}
	w := walk{Network: n, calls: calls}
	seconds := w.inTurn(flow, 1) + w.setup
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// toOpen is how long a connection takes to open.
func (n Network) toOpen() float64 { return float64(n.Setup) * n.RTT.Seconds() }

// walk goes through a flow. All times are in seconds.
type walk struct {
	Network
	calls []Call
	open  int     // connections so far
	begun float64 // the chance that there is one
	setup float64 // what opening them has cost
}

// inTurn is how long parts take one after the other, which are made so often in a journey.
func (w *walk) inTurn(parts []load.Part, times float64) (sum float64) {
	for i := range parts {
		sum += w.part(&parts[i], times)
	}
	return sum
}

func (w *walk) part(p *load.Part, times float64) float64 {
	if len(p.Parts) == 0 {
		c := w.calls[p.Step]
		if c.PerJourney == 0 {
			return 0
		}
		w.use(min(1, c.PerJourney))
		return min(1, c.PerJourney/times) * (w.RTT.Seconds() + c.Answer.Seconds() + c.Bytes/w.Bandwidth)
	}
	passes := float64(max(p.Repeat, 1))
	if p.ForEach != "" {
		passes = w.passes(p.Parts, times)
	}
	switch {
	case passes == 0:
		return 0
	case p.Parallel == 0:
		return passes * w.inTurn(p.Parts, times*passes)
	}
	open := w.use(min(1, w.made(p.Parts, 1)))
	var units []float64
	if passes == 1 && p.ForEach == "" {
		for i := range p.Parts {
			units = append(units, w.part(&p.Parts[i], times))
		}
	} else {
		units = []float64{w.inTurn(p.Parts, times*passes)}
		if passes != math.Trunc(passes) { // an average of lists of several lengths
			return max(units[0]*max(passes/float64(p.Parallel), min(passes, 1)), w.link(p.Parts, times))
		}
		units = slices.Repeat(units, int(passes))
	}
	lanes := min(p.Parallel, len(units))
	if !w.whole(p.Parts, times*passes) { // which of them are made differs: no less than the longest, or a lane's share
		sum := 0.0
		for _, unit := range units {
			sum += unit
		}
		return max(slices.Max(units), sum/float64(lanes), w.link(p.Parts, times))
	}
	warm := max(schedule(units, make([]float64, lanes)), w.link(p.Parts, times))
	if lanes > open {
		if open > 0 { // or all are opened with the first
			free := make([]float64, lanes)
			for i := open; i < lanes; i++ {
				free[i] = w.toOpen()
			}
			w.setup += max(schedule(units, free)-warm, 0)
		}
		w.open = max(w.open, lanes)
	}
	return warm
}

// use opens a first connection, which is needed with a chance, and returns how many there
// were.
func (w *walk) use(chance float64) int {
	w.setup += max(chance-w.begun, 0) * w.toOpen()
	w.begun = max(w.begun, chance)
	before := w.open
	if w.open = max(before, 1); w.Shared {
		w.open = math.MaxInt
	}
	return before
}

// schedule gives each unit to the lane that is free first, and returns when the last is
// done. free is when the lanes can begin.
func schedule(units, free []float64) (end float64) {
	for _, unit := range units {
		first := 0
		for i := range free {
			if free[i] < free[first] {
				first = i
			}
		}
		free[first] += unit
		end = max(end, free[first])
	}
	return end
}

// link is how long the answers to what parts ask for take over the link, all passes
// together, from when the first is asked for.
func (w *walk) link(parts []load.Part, times float64) float64 {
	bytes := 0.0
	each(parts, 1, func(step int, _ float64) { bytes += w.calls[step].PerJourney * w.calls[step].Bytes / times })
	return min(1, w.made(parts, times))*w.RTT.Seconds() + bytes/w.Bandwidth
}

// made is how many calls of parts are made, all passes together.
func (w *walk) made(parts []load.Part, times float64) (sum float64) {
	each(parts, 1, func(step int, _ float64) { sum += w.calls[step].PerJourney / times })
	return sum
}

// whole says whether each step of parts is made a whole number of times in a pass.
func (w *walk) whole(parts []load.Part, times float64) bool {
	all := true
	each(parts, 1, func(step int, inPass float64) { all = all && isWhole(w.calls[step].PerJourney/times/inPass) })
	return all
}

// isWhole allows for journeys that were cut off, or that began before they were counted.
func isWhole(n float64) bool { return math.Abs(n-math.Round(n)) <= 0.02*math.Round(n) }

// passes is how many values a list has that parts are made for, if that is so often in a
// journey: what its most frequent step says.
func (w *walk) passes(parts []load.Part, times float64) (most float64) {
	each(parts, 1, func(step int, inPass float64) { most = max(most, w.calls[step].PerJourney/times/inPass) })
	if isWhole(most) {
		return math.Round(most)
	}
	return most
}

// each calls do for every step of parts, with how often it is made in a pass of them: lists
// count once.
func each(parts []load.Part, times float64, do func(step int, times float64)) {
	for i := range parts {
		if p := &parts[i]; len(p.Parts) > 0 {
			each(p.Parts, times*float64(max(p.Repeat, 1)), do)
		} else {
			do(p.Step, times)
		}
	}
}
