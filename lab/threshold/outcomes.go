package threshold

import (
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
)

const (
	nothingMeasured = "nothing was measured"
	endedEarly      = "the load ended before its time"
)

// Now says how the thresholds stand, in their order: the whole of the load so
// far, or the worst window so far.
func (w *Watch) Now() []Outcome {
	out := make([]Outcome, len(w.guards))
	for i, g := range w.guards {
		out[i] = Outcome{Metric: g.name, Threshold: g.source, Reason: "nothing was measured yet"}
		if g.series == nil {
			out[i].Reason = "this is known when the load has ended"
			continue
		}
		f := g.worst
		if f == nil {
			var err error
			if f, err = w.currentFinding(g); err != nil {
				out[i].Reason = err.Error()
				continue
			}
		}
		if f != nil {
			out[i].Observed, out[i].Met, out[i].Reason = f.observed, g.Holds(f.observed), f.reason
		}
	}
	return out
}

// Outcomes says of every threshold, in their order, whether the load met it. A
// load that measured nothing, or that ended before its time, meets none.
//
// Thresholds on the load as a whole need the result alone, except the rate of
// http_reqs with a selector: requests that were done in time are known by step
// from the windows only.
//
// The error is that the result cannot be read, not that it is bad.
func (w *Watch) Outcomes(r *load.Result) ([]Outcome, error) {
	out := make([]Outcome, len(w.guards))
	j := &resultValues{result: r, histograms: map[source]*hdrhistogram.Histogram{}}
	for i, g := range w.guards {
		out[i] = Outcome{Metric: g.name, Threshold: g.source}
		f, err := w.finalFinding(g, j)
		if err != nil {
			return nil, fmt.Errorf("judge %s: %w", g.name, err)
		}
		switch {
		case f == nil || math.IsNaN(f.observed) || math.IsInf(f.observed, 0):
			out[i].Reason = nothingMeasured
			continue
		case !j.measured():
			out[i].Observed, out[i].Reason = f.observed, nothingMeasured
			continue
		}
		out[i].Observed, out[i].Reason, out[i].Met = f.observed, f.reason, g.Holds(f.observed)
		if r.Aborted != "" && out[i].Met {
			out[i].Met, out[i].Reason = false, endedEarly
		}
	}
	return out, nil
}

// finalFinding returns what a threshold is judged on; nil if there is nothing.
func (w *Watch) finalFinding(g *guard, j *resultValues) (*finding, error) {
	if g.Over == 0 {
		observed, err := j.observe(g)
		return &finding{observed: observed}, err
	}
	if g.series == nil || !g.series.seen {
		return nil, nil
	}
	if g.worst != nil && !g.series.drained {
		return g.worst, nil
	}
	// The last window with what drained into it, or a load shorter than one.
	last, err := w.currentFinding(g)
	if err != nil || last == nil || g.worst != nil && !g.worse(last.observed, g.worst.observed) {
		return g.worst, err
	}
	return last, nil
}

// resultValues reads values off a result. Each histogram is decoded once, and only
// when it is asked for.
type resultValues struct {
	result     *load.Result
	histograms map[source]*hdrhistogram.Histogram
}

// source is where a distribution comes from.
type source struct {
	selection
	times
}

// measured says whether anything was to be served.
func (j *resultValues) measured() bool {
	r := j.result
	if ws := r.WebSocket; ws != nil && ws.Connects+ws.Sent+ws.Delivered+ws.Other > 0 {
		return true
	}
	return r.Requests+r.Dropped > 0
}

// observe returns the value that a threshold on the whole load compares, NaN
// if there is none.
func (j *resultValues) observe(g *guard) (float64, error) {
	t, r, seconds := g.Threshold, j.result, j.result.Seconds()
	switch t.Metric {
	case HTTPReqDuration, HTTPReqService, GRPCReqDuration, IterationDuration, WSConnecting, WSMsgDuration, WSAckDuration, WSPing:
		return j.duration(t)
	case HTTPReqFailed:
		steps, whole := j.steps(t.selection())
		n, failed := sum(steps)
		if whole {
			n, failed = r.Requests+r.Dropped, r.Failed+r.Dropped
		}
		return part(failed, n), nil
	case HTTPReqs:
		return j.requests(g), nil
	case Iterations:
		return counted(t, r.Iterations, r.IterationsInTime, seconds), nil
	case DroppedIterations:
		return counted(t, r.Dropped, r.Dropped, seconds), nil
	case Checks:
		return j.checks(t), nil
	case DataSent:
		return counted(t, r.Sent, r.Sent, seconds), nil
	case DataReceived:
		return counted(t, r.Received, r.Received, seconds), nil
	case Extracted:
		return j.extracted(t)
	case WSMsgsLost, WSMsgsSkipped, WSMsgsRefused, WSMsgsDuplicates, WSClosed:
		return j.missed(t), nil
	case WSSessions, WSMsgsSent, WSMsgsReceived:
		n, ok := j.websocket(t)
		if !ok {
			return math.NaN(), nil
		}
		return counted(t, n, n, seconds), nil
	default:
		return 0, fmt.Errorf("no load produces the metric")
	}
}

// steps returns the results that a selection is about; whole says that it is
// about all there is, a load of one step included.
func (j *resultValues) steps(s selection) (steps []load.StepResult, whole bool) {
	all := j.result.Steps
	for _, step := range all {
		if s.has(step.Scenario, step.Name) && (step.GRPC || !s.grpc) {
			steps = append(steps, step)
		}
	}
	alone := len(all) == 0 || len(all) == 1 && len(steps) == 1
	return steps, s.whole() || alone && !s.websocket
}

func sum(steps []load.StepResult) (requests, failed uint64) {
	for i := range steps {
		requests += steps[i].Requests
		failed += steps[i].Failed
	}
	return requests, failed
}

// requests is http_reqs.
func (j *resultValues) requests(g *guard) float64 {
	r, seconds := j.result, j.result.Seconds()
	steps, whole := j.steps(g.selection())
	if whole {
		return counted(g.Threshold, r.Requests, r.CompletedInTime, seconds)
	}
	if len(steps) == 0 || g.Aggregation == "rate" && !g.series.seen {
		return math.NaN()
	}
	n, _ := sum(steps)
	return counted(g.Threshold, n, g.series.span.requests, seconds)
}

func (j *resultValues) checks(t Threshold) float64 {
	var passes, all uint64
	for _, c := range j.result.Checks {
		if t.selection().has(c.Scenario, c.Step) && (t.Check == "" || t.Check == c.Name) {
			passes += c.Passes
			all += c.Passes + c.Fails
		}
	}
	return part(passes, all)
}

// websocket returns a count of WebSocket clients, if the load had any.
func (j *resultValues) websocket(t Threshold) (n uint64, ok bool) {
	ws := j.result.WebSocket
	switch {
	case ws == nil:
		return 0, false
	case t.Metric == WSMsgsSent:
		return ws.Sent, true
	case t.Metric == WSMsgsReceived:
		return ws.Delivered + ws.Duplicates + ws.Other, true
	case t.Scenario == "":
		return ws.Connects, true
	}
	steps, _ := j.steps(t.selection())
	requests, failed := sum(steps)
	return requests - failed, len(steps) > 0
}

// missed is the share of deliveries that did not come, or came again, of messages that were not
// accepted, or of connections that did not come about or last; NaN if there was none.
func (j *resultValues) missed(t Threshold) float64 {
	ws := j.result.WebSocket
	if ws == nil {
		return math.NaN()
	}
	steps, _ := j.steps(t.selection())
	n, failed := sum(steps)
	beside := func(step string) (n, failed uint64) {
		steps, _ := j.steps(selection{scenario: t.Scenario, step: step, websocket: true})
		return sum(steps)
	}
	switch t.Metric {
	case WSMsgsSkipped:
		return part(ws.Skipped, ws.Delivered+ws.Lost+ws.CutOff+ws.Skipped)
	case WSMsgsDuplicates:
		return part(ws.Duplicates, ws.Delivered+ws.Duplicates)
	case WSMsgsRefused:
		acks, _ := beside(load.StepAck)
		return part(n, n+acks)
	case WSClosed:
		all, bad := beside(load.StepConnect)
		_, out := beside(load.StepLogin) // who gets no further tries no connection
		return part(failed+bad+out, all+out)
	}
	return part(failed, n)
}

// duration returns a time in ms.
func (j *resultValues) duration(t Threshold) (float64, error) {
	from := source{t.selection(), t.times()}
	h := j.histograms[from]
	if h == nil {
		var err error
		if h, err = j.merge(from); err != nil {
			return 0, err
		}
		j.histograms[from] = h
	}
	return aggregate(t, h)
}

// merge returns a distribution; an empty one if nothing was sent.
func (j *resultValues) merge(from source) (*hdrhistogram.Histogram, error) {
	r, merged := j.result, load.NewHistogram()
	add := func(requests uint64, l string) error {
		if requests == 0 {
			return nil
		}
		h, err := hdrhistogram.Decode([]byte(l))
		if err != nil {
			return fmt.Errorf("decode a histogram of times: %w", err)
		}
		if lost := merged.Merge(h); lost > 0 {
			return fmt.Errorf("a histogram of times has %d above ten minutes, which loads do not record", lost)
		}
		return nil
	}
	if from.times == iterationTimes && len(r.Journeys) > 0 {
		for i := range r.Journeys {
			if journey := &r.Journeys[i]; from.has(journey.Scenario, "") {
				if err := add(journey.Iterations, journey.Duration.Histogram); err != nil {
					return nil, err
				}
			}
		}
		return merged, nil
	}
	steps, whole := j.steps(from.selection)
	if whole {
		return merged, add(r.Requests, from.of(r.Response.Histogram, r.Service.Histogram))
	}
	for i := range steps {
		if err := add(steps[i].Requests, from.of(steps[i].Response.Histogram, steps[i].Service.Histogram)); err != nil {
			return nil, err
		}
	}
	return merged, nil
}
