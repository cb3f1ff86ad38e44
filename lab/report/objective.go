package report

import (
	"strconv"

	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/threshold"
)

// objective is an SLO that can be explained.
type objective result.SLO

// parsed is the threshold; ok is false if it is none.
func (s objective) parsed() (t threshold.Threshold, ok bool) {
	t, err := threshold.Parse(s.Metric, s.Threshold)
	return t, err == nil && format.Finite(t.Value)
}

// observed writes the observed value in the threshold's unit, with as many digits
// as it takes to see on which side of the threshold it lies: 200.3 ms is not
// below 200 ms, so it must not be written as "200 ms".
func (s objective) observed() string {
	if !format.Finite(s.Observed) {
		return format.Missing
	}
	t, ok := s.parsed()
	if !ok {
		return format.Beside(s.Observed, s.Observed)
	}
	unit, scale := "", 1.0
	switch t.Unit() {
	case threshold.Milliseconds:
		unit = " ms"
	case threshold.Share:
		unit, scale = " %", 100
	case threshold.PerSecond, threshold.BytesPerSecond:
		unit = "/s"
	case threshold.Count, threshold.Bytes: // what is counted stands without a unit
	}
	return format.Beside(s.Observed*scale, t.Value*scale) + unit
}

// note says in how many trials it was crossed; "" for none, or if there was one trial.
func (s objective) note() string {
	if s.Crossed == 0 || s.Trials < 2 {
		return ""
	}
	return "crossed in " + strconv.Itoa(s.Crossed) + " of " + strconv.Itoa(s.Trials) + " trials"
}

// mark is k6's sign for an objective.
func (s objective) mark() string {
	if s.Met {
		return "✓"
	}
	return "✗"
}
