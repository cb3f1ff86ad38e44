// Package result has the words of a result: what a run found, as types, and
// their one form on disk, result.json.
//
// lab/analysis derives a Result from a run's directory; lab/predict, lab/compare
// and lab/report read it. The package measures nothing, decides nothing and lays
// nothing out: its methods only state what a Result holds.
package result

import (
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/host"
	"loadstone/lab/load/roundtrip"
	"loadstone/lab/stats"
	"loadstone/lab/verdict"
)

// Schema names the version of Result's JSON form. It changes when a reader of
// an older form could misread a newer one.
const Schema = "loadstone.result/1"

// Result is what a run found: the content of result.json, and all that the
// terminal summary and report.html show. It is derived from a run's raw data
// and can be derived again.
type Result struct {
	Schema      string      `json:"schema"`
	Experiment  string      `json:"experiment"`
	Question    string      `json:"question,omitempty"`
	Seed        uint64      `json:"seed"`
	Started     time.Time   `json:"started"`
	Finished    time.Time   `json:"finished"`
	Environment Environment `json:"environment"`
	Measure     string      `json:"measure"` // capacity or load
	SLO         []SLO       `json:"slo"`     // as written; per variant: Variant.SLO
	// Unit is what rates are in: RequestsPerSecond, which a result without it is
	// in, IterationsPerSecond where an iteration is several requests, or connections,
	// messages/s or rooms where those rise with WebSocket clients. Demand is then of one
	// of these too: of a connection, or a room, that lasts for a second.
	Unit string `json:"unit,omitempty"`
	// WarmupSeconds is for how long each trial was under load before anything was
	// measured, as the experiment asks.
	WarmupSeconds float64      `json:"warmup_seconds,omitempty"`
	Variants      []Variant    `json:"variants"`
	Comparisons   []Comparison `json:"comparisons"`
	// Others are those of variants that are not the baseline, each with those before it; only of
	// a run whose variants were compared jointly.
	Others   []Comparison `json:"others,omitempty"`
	Warnings []string     `json:"warnings"`
	// Partial says of a run that is not whole what there is of it and why, such
	// as "7 of 24 trials; the run was stopped". Warnings has it too.
	Partial string `json:"partial,omitempty"`
	// Scaling is how capacity grew with size, if the experiment swept one.
	Scaling *Scaling `json:"scaling,omitempty"`
	// Source is the experiment file as it was run.
	Source string `json:"source,omitempty"`
}

// Environment is the machine and the versions that the numbers belong to.
type Environment struct {
	archive.Environment

	// ProbeCPU is what watching cost, in cores, while load ran.
	ProbeCPU float64 `json:"probe_cpu"`
	// Speed is the machine's over the trials, whose own are Figure.Speed; nil if no trial has
	// one.
	Speed *SpeedRange `json:"speed,omitempty"`
}

// Variant is what was found about one variant over its trials.
type Variant struct {
	Name   string `json:"name"`
	Trials int    `json:"trials"`
	// Asked is the load as written, in a few words: the same where two variants were to get
	// the same, whatever came of it. Empty when the run searched the capacity.
	Asked string `json:"asked,omitempty"`
	// Capacity has the result's Unit; absent (nil) when the run measured load as written.
	Capacity *Estimate `json:"capacity,omitempty"`
	// PerTrial are the trials' capacities in the order they ran.
	PerTrial []float64 `json:"per_trial"`
	// Figures are what each trial found by itself, in the order they ran.
	Figures []Figure `json:"figures,omitempty"`
	// Latency is that at capacity: the median over trials of each figure.
	Latency    LatencyPair         `json:"latency"`
	Rate       float64             `json:"rate"`   // offered at that point, in the result's Unit
	Failed     float64             `json:"failed"` // share of requests that failed there
	Components []verdict.Component `json:"components"`
	Verdict    verdict.Verdict     `json:"verdict"`
	SLO        []SLO               `json:"slo"`
	Warnings   []string            `json:"warnings"`
	// Steps are the requests by scenario and step at that point, in the plan's order:
	// the median over trials of each figure.
	Steps []Step `json:"steps,omitempty"`
	// Journeys are the iterations by scenario at that point, of scenarios of which one
	// is more than a request.
	Journeys []Journey `json:"journeys,omitempty"`
	// Curve has every rate that was tried, over all trials, by rising rate.
	Curve []CurvePoint `json:"curve"`
	// Timeline is CPU over time of one trial, the one of median capacity.
	Timeline Timeline `json:"timeline"`
	// Ratios are named ratios of counters that the components published over
	// the measured part, such as a cache's hit ratio.
	Ratios []Ratio `json:"ratios,omitempty"`
	// Faults are what was done to the variant on purpose, and what that cost.
	Faults []Fault `json:"faults,omitempty"`
	// Course is one trial second by second, if the experiment has faults or
	// watched metrics: the one that the faults cost most.
	Course *Course `json:"course,omitempty"`
	// Generator is the load generator's own CPU at capacity, in cores.
	Generator float64 `json:"generator"`
	// Conditions are what the figures rest on; nil in results of earlier versions.
	Conditions *Conditions `json:"conditions,omitempty"`
	// Hops is where requests wait at the capacity, as seen from outside; nil if it is not
	// known, as of earlier versions.
	Hops *Hops `json:"hops,omitempty"`
	// Perturbation is the experiment of the third method, if it was made.
	Perturbation *Perturbation `json:"perturbation,omitempty"`
}

// Conditions are the circumstances under which a variant was measured. Each is
// the median over trials, at capacity or under the load as written, and
// GapSeconds the most.
type Conditions struct {
	// Unwatched says that the machine was not seen: what follows of it is 0.
	Unwatched   bool    `json:"unwatched,omitempty"`
	MachineBusy float64 `json:"machine_busy"` // share of all cores in use, 0 to 1
	ProbeCPU    float64 `json:"probe_cpu"`    // what watching cost, in cores
	// Outside is what the machine did for neither the system, nor the load
	// generator, nor watching, in cores: other processes, other guests, and the
	// kernel where it works for nobody in particular.
	Outside float64 `json:"outside_cpu"`
	// Interrupts and Stolen are parts of Outside: what the kernel did for interrupts, those of
	// the load's own packets included, and what the hypervisor gave to other guests. Outsiders
	// are the processes outside the run that used most CPU, on average over whole trials.
	Interrupts float64        `json:"interrupts_cpu,omitempty"`
	Stolen     float64        `json:"stolen_cpu,omitempty"`
	Outsiders  []host.Process `json:"outsiders,omitempty"`
	// Working is the share of the time that the generator's busiest event loop
	// was at work, 0 to 1. Late is the share of arrivals that it sent more than
	// 5 ms after their time although it could have sent them, and LateMS the 99th
	// percentile of its delays in milliseconds.
	Working float64 `json:"generator_working"`
	Late    float64 `json:"generator_late"`
	LateMS  float64 `json:"generator_late_ms"`
	// Invalid is of each trial whose measurement was not valid the first reason, as the
	// load generator's summary gives it (load.Result.Validity).
	Invalid []string `json:"invalid,omitempty"`
	// SampleSeconds is the usual time between two looks at the system, and
	// GapSeconds the longest: much more where the machine stood still, its time
	// was given to others, or its clock was set.
	SampleSeconds float64 `json:"sample_seconds"`
	GapSeconds    float64 `json:"gap_seconds"`
}

// Perturbation is one trial in which resources were changed by known steps
// under steady load, and what that did to the whole system.
type Perturbation struct {
	Trial   int               `json:"trial"` // its number within the run, from 1
	Slots   []PerturbedSlot   `json:"slots"` // in order of time
	Effects []PerturbedEffect `json:"effects"`
	// CostCPU is what watching and perturbing cost together while it lasted, in
	// cores, and MachineBusy the share of all cores in use then; both are 0 if
	// that is not known.
	CostCPU     float64 `json:"cost_cpu"`
	MachineBusy float64 `json:"machine_busy"`
}

// PerturbedSlot is a stretch of load under one setting.
type PerturbedSlot struct {
	At      float64 `json:"at"` // seconds since the first began
	Seconds float64 `json:"seconds"`
	// Set is how long after At the setting was in force, in seconds.
	Set float64 `json:"set"`
	// Targets are what was changed, as "api cpu", to Factor times what it has
	// otherwise; none where nothing was.
	Targets    []string `json:"targets,omitempty"`
	Factor     float64  `json:"factor"`
	Throughput float64  `json:"throughput"` // requests per second that did not fail
	P95        float64  `json:"p95"`        // of response time, ms
}

// PerturbedEffect is by how many per cent throughput and the 95th percentile
// changed for one per cent more of what the targets have: d ln X / d ln c.
type PerturbedEffect struct {
	Targets    []string `json:"targets"` // changed together if there are several
	Throughput Estimate `json:"throughput"`
	P95        Estimate `json:"p95"`
	Blocks     int      `json:"blocks"` // pairs of slots that it is from
}

// Estimate is a measured value with its interval.
//
// That of a capacity holds the edge of what the system sustains. Value is the median
// of the highest rates that held in its trials, Low one of these rates, and High
// one of the lowest rates that did not hold.
type Estimate struct {
	stats.Interval

	Unit string `json:"unit"`
	// LowerBound is true where the measurement ended before the system did:
	// the system sustains at least Value.
	LowerBound bool `json:"lower_bound"`
}

// LatencyPair is response time (from the intended start) and service time
// (from the send) side by side.
type LatencyPair struct {
	Response Percentiles `json:"response"`
	Service  Percentiles `json:"service"`
}

// Percentiles are in milliseconds.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Step is one named request of an iteration.
type Step struct {
	Scenario string `json:"scenario"`
	Name     string `json:"name"`
	// PerIteration is how many of these requests were made for each iteration of
	// the load.
	PerIteration float64 `json:"per_iteration"`
	Failed       float64 `json:"failed"` // share of them
	// Sent and Received are bytes on the wire of one request and of its answer,
	// with headers, without TLS, TCP and IP. They are 0 in what k6 measured, which
	// does not tell steps apart.
	Sent     float64     `json:"sent_bytes"`
	Received float64     `json:"received_bytes"`
	Response Percentiles `json:"response"`
}

// Journey is the iterations of one scenario.
type Journey struct {
	Scenario  string  `json:"scenario"`
	BrokenOff float64 `json:"broken_off"` // the share that did not come to its end
	// Duration is from an iteration's intended start to its end.
	Duration Percentiles `json:"duration"`
	// Calls are the requests of an iteration, on average. Sent and Received are the bytes on
	// the wire of all of them and of their answers, as in Step.
	Calls    float64 `json:"calls"`
	Sent     float64 `json:"sent_bytes"`
	Received float64 `json:"received_bytes"`
	// Far is how long an average iteration takes over phones' networks; none if that is not
	// known.
	Far []roundtrip.JourneyTime `json:"far,omitempty"`
	// Cache is what users' caches did, zero if they have none.
	Cache Cache `json:"cache,omitzero"`
}

// Cache is what users' caches did for an average iteration.
type Cache struct {
	// Hits were answered without a request. Revalidations were requests for what had not
	// changed, and Fetched those that brought a whole answer.
	Hits          float64 `json:"hits"`
	Revalidations float64 `json:"revalidations"`
	Fetched       float64 `json:"fetched"`
	// LargestBytes is the most that one user's cache held.
	LargestBytes float64 `json:"largest_bytes"`
}

// The units of rates.
const (
	RequestsPerSecond   = "req/s"
	IterationsPerSecond = "iterations/s"
)

// SLO is one objective and, for a variant, what became of it at capacity. Several trials
// are judged by the middle one, and of an even number by the worse of the two in the
// middle: Observed is that trial's, and Met says that it was met in more than half of them.
type SLO struct {
	Metric    string  `json:"metric"`
	Threshold string  `json:"threshold"` // "p(95)<200"
	Observed  float64 `json:"observed"`
	Met       bool    `json:"met"`
	// Trials is how many were judged, and Crossed how many of them did not meet it.
	Trials  int `json:"trials,omitempty"`
	Crossed int `json:"crossed,omitempty"`
}

// Comparison is a variant's capacity divided by the baseline's, by where all attempts of each trial
// put it (see Figure.Compared), so that it need not be the quotient of the two capacities. P is that of an
// exact rank test (package compare), corrected for the number of comparisons of
// the run (Holm). The intervals of a run are simultaneous: all of them together hold the
// true ratios at Confidence.
type Comparison struct {
	Variant    string  `json:"variant"`
	Baseline   string  `json:"baseline"`
	Ratio      float64 `json:"ratio"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"`
	P          float64 `json:"p"`
	// Significant says that equals look this different in one run of 20 at most.
	// It is false too where one of the two is a lower bound, and may be on the
	// other side of 1.
	Significant bool `json:"significant"`
	// Joint says that all pairs of the run's variants were compared together, round by round:
	// the test agrees with the interval, and all of them hold at the confidence.
	Joint bool `json:"joint,omitempty"`
	// Needed is how many trials of each variant the test takes at least, corrected
	// for the comparisons of the run, where this run has fewer: nothing that it could
	// have measured would be Significant. It is 0 where there are enough.
	Needed int `json:"needed,omitempty"`
}

// CurvePoint is one rate that was tried.
type CurvePoint struct {
	Trial   int     `json:"trial"`
	Rate    float64 `json:"rate"` // offered, in the result's Unit
	P50     float64 `json:"p50"`  // response time, ms
	P95     float64 `json:"p95"`
	P99     float64 `json:"p99"`
	Held    bool    `json:"held"`
	Reason  string  `json:"reason,omitempty"` // why not
	Seconds float64 `json:"seconds"`
}

// Timeline is CPU use over one trial, at most about 200 points.
type Timeline struct {
	Trial   int       `json:"trial"`
	Seconds []float64 `json:"seconds"` // since the trial's start
	// Rate is the rate offered at each point, 0 between probes.
	Rate   []float64        `json:"rate"`
	Series []TimelineSeries `json:"series"`
}

// TimelineSeries is the CPU use of one instance, or of the generator, in cores.
type TimelineSeries struct {
	Name      string    `json:"name"` // api-1
	LimitCPUs float64   `json:"limit_cpus"`
	CPU       []float64 `json:"cpu"`
}

// Ratio is a ratio of counters over the measured part.
type Ratio struct {
	Name      string  `json:"name"`
	Component string  `json:"component"`
	Value     float64 `json:"value"`
}
