package summary

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
	"loadstone/lab/load/roundtrip"
	"loadstone/lab/threshold"
)

// New summarises what came of a plan: its result, and the outcomes of its
// thresholds. It fails if a distribution in the result cannot be read.
func New(plan load.Plan, r *load.Result, outcomes []threshold.Outcome, about Machine) (*Summary, error) {
	if r == nil {
		return nil, errors.New("summarise a load: there is no result")
	}
	s := totals(r)
	s.URL, s.Targets, s.WarmupSeconds, s.Seed = address(&plan), list(plan.Targets), plan.Warmup.Seconds(), plan.Seed
	s.Machine, s.Plan = about, presentable(&plan)
	for _, o := range outcomes {
		s.Thresholds = append(s.Thresholds, thresholdOf(o))
	}
	s.Thresholds = list(s.Thresholds)
	s.Checks, s.Values, s.Caches, s.WebSocket = list(r.Checks), r.Values, r.Caches, r.WebSocket
	if err := s.distributions(r); err != nil {
		return nil, err
	}
	return s, nil
}

// totals takes over what a result says in single numbers.
func totals(r *load.Result) *Summary {
	s := &Summary{
		Schema:   Schema,
		Requests: r.Requests, Rate: ratio(float64(r.CompletedInTime), r.Seconds()),
		Errors: make(map[string]load.ErrorCount, len(r.Errors)), Late: r.Late, Dropped: r.Dropped,
		Generator: Generator{
			CPUSeconds: r.Generator.CPUSeconds, Busy: r.Generator.Busy, Working: r.Generator.Working,
			CPUPerRequest: ratio(r.Generator.CPUSeconds*1e6, float64(r.CompletedInTime)),
			Lateness:      Lateness(r.Generator.Lateness),
		},
		Validity: Valid, ValidityReasons: list(reasons(r)),
		Started: r.From, Seconds: r.Seconds(), Aborted: r.Aborted,
		Offered: r.Offered, OfferedRate: ratio(float64(r.Offered), r.Seconds()),
		Iterations: r.Iterations, Completed: r.CompletedInTime,
		Failed: r.Failed, FailedShare: ratio(float64(r.Failed), float64(r.Requests)),
		Waited: r.Waited, Status: statuses(r.Status), SentBytes: r.Sent, ReceivedBytes: r.Received,
		InFlight: InFlight{
			Max: r.MaxInFlight, Slope: r.InFlight.Slope, Low: r.InFlight.Low, High: r.InFlight.High,
			Growing: r.InFlight.Growing(ratio(float64(r.Offered), r.Seconds())),
		},
	}
	if len(s.ValidityReasons) > 0 {
		s.Validity = LowerBoundOnly
	}
	s.Notes = r.Notes
	maps.Copy(s.Errors, r.Errors)
	return s
}

// reasons are why the measurement is a lower bound only.
func reasons(r *load.Result) []string {
	var texts []string
	for _, why := range r.Validity() {
		texts = append(texts, why.Text)
	}
	return texts
}

// inTime is the share of the requests that were done by the end of the measured
// part: what drained after it belongs to no rate. Requests that the warm-up left
// can make it a little more than one.
func inTime(r *load.Result) float64 { return ratio(float64(r.CompletedInTime), float64(r.Requests)) }

// list is l, and an empty list where there is none.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// ratio is a by b, and 0 where nothing was measured: JSON has no other number
// for it.
func ratio(a, b float64) float64 {
	if q := a / b; b > 0 && !math.IsInf(q, 0) && !math.IsNaN(q) {
		return q
	}
	return 0
}

// statuses copies the counts by status. Requests without an answer have no
// status: they are among the errors.
func statuses(counts map[int]uint64) map[int]uint64 {
	out := make(map[int]uint64, len(counts))
	for status, n := range counts {
		if status > 0 && n > 0 {
			out[status] = n
		}
	}
	return out
}

// address is the first target, with the path if the plan has one only.
func address(plan *load.Plan) string {
	if len(plan.Targets) == 0 {
		return ""
	}
	target := strings.TrimSuffix(plan.Targets[0], "/")
	paths := map[string]bool{}
	var path string
	for i := range plan.Scenarios {
		s := &plan.Scenarios[i]
		switch {
		case s.WebSocket != nil:
			path = s.WebSocket.Path
			paths[path] = true
			if rest, ok := strings.CutPrefix(target, "http"); ok {
				target = "ws" + rest
			}
		case s.Log != nil: // as many paths as the log has
			return target
		}
		for j := range s.Steps {
			path = s.Steps[j].Request.Path
			paths[path] = true
		}
	}
	if len(paths) != 1 {
		return strings.TrimSuffix(plan.Targets[0], "/")
	}
	return target + path
}

// distributions reads the histograms of the result and of its steps.
func (s *Summary) distributions(r *load.Result) error {
	both, response, service, err := latencies(r.Response, r.Service)
	if err != nil {
		return fmt.Errorf("summarise a load: %w", err)
	}
	s.Latency, s.Percentiles = both, percentiles(response, service)
	s.Steps = make([]Step, 0, len(r.Steps))
	for i := range r.Steps {
		step := &r.Steps[i]
		both, _, _, err := latencies(step.Response, step.Service)
		if err != nil {
			return fmt.Errorf("summarise step %q of scenario %q: %w", step.Name, step.Scenario, err)
		}
		s.Steps = append(s.Steps, Step{
			Scenario: step.Scenario, Name: step.Name,
			Requests: step.Requests, Rate: ratio(float64(step.Requests)*inTime(r), r.Seconds()), Failed: step.Failed,
			SentBytes: step.Sent, ReceivedBytes: step.Received,
			Status: statuses(step.Status), Latency: both,
		})
	}
	for i := range r.Journeys {
		j := &r.Journeys[i]
		duration, _, _, err := latencies(j.Duration, j.Duration)
		if err != nil {
			return fmt.Errorf("summarise the iterations of scenario %q: %w", j.Scenario, err)
		}
		s.Journeys = append(s.Journeys, Journey{Scenario: j.Scenario, Iterations: j.Iterations, BrokenOff: j.BrokenOff, Duration: duration.Response, Computed: roundtrip.OverPhones(&s.Plan, r, j)})
	}
	return nil
}

// latencies reads a pair of distributions.
func latencies(response, service load.Latency) (both Latencies, r, s *hdrhistogram.Histogram, err error) {
	if both.Response, r, err = latency(response); err != nil {
		return both, nil, nil, fmt.Errorf("read the response times: %w", err)
	}
	if both.Service, s, err = latency(service); err != nil {
		return both, nil, nil, fmt.Errorf("read the service times: %w", err)
	}
	return both, r, s, nil
}

// latency adds to what a result says of a distribution what takes the whole of
// it.
func latency(l load.Latency) (Latency, *hdrhistogram.Histogram, error) {
	out := Latency{P50: l.P50, P90: l.P90, P95: l.P95, P99: l.P99, P999: l.P999, Max: l.Max, Mean: l.Mean}
	h := load.NewHistogram()
	if l.Histogram == "" { // nothing was recorded
		return out, h, nil
	}
	h, err := hdrhistogram.Decode([]byte(l.Histogram))
	if err != nil {
		return out, nil, fmt.Errorf("decode a histogram: %w", err)
	}
	if h.TotalCount() == 0 {
		return out, h, nil
	}
	mean, stdev := h.Mean(), h.StdDev()
	var within int64
	for _, bar := range h.Distribution() {
		// A bar is a range of values that count as equal; as in the mean, its
		// middle stands for it. A nanosecond makes up for rounding.
		middle := float64(bar.From + (bar.To-bar.From+1)/2)
		if math.Abs(middle-mean) <= stdev+1e-3 {
			within += bar.Count
		}
	}
	out.Min, out.Stdev = float64(h.Min())/1000, stdev/1000
	out.WithinStdev = float64(within) / float64(h.TotalCount())
	return out, h, nil
}

// quantiles are the lines of the table of percentiles: enough to draw the
// distribution by, out to one in a hundred thousand.
var quantiles = []float64{
	0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999, 1,
}

func percentiles(response, service *hdrhistogram.Histogram) []Percentile {
	out := make([]Percentile, 0, len(quantiles))
	if response.TotalCount() == 0 {
		return out
	}
	for _, q := range quantiles {
		out = append(out, Percentile{
			Quantile: q,
			Response: float64(response.ValueAtQuantile(q*100)) / 1000,
			Service:  float64(service.ValueAtQuantile(q*100)) / 1000,
		})
	}
	// The histogram's 100th percentile is the end of the longest's bar.
	last := &out[len(out)-1]
	last.Response, last.Service = float64(response.Max())/1000, float64(service.Max())/1000
	return out
}

// thresholdOf takes over an outcome. An outcome without an observation has a 0
// and a reason; one that is about windows has a reason always, so there a 0 may
// well be what was observed.
func thresholdOf(o threshold.Outcome) Threshold {
	t := Threshold{Metric: o.Metric, Expression: o.Threshold, Met: o.Met, Reason: o.Reason}
	onWindows := false
	if parsed, err := threshold.Parse(o.Metric, o.Threshold); err == nil {
		t.Unit, onWindows = string(parsed.Unit()), parsed.Over > 0
	}
	if o.Observed != 0 || o.Met || o.Reason == "" || onWindows {
		t.Observed = &o.Observed
	}
	return t
}

// WriteJSON writes the summary as indented JSON, as docs/load.schema.json
// describes it.
func (s *Summary) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // p(95)<200 stays readable: this is a file, not a page
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return fmt.Errorf("write the summary of a load as JSON: %w", err)
	}
	return nil
}
