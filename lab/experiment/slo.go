package experiment

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The metrics that a load produces, by k6's names.
const (
	// HTTPReqDuration is response time in ms, from the intended start of a
	// request to the end of its answer, over every request that was sent.
	HTTPReqDuration = "http_req_duration"
	// HTTPReqFailed is the share of arrivals that failed: that were answered
	// with a status of 400 and above, ended in an error, or were dropped. An
	// arrival that was never served is a failure to its user.
	HTTPReqFailed = "http_req_failed"
	// HTTPReqs counts the requests that were sent and ended. Its rate is the
	// throughput: those done before the end of the measured part, per second.
	HTTPReqs = "http_reqs"
	// Iterations is HTTPReqs: an iteration is one request.
	Iterations = "iterations"
	// DroppedIterations counts the arrivals that were never sent. Only the
	// arrival-rate executors produce it.
	DroppedIterations = "dropped_iterations"
)

// metricNames returns the metrics that a load produces.
func metricNames(open bool) []string {
	names := []string{HTTPReqDuration, HTTPReqFailed, HTTPReqs, Iterations}
	if open {
		names = append(names, DroppedIterations)
	}
	return names
}

// aggregations returns what can be asked of a metric, k6's words for its type.
func aggregations(metric string) []string {
	switch metric {
	case HTTPReqDuration:
		return []string{"avg", "min", "med", "max", "p(N)"}
	case HTTPReqFailed:
		return []string{"rate"}
	default:
		return []string{"count", "rate"}
	}
}

// Threshold is one of k6's threshold expressions, such as p(95)<200.
type Threshold struct {
	// Aggregation is avg, min, med, max, p, count or rate.
	Aggregation string
	// Percentile is the N of p(N), 0 to 100.
	Percentile float64
	// Operator is <, <=, >, >=, ==, === or !=.
	Operator string
	// Value is in the metric's unit: ms, a share from 0 to 1, a count, or 1/s.
	Value float64

	source string
}

// String returns the expression as written.
func (t Threshold) String() string { return t.source }

// Holds reports whether an observed value meets the threshold. What is not a
// number meets none, != included: nothing was observed.
func (t Threshold) Holds(observed float64) bool {
	if math.IsNaN(observed) {
		return false
	}
	switch t.Operator {
	case "<":
		return observed < t.Value
	case "<=":
		return observed <= t.Value
	case ">":
		return observed > t.Value
	case ">=":
		return observed >= t.Value
	case "==", "===":
		return observed == t.Value
	case "!=":
		return observed != t.Value
	default:
		return false
	}
}

const (
	aggregationPattern = `[A-Za-z_][A-Za-z0-9_]*(?:\([^)]*\))?`
	operatorPattern    = `===|==|!=|<=|>=|<|>`
	numberPattern      = `[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?`
)

var (
	thresholdForm  = regexp.MustCompile(`^\s*(` + aggregationPattern + `)\s*(` + operatorPattern + `)\s*(\S+)\s*$`)
	percentileForm = regexp.MustCompile(`^p\(\s*([0-9]+(?:\.[0-9]+)?)\s*\)$`)
	valueForm      = regexp.MustCompile(`^` + numberPattern + `$`)
	withUnitForm   = regexp.MustCompile(`^(` + numberPattern + `)(ms|s|m|h|%|/s)$`)
	barePercentile = regexp.MustCompile(`^(?:p|P)([0-9]+(?:\.[0-9]+)?)$`)
)

// ParseThreshold parses a threshold on a metric. The error is one sentence
// with what to write instead.
func ParseThreshold(metric, expression string) (Threshold, error) {
	m := thresholdForm.FindStringSubmatch(expression)
	if m == nil {
		return Threshold{}, fmt.Errorf("%s is no threshold; write an aggregation, a comparison and a number, such as %s", quote(expression), exampleOf(metric))
	}
	t := Threshold{Operator: m[2], source: strings.TrimSpace(expression)}
	var err error
	if t.Aggregation, t.Percentile, err = parseAggregation(metric, m[1]); err != nil {
		return Threshold{}, err
	}
	if t.Value, err = parseValue(metric, m[1]+m[2], m[3]); err != nil {
		return Threshold{}, err
	}
	return t, nil
}

// otherWords are what k6's aggregations are called elsewhere.
var otherWords = map[string]string{
	"mean": "avg", "average": "avg", "median": "med", "minimum": "min", "maximum": "max", "total": "count", "share": "rate",
}

// exampleOf returns a threshold that suits a metric.
func exampleOf(metric string) string {
	switch metric {
	case HTTPReqFailed:
		return "rate<0.001"
	case HTTPReqs, Iterations:
		return "rate>100"
	case DroppedIterations:
		return "count<10"
	default:
		return "p(95)<200"
	}
}

// parseAggregation checks an aggregation, and takes a percentile apart.
func parseAggregation(metric, written string) (word string, percentile float64, err error) {
	valid := aggregations(metric)
	if other := otherWords[written]; slices.Contains(valid, other) {
		return "", 0, fmt.Errorf("%s has no %s; write %s", metric, written, other)
	}
	if bare := barePercentile.FindStringSubmatch(written); bare != nil {
		return "", 0, fmt.Errorf("%s is not an aggregation; write p(%s)", written, bare[1])
	}
	if strings.HasPrefix(written, "p(") && slices.Contains(valid, "p(N)") {
		m := percentileForm.FindStringSubmatch(written)
		if m == nil {
			return "", 0, fmt.Errorf("%s is no percentile; write a number from 0 to 100 in it, such as p(95)", written)
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil || n > 100 {
			return "", 0, fmt.Errorf("there is no percentile %s; write a number from 0 to 100, such as p(99.9)", m[1])
		}
		return "p", n, nil
	}
	if !slices.Contains(valid, written) {
		return "", 0, fmt.Errorf("%s has no %s; %s, such as %s", metric, written, choose(written, valid), exampleOf(metric))
	}
	return written, 0, nil
}

// parseValue reads the number that a threshold compares with. left is what
// stands before it, for the message.
func parseValue(metric, left, written string) (float64, error) {
	isShare := metric == HTTPReqFailed
	if m := withUnitForm.FindStringSubmatch(written); m != nil {
		return 0, unitError(metric, left, m)
	}
	if strings.HasPrefix(written, "-") && valueForm.MatchString(written[1:]) {
		return 0, fmt.Errorf("%s is never negative; write a number above 0, as in %s", metric, exampleOf(metric))
	}
	v, err := strconv.ParseFloat(written, 64)
	if err != nil || !valueForm.MatchString(written) {
		return 0, fmt.Errorf("%s is not a number; write %s", quote(written), exampleOf(metric))
	}
	if isShare && v > 1 {
		return 0, fmt.Errorf("%s is a share from 0 to 1, never %s; write %s%g for %s %%", metric, written, left, v/100, written)
	}
	return v, nil
}

// unitError explains a number with a unit: m is the whole, the number, the unit.
func unitError(metric, left string, m []string) error {
	n, err := strconv.ParseFloat(m[1], 64)
	switch {
	case err == nil && metric == HTTPReqFailed && m[2] == "%":
		return fmt.Errorf("%s has a unit, and %s is a share; write %s%g", m[0], metric, left, n/100)
	case err == nil && metric == HTTPReqDuration && m[2] == "s":
		return fmt.Errorf("%s has a unit, and thresholds are in milliseconds without it; write %s%g", m[0], left, n*1000)
	case metric == HTTPReqDuration && m[2] == "ms":
		return fmt.Errorf("%s has a unit, and thresholds are in milliseconds without it; write %s%s", m[0], left, m[1])
	default:
		return fmt.Errorf("%s has a unit, and a threshold has none; write %s%s", m[0], left, m[1])
	}
}

// sloExample is an objective as it is written.
const sloExample = "slo: {http_req_duration: [p(95)<200], http_req_failed: [rate<0.001]}"

// slo reads the objectives. open says that the load has arrivals to drop.
func (f field) slo(open bool) SLO {
	if !f.given() {
		return nil
	}
	if f.n.kind != mapping {
		f.wrong("a mapping from metrics to lists of thresholds")
		return nil
	}
	var slo SLO
	names := metricNames(open)
	for _, p := range f.n.pairs {
		metric := p.key.text
		switch {
		case slices.Contains(names, metric):
			slo = append(slo, Objective{Metric: metric, Thresholds: f.thresholds(p)})
		case metric == DroppedIterations:
			f.errorf(p.key, "%s is not produced by virtual users, who drop nothing; write an arrival-rate executor, or remove it", metric)
		case strings.Contains(metric, "{"):
			f.errorf(p.key, "%s selects by tag, which is not supported; write the metric alone", quote(metric))
		default:
			f.errorf(p.key, "the load does not produce the metric %s; %s", quote(metric), choose(metric, names))
		}
	}
	return slo
}

// thresholds reads the list of one metric.
func (f field) thresholds(p pair) []Threshold {
	metric, n := p.key.text, p.value
	example := exampleOf(metric)
	if n.kind == text {
		example = n.text
	}
	switch {
	case !f.plain(n):
		return nil
	case n.kind != list:
		f.errorf(n, "%s must have a list of thresholds, not %s; write %s: [%s]", metric, describe(n), metric, example)
		return nil
	case len(n.items) == 0:
		f.errorf(n, "%s has no thresholds; write %s: [%s]", metric, metric, example)
		return nil
	}
	var out []Threshold
	for _, item := range n.items {
		if !f.plain(item) {
			continue
		}
		if item.kind != text {
			f.errorf(item, "a threshold is an expression, not %s; write %s", describe(item), example)
			continue
		}
		t, err := ParseThreshold(metric, item.text)
		if err != nil {
			f.errorf(item, "%s", err)
			continue
		}
		out = append(out, t)
	}
	return out
}
