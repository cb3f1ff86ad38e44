package threshold

import (
	"slices"

	"loadstone/lab/load"
)

// The metrics, by k6's names where k6 has them.
const (
	// HTTPReqDuration is response time in ms, from the intended start of a
	// request to the end of its answer, over every request that was sent. k6's
	// metric of this name begins when the request is sent, which hides what a
	// stalled server keeps waiting: HTTPReqService is the closest to that.
	HTTPReqDuration = "http_req_duration"
	// HTTPReqService is service time in ms, from when a request was sent to the
	// end of its answer. k6 has no metric of this name.
	HTTPReqService = "http_req_service"
	// GRPCReqDuration is HTTPReqDuration of the calls of gRPC alone, which are among its
	// requests.
	GRPCReqDuration = "grpc_req_duration"
	// HTTPReqFailed is the share of requests that failed: that were answered
	// with a status of 400 and above, ended in an error, or were dropped. An
	// arrival that was never served is a failure to its user. Dropped arrivals
	// are known of the load only: with a selector, they count if the load has
	// one step.
	HTTPReqFailed = "http_req_failed"
	// HTTPReqs counts the requests that were sent and ended. Its rate is the
	// throughput: those done before the end of the measured part, per second.
	// WebSocket connections and deliveries are requests too, here and in
	// HTTPReqFailed.
	HTTPReqs = "http_reqs"
	// Iterations counts the iterations that were begun and ended. Its rate is of
	// those done before the end of the measured part.
	Iterations = "iterations"
	// IterationDuration is how long an iteration took in ms, from its intended start to
	// its end, pauses included. k6's begins when the iteration begins. Where an
	// iteration is one request it is HTTPReqDuration.
	IterationDuration = "iteration_duration"
	// DroppedIterations counts the arrivals that were never sent. Only the
	// executors with a schedule produce it.
	DroppedIterations = "dropped_iterations"
	// Checks is the share of checks that held.
	Checks = "checks"
	// Extracted is what steps extract as a metric: {value:NAME} selects a name, which
	// is to be there. In k6 a script makes metrics of their own for it: a Trend has this
	// one's avg, min, med, max and p(N), a Counter its sum and count, a Gauge its last,
	// and a Rate its avg, of true and false.
	Extracted = "extracted"
	// DataSent and DataReceived count bytes.
	DataSent     = "data_sent"
	DataReceived = "data_received"

	// WSConnecting is how long a WebSocket connection took to open, in ms from
	// its intended start: the step "connect".
	WSConnecting = "ws_connecting"
	// WSMsgDuration is how long a message took to a client, in ms from its
	// intended start: the step "message". k6 has no metric of this name.
	WSMsgDuration = "ws_msg_duration"
	// WSAckDuration is how long it took until the server had acknowledged a message, in ms
	// from its intended start: the step "ack". k6 has no metric of this name.
	WSAckDuration = "ws_ack_duration"
	// WSPing is how long a ping took to be answered, in ms from its intended start.
	WSPing = "ws_ping"
	// WSMsgsLost is the share of deliveries that did not come: in time, or before the load
	// ended. What the server said that it had left out is not among them, but in
	// WSMsgsSkipped. k6 has neither.
	WSMsgsLost    = "ws_msgs_lost"
	WSMsgsSkipped = "ws_msgs_skipped"
	// WSMsgsRefused is the share of messages that the server did not accept, of all that it was
	// to acknowledge. They are due nowhere, so they are not lost. k6 has no metric of this name.
	WSMsgsRefused = "ws_msgs_refused"
	// WSMsgsDuplicates is the share of deliveries that came again, of all that came. k6 has no
	// metric of this name.
	WSMsgsDuplicates = "ws_msgs_duplicates"
	// WSClosed is the share of connections that could not be opened, that were not told in time that
	// they have joined, that the server ended, or that were lost, of all that were tried. A login
	// that failed is one that could not be opened. k6 has no metric of this name.
	WSClosed = "ws_closed"
	// WSSessions counts the connections that were opened.
	WSSessions = "ws_sessions"
	// WSMsgsSent and WSMsgsReceived count messages.
	WSMsgsSent     = "ws_msgs_sent"
	WSMsgsReceived = "ws_msgs_received"
)

// Kind is what a metric is, k6's types of metrics.
type Kind int

// The kinds.
const (
	KindTime  Kind = iota // k6's Trend
	KindShare             // k6's Rate
	KindCount             // k6's Counter
	KindValue             // k6's Trend, Counter and Gauge of values that have no unit
)

// Unit is what the values of a threshold are in. Nothing else derives it from a
// metric's name.
type Unit string

// The units.
const (
	Milliseconds   Unit = "ms"
	Share          Unit = "share" // from 0 to 1
	Count          Unit = "count"
	PerSecond      Unit = "/s"
	Bytes          Unit = "B"
	BytesPerSecond Unit = "B/s"
)

// Metric is what can be said of one metric.
type Metric struct {
	Name string
	Kind Kind

	meaning   string   // in a few words
	example   string   // a threshold that suits it
	selectors []string // what it can be selected by
	// inWindows says that the metric is known of each second of a load, and
	// not only of the whole.
	inWindows bool
	websocket bool
	grpc      bool   // it is of calls of gRPC
	step      string // that it is of, in WebSocket scenarios
}

var (
	byStep     = []string{keyScenario, keyStep}
	byScenario = []string{keyScenario}
	byCheck    = []string{keyScenario, keyStep, keyCheck}
	byValue    = []string{keyScenario, keyStep, keyValue}
)

// metrics are all there are, in the order in which they are listed.
var metrics = []Metric{
	{Name: HTTPReqDuration, Kind: KindTime, meaning: "Response time in ms, from the intended start of a request to the end of its answer", example: "p(95)<200", selectors: byStep, inWindows: true},
	{Name: HTTPReqService, Kind: KindTime, meaning: "Service time in ms, from when a request was sent to the end of its answer", example: "p(95)<200", selectors: byStep, inWindows: true},
	{Name: GRPCReqDuration, Kind: KindTime, meaning: "Response time of calls of gRPC in ms, from the intended start of a call to the end of its answer", example: "p(95)<200", selectors: byStep, inWindows: true, grpc: true},
	{Name: HTTPReqFailed, Kind: KindShare, meaning: "The share of requests that failed or were dropped, 0 to 1", example: "rate<0.001", selectors: byStep, inWindows: true},
	{Name: HTTPReqs, Kind: KindCount, meaning: "Requests sent and ended", example: "rate>100", selectors: byStep, inWindows: true},
	{Name: Iterations, Kind: KindCount, meaning: "Iterations begun and ended, the same as http_reqs where an iteration is one request", example: "rate>100", inWindows: true},
	{Name: IterationDuration, Kind: KindTime, meaning: "How long an iteration took in ms, from its intended start to its end, pauses included", example: "p(95)<2000", selectors: byScenario, inWindows: true},
	{Name: DroppedIterations, Kind: KindCount, meaning: "Arrivals that were never sent because no virtual user came free in time", example: "count<10", inWindows: true},
	{Name: Checks, Kind: KindShare, meaning: "The share of checks that held, 0 to 1", example: "rate>0.99", selectors: byCheck, inWindows: true},
	{Name: Extracted, Kind: KindValue, meaning: "Values that steps extract with metric: true, as extracted{value:NAME}", example: "p(95)<20", selectors: byValue},
	{Name: DataSent, Kind: KindCount, meaning: "Bytes sent", example: "rate<1000000", inWindows: true},
	{Name: DataReceived, Kind: KindCount, meaning: "Bytes received", example: "rate<1000000", inWindows: true},
	{Name: WSConnecting, Kind: KindTime, meaning: "How long a WebSocket connection took to open, in ms", example: "p(95)<200", selectors: byScenario, inWindows: true, websocket: true, step: load.StepConnect},
	{Name: WSMsgDuration, Kind: KindTime, meaning: "How long a message took to a client, in ms", example: "p(95)<200", selectors: byScenario, inWindows: true, websocket: true, step: load.StepMessage},
	{Name: WSAckDuration, Kind: KindTime, meaning: "How long a message took to be acknowledged, in ms", example: "p(95)<200", selectors: byScenario, inWindows: true, websocket: true, step: load.StepAck},
	{Name: WSPing, Kind: KindTime, meaning: "How long a ping took to be answered, in ms", example: "p(95)<200", selectors: byScenario, inWindows: true, websocket: true, step: load.StepPing},
	{Name: WSMsgsLost, Kind: KindShare, meaning: "The share of deliveries that did not come, 0 to 1", example: "rate<0.001", selectors: byScenario, inWindows: true, websocket: true, step: load.StepMessage},
	{Name: WSMsgsSkipped, Kind: KindShare, meaning: "The share of deliveries that the server said it had left out, 0 to 1", example: "rate<0.01", websocket: true},
	{Name: WSMsgsRefused, Kind: KindShare, meaning: "The share of messages that the server did not accept, 0 to 1", example: "rate<0.01", selectors: byScenario, websocket: true, step: load.StepRefused},
	{Name: WSMsgsDuplicates, Kind: KindShare, meaning: "The share of deliveries that came again, 0 to 1", example: "rate==0", websocket: true},
	{Name: WSClosed, Kind: KindShare, meaning: "The share of WebSocket connections that were not let in, thrown out or lost, 0 to 1", example: "rate<0.001", selectors: byScenario, websocket: true, step: load.StepSession},
	{Name: WSSessions, Kind: KindCount, meaning: "WebSocket connections opened", example: "count>100", selectors: byScenario, inWindows: true, websocket: true, step: load.StepConnect},
	{Name: WSMsgsSent, Kind: KindCount, meaning: "WebSocket messages sent", example: "rate>100", websocket: true},
	{Name: WSMsgsReceived, Kind: KindCount, meaning: "WebSocket messages received", example: "rate>100", websocket: true},
}

// find returns the metric of a name.
func find(name string) (Metric, bool) {
	i := slices.IndexFunc(metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return metrics[i], true
}

// names returns the names of metrics.
func names(ms []Metric) []string {
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = m.Name
	}
	return out
}

// aggregations returns what can be asked of the metric.
func (m Metric) aggregations() []string {
	switch m.Kind {
	case KindTime:
		return []string{"avg", "min", "med", "max", "p(N)"}
	case KindShare:
		return []string{"rate"}
	case KindValue:
		return []string{"avg", "min", "med", "max", "p(N)", "count", "sum", "last"}
	default:
		return []string{"count", "rate"}
	}
}

// Unit is what an aggregation of the metric is in.
func (m Metric) Unit(aggregation string) Unit {
	switch {
	case m.Kind == KindTime:
		return Milliseconds
	case m.Kind == KindShare:
		return Share
	case m.Kind == KindValue:
		return Count
	case aggregation == "rate" && m.isBytes():
		return BytesPerSecond
	case aggregation == "rate":
		return PerSecond
	case m.isBytes():
		return Bytes
	default:
		return Count
	}
}

// isBytes says whether the metric's unit is the byte.
func (m Metric) isBytes() bool { return m.Name == DataSent || m.Name == DataReceived }

// elsewhere is what to write for the metrics that k6 has and a load here has
// not, where there is something near.
var elsewhere = map[string]string{
	"http_req_waiting":         HTTPReqService,
	"http_req_sending":         HTTPReqService,
	"http_req_receiving":       HTTPReqService,
	"http_req_blocked":         HTTPReqDuration,
	"http_req_connecting":      HTTPReqDuration,
	"http_req_tls_handshaking": HTTPReqDuration,
	"ws_session_duration":      WSClosed,
}

// Example returns a threshold that suits a metric, for a message that says what
// to write. The metric may carry a selector, and may be unknown.
func Example(name string) string {
	if m, ok := find(base(name)); ok {
		return m.example
	}
	return metrics[0].example
}
