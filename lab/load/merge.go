package load

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Merge is what came of a plan that several generators shared, as if one had offered it.
// Distributions are merged whole, so that percentiles are those of all requests together.
// Of the generators themselves it has the worst of each figure, and they stay in Parts,
// because one that is overloaded makes the measurement no better for the others.
func Merge(parts []Result) (Result, error) {
	if len(parts) == 0 {
		return Result{}, errors.New("merge results: there are none")
	}
	m := merger{out: Result{From: parts[0].From, To: parts[0].To, Status: map[int]uint64{}, Aborted: parts[0].Aborted}}
	var responses, services []Latency
	for i := range parts {
		m.add(&parts[i])
		responses, services = append(responses, parts[i].Response), append(services, parts[i].Service)
	}
	m.out.Response, m.out.Service = m.latency(responses), m.latency(services)
	m.steps(parts)
	m.journeys(parts)
	m.checks(parts)
	m.values(parts)
	m.trend(parts)
	for i := range parts {
		p := parts[i]
		m.out.Parts = append(m.out.Parts, Result{From: p.From, To: p.To, Offered: p.Offered, Scheduled: p.Scheduled, Requests: p.Requests, Late: p.Late, DroppedLate: p.DroppedLate, Errors: p.Errors, Generator: p.Generator})
	}
	return m.out, m.err
}

// merger merges results of the same plan, which have the same steps, and keeps the first
// error.
type merger struct {
	out Result
	err error
}

func (m *merger) add(p *Result) {
	o := &m.out
	if p.From.Before(o.From) {
		o.From = p.From
	}
	if p.To.After(o.To) {
		o.To = p.To
	}
	for _, sum := range []struct {
		to *uint64
		n  uint64
	}{
		{&o.Offered, p.Offered}, {&o.Iterations, p.Iterations}, {&o.Requests, p.Requests}, {&o.Failed, p.Failed},
		{&o.Dropped, p.Dropped}, {&o.Waited, p.Waited}, {&o.Late, p.Late}, {&o.IterationsInTime, p.IterationsInTime},
		{&o.Scheduled, p.Scheduled}, {&o.DroppedLate, p.DroppedLate}, {&o.CompletedInTime, p.CompletedInTime}, {&o.Sent, p.Sent}, {&o.Received, p.Received},
	} {
		*sum.to += sum.n
	}
	o.MaxInFlight += p.MaxInFlight
	for status, n := range p.Status {
		o.Status[status] += n
	}
	for status, said := range p.Refusals {
		if o.Refusals == nil {
			o.Refusals = map[int]string{}
		}
		o.Refusals[status] = said
	}
	for kind, e := range p.Errors {
		if o.Errors == nil {
			o.Errors = map[string]ErrorCount{}
		}
		before := o.Errors[kind]
		e.Count += before.Count
		if before.Example != "" {
			e.Example = before.Example
		}
		o.Errors[kind] = e
	}
	for _, note := range p.Notes {
		if !slices.Contains(o.Notes, note) {
			o.Notes = append(o.Notes, note)
		}
	}
	if o.Aborted == "" {
		o.Aborted = p.Aborted
	}
	o.Generator.worst(&p.Generator)
}

// worst takes over each figure of another generator that is worse.
func (g *Generator) worst(o *Generator) {
	g.CPUSeconds += o.CPUSeconds
	if g.Cores == 0 || o.Busy*float64(g.Cores) > g.Busy*float64(o.Cores) {
		g.Busy, g.Cores = o.Busy, o.Cores
	}
	g.Working, g.MachineBusy, g.Throttled = max(g.Working, o.Working), max(g.MachineBusy, o.MachineBusy), max(g.Throttled, o.Throttled)
	a, b := &g.Lateness, &o.Lateness
	if a.Max == 0 && a.WithinMs == 0 {
		*a = *b
		return
	}
	a.P50, a.P99, a.P999, a.Max = max(a.P50, b.P50), max(a.P99, b.P99), max(a.P999, b.P999), max(a.Max, b.Max)
	a.WithinMs = min(a.WithinMs, b.WithinMs)
}

// latency merges distributions.
func (m *merger) latency(all []Latency) Latency {
	var texts []string
	for _, l := range all {
		texts = append(texts, l.Histogram)
	}
	h, err := MergeHistograms(texts)
	if err == nil {
		var l Latency
		if l, err = NewLatency(h); err == nil {
			return l
		}
	}
	m.err = errors.Join(m.err, err)
	return Latency{}
}

// MergeHistograms merges histograms as EncodeHistogram writes them. Empty texts are none.
func MergeHistograms(texts []string) (*hdrhistogram.Histogram, error) {
	sum := NewHistogram()
	for _, text := range texts {
		if text == "" {
			continue
		}
		h, err := hdrhistogram.Decode([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("decode a histogram: %w", err)
		}
		if lost := sum.Merge(h); lost > 0 {
			return nil, fmt.Errorf("merge histograms: %d values have no room", lost)
		}
	}
	return sum, nil
}

// unlike is the error of parts that are not of the same plan.
func (m *merger) unlike(what string) {
	m.err = errors.Join(m.err, fmt.Errorf("merge results: the generators have different %s; are they the same version of this program?", what))
}

func (m *merger) steps(parts []Result) {
	for i := range parts[0].Steps {
		s := parts[0].Steps[i]
		s.Requests, s.Failed, s.Sent, s.Received, s.Status = 0, 0, 0, 0, map[int]uint64{}
		var responses, services []Latency
		for _, p := range parts {
			if len(p.Steps) != len(parts[0].Steps) || p.Steps[i].Name != s.Name {
				m.unlike("steps")
				return
			}
			o := p.Steps[i]
			s.Requests, s.Failed, s.Sent, s.Received = s.Requests+o.Requests, s.Failed+o.Failed, s.Sent+o.Sent, s.Received+o.Received
			for status, n := range o.Status {
				s.Status[status] += n
			}
			responses, services = append(responses, o.Response), append(services, o.Service)
		}
		s.Response, s.Service = m.latency(responses), m.latency(services)
		m.out.Steps = append(m.out.Steps, s)
	}
}

func (m *merger) journeys(parts []Result) {
	for i := range parts[0].Journeys {
		j := JourneyResult{Scenario: parts[0].Journeys[i].Scenario}
		var durations []Latency
		for _, p := range parts {
			if len(p.Journeys) != len(parts[0].Journeys) || p.Journeys[i].Scenario != j.Scenario {
				m.unlike("scenarios")
				return
			}
			j.Iterations += p.Journeys[i].Iterations
			j.BrokenOff += p.Journeys[i].BrokenOff
			durations = append(durations, p.Journeys[i].Duration)
		}
		j.Duration = m.latency(durations)
		m.out.Journeys = append(m.out.Journeys, j)
	}
	for i := range parts[0].Caches {
		c := parts[0].Caches[i]
		for _, p := range parts[1:] {
			if len(p.Caches) != len(parts[0].Caches) {
				m.unlike("caches")
				return
			}
			o := p.Caches[i]
			c.Hits, c.Revalidations, c.Fetched = c.Hits+o.Hits, c.Revalidations+o.Revalidations, c.Fetched+o.Fetched
			c.HeldBytes, c.LargestBytes = c.HeldBytes+o.HeldBytes, max(c.LargestBytes, o.LargestBytes)
		}
		m.out.Caches = append(m.out.Caches, c)
	}
}

func (m *merger) checks(parts []Result) {
	for i := range parts[0].Checks {
		c := parts[0].Checks[i]
		for _, p := range parts[1:] {
			if len(p.Checks) != len(parts[0].Checks) {
				m.unlike("checks")
				return
			}
			c.Passes, c.Fails = c.Passes+p.Checks[i].Passes, c.Fails+p.Checks[i].Fails
		}
		m.out.Checks = append(m.out.Checks, c)
	}
}

// trend adds the slopes. Their errors are taken for independent: the half widths add as
// the sides of a right angle.
func (m *merger) trend(parts []Result) {
	t := &m.out.InFlight
	var below, above float64
	for i, p := range parts {
		o := p.InFlight
		t.Slope += o.Slope
		below += (o.Slope - o.Low) * (o.Slope - o.Low)
		above += (o.High - o.Slope) * (o.High - o.Slope)
		if i == 0 || o.Samples < t.Samples {
			t.Samples = o.Samples
		}
	}
	t.Low, t.High = t.Slope-math.Sqrt(below), t.Slope+math.Sqrt(above)
}

// MergeWindows is the same second of several generators as one window.
func MergeWindows(parts []Window) (Window, error) {
	w := parts[0]
	w.Requests, w.Failed, w.Late, w.Dropped, w.Iterations, w.Checks, w.CheckFails = 0, 0, 0, 0, 0, 0, 0
	w.Sent, w.Received, w.InFlight, w.Busy, w.Seconds, w.Steps, w.Journeys = 0, 0, 0, 0, 0, nil, nil
	w.Errors = map[string]uint64{}
	var responses, services []string
	for _, p := range parts {
		w.Requests, w.Failed, w.Late, w.Dropped = w.Requests+p.Requests, w.Failed+p.Failed, w.Late+p.Late, w.Dropped+p.Dropped
		w.Iterations, w.Checks, w.CheckFails = w.Iterations+p.Iterations, w.Checks+p.Checks, w.CheckFails+p.CheckFails
		w.Sent, w.Received, w.InFlight = w.Sent+p.Sent, w.Received+p.Received, w.InFlight+p.InFlight
		w.Busy, w.Seconds = w.Busy+p.Busy, max(w.Seconds, p.Seconds)
		if p.Start.Before(w.Start) {
			w.Start = p.Start
		}
		w.Drain = w.Drain && p.Drain
		for kind, n := range p.Errors {
			w.Errors[kind] += n
		}
		responses, services = append(responses, p.Response), append(services, p.Service)
	}
	var errs [4]error
	w.Response, errs[0] = mergeEncoded(responses)
	w.Service, errs[1] = mergeEncoded(services)
	w.Steps, errs[2] = mergeSteps(parts)
	w.Journeys, errs[3] = mergeJourneys(parts)
	return w, errors.Join(errs[:]...)
}

func mergeEncoded(texts []string) (string, error) {
	h, err := MergeHistograms(texts)
	if err != nil {
		return "", err
	}
	return EncodeHistogram(h)
}

func mergeSteps(parts []Window) ([]WindowStep, error) {
	type key struct{ scenario, name string }
	at := map[key]int{}
	var all []WindowStep
	for _, p := range parts {
		for _, s := range p.Steps {
			k := key{s.Scenario, s.Name}
			i, ok := at[k]
			if !ok {
				at[k] = len(all)
				all = append(all, s)
				continue
			}
			o := &all[i]
			o.Requests, o.Failed = o.Requests+s.Requests, o.Failed+s.Failed
			var errs [2]error
			o.Response, errs[0] = mergeEncoded([]string{o.Response, s.Response})
			o.Service, errs[1] = mergeEncoded([]string{o.Service, s.Service})
			if err := errors.Join(errs[:]...); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func mergeJourneys(parts []Window) ([]WindowJourney, error) {
	at := map[string]int{}
	var all []WindowJourney
	for _, p := range parts {
		for _, j := range p.Journeys {
			i, ok := at[j.Scenario]
			if !ok {
				at[j.Scenario] = len(all)
				all = append(all, j)
				continue
			}
			o := &all[i]
			o.Iterations += j.Iterations
			if o.Duration == "" || j.Duration == "" {
				o.Duration += j.Duration
				continue
			}
			var err error
			if o.Duration, err = mergeEncoded([]string{o.Duration, j.Duration}); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}
