package experiment

import "time"

// The doc comments of the types in this file are also the descriptions in the
// JSON Schema, where an editor shows them while somebody writes an experiment:
// they speak of the file, by the names that the file uses.

// Experiment is a system, the variants to choose between, the load to offer,
// the objective that the variants must meet, and how to measure it.
type Experiment struct {
	// Names the experiment and the directories of its runs: letters, digits,
	// dots, dashes and underscores, at most 63.
	Name string `json:"name"`

	// What the experiment is to answer, in one sentence. It heads the report.
	Question string `json:"question,omitempty"`

	// Path of the Compose file, relative to this file.
	System string `json:"system"`

	// The service that takes the load.
	Entry string `json:"entry"`

	// What is compared: for each name a Compose override of the system, {} for
	// the system as it is. The first is the baseline.
	Variants Variants `json:"variants"`

	// What is offered to every variant.
	Load Offer `json:"load"`

	// What every variant must meet: for each metric a list of k6's threshold
	// expressions, such as http_req_duration: [p(95)<200].
	SLO SLO `json:"slo,omitempty"`

	// capacity searches the highest rate at which the SLO holds; load drives
	// the scenarios exactly as written.
	Measure string `json:"measure" jsonschema:"enum=capacity,enum=load"`

	// How often each variant is started fresh and measured. A 95 % interval
	// takes at least 6.
	Trials int `json:"trials" jsonschema:"minimum=1,maximum=1000"`

	// Fixes the arrival times, the feeds and the order of the trials: the same
	// seed offers the same load.
	Seed uint64 `json:"seed,omitempty" jsonschema:"minimum=0,default=1"`

	// How measure: capacity searches. Every key has a default that serves.
	Search Search `json:"search,omitzero"`

	file   string
	source []byte
	root   *node
}

// Variants are the variants in the order of the file.
type Variants []Variant

// Variant is the system with one Compose override applied.
type Variant struct {
	Name string
	// Overlay is the override as YAML, with the interpolations and the Compose
	// tags (!reset, !override) of the file and with its aliases resolved.
	Overlay []byte
}

// Offer is what is offered to every variant.
type Offer struct {
	// k6's scenarios by name.
	Scenarios Scenarios `json:"scenarios"`

	// How long one request may take, connecting included, and how long an
	// arrival waits for a free virtual user before it is dropped.
	Timeout time.Duration `json:"timeout,omitempty" jsonschema:"default=5s"`
}

// Scenarios are the scenarios in the order of the file.
type Scenarios []Scenario

// Scenario is one of k6's scenarios, with k6's options by k6's names, and the
// request that it repeats.
type Scenario struct {
	Name string `json:"-"`

	// How the load is shaped, by k6's names. The arrival-rate executors start
	// requests at a rate, whatever the system answers (open model); the vus
	// executors keep a number of virtual users busy (closed model).
	Executor string `json:"executor" jsonschema:"enum=constant-vus,enum=ramping-vus,enum=constant-arrival-rate,enum=ramping-arrival-rate"`

	// The request that is repeated: "GET /path", or method, path, headers and
	// body. {name} in the path, a header value or the body takes the next value
	// of the feed of that name.
	Request Request `json:"request"`

	// Where the values of the request's {placeholders} come from.
	Feed map[string]Feed `json:"feed,omitempty"`

	// How long after the start of the load this scenario starts.
	StartTime time.Duration `json:"startTime,omitempty" jsonschema:"default=0s"`

	// How long requests under way at the end may take before they are cut off.
	GracefulStop time.Duration `json:"gracefulStop,omitempty" jsonschema:"default=30s"`

	// How long the load lasts. measure: capacity chooses it itself.
	Duration time.Duration `json:"duration,omitempty"`

	// How many requests start: 5000/s, 300/m or 1/h; a bare number beside
	// timeUnit. For measure: capacity it is where the search starts.
	Rate Rate `json:"rate,omitempty"`

	// The rate at the start of the first stage, 0/s if not given. For measure:
	// capacity it is where the search starts.
	StartRate Rate `json:"startRate,omitempty"`

	// What rates without a unit are counted by, as in k6: rate: 300 with
	// timeUnit: 1m is 300/m.
	TimeUnit time.Duration `json:"timeUnit,omitempty"`

	// The legs of the ramp, one after the other.
	Stages []Stage `json:"stages,omitempty"`

	// poisson spaces arrivals as many independent users do; uniform spaces them
	// evenly, as k6 does.
	Arrivals string `json:"arrivals,omitempty" jsonschema:"enum=poisson,enum=uniform,default=poisson"`

	// How many virtual users are made before the load starts: 64 if not given,
	// or maxVUs where that is lower.
	PreAllocatedVUs int `json:"preAllocatedVUs,omitempty" jsonschema:"minimum=1,maximum=1000000"`

	// How many requests may be under way at once: preAllocatedVUs if only that
	// is given, as in k6, and 1024 if neither is.
	MaxVUs int `json:"maxVUs,omitempty" jsonschema:"minimum=1,maximum=1000000"`

	// How many virtual users repeat the request, each after its last answer.
	VUs int `json:"vus,omitempty" jsonschema:"minimum=1,maximum=1000000"`

	// The number of virtual users at the start of the first stage.
	StartVUs int `json:"startVUs,omitempty" jsonschema:"minimum=0,maximum=1000000,default=1"`
}

// Stage is one leg of a ramp.
type Stage struct {
	// How long the leg takes; 0s jumps to the target at once.
	Duration time.Duration `json:"duration"`
	// What the leg ends at: a rate such as 5000/s (a bare number beside
	// timeUnit), or a number of virtual users.
	Target Target `json:"target"`
}

// Target is what a stage ends at: requests per second for the arrival-rate
// executors, else virtual users.
type Target float64

// Rate is in requests per second.
type Rate float64

// Request is the request that a scenario repeats, written in full.
type Request struct {
	// The HTTP method, in capitals.
	Method string `json:"method"`
	// The path and query, such as /student/{id}?lang=en.
	Path string `json:"path"`
	// Header fields by name.
	Headers map[string]string `json:"headers,omitempty"`
	// The body as text.
	Body string `json:"body,omitempty"`
}

// Feed supplies the values of one placeholder: exactly one of its keys.
type Feed struct {
	// Draws whole numbers at random from the first to the second, both included.
	Uniform *[2]int64 `json:"uniform,omitempty"`
	// Counts from the first to the second, both included, and starts again.
	Sequential *[2]int64 `json:"sequential,omitempty"`
}

// Search says how measure: capacity searches.
type Search struct {
	// How much load one trial may offer in total, probes and confirmation
	// together; starting the variant is not counted.
	Budget time.Duration `json:"budget,omitempty" jsonschema:"default=11s"`

	// How close the search gets to the capacity: 5% or 0.05.
	Tolerance Share `json:"tolerance,omitempty"`

	// The highest rate that is tried. A variant that bears it is reported as
	// bearing at least that.
	MaxRate Rate `json:"maxRate,omitempty"`
}

// Share is a part of one: 0.05 is 5 %.
type Share float64

// SLO is what a variant must meet, in the order of the file.
type SLO []Objective

// Objective is what one metric must meet: all of its thresholds.
type Objective struct {
	Metric     string
	Thresholds []Threshold
}
