package report

import (
	"strconv"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/result"
)

// objective is an SLO that can be explained.
type objective result.SLO

// limit returns the number that the threshold compares with: 200 of "p(95)<200"
// and of "p(95)<200 over 10s".
func (s objective) limit() (float64, bool) {
	i := strings.LastIndexAny(s.Threshold, "<>=")
	if i < 0 {
		return 0, false
	}
	number, _, _ := strings.Cut(strings.TrimSpace(s.Threshold[i+1:]), " ")
	v, err := strconv.ParseFloat(number, 64)
	return v, err == nil && format.Finite(v)
}

// aggregate returns what the threshold is on: "p(95)" of "p(95)<200".
func (s objective) aggregate() string {
	name, _, _ := strings.Cut(s.Threshold, "<")
	name, _, _ = strings.Cut(name, ">")
	name, _, _ = strings.Cut(name, "=")
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(name), "!"))
}

// inWindows says whether the threshold is on windows of the load and not on the
// whole of it.
func (s objective) inWindows() bool { return strings.Contains(s.Threshold, " over ") }

// isShare says whether the metric is a share, k6's Rate: of the others, the
// aggregation rate is a count per second.
func (s objective) isShare() bool {
	return s.metricName() == "http_req_failed" || s.metricName() == "checks"
}

// metricName is the metric without a tag selector:
// http_req_duration{name:lookup} is measured in what http_req_duration is.
func (s objective) metricName() string {
	name, _, _ := strings.Cut(s.Metric, "{")
	return strings.TrimSpace(name)
}

// inMilliseconds says whether the metric is one of k6's trends of time.
func (s objective) inMilliseconds() bool {
	switch s.metricName() {
	case "http_req_blocked", "http_req_connecting", "http_req_tls_handshaking", "http_req_sending",
		"http_req_waiting", "http_req_receiving", "http_req_service", "ws_connecting", "ws_session_duration":
		return true
	}
	return strings.HasSuffix(s.metricName(), "_duration")
}

// observed writes the observed value in the metric's unit, with as many digits
// as it takes to see on which side of the threshold it lies: 200.3 ms is not
// below 200 ms, so it must not be written as "200 ms".
func (s objective) observed() string {
	if !format.Finite(s.Observed) {
		return format.Missing
	}
	unit, scale := "", 1.0
	switch {
	case s.inMilliseconds():
		unit = " ms"
	case s.isShare():
		unit, scale = " %", 100
	case s.aggregate() == "rate":
		unit = "/s"
	}
	if limit, ok := s.limit(); ok {
		return format.Beside(s.Observed*scale, limit*scale) + unit
	}
	return format.Beside(s.Observed*scale, s.Observed*scale) + unit
}

// mark is k6's sign for an objective.
func (s objective) mark() string {
	if s.Met {
		return "✓"
	}
	return "✗"
}
