package load

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"loadstone/lab/format"
)

// Result is what came of a Plan: only the measured part, without the warm-up.
//
// Every request has three times: intended (when the schedule wanted it), sent
// and done. Response time is done minus intended, service time done minus
// sent. In the closed model intended is when the virtual user was free.
type Result struct {
	// From and To bound the measured part, on the wall clock, so that samples
	// of other processes can be lined up with it.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`

	// Offered is the number of iterations whose intended time lies in the
	// measured part. Each of them ended as exactly one of Iterations or Dropped.
	Offered uint64 `json:"offered"`
	// Scheduled is the arrivals of schedules, messages of WebSocket clients among them:
	// what can be late, wait or be dropped. What a closed model begins has no time.
	Scheduled uint64 `json:"scheduled,omitempty"`
	// Iterations were begun and ended, in whichever way. Where an iteration is
	// one request, it is Requests.
	Iterations uint64 `json:"iterations"`
	// Requests were sent and ended, in whichever way; Failed of them ended
	// badly (Errors, or a status that the step does not expect, see Step.Expects).
	Requests uint64 `json:"requests"`
	Failed   uint64 `json:"failed"`
	// Dropped arrivals were never sent: no virtual user came free in time. DroppedLate of
	// them were dropped although one was free: the generator's doing.
	Dropped     uint64 `json:"dropped"`
	DroppedLate uint64 `json:"dropped_late,omitempty"`
	// Waited arrivals were sent after their time because every virtual user
	// was busy: the system's doing (or that of a plan that preallocates too few
	// for a burst). Late ones were sent more than LateAfter
	// after their time although a virtual user was free: the generator's doing.
	Waited uint64 `json:"waited"`
	Late   uint64 `json:"late"`
	// IterationsInTime counts iterations that were done between From and To.
	IterationsInTime uint64 `json:"iterations_in_time"`
	// CompletedInTime counts requests that were done between From and To: the
	// throughput of the measured part. It has those that the warm-up left under
	// way or unsent, which count nowhere else, and not the tail that drained after To.
	CompletedInTime uint64 `json:"completed_in_time"`

	// Sent and Received are bytes on the wire, as the protocol's messages: no
	// TLS, TCP or IP overhead.
	Sent     uint64 `json:"sent_bytes"`
	Received uint64 `json:"received_bytes"`

	// Steps has the requests by scenario and step, in the plan's order.
	Steps []StepResult `json:"steps,omitempty"`
	// Journeys has the iterations by scenario, in the plan's order, if those of some
	// scenario are more than a request each. Else they are the requests.
	Journeys []JourneyResult `json:"journeys,omitempty"`
	// Caches has what users' caches did, of scenarios whose users have one.
	Caches []CacheResult `json:"caches,omitempty"`
	// Checks has what came of the checks, in the plan's order.
	Checks []CheckResult `json:"checks,omitempty"`
	// Values has what was extracted as a metric, in the plan's order.
	Values []ValueResult `json:"values,omitempty"`
	// WebSocket is there if the plan has a WebSocket scenario.
	WebSocket *WebSocketResult `json:"websocket,omitempty"`

	Status map[int]uint64        `json:"status"`
	Errors map[string]ErrorCount `json:"errors,omitempty"`
	// Refusals has, by status, how one answer began that its step did not expect, of a plan
	// that is to explain itself.
	Refusals map[int]string `json:"refusals,omitempty"`
	Response Latency        `json:"response"`
	Service  Latency        `json:"service"`
	InFlight Trend          `json:"in_flight"`
	// MaxInFlight is the most arrivals that were waiting or under way at once.
	// Those under way are counted exactly, those waiting each SampleEvery.
	MaxInFlight int `json:"max_in_flight"`

	Generator Generator `json:"generator"`
	// Parts are the generators' own, without distributions, where several shared the load.
	// Generator then has the worst of each figure.
	Parts []Result `json:"parts,omitempty"`

	// Notes say what the plan asked for and could not be done, such as lines of
	// an access log that cannot be repeated.
	Notes []string `json:"notes,omitempty"`

	// Aborted says why the load ended before its time; empty if it did not.
	Aborted string `json:"aborted,omitempty"`
}

// StepResult is what came of one named step. For WebSocket scenarios there are
// those of StepConnect and below.
type StepResult struct {
	Scenario string `json:"scenario"`
	Name     string `json:"name"`
	Requests uint64 `json:"requests"`
	Failed   uint64 `json:"failed"`
	// GRPC says that the requests are calls of gRPC.
	GRPC bool `json:"grpc,omitempty"`
	// Sent and Received are as in Result, with headers. Requests that share a
	// connection over HTTP/2 share what frames and header tables take: theirs are
	// exact only together. They are 0 if whoever measured does not tell steps apart,
	// as k6 does not.
	Sent     uint64         `json:"sent_bytes,omitempty"`
	Received uint64         `json:"received_bytes,omitempty"`
	Status   map[int]uint64 `json:"status"`
	Response Latency        `json:"response"`
	Service  Latency        `json:"service"`
}

// JourneyResult is what came of one scenario's iterations.
type JourneyResult struct {
	Scenario   string `json:"scenario"`
	Iterations uint64 `json:"iterations"`
	// BrokenOff of them did not come to their end: a request had no answer, or its
	// answer lacked a value that a later step needs. Those that only paused when the
	// load ended are not among them.
	BrokenOff uint64 `json:"broken_off"`
	// Duration is from the time that the schedule intended for an iteration to its
	// end, pauses included: k6's iteration_duration, which begins when it begins. It is
	// of all iterations: those that broke off, or were cut off, are shorter.
	Duration Latency `json:"duration"`
}

// CacheResult is what the caches of one scenario's virtual users did.
type CacheResult struct {
	Scenario string `json:"scenario"`
	// Hits were answered by a cache without a request. Revalidations were requests for
	// what had not changed (304), and Fetched those that brought a whole answer (200).
	Hits          uint64 `json:"hits"`
	Revalidations uint64 `json:"revalidations"`
	Fetched       uint64 `json:"fetched"`
	// HeldBytes is what all users' caches held in the end, and LargestBytes the most that
	// one of them ever did, each answer counted as the bytes that it took on the wire.
	HeldBytes    int64 `json:"held_bytes"`
	LargestBytes int64 `json:"largest_bytes"`
}

// CheckResult is how often one check held.
type CheckResult struct {
	Scenario string `json:"scenario"`
	Step     string `json:"step"`
	Name     string `json:"name"`
	Passes   uint64 `json:"passes"`
	Fails    uint64 `json:"fails"`
}

// ValueResult is what one step extracted under one name, as a metric: numbers from 0 to
// MaxValue, true as 1 and false as 0. All are 0 if it extracted nothing.
type ValueResult struct {
	Scenario string  `json:"scenario"`
	Step     string  `json:"step"`
	Name     string  `json:"name"`
	Count    uint64  `json:"count"`
	Sum      float64 `json:"sum"`
	Min      float64 `json:"min"`
	P50      float64 `json:"p50"`
	P95      float64 `json:"p95"`
	P99      float64 `json:"p99"`
	Max      float64 `json:"max"`
	// Last is the value of the answer that came last, at LastAt.
	Last   float64   `json:"last"`
	LastAt time.Time `json:"last_at,omitzero"`
	// Histogram is the distribution, in thousandths, encoded like a Window's; empty without
	// values.
	Histogram string `json:"histogram,omitempty"`
}

// Figures are mean, least, p50, p95, p99, most and last, in this order.
func (v *ValueResult) Figures() []float64 {
	return []float64{v.Sum / float64(max(v.Count, 1)), v.Min, v.P50, v.P95, v.P99, v.Max, v.Last}
}

// WebSocketResult is what only WebSocket clients have. A message's delivery to one
// client counts as one request, and so does each handshake, ack and ping. Connections, and
// what came of them, are those of the whole load, the warm-up included: it is there to open them.
// Messages are those whose intended time lies in the measured part.
type WebSocketResult struct {
	// Clients is the most that were to be connected at once, and LeastOpen the fewest that
	// were at any time of the measured part.
	Clients   int `json:"clients,omitempty"`
	LeastOpen int `json:"least_open,omitempty"`
	// Connects is the connections opened; Reconnects of them were opened again after
	// they were lost.
	Connects   uint64 `json:"connects"`
	Reconnects uint64 `json:"reconnects"`
	// Closed is the connections that the server ended, that were lost, or that were not told in
	// time that they had joined.
	Closed uint64 `json:"closed"`
	// Sent is the messages sent, Delivered the deliveries of them to clients.
	Sent      uint64 `json:"sent"`
	Delivered uint64 `json:"delivered"`
	// Lost deliveries did not come in time, and CutOff ones had not come when the load
	// ended; Skipped ones the server said that it had left out. Duplicates came more than once.
	Lost       uint64 `json:"lost"`
	CutOff     uint64 `json:"cut_off,omitempty"`
	Skipped    uint64 `json:"skipped,omitempty"`
	Duplicates uint64 `json:"duplicates"`
	// Acked messages were accepted in time, Refused ones were not accepted.
	Acked   uint64 `json:"acked,omitempty"`
	Refused uint64 `json:"refused,omitempty"`
	// Other is the messages received that nobody of this load had sent.
	Other uint64 `json:"other"`
	// Early deliveries came to clients at which they were not due yet: see
	// WebSocket.Joined.
	Early uint64 `json:"early"`
}

// Fact is one of a WebSocketResult's counts, in words.
type Fact struct {
	What  string
	Count uint64
}

// Further are the counts that few loads have, without those that are 0.
func (w *WebSocketResult) Further() []Fact {
	return slices.DeleteFunc([]Fact{
		{"still under way at the end", w.CutOff},
		{"left out, as announced", w.Skipped},
		{"acknowledged", w.Acked},
		{"not accepted", w.Refused},
	}, func(f Fact) bool { return f.Count == 0 })
}

// Seconds is the length of the measured part in seconds.
func (r *Result) Seconds() float64 { return r.To.Sub(r.From).Seconds() }

// Throughput is the completed requests per second of the measured part.
func (r *Result) Throughput() float64 { return float64(r.CompletedInTime) / r.Seconds() }

// IterationRate is the completed iterations per second of the measured part.
// Capacity is counted in iterations, because those are what a schedule starts;
// where an iteration is one request they are requests.
func (r *Result) IterationRate() float64 { return float64(r.IterationsInTime) / r.Seconds() }

// OfferedRate is the arrivals per second of the measured part.
func (r *Result) OfferedRate() float64 { return float64(r.Offered) / r.Seconds() }

// ErrorCount is how often one kind of error occurred.
type ErrorCount struct {
	Count uint64 `json:"count"`
	// Example is the message of one of them.
	Example string `json:"example"`
}

// Failures says what the requests ended as that did not succeed, the commonest first:
// "2,843 × status 502, 12 × timeout (no answer in 10s)". Statuses from 400 up stand for
// those that a step does not expect or, if there are none, all do. It is empty if none
// failed.
func (r *Result) Failures() string {
	const most, bad = 3, 400
	if r.Failed == 0 && len(r.Errors) == 0 {
		return ""
	}
	type kind struct {
		count uint64
		text  string
	}
	var all, statuses []kind
	for status, n := range r.Status {
		k := kind{n, fmt.Sprintf("status %d", status)}
		if said := r.Refusals[status]; said != "" {
			k.text += " (" + said + ")"
		}
		statuses = append(statuses, k)
		if status >= bad {
			all = append(all, k)
		}
	}
	if len(all) == 0 && len(r.Errors) == 0 {
		all = statuses
	}
	for name, e := range r.Errors {
		if e.Example != "" {
			name += " (" + e.Example + ")"
		}
		all = append(all, kind{e.Count, name})
	}
	slices.SortFunc(all, func(a, b kind) int { return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.text, b.text)) })
	var texts []string
	for i, k := range all {
		if i == most {
			break
		}
		texts = append(texts, fmt.Sprintf("%s × %s", format.Count(k.count), k.text))
	}
	return strings.Join(texts, ", ")
}

// Beginning is how an answer begins, as a line for people: what cannot be printed, or ends
// a line, is a blank.
func Beginning(body []byte) string {
	const most, enough = 200, 4 << 10
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, string(body[:min(len(body), enough)]))
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-1]) + "…"
	}
	return text
}

// Generator is what the generator process itself used while it measured.
type Generator struct {
	// CPUSeconds is user and system time; Busy is CPUSeconds divided by the
	// elapsed time, in cores.
	CPUSeconds float64 `json:"cpu_seconds"`
	Busy       float64 `json:"busy"`
	// Working is the share of the time that the busiest event loop spent at
	// work, neither asleep nor watching: at 1 it can do no more.
	Working float64 `json:"working"`
	// Cores is how many processors the machine has for it.
	Cores int `json:"cores"`
	// MachineBusy is the share of the machine's cores that was in use, by whomever, time
	// given to other guests included; 0 if it is not known.
	MachineBusy float64 `json:"machine_busy,omitempty"`
	// Throttled is the share of the scheduler's periods in which the generator was stopped
	// because the CPU quota of a control group that it is in was used up.
	Throttled float64 `json:"throttled,omitempty"`
	// Lateness is how long after their intended time requests were sent for
	// which a virtual user was free.
	Lateness Lateness `json:"lateness"`
}

// Lateness is a distribution of the generator's own delays, in milliseconds.
type Lateness struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
	// WithinMs is the share that was sent within a millisecond.
	WithinMs float64 `json:"within_ms"`
}

// Trend is the slope of the work in flight (arrivals waiting or under way) by
// least squares over samples taken each SampleEvery, in requests per second:
// the rate at which a backlog grows. Low and High bound it at 95 % confidence.
// It is about the scenarios with a schedule: in a closed model work in flight
// is what the plan says, and Samples is 0. See Growing.
type Trend struct {
	Slope   float64 `json:"slope"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Samples int     `json:"samples"`
}

// Latency is a distribution of times, carried whole and summarised.
type Latency struct {
	P50  float64 `json:"p50"` // all in milliseconds
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
	// Histogram is the distribution, encoded like a Window's.
	Histogram string `json:"histogram"`
}
