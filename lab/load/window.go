package load

import "time"

// Window is one second of a load, the warm-up included, sent while it runs.
type Window struct {
	Start    time.Time `json:"start"`
	Warmup   bool      `json:"warmup"`
	Requests uint64    `json:"requests"`
	Failed   uint64    `json:"failed"`
	Late     uint64    `json:"late"`
	Dropped  uint64    `json:"dropped"`
	InFlight int       `json:"in_flight"`
	// Iterations ended in the window; Checks and CheckFails are checks made and
	// those that did not hold.
	Iterations uint64 `json:"iterations"`
	Checks     uint64 `json:"checks,omitempty"`
	CheckFails uint64 `json:"check_fails,omitempty"`
	// Sent and Received are bytes, as in Result.
	Sent     uint64 `json:"sent_bytes"`
	Received uint64 `json:"received_bytes"`
	// Errors counts failures by kind.
	Errors map[string]uint64 `json:"errors,omitempty"`
	// Busy is the generator's CPU time over the window's, in cores.
	Busy float64 `json:"busy"`
	// Seconds is the window's length: 1, or less where a load ends in between.
	Seconds float64 `json:"seconds"`
	// Steps is there if the plan has more than one step.
	Steps []WindowStep `json:"steps,omitempty"`
	// Journeys is there if it is in the Result: each scenario, also where no iteration
	// ended.
	Journeys []WindowJourney `json:"journeys,omitempty"`
	// Drain says that the window begins at or after the end of the measured
	// part (Result.To): nothing is offered, and what was under way ends.
	Drain bool `json:"drain,omitempty"`
	// Response and Service are HdrHistograms of the requests that ended in the
	// window, encoded as in an HdrHistogram log (V2, compressed, base64).
	// Values are microseconds.
	Response string `json:"response"`
	Service  string `json:"service"`
}

// WindowJourney is one scenario's iterations in a Window.
type WindowJourney struct {
	Scenario   string `json:"scenario"`
	Iterations uint64 `json:"iterations"`
	Duration   string `json:"duration,omitempty"` // as in Window; empty without iterations
}

// WindowStep is one step's part of a Window. Steps in which nothing ended are
// left out.
type WindowStep struct {
	Scenario string `json:"scenario"`
	Name     string `json:"name"`
	Requests uint64 `json:"requests"`
	Failed   uint64 `json:"failed"`
	GRPC     bool   `json:"grpc,omitempty"` // the requests are calls of gRPC
	Response string `json:"response"`       // as in Window
	Service  string `json:"service"`
}
