package roundtrip

import (
	"slices"
	"time"

	"loadstone/lab/load"
)

// Phones' networks: round trips within a continent and to another one, and the bandwidth
// of WebPageTest's profile 4G, 9 Mbit/s.
const (
	bandwidth = 9e6 / 8
	toOpen    = 2 // round trips: TCP, TLS 1.3
)

// Phones are the round trips of phones' networks.
func Phones() []time.Duration {
	return []time.Duration{60 * time.Millisecond, 200 * time.Millisecond}
}

// JourneyTime is how long an average iteration takes over a network, without pauses: computed, not measured (see package roundtrip). Times are in milliseconds.
type JourneyTime struct {
	// RTT is the network's round trip.
	RTT float64 `json:"rtt"`
	// Open is with connections that are open, New with those that are opened for it, by TCP
	// and TLS 1.3.
	Open float64 `json:"open"`
	New  float64 `json:"new"`
}

// OverPhones computes a journey over phones' networks, one after the other, from how often its steps were
// called, their bytes, and how long they took where they were measured. There is none if
// more than 1% of a step's requests failed: iterations that break off are short.
func OverPhones(plan *load.Plan, r *load.Result, j *load.JourneyResult) []JourneyTime {
	i := slices.IndexFunc(plan.Scenarios, func(s load.Scenario) bool { return s.Name == j.Scenario })
	if i < 0 || j.Iterations == 0 || plan.Scenarios[i].Weighted {
		return nil
	}
	s := &plan.Scenarios[i]
	calls := make([]Call, len(s.Steps))
	for k := range r.Steps {
		step := &r.Steps[k]
		at := slices.IndexFunc(s.Steps, func(of load.Step) bool { return of.Name == step.Name })
		if step.Scenario != s.Name || at < 0 || step.Requests == 0 {
			continue
		}
		if 100*step.Failed > step.Requests {
			return nil
		}
		calls[at] = Call{
			PerJourney: float64(step.Requests) / float64(j.Iterations), Bytes: float64(step.Received) / float64(step.Requests),
			Answer: time.Duration(step.Service.Mean * float64(time.Millisecond)),
		}
	}
	ms := func(d time.Duration) float64 {
		return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
	}
	var out []JourneyTime
	for _, rtt := range Phones() {
		open := Network{RTT: rtt, Bandwidth: bandwidth, Shared: plan.Protocol == load.HTTP2}
		opened := open
		opened.Setup = toOpen
		out = append(out, JourneyTime{RTT: ms(rtt), Open: ms(open.Duration(s, calls)), New: ms(opened.Duration(s, calls))})
	}
	return out
}
