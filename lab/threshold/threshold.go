// Package threshold is k6's thresholds: what they say, whether a load can meet
// them at all, and whether it did.
//
// Parse reads one expression on one metric, such as p(95)<200 on
// http_req_duration{step:login}, over the whole load or over every window of it
// (p(95)<200 over 10s). MetricsOf says whether a load produces what the
// threshold is about, before anything starts. A Watch is given the seconds of a
// load as they come, says when a threshold is to end it, and judges all of them
// at the end.
//
// The package starts nothing and reads no file: who has a threshold in a file
// adds the position to the sentences of its errors.
package threshold

import (
	"math"
	"time"
)

// Threshold is one of k6's threshold expressions on one metric.
type Threshold struct {
	// Metric is the name without its selector, one of the constants.
	Metric string
	// Scenario, Step and Check are the selector's; empty selects all of them.
	Scenario, Step, Check string
	// Extracted is the name of extracted values, of the selector too.
	Extracted string

	// Aggregation is avg, min, med, max, p, count, rate, sum or last.
	Aggregation string
	// Percentile is the N of p(N), 0 to 100.
	Percentile float64
	// Operator is <, <=, >, >=, ==, === or !=.
	Operator string
	// Value is in Unit.
	Value float64

	// Over is the length of the windows in which the threshold must hold, each
	// of them, sliding by one second: whole seconds, up to MostOver. If it is 0
	// the threshold is about the load as a whole.
	Over time.Duration

	// AbortOnFail ends the load once the threshold does not hold, from
	// DelayAbortEval of measured time on. They are k6's fields of the same
	// names, and not part of the expression.
	AbortOnFail    bool
	DelayAbortEval time.Duration

	name, source string
}

// MostOver is the longest window. It bounds what a Watch keeps: about 2 KiB for
// each second of it.
const MostOver = time.Hour

// String returns the expression as it was written.
func (t Threshold) String() string { return t.source }

// Name returns the metric with its selector as it was written.
func (t Threshold) Name() string { return t.name }

// Unit is what the threshold's value, and what is observed for it, is in.
func (t Threshold) Unit() Unit {
	m, _ := find(t.Metric)
	return m.Unit(t.Aggregation)
}

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

// worse says whether a is further than b from meeting the threshold.
func (t Threshold) worse(a, b float64) bool {
	if t.Holds(a) != t.Holds(b) {
		return t.Holds(b)
	}
	switch t.Operator {
	case "<", "<=":
		return a > b
	case ">", ">=":
		return a < b
	case "!=":
		return math.Abs(a-t.Value) < math.Abs(b-t.Value)
	default:
		return math.Abs(a-t.Value) > math.Abs(b-t.Value)
	}
}

// isUpperBound says whether the threshold bounds from above.
func (t Threshold) isUpperBound() bool { return t.Operator == "<" || t.Operator == "<=" }

// Outcome is what became of one threshold.
type Outcome struct {
	Metric    string // with its selector, as written
	Threshold string // as written
	// Observed is in the threshold's Unit. It is always a
	// finite number: 0, with a Reason, where there was nothing to observe. Of a
	// threshold on windows it is the worst window's.
	Observed float64
	Met      bool
	// Reason says why the threshold is not met where Observed does not, and of
	// a threshold on windows, met or not, which of them was the worst.
	Reason string
}
