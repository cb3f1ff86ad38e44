// Package summary says what came of a load, once it is over: as JSON for
// programs, whose schema is docs/load.schema.json, and as text for people. Both
// are derived from one Summary, which has everything in it that they show, so
// that whoever keeps the JSON can show the rest again.
//
// It offers no load, judges no threshold and knows no file: the plan, the
// result and the outcomes of the thresholds are given, and a writer to write
// to. It changes none of them.
package summary

import (
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/roundtrip"
)

// Schema names the format. A change that an old reader would misread gets
// another number; fields may be added under the same one.
const Schema = "loadstone.load/1"

// The values of Summary.Validity.
const (
	// Valid says that nothing speaks against the figures.
	Valid = "valid"
	// LowerBoundOnly says that the measurement itself was the limit: the system
	// can do what was measured, and maybe more.
	LowerBoundOnly = "lower bound only"
)

// Summary is what came of one load. All of it is about the measured part,
// without the warm-up. Times are in milliseconds unless a name says otherwise,
// shares are from 0 to 1, bytes are bytes on the wire. Lists and mappings are
// never null.
type Summary struct {
	// Schema names this format and its version.
	Schema string `json:"schema" jsonschema:"enum=loadstone.load/1"`

	// Requests were sent and ended, in whichever way.
	Requests uint64 `json:"requests"`
	// Rate is the completed requests per second of the measured part.
	Rate float64 `json:"rate"`
	// Latency is how long requests took, those that failed included.
	Latency Latencies `json:"latency"`
	// Errors has the requests that ended without an answer, by kind, such as
	// refused, reset, timeout, eof, bad_http, protocol.
	Errors map[string]load.ErrorCount `json:"errors"`
	// Late iterations began more than 5 ms after their time although a virtual
	// user was free: the generator's doing.
	Late uint64 `json:"late"`
	// Dropped iterations never began: no virtual user came free in time.
	Dropped uint64 `json:"dropped"`
	// Generator is what the load generator itself used.
	Generator Generator `json:"generator"`
	// Validity is "valid", or "lower bound only" if the measurement itself was
	// the limit.
	Validity string `json:"validity" jsonschema:"enum=valid,enum=lower bound only"`
	// ValidityReasons says why it is a lower bound only: one sentence each,
	// with figures. It is empty if the load is valid.
	ValidityReasons []string `json:"validity_reasons"`

	// Notes say what the figures do not mean, where that is not what the words
	// promise. It is empty for the generator's own loads.
	Notes []string `json:"notes,omitempty"`
	// ServiceTimeOnly says that whoever measured knows no intended times: what
	// stands under response is service time again.
	ServiceTimeOnly bool `json:"service_time_only,omitempty"`

	// URL is what the load was about: the first target, with the path if there
	// is one path only.
	URL string `json:"url"`
	// Targets are the base URLs that requests were sent to.
	Targets []string `json:"targets"`
	// Started is when the measured part began.
	Started time.Time `json:"started"`
	// Seconds is the length of the measured part.
	Seconds float64 `json:"seconds"`
	// WarmupSeconds is the length of the part before it, which is not measured.
	WarmupSeconds float64 `json:"warmup_seconds"`
	// Seed makes the same schedule and the same values again.
	Seed uint64 `json:"seed"`
	// Aborted says why the load ended before its time; it is empty if it did
	// not.
	Aborted string `json:"aborted"`

	// Offered iterations had their intended time in the measured part. Each
	// ended as one of Iterations or Dropped.
	Offered uint64 `json:"offered"`
	// OfferedRate is Offered per second.
	OfferedRate float64 `json:"offered_rate"`
	// Iterations were begun and ended, in whichever way.
	Iterations uint64 `json:"iterations"`
	// Completed requests ended within the measured part, whenever they were
	// intended: Rate is Completed by Seconds.
	Completed uint64 `json:"completed"`
	// Failed requests ended with an error, or with a status of 400 and above.
	Failed uint64 `json:"failed"`
	// FailedShare is Failed by Requests.
	FailedShare float64 `json:"failed_share" jsonschema:"minimum=0,maximum=1"`
	// Waited iterations began after their time because every virtual user was
	// busy: the system's doing, or that of too few virtual users.
	Waited uint64 `json:"waited"`
	// Status has the answers by HTTP status.
	Status map[int]uint64 `json:"status"`
	// SentBytes is whole messages with their headers, without what TLS, TCP and
	// IP add.
	SentBytes uint64 `json:"sent_bytes"`
	// ReceivedBytes is the same of what came back.
	ReceivedBytes uint64 `json:"received_bytes"`
	// InFlight is the work that was waiting or under way.
	InFlight InFlight `json:"in_flight"`

	// Percentiles is both distributions side by side, ascending.
	Percentiles []Percentile `json:"percentiles"`
	// Thresholds has what came of each threshold, in the order they were given.
	Thresholds []Threshold `json:"thresholds"`
	// Steps has the requests by scenario and step, in the plan's order.
	Steps []Step `json:"steps"`
	// Journeys has the iterations by scenario, of scenarios of which one is more than a
	// request.
	Journeys []Journey `json:"journeys,omitempty"`
	// Caches has what users' caches did, of scenarios whose users have one.
	Caches []load.CacheResult `json:"caches,omitempty"`
	// Checks has what came of each check, in the plan's order.
	Checks []load.CheckResult `json:"checks"`
	// Values has what steps extracted as metrics, in the plan's order.
	Values []load.ValueResult `json:"values,omitempty"`
	// WebSocket is there if the load had WebSocket clients.
	WebSocket *load.WebSocketResult `json:"websocket,omitempty"`

	// Machine is where the load generator ran.
	Machine Machine `json:"machine"`
	// Plan is what was to be done, with every default filled in and every unit
	// resolved. Times in it are in nanoseconds, rates are per second. The values
	// of headers that carry a secret are hidden.
	Plan load.Plan `json:"plan"`
}

// Latencies is both ways of timing a request.
type Latencies struct {
	// Response is from the time the schedule intended for a request to the end
	// of its answer: what a user who came at that time would have waited.
	Response Latency `json:"response"`
	// Service is from the time a request was sent to the end of its answer.
	Service Latency `json:"service"`
}

// Latency is a distribution of times in milliseconds. Without a request all of
// it is 0.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	// Stdev is the standard deviation.
	Stdev float64 `json:"stdev"`
	// WithinStdev is the share of the requests that took no longer than Mean
	// plus Stdev and no less than Mean minus Stdev: wrk's column +/- Stdev.
	WithinStdev float64 `json:"within_stdev"`
}

// Percentile is one line of the table of percentiles.
type Percentile struct {
	// Quantile is the share of the requests that took at most this long: 0.99
	// for p99, 1 for the longest.
	Quantile float64 `json:"quantile" jsonschema:"minimum=0,maximum=1"`
	// Response and Service are in milliseconds.
	Response float64 `json:"response"`
	Service  float64 `json:"service"`
}

// Generator is what the load generator itself used while it measured.
type Generator struct {
	// CPUSeconds is user and system time.
	CPUSeconds float64 `json:"cpu_seconds"`
	// Busy is CPUSeconds divided by the elapsed time, in cores.
	Busy float64 `json:"busy"`
	// Working is the share of the time that the busiest event loop spent at
	// work: at 1 it can do no more.
	Working float64 `json:"working"`
	// CPUPerRequest is CPUSeconds by Requests, in microseconds.
	CPUPerRequest float64 `json:"cpu_us_per_request"`
	// Lateness is how long after their intended time requests were sent for
	// which a virtual user was free. It is about schedules: in a closed model
	// all of it is 0.
	Lateness Lateness `json:"lateness"`
}

// Lateness is a distribution of the generator's own delays in milliseconds.
type Lateness struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
	// WithinMs is the share that was sent within a millisecond; not there if
	// nothing had a schedule.
	WithinMs float64 `json:"within_ms,omitempty"`
}

// InFlight is the work that was waiting or under way, in requests.
type InFlight struct {
	Max int `json:"max"`
	// Slope is how fast it grew, in requests per second, and Low and High bound
	// that at 95 % confidence. In a closed model they are 0.
	Slope float64 `json:"slope"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Growing says whether a backlog built up without doubt.
	Growing bool `json:"growing"`
}

// Threshold is what came of one threshold.
type Threshold struct {
	// Metric is the metric, with its selector if it has one.
	Metric string `json:"metric"`
	// Expression is the threshold as it was written.
	Expression string `json:"expression"`
	// Observed is what was measured; it is left out if nothing was.
	Observed *float64 `json:"observed,omitempty"`
	// Unit is what Observed is in: "ms", "share", "/s", "B", "B/s" or "count".
	Unit string `json:"unit" jsonschema:"enum=ms,enum=share,enum=count,enum=/s,enum=B,enum=B/s"`
	Met  bool   `json:"met"`
	// Reason says why it was not met where the figures do not, or in which
	// part of the load; it may be empty.
	Reason string `json:"reason,omitempty"`
}

// Step is what came of one named step.
type Step struct {
	Scenario string `json:"scenario"`
	Name     string `json:"name"`
	Requests uint64 `json:"requests"`
	// Rate is Requests per second of the measured part.
	Rate float64 `json:"rate"`
	// Failed ended with an error, or with a status of 400 and above.
	Failed uint64 `json:"failed"`
	// SentBytes and ReceivedBytes are those of the step's requests and answers, with
	// their headers. Both are 0 in what k6 measured, which does not tell steps apart.
	SentBytes     uint64 `json:"sent_bytes"`
	ReceivedBytes uint64 `json:"received_bytes"`
	// Status has the answers by HTTP status.
	Status  map[int]uint64 `json:"status"`
	Latency Latencies      `json:"latency"`
}

// Journey is what came of the iterations of one scenario.
type Journey struct {
	Scenario   string `json:"scenario"`
	Iterations uint64 `json:"iterations"`
	// BrokenOff of them did not come to their end: a request had no answer, or its
	// answer lacked a value that a later step needs. Those that only paused when the
	// load ended are not among them.
	BrokenOff uint64 `json:"broken_off"`
	// Duration is from the time that the schedule intended for an iteration to its end,
	// pauses included, of those that broke off too.
	Duration Latency `json:"duration"`
	// Computed is how long an iteration takes at the least for users who are a round trip
	// away.
	Computed []roundtrip.JourneyTime `json:"computed,omitempty"`
}

// Machine is where the load generator ran.
type Machine struct {
	// Cores is how many processors the operating system has.
	Cores int `json:"cores"`
	// GOMAXPROCS is how many of them the generator would use at once.
	GOMAXPROCS int `json:"gomaxprocs"`
	// OS is the operating system and the architecture, such as linux/amd64.
	OS string `json:"os"`
}
