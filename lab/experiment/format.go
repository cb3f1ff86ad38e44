package experiment

import "time"

// The doc comments of the types in this file and in formatload.go are also the descriptions in the
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
	// expressions, such as http_req_duration: [p(95)<200]. With a selector, as
	// in http_req_duration{step:login}, it is about that part of the load; with
	// " over 10s" at its end a threshold must hold in every 10 s of it.
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

	document
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
