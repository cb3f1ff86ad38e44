package k6

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

// mostNames bounds the steps, and the checks, that are told apart: without it a
// script that puts ids into its URLs and gives them no name makes a step for
// each. The rest are counted together as otherName. A step costs 200 KiB, and
// as much again for each of the windows that are open, of which there are two.
const (
	mostNames = 100
	otherName = "other"
)

// name is what a step or a check is told apart by.
type name struct{ scenario, name string }

// names gives each name a small number: its place in order of appearance.
type names struct {
	of  map[name]int
	all []name
}

func (n *names) index(scenario, text string) int {
	key := name{scenario, clip(text)}
	if len(n.all) >= mostNames {
		if i, ok := n.of[key]; ok {
			return i
		}
		key = name{"", otherName}
	}
	i, ok := n.of[key]
	if !ok {
		if n.of == nil {
			n.of = make(map[name]int)
		}
		i = len(n.all)
		n.of[key], n.all = i, append(n.all, key)
	}
	return i
}

// tally is what is counted, once for a window and once for the whole.
type tally struct {
	requests, failed, iterations, dropped uint64
	sent, received                        uint64
	checks, checkFails                    uint64

	errors  [failure.Kinds]load.ErrorCount
	service *hdrhistogram.Histogram
	steps   []*step // by the number of the name; nil where nothing ended

	journeys []*hdrhistogram.Histogram // durations of iterations, by the number of the scenario
}

type step struct {
	requests, failed uint64
	status           map[int]uint64
	service          *hdrhistogram.Histogram
}

func newTally() *tally { return &tally{service: load.NewHistogram()} }

// step returns the tally of the step with number i.
func (t *tally) step(i int) *step {
	for len(t.steps) <= i {
		t.steps = append(t.steps, nil)
	}
	if t.steps[i] == nil {
		t.steps[i] = &step{status: make(map[int]uint64), service: load.NewHistogram()}
	}
	return t.steps[i]
}

// add counts one point; i is the number of its step, if it is of a request.
func (t *tally) add(p *point, i int) {
	n := uint64(p.Data.Value)
	switch p.Metric {
	case "http_req_duration":
		t.requests++
		s := t.step(i)
		s.requests++
		if status, err := strconv.Atoi(p.Data.Tags.Status); err == nil && status >= 100 && status < 600 {
			s.status[status]++
		}
		record(t.service, p.Data.Value)
		record(s.service, p.Data.Value)
	case "http_req_failed":
		if n > 0 {
			t.addFailed(p.Data.Tags, i)
		}
	case "iteration_duration":
		record(t.journey(i), p.Data.Value)
	case "iterations":
		t.iterations += n
	case "dropped_iterations":
		t.dropped += n
	case "checks":
		t.checks++
		if n == 0 {
			t.checkFails++
		}
	case "data_sent":
		t.sent += n
	case "data_received":
		t.received += n
	}
}

// addFailed counts a request that failed.
func (t *tally) addFailed(of tags, i int) {
	t.failed++
	t.step(i).failed++
	if kind := kindOf(of); kind != failure.None {
		e := &t.errors[kind]
		if e.Count++; e.Count == 1 {
			e.Example = example(of)
		}
	}
}

// journey returns the durations of the iterations of scenario number i.
func (t *tally) journey(i int) *hdrhistogram.Histogram {
	for len(t.journeys) <= i {
		t.journeys = append(t.journeys, load.NewHistogram())
	}
	return t.journeys[i]
}

// record adds a time in milliseconds; one above ten minutes counts as that.
func record(h *hdrhistogram.Histogram, ms float64) {
	// RecordValue fails only beyond the histogram's bounds.
	_ = h.RecordValue(int64(min(ms*1000+0.5, float64(load.MaxLatency.Microseconds()))))
}

// windowErrors counts failures by kind.
func (t *tally) windowErrors() map[string]uint64 {
	var counts map[string]uint64
	for kind, e := range t.errors {
		if e.Count > 0 {
			if counts == nil {
				counts = make(map[string]uint64)
			}
			counts[failure.Kind(kind).String()] = e.Count
		}
	}
	return counts
}

// windowSteps has the steps in which something ended. Where none did there is one
// without a name: a script may yet ask under other names, so that a window is never
// taken for that of the only name so far.
func (t *tally) windowSteps(names []name) ([]load.WindowStep, error) {
	var steps []load.WindowStep
	for i, s := range t.steps {
		if s == nil || s.requests+s.failed == 0 {
			continue
		}
		service, err := load.EncodeHistogram(s.service)
		if err != nil {
			return nil, err
		}
		steps = append(steps, load.WindowStep{
			Scenario: names[i].scenario, Name: names[i].name,
			Requests: s.requests, Failed: s.failed, Response: service, Service: service,
		})
	}
	if len(steps) == 0 {
		return []load.WindowStep{{}}, nil
	}
	return steps, nil
}

// windowJourneys has the iterations by scenario. Where none has ended yet there is one
// without a name: requests are not iterations.
func (t *tally) windowJourneys(scenarios []name) ([]load.WindowJourney, error) {
	if len(scenarios) == 0 {
		return []load.WindowJourney{{}}, nil
	}
	var journeys []load.WindowJourney
	for i, scenario := range scenarios {
		j := load.WindowJourney{Scenario: scenario.scenario}
		if i < len(t.journeys) && t.journeys[i].TotalCount() > 0 {
			var err error
			if j.Duration, err = load.EncodeHistogram(t.journeys[i]); err != nil {
				return nil, err
			}
			j.Iterations = uint64(t.journeys[i].TotalCount())
		}
		journeys = append(journeys, j)
	}
	return journeys, nil
}

// result is the whole tally in a result's words, but for what is no count.
func (t *tally) result(names, scenarios []name) (load.Result, error) {
	r := load.Result{
		Offered: t.iterations + t.dropped, Iterations: t.iterations, IterationsInTime: t.iterations, Dropped: t.dropped,
		Requests: t.requests, CompletedInTime: t.requests, Failed: t.failed,
		Sent: t.sent, Received: t.received, Status: make(map[int]uint64), Errors: make(map[string]load.ErrorCount),
	}
	for kind, e := range t.errors {
		if e.Count > 0 {
			r.Errors[failure.Kind(kind).String()] = e
		}
	}
	var err error
	if r.Service, err = load.NewLatency(t.service); err != nil {
		return r, err
	}
	r.Response = r.Service
	for i, j := range t.journeys {
		duration, err := load.NewLatency(j)
		if err != nil {
			return r, err
		}
		r.Journeys = append(r.Journeys, load.JourneyResult{Scenario: scenarios[i].scenario, Iterations: uint64(j.TotalCount()), Duration: duration})
	}
	for i, s := range t.steps {
		if s == nil {
			continue
		}
		service, err := load.NewLatency(s.service)
		if err != nil {
			return r, err
		}
		for status, n := range s.status {
			r.Status[status] += n
		}
		r.Steps = append(r.Steps, load.StepResult{
			Scenario: names[i].scenario, Name: names[i].name, Requests: s.requests, Failed: s.failed,
			Status: maps.Clone(s.status), Response: service, Service: service,
		})
	}
	return r, nil
}

// checks is what came of each check, in order of appearance.
type checks struct {
	names names
	found []load.CheckResult
}

func (c *checks) add(p *point) {
	i := c.names.index(p.Data.Tags.Scenario, p.Data.Tags.Check)
	for len(c.found) <= i {
		n := c.names.all[len(c.found)]
		c.found = append(c.found, load.CheckResult{Scenario: n.scenario, Name: n.name})
	}
	if p.Data.Value == 0 {
		c.found[i].Fails++
	} else {
		c.found[i].Passes++
	}
}

func (c *checks) results() []load.CheckResult { return slices.Clone(c.found) }

// span is the time that points lie in.
type span struct{ from, to time.Time }

// add takes in a point that ended at end and took so many milliseconds.
func (s *span) add(end time.Time, ms float64) {
	began := end.Add(-time.Duration(min(ms*float64(time.Millisecond), float64(time.Hour))))
	if s.from.IsZero() || began.Before(s.from) {
		s.from = began
	}
	if end.After(s.to) {
		s.to = end
	}
}
