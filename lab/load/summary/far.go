package summary

import (
	"slices"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/roundtrip"
)

// JourneyTime is how long an average iteration takes over a network, without pauses: computed, not measured (see package roundtrip). Times are in milliseconds.
type JourneyTime struct {
	// RTT is the network's round trip.
	RTT float64 `json:"rtt"`
	// Open is with connections that are open, New with those that are opened for it, by TCP
	// and TLS 1.3.
	Open float64 `json:"open"`
	New  float64 `json:"new"`
}

// Phones' networks: round trips within a continent and to another one, and the bandwidth
// of WebPageTest's profile 4G, 9 Mbit/s.
const (
	bandwidth = 9e6 / 8
	toOpen    = 2 // round trips: TCP, TLS 1.3
)

func roundTrips() []time.Duration {
	return []time.Duration{60 * time.Millisecond, 200 * time.Millisecond}
}

// farAway computes the journey of a scenario over phones' networks, from how often its
// steps were called, their bytes, and how long they took here. There is none if
// more than 1% of a step's requests failed: iterations that break off are short.
func farAway(plan *load.Plan, r *load.Result, j *load.JourneyResult) []JourneyTime {
	i := slices.IndexFunc(plan.Scenarios, func(s load.Scenario) bool { return s.Name == j.Scenario })
	if i < 0 || j.Iterations == 0 || plan.Scenarios[i].Weighted {
		return nil
	}
	s := &plan.Scenarios[i]
	calls := make([]roundtrip.Call, len(s.Steps))
	for k := range r.Steps {
		step := &r.Steps[k]
		at := slices.IndexFunc(s.Steps, func(of load.Step) bool { return of.Name == step.Name })
		if step.Scenario != s.Name || at < 0 {
			continue
		}
		if 100*step.Failed > step.Requests {
			return nil
		}
		calls[at] = roundtrip.Call{
			PerJourney: float64(step.Requests) / float64(j.Iterations), Bytes: ratio(float64(step.Received), float64(step.Requests)),
			Answer: time.Duration(step.Service.Mean * float64(time.Millisecond)),
		}
	}
	ms := func(d time.Duration) float64 {
		return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
	}
	var out []JourneyTime
	for _, rtt := range roundTrips() {
		open := roundtrip.Network{RTT: rtt, Bandwidth: bandwidth, Shared: plan.Protocol == load.HTTP2}
		opened := open
		opened.Setup = toOpen
		out = append(out, JourneyTime{RTT: ms(rtt), Open: ms(open.Duration(s, calls)), New: ms(opened.Duration(s, calls))})
	}
	return out
}

// far has how long iterations take over phones' networks.
func (s *Summary) far(p *page) {
	header := []string{""}
	for _, rtt := range roundTrips() {
		header = append(header, p.milliseconds(float64(rtt.Milliseconds())), "newly connected")
	}
	rows := [][]string{header}
	for i := range s.Journeys {
		j := &s.Journeys[i]
		row := []string{p.clean(j.Scenario)}
		for _, at := range j.Computed {
			row = append(row, p.milliseconds(at.Open), p.milliseconds(at.New))
		}
		if len(row) == len(header) {
			rows = append(rows, row)
		}
	}
	if len(rows) == 1 {
		return
	}
	p.heading("Iterations over a phone's network, computed")
	p.table("lrrrr", rows)
	p.line("  an average iteration, with the answer times of this load, at that round trip")
	p.line("  and 9 Mbit/s, without pauses")
}
