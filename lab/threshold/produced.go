package threshold

import (
	"fmt"
	"slices"

	"loadstone/block/spelling"
	"loadstone/lab/load"
)

// Metrics is what a load of certain scenarios produces.
type Metrics struct {
	scenarios []load.Scenario
}

// MetricsOf returns what a load of these scenarios produces.
func MetricsOf(scenarios []load.Scenario) Metrics { return Metrics{scenarios: scenarios} }

// Names returns the metrics that the load produces, without selectors.
func (m Metrics) Names() []string {
	var out []string
	for _, metric := range metrics {
		if m.produced(metric) {
			out = append(out, metric.Name)
		}
	}
	return out
}

func (m Metrics) produced(metric Metric) bool {
	switch {
	case metric.websocket:
		return m.any(func(s *load.Scenario) bool { return s.WebSocket != nil && metric.of(s) })
	case metric.Name == HTTPReqDuration, metric.Name == HTTPReqService, metric.Name == Iterations, metric.Name == IterationDuration:
		return m.any(func(s *load.Scenario) bool { return s.WebSocket == nil })
	case metric.grpc:
		return m.any(func(s *load.Scenario) bool { return s.Calls() })
	case metric.Name == DroppedIterations:
		return m.any((*load.Scenario).Open)
	case metric.Name == Checks:
		return m.any(func(s *load.Scenario) bool { return len(checkNames(s, "")) > 0 })
	case metric.Name == Extracted:
		return m.any(func(s *load.Scenario) bool { return len(valueNames(s, "")) > 0 })
	default:
		return true
	}
}

// of says whether a WebSocket scenario produces the metric.
func (m Metric) of(s *load.Scenario) bool {
	switch w := s.WebSocket; m.Name {
	case WSAckDuration, WSPing:
		return slices.Contains(s.StepNames(), m.step)
	case WSMsgsSkipped:
		return w.Skipped != ""
	case WSMsgsRefused:
		return w.Refused != ""
	case WSMsgsLost, WSMsgsDuplicates:
		return w.Deliver != load.DeliverNone
	}
	return true
}

func (m Metrics) hasWebSocket() bool {
	return m.any(func(s *load.Scenario) bool { return s.WebSocket != nil })
}

func (m Metrics) any(is func(*load.Scenario) bool) bool {
	for i := range m.scenarios {
		if is(&m.scenarios[i]) {
			return true
		}
	}
	return false
}

// Check says whether the load can meet or miss the threshold: whether it
// produces the metric and has what the selector names, and, if the threshold is
// to end the load, whether that can be known while it runs. The error is one
// sentence with what to write instead.
func (m Metrics) Check(t Threshold) error {
	metric, ok := find(t.Metric)
	if !ok {
		return unknownMetric(t.Metric)
	}
	if !m.produced(metric) {
		return m.absent(metric)
	}
	if err := m.selects(t); err != nil {
		return err
	}
	if err := m.mixes(metric, t); err != nil {
		return err
	}
	return checkAbort(t)
}

// absent says what to do about a metric that the load does not produce.
func (m Metrics) absent(metric Metric) error {
	switch {
	case metric.Name == DroppedIterations:
		return fmt.Errorf("%s is not produced by virtual users, who drop nothing; write an arrival-rate executor, or remove it", metric.Name)
	case metric.Name == Checks:
		return fmt.Errorf("the load has no checks; write some in a step of the scenario, or remove the threshold")
	case metric.grpc:
		return fmt.Errorf("%s is of calls of gRPC, and no step makes one; %s", metric.Name, spelling.Choose(metric.Name, m.Names()))
	case metric.Name == Extracted:
		return fmt.Errorf("no step extracts a value as a metric; write extract: {queue: {json: PATH, metric: true}} in one, or remove the threshold")
	case metric.websocket && m.hasWebSocket():
		return fmt.Errorf("%s is of WebSocket clients that %s, and the load has none; %s", metric.Name, metric.needs(), spelling.Choose(metric.Name, m.Names()))
	case metric.websocket:
		return fmt.Errorf("%s is of WebSocket scenarios, and the load has none; %s", metric.Name, spelling.Choose(metric.Name, m.Names()))
	default:
		return fmt.Errorf("%s is of HTTP requests, and the load has WebSocket scenarios only; %s", metric.Name, spelling.Choose(metric.Name, m.Names()))
	}
}

// needs is what WebSocket clients have to do for the metric.
func (m Metric) needs() string {
	return map[string]string{
		WSAckDuration: "wait for an ack", WSPing: "send pings", WSMsgsSkipped: "know by what a server says it skipped", WSMsgsLost: "wait for messages",
		WSMsgsRefused: "know by what a server refuses a message", WSMsgsDuplicates: "wait for messages",
	}[m.Name]
}

// selects checks that there is what the selector names.
func (m Metrics) selects(t Threshold) error {
	var scenarios, steps, checks, values []string
	for i := range m.scenarios {
		s := &m.scenarios[i]
		scenarios = append(scenarios, s.Name)
		if t.Scenario != "" && s.Name != t.Scenario {
			continue
		}
		if metric, _ := find(t.Metric); metric.grpc {
			steps = append(steps, callNames(s)...)
		} else {
			steps = append(steps, stepNames(s)...)
		}
		checks = append(checks, checkNames(s, t.Step)...)
		values = append(values, valueNames(s, t.Step)...)
	}
	for _, part := range []struct {
		key, value string
		known      []string
	}{{keyScenario, t.Scenario, scenarios}, {keyStep, t.Step, steps}, {keyCheck, t.Check, checks}, {keyValue, t.Extracted, values}} {
		switch {
		case part.value == "" || slices.Contains(part.known, part.value):
		case len(part.known) == 0:
			return fmt.Errorf("there is no %s for %s to select; remove it from the selector", part.key, oneLine(t.name))
		default:
			return fmt.Errorf("the load has no %s %s for %s; %s", part.key, spelling.Quote(part.value), t.Metric, spelling.ChooseName(part.value, part.known))
		}
	}
	if t.Metric == Extracted && t.Extracted == "" {
		known := "NAME"
		if len(values) > 0 {
			known = values[0]
		}
		return fmt.Errorf("%s does not say which values; write %s{value:%s}", oneLine(t.name), Extracted, known)
	}
	return nil
}

// stepNames returns what a scenario's steps are reported under.
func stepNames(s *load.Scenario) []string {
	if s.WebSocket != nil {
		return s.StepNames()
	}
	var out []string
	for _, step := range s.Steps {
		out = append(out, step.Name)
	}
	return out
}

// callNames returns the names of the steps that make calls of gRPC.
func callNames(s *load.Scenario) []string {
	var out []string
	for i := range s.Steps {
		if s.Steps[i].Request.GRPC {
			out = append(out, s.Steps[i].Name)
		}
	}
	return out
}

// checkNames returns the names of the checks of one step, or of all if none is
// named.
func checkNames(s *load.Scenario, step string) []string {
	var out []string
	for _, x := range s.Steps {
		if step != "" && x.Name != step {
			continue
		}
		for _, c := range x.Checks {
			out = append(out, c.Name)
		}
	}
	return out
}

// valueNames returns the names of what one step extracts as metrics, or all steps if none is
// named.
func valueNames(s *load.Scenario, step string) []string {
	var out []string
	for i := range s.Steps {
		if step == "" || s.Steps[i].Name == step {
			out = append(out, s.Steps[i].Metrics()...)
		}
	}
	return out
}

// mixes refuses to put times of HTTP requests, of opening connections and of
// messages into one distribution, which would be of nothing.
func (m Metrics) mixes(metric Metric, t Threshold) error {
	wrong := func(s *load.Scenario) bool {
		selected := (t.Scenario == "" || s.Name == t.Scenario) && (t.Step == "" || slices.Contains(stepNames(s), t.Step))
		return selected && s.WebSocket != nil && !metric.websocket
	}
	if metric.Kind != KindTime || !m.any(wrong) {
		return nil
	}
	for i := range m.scenarios {
		if s := &m.scenarios[i]; s.WebSocket == nil && t.Scenario == "" {
			return fmt.Errorf("%s would mix HTTP requests with WebSocket messages; write %s{scenario:%s}, and %s for the messages", oneLine(t.name), metric.Name, s.Name, WSMsgDuration)
		}
	}
	return fmt.Errorf("%s selects WebSocket clients; write %s or %s in place of %s", oneLine(t.name), WSMsgDuration, WSConnecting, metric.Name)
}

// checkAbort says whether a threshold that is to end the load can.
func checkAbort(t Threshold) error {
	switch {
	case t.DelayAbortEval < 0:
		return fmt.Errorf("delayAbortEval is negative (%s); write a time such as 10s, or leave it out", t.DelayAbortEval)
	case !t.AbortOnFail && t.DelayAbortEval > 0:
		return fmt.Errorf("delayAbortEval says when to begin to end the load, and the threshold does not end it; write abortOnFail: true beside it, or leave it out")
	case t.AbortOnFail && !t.knownWhileRunning():
		return fmt.Errorf("%s is known only when the load has ended, and cannot end it; write the threshold without abortOnFail", oneLine(t.name))
	case t.AbortOnFail && t.canStillBeMet():
		return fmt.Errorf("%s %s can be met until the load has ended, and so cannot end it; write the threshold without abortOnFail", oneLine(t.name), t.source)
	}
	return nil
}

// canStillBeMet says whether the threshold is about a count over the whole load
// that has yet to be reached.
func (t Threshold) canStillBeMet() bool {
	return t.Over == 0 && t.Aggregation == "count" && !t.isUpperBound()
}
