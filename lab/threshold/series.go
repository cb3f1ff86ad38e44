package threshold

import (
	"fmt"
	"math"
	"time"

	"loadstone/lab/load"
)

// selection is the part of a load that a threshold is about. Its zero value is
// all of it.
type selection struct {
	scenario, step string
	// websocket has the step be one of a WebSocket scenario, which is never
	// alone in its load.
	websocket bool
	// grpc has the steps be those that make calls of gRPC.
	grpc bool
}

func (t Threshold) selection() selection {
	s := selection{scenario: t.Scenario, step: t.Step}
	m, _ := find(t.Metric)
	if m.step != "" {
		s.step, s.websocket = m.step, true
	}
	s.grpc = m.grpc
	return s
}

func (s selection) whole() bool { return s == selection{} }

func (s selection) has(scenario, step string) bool {
	return (s.scenario == "" || s.scenario == scenario) && (s.step == "" || s.step == step)
}

// times is which of a window's histograms a metric is made of.
type times int

const (
	noTimes times = iota
	responseTimes
	serviceTimes
	iterationTimes
)

func (t Threshold) times() times {
	switch m, _ := find(t.Metric); {
	case m.Kind != KindTime:
		return noTimes
	case t.Metric == HTTPReqService:
		return serviceTimes
	case t.Metric == IterationDuration:
		return iterationTimes
	default:
		return responseTimes
	}
}

func (t times) of(response, service string) string {
	if t == serviceTimes {
		return service
	}
	return response
}

// counts are what windows count.
type counts struct {
	requests, failed, dropped, iterations, checks, checkFails, sent, received uint64
}

func (c *counts) add(o counts) {
	c.requests += o.requests
	c.failed += o.failed
	c.dropped += o.dropped
	c.iterations += o.iterations
	c.checks += o.checks
	c.checkFails += o.checkFails
	c.sent += o.sent
	c.received += o.received
}

func (c *counts) subtract(o counts) {
	c.requests -= o.requests
	c.failed -= o.failed
	c.dropped -= o.dropped
	c.iterations -= o.iterations
	c.checks -= o.checks
	c.checkFails -= o.checkFails
	c.sent -= o.sent
	c.received -= o.received
}

// second is what one window of a load says about a selection: a second, or
// less at the end.
type second struct {
	from, to time.Duration // since the measured part began
	counts
	histograms []string // encoded, none of them empty
}

func (s *second) length() time.Duration { return s.to - s.from }

// cut takes the part of a window that the selection is about. Steps are told
// apart only where the windows have steps: else the window is the only step's.
func (s selection) cut(w *load.Window, of times, several bool) second {
	var out second
	take := func(requests, failed uint64, histogram string) {
		out.requests += requests
		out.failed += failed
		if of != noTimes && requests > 0 {
			out.histograms = append(out.histograms, histogram)
		}
	}
	if of == iterationTimes && len(w.Journeys) > 0 {
		for _, j := range w.Journeys {
			if s.has(j.Scenario, "") {
				take(j.Iterations, 0, j.Duration)
			}
		}
		return out
	}
	if s.whole() || !several && !s.websocket {
		take(w.Requests, w.Failed, of.of(w.Response, w.Service))
		out.dropped, out.iterations = w.Dropped, w.Iterations
		out.checks, out.checkFails = w.Checks, w.CheckFails
		out.sent, out.received = w.Sent, w.Received
		return out
	}
	for _, step := range w.Steps {
		if s.has(step.Scenario, step.Name) && (step.GRPC || !s.grpc) {
			take(step.Requests, step.Failed, of.of(step.Response, step.Service))
		}
	}
	return out
}

// series is a window that slides over the seconds of a load, or all of them
// together. Thresholds that are about the same share one.
//
// What drains after the load's end belongs to the window before it: it was
// offered then. That counts for times and shares; what is a rate or a count was
// not done in time.
type series struct {
	selection selection
	times     times
	over      time.Duration // 0: everything

	seconds       []second // the window's, the oldest first; none if over is 0
	span          second   // all of them together, without the drain
	all           counts   // with it
	distribution  *distribution
	seen, drained bool // anything was added; and after the load's end
}

// slack is how much a second may be off, so that ten of them are 10 s.
const slack = 10 * time.Millisecond

func newSeries(t Threshold) *series {
	s := &series{selection: t.selection(), times: t.times(), over: t.Over}
	if s.times != noTimes {
		s.distribution = newDistribution()
	}
	return s
}

// serves says whether the series is what a threshold reads.
func (s *series) serves(t Threshold) bool {
	return s.selection == t.selection() && s.times == t.times() && s.over == t.Over
}

// add moves the window on by a second.
func (s *series) add(x second, drain bool, d *decoder) error {
	for _, encoded := range x.histograms {
		h, err := d.decode(encoded)
		if err != nil {
			return err
		}
		s.distribution.add(h, 1)
	}
	s.all.add(x.counts)
	if drain {
		s.drained = true
		return nil
	}
	s.seen = true
	s.span.add(x.counts)
	s.span.to = x.to
	if s.over == 0 {
		return nil
	}
	s.seconds = append(s.seconds, x)
	return s.slide(d)
}

// slide takes out the seconds without which the window is still long enough.
func (s *series) slide(d *decoder) error {
	for len(s.seconds) > 1 && s.span.to-s.seconds[0].to >= s.over-slack {
		old := s.seconds[0]
		s.seconds[0] = second{} // or its histograms would stay in memory
		s.seconds = s.seconds[1:]
		s.span.subtract(old.counts)
		s.all.subtract(old.counts)
		for _, encoded := range old.histograms {
			h, err := d.decode(encoded)
			if err != nil {
				return err
			}
			s.distribution.add(h, -1)
		}
	}
	s.span.from = s.seconds[0].from
	return nil
}

// full says whether the window is as long as it should be.
func (s *series) full() bool { return s.span.length() >= s.over-slack }

// observe returns what a threshold compares, NaN if there is nothing.
func (s *series) observe(t Threshold) (float64, error) {
	switch t.Metric {
	case HTTPReqDuration, HTTPReqService, GRPCReqDuration, IterationDuration, WSConnecting, WSMsgDuration, WSAckDuration, WSPing:
		return aggregate(t, s.distribution.read())
	case HTTPReqFailed:
		return part(s.all.failed+s.all.dropped, s.all.requests+s.all.dropped), nil
	case WSMsgsLost:
		return part(s.all.failed, s.all.requests), nil
	case Checks:
		return part(s.all.checks-s.all.checkFails, s.all.checks), nil
	case HTTPReqs:
		return s.count(t, s.span.requests), nil
	case Iterations:
		return s.count(t, s.span.iterations), nil
	case DroppedIterations:
		return s.count(t, s.all.dropped), nil
	case DataSent:
		return s.count(t, s.span.sent), nil
	case DataReceived:
		return s.count(t, s.span.received), nil
	case WSSessions:
		return s.count(t, s.span.requests-s.span.failed), nil
	default:
		return 0, fmt.Errorf("no window of a load has the metric")
	}
}

func (s *series) count(t Threshold, n uint64) float64 {
	return counted(t, n, n, s.span.length().Seconds())
}

// part returns a share, NaN of nothing.
func part(n, of uint64) float64 { return float64(n) / float64(of) }

// counted returns a count, or timely of it per second; NaN without time.
func counted(t Threshold, total, timely uint64, seconds float64) float64 {
	if t.Aggregation == "count" {
		return float64(total)
	}
	if seconds <= 0 {
		return math.NaN()
	}
	return float64(timely) / seconds
}
