package load

import "time"

// The executors, by k6's names.
const (
	ConstantVUs         = "constant-vus"
	RampingVUs          = "ramping-vus"
	ConstantArrivalRate = "constant-arrival-rate"
	RampingArrivalRate  = "ramping-arrival-rate"
)

// The arrival processes of the open model.
const (
	// Poisson draws independent exponential gaps: what many independent
	// users look like, and the default.
	Poisson = "poisson"
	// Uniform spaces arrivals evenly, as k6 does.
	Uniform = "uniform"
)

// Plan is one piece of load, complete: everything that a generator process has
// to know to offer it, and nothing that it would have to ask for. It travels
// to the generator as one line of JSON.
type Plan struct {
	// Targets are the base URLs of the entry service's instances, such as
	// http://127.77.0.2:8080. Connections are dealt to them in turn.
	Targets []string `json:"targets"`

	Scenarios []Scenario `json:"scenarios"`

	// Seed fixes the arrival schedule and the feeds: the same seed offers the
	// same requests at the same times.
	Seed uint64 `json:"seed"`

	// Warmup is the first part of the load. Its requests are sent and not
	// recorded in the Result.
	Warmup time.Duration `json:"warmup"`

	// Timeout bounds one request, connecting included.
	Timeout time.Duration `json:"timeout"`

	// StopOnOverload ends the load early once the work in flight grows
	// without doubt (see Trend), so that a search does not pay for a rate that
	// has already lost.
	StopOnOverload bool `json:"stop_on_overload"`
}

// Scenario is one k6 scenario with every unit resolved: rates are per second.
// Which fields count depends on Executor, as in k6.
type Scenario struct {
	Name     string `json:"name"`
	Executor string `json:"executor"`

	// StartTime delays the scenario within the plan; Duration is that of the
	// constant executors. GracefulStop is how long requests in flight at the
	// end may take before they are cut off and counted as failed.
	StartTime    time.Duration `json:"start_time"`
	Duration     time.Duration `json:"duration"`
	GracefulStop time.Duration `json:"graceful_stop"`

	// Open model. Rate and StartRate are in requests per second; a stage's
	// Target likewise. Arrivals is Poisson or Uniform. MaxVUs bounds the
	// requests under way at once: an arrival that finds none free waits, and is
	// dropped when it has waited for as long as the plan's Timeout.
	Rate            float64 `json:"rate"`
	StartRate       float64 `json:"start_rate"`
	Arrivals        string  `json:"arrivals"`
	PreAllocatedVUs int     `json:"pre_allocated_vus"`
	MaxVUs          int     `json:"max_vus"`

	// Closed model: a stage's Target is a number of virtual users.
	VUs      int `json:"vus"`
	StartVUs int `json:"start_vus"`

	Stages []Stage `json:"stages"`

	Request Request         `json:"request"`
	Feed    map[string]Feed `json:"feed"`
}

// Stage is one leg of a ramp: Target is reached, linearly, after Duration.
type Stage struct {
	Duration time.Duration `json:"duration"`
	Target   float64       `json:"target"`
}

// Request is the request that a scenario repeats. {name} in Path, in a header
// value or in Body is replaced by the next value of the feed of that name.
type Request struct {
	Method string            `json:"method"`
	Path   string            `json:"path"`
	Header map[string]string `json:"header,omitempty"`
	Body   string            `json:"body,omitempty"`
}

// Feed supplies the values of one placeholder.
type Feed struct {
	// Uniform draws whole numbers from [Uniform[0], Uniform[1]], ends included.
	Uniform *[2]int64 `json:"uniform,omitempty"`
	// Sequential counts from Sequential[0] to Sequential[1] and starts again.
	Sequential *[2]int64 `json:"sequential,omitempty"`
}
