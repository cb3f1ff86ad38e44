package experiment

import (
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
)

// Outcome is what became of one threshold.
type Outcome struct {
	Metric    string
	Threshold string // as written
	// Observed is in the metric's unit (see Threshold.Value). It is always a
	// finite number: 0, with a Reason, where there was nothing to observe.
	Observed float64
	Met      bool
	// Reason says why the threshold is not met where Observed does not.
	Reason string
}

// Judge says of every threshold, in the order of the file, whether a load met
// it. A load that measured nothing, or that ended before its time, meets none.
//
// Percentiles and means are of response time, over the requests that were
// sent; what was dropped counts in http_req_failed and in dropped_iterations.
//
// The error is that the result cannot be read, not that it is bad.
func Judge(slo SLO, r *load.Result) ([]Outcome, error) {
	var outcomes []Outcome
	o := observation{result: r}
	for _, objective := range slo {
		for _, t := range objective.Thresholds {
			observed, err := o.observe(objective.Metric, t)
			if err != nil {
				return nil, fmt.Errorf("judge %s: %w", objective.Metric, err)
			}
			out := Outcome{Metric: objective.Metric, Threshold: t.String(), Observed: observed}
			switch {
			case math.IsNaN(observed) || math.IsInf(observed, 0):
				out.Observed, out.Reason = 0, "nothing was measured"
			case o.arrivals() == 0:
				out.Reason = "nothing was measured"
			case r.Aborted != "":
				out.Reason = "the load ended before its time"
			default:
				out.Met = t.Holds(observed)
			}
			outcomes = append(outcomes, out)
		}
	}
	return outcomes, nil
}

// observation reads values off a result. The histogram is decoded once, and
// only when it is asked for.
type observation struct {
	result    *load.Result
	durations *hdrhistogram.Histogram
}

// arrivals is everything that was to be served.
func (o *observation) arrivals() uint64 { return o.result.Requests + o.result.Dropped }

// observe returns the value that a threshold compares, NaN if there is none.
func (o *observation) observe(metric string, t Threshold) (float64, error) {
	r := o.result
	switch metric {
	case HTTPReqDuration:
		if r.Requests == 0 {
			return math.NaN(), nil
		}
		return o.duration(t)
	case HTTPReqFailed:
		return float64(r.Failed+r.Dropped) / float64(o.arrivals()), nil
	case HTTPReqs, Iterations:
		return o.counter(t, r.Requests, r.CompletedInTime), nil
	case DroppedIterations:
		return o.counter(t, r.Dropped, r.Dropped), nil
	default:
		return 0, fmt.Errorf("no load produces the metric")
	}
}

// counter returns a count, or timely of it per second of the measured part.
func (o *observation) counter(t Threshold, total, timely uint64) float64 {
	if t.Aggregation == "count" {
		return float64(total)
	}
	seconds := o.result.Seconds()
	if seconds <= 0 {
		return math.NaN()
	}
	return float64(timely) / seconds
}

// duration returns a response time in ms.
func (o *observation) duration(t Threshold) (float64, error) {
	h, err := o.histogram()
	if err != nil {
		return 0, err
	}
	const perMillisecond = 1000 // histograms are in microseconds
	switch t.Aggregation {
	case "avg":
		return h.Mean() / perMillisecond, nil
	case "min":
		return float64(h.Min()) / perMillisecond, nil
	case "max":
		return float64(h.Max()) / perMillisecond, nil
	case "med":
		return float64(h.ValueAtPercentile(50)) / perMillisecond, nil
	case "p":
		return float64(h.ValueAtPercentile(t.Percentile)) / perMillisecond, nil
	default:
		return 0, fmt.Errorf("durations have no %s", t.Aggregation)
	}
}

func (o *observation) histogram() (*hdrhistogram.Histogram, error) {
	if o.durations != nil {
		return o.durations, nil
	}
	h, err := hdrhistogram.Decode([]byte(o.result.Response.Histogram))
	if err != nil {
		return nil, fmt.Errorf("decode the histogram of response times: %w", err)
	}
	if h.TotalCount() == 0 {
		return nil, fmt.Errorf("the histogram of response times is empty, after %d requests", o.result.Requests)
	}
	o.durations = h
	return h, nil
}
