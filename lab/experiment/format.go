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

	// Path of the Compose file, relative to this file, or a list of paths that are
	// merged in order, as by docker compose -f A -f B.
	System Files `json:"system"`

	// The profiles of the Compose file that are enabled: none if not given,
	// whatever COMPOSE_PROFILES says.
	Profiles []string `json:"profiles,omitempty"`

	// The service that takes the load.
	Entry string `json:"entry"`

	// What is compared: for each name a Compose override of the system, {} for
	// the system as it is. The first is the baseline. With sweep there is one, which
	// all sizes are made from, or none.
	Variants Variants `json:"variants,omitempty"`

	// Instead of variants: one service in several sizes, each of which becomes a
	// variant, named as in replicas-3 or cpus-0.25.
	Sweep *Sweep `json:"sweep,omitempty"`

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

	// What is done to the system on purpose while it is under load, in order of
	// time and one after the other. Only for measure: load.
	Faults []Fault `json:"faults,omitempty"`

	// Prometheus metrics to follow over the load, each by a name of your own,
	// with bounds if they are to stay within some. Only for measure: load.
	Watch Watches `json:"watch,omitempty"`

	// How often each variant is started fresh and measured. A 95 % interval
	// takes at least 6.
	Trials int `json:"trials" jsonschema:"minimum=1,maximum=1000"`

	// Fixes the arrival times, the feeds and the order of the trials: the same
	// seed offers the same load.
	Seed uint64 `json:"seed,omitempty" jsonschema:"minimum=0,default=1"`

	// How measure: capacity searches. Every key has a default that serves.
	Search Search `json:"search,omitzero"`

	// Whether one trial of each variant ends with a perturbation experiment: under
	// steady load each component is given a little less and more CPU, to see which
	// of them limits. true, false, or how long it may take; if not given, it is
	// done where it makes a run at most a third longer. Only for measure: capacity.
	Perturb Perturb `json:"perturb,omitzero"`

	document
}

// Files are paths of Compose files.
type Files []string

// Fault is one thing that is done to the system: exactly one of kill, stop,
// pause and exec.
type Fault struct {
	// When, from the beginning of the load, its warm-up included: 2s at least.
	At time.Duration `json:"at"`

	// The service of which instances are killed (SIGKILL), and started again
	// after for.
	Kill string `json:"kill,omitempty"`

	// The service of which instances are stopped by their stop signal, and
	// started again after for.
	Stop string `json:"stop,omitempty"`

	// The service of which instances stand still for a time: they neither answer
	// nor refuse.
	Pause string `json:"pause,omitempty"`

	// A command that is run against service, as a list of its words. Variables
	// are filled in as in the Compose file, as in ${REDIS_HOST:-redis}.
	Exec []string `json:"exec,omitempty"`

	// The service in whose place exec runs: with its environment, user and
	// working directory.
	Service string `json:"service,omitempty"`

	// The number of the instance, from 1. If not given, kill, stop and pause are
	// done to all instances of the service at once, and exec to the first.
	Instance int `json:"instance,omitempty" jsonschema:"minimum=1"`

	// After how long the instances come back. If not given, they stay away until
	// the load ends.
	For time.Duration `json:"for,omitempty"`

	// How long exec may take. A command that fails or takes longer fails the
	// trial.
	Timeout time.Duration `json:"timeout,omitempty" jsonschema:"default=30s"`
}

// Watches are the metrics to follow, in the order of the file.
type Watches []Watch

// Watch is one metric to follow, summed over the instances of its service.
type Watch struct {
	Name string `json:"-"`

	// The metric as the service publishes it, with labels if not all of its
	// series are meant: cache_hits_total{tier="redis"}.
	Metric string `json:"metric"`

	// The service that publishes it, on the port of its label prometheus.io/port.
	Service string `json:"service"`

	// rate follows how much a counter grows per second, value where a gauge
	// stands.
	As string `json:"as" jsonschema:"enum=rate,enum=value"`

	// What the metric must meet in every second of the load: thresholds as under
	// slo, with min, avg, med, max and p(N), such as max<2000.
	SLO []string `json:"slo,omitempty"`
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

// Sweep is one service in several sizes: replicas or cpus. The first of the list
// is the baseline.
type Sweep struct {
	// The service that grows.
	Service string `json:"service"`

	// Its numbers of instances, from 1 to 1000.
	Replicas []int `json:"replicas,omitempty"`

	// The shares of a CPU that each of its instances gets.
	CPUs []float64 `json:"cpus,omitempty"`

	// A rate, such as 4000/s: the report then says which is the smallest size that
	// carries it. Only for measure: capacity.
	Carry Rate `json:"carry,omitempty"`
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

// Perturb says whether and for how long to perturb.
type Perturb struct {
	// How long it may take, for each variant: at least 10s. It ends earlier once
	// its intervals are narrow.
	Budget time.Duration `json:"budget,omitempty" jsonschema:"default=30s"`

	// Asked and Off are true and false in the file; neither is the default.
	Asked bool `json:"-"`
	Off   bool `json:"-"`
}

// Share is a part of one: 0.05 is 5 %.
type Share float64
