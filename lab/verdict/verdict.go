// Package verdict names the component that limits a system, with evidence.
//
// Two witnesses look at the same measurements, taken at capacity, in two ways
// that can fail apart from each other. Demand reads how much CPU one request
// costs each component and works out the throughput that the component's share
// allows (the utilisation law). Saturation looks at who was held back: throttled
// by the scheduler, or busy to the brim. Judge names a component only where
// they agree; where the measurement itself was the limit, it says so first.
//
// The package offers no load and reads no files: it judges what it is given.
package verdict

// Input is one variant at capacity. Every figure is the median over trials.
type Input struct {
	// Capacity in iterations per second, which are requests per second where an
	// iteration is one request; 0 if no rate held.
	Capacity float64
	// Several says that an iteration is several requests, so that rates and
	// demands are not about requests.
	Several    bool
	Components []Component
	// LowerBound is why capacity is only a lower bound; empty if it is not.
	LowerBound string
	// MachineBusy is the share of all cores that was in use, 0 to 1.
	MachineBusy float64
}

// Component is one service at the variant's capacity.
type Component struct {
	Name      string  `json:"name"`
	Instances int     `json:"instances"`
	LimitCPUs float64 `json:"limit_cpus"` // of one instance; 0 if unlimited
	// DemandMS is CPU time per iteration in milliseconds: of the whole
	// component, over all its instances.
	DemandMS float64 `json:"demand_ms"`
	// Bound is the highest throughput, in iterations per second, that its CPU
	// share allows by the utilisation law; 0 if it has no share.
	Bound float64 `json:"bound"`
	// Busy is the share of its CPU limit that the hottest instance used, 0 to 1.
	Busy float64 `json:"busy"`
	// Throttled is the share of scheduler periods in which the hottest
	// instance was throttled, 0 to 1.
	Throttled   float64 `json:"throttled"`
	MemoryBytes uint64  `json:"memory_bytes"` // of the largest instance
}

// Bound is the throughput at which the hottest of a component's instances
// reaches its limit, in iterations per second: the utilisation law, U = X·D,
// solved for X at U = limit (Denning and Buzen 1978). hottest is the CPU
// seconds that this instance used while the system completed so many iterations.
func Bound(limitCPUs, hottest, iterations float64) float64 {
	if hottest <= 0 || iterations <= 0 {
		return 0
	}
	return limitCPUs * iterations / hottest
}

// The states of a verdict.
const (
	Named          = "named"            // the witnesses agree
	Undecided      = "undecided"        // they do not, or have no evidence
	LowerBoundOnly = "lower bound only" // the measurement was the limit
)

// CPU is the resource that both witnesses know.
const CPU = "cpu"

// Verdict is what limits a variant.
type Verdict struct {
	Status    string    `json:"status"`
	Component string    `json:"component,omitempty"`
	Resource  string    `json:"resource,omitempty"`
	Summary   string    `json:"summary"` // one sentence for a person
	Witnesses []Witness `json:"witnesses"`
}

// Witness is one independent line of evidence.
type Witness struct {
	Name      string `json:"name"`                // demand or saturation
	Component string `json:"component,omitempty"` // whom it names; empty for nobody
	Resource  string `json:"resource,omitempty"`
	Evidence  string `json:"evidence"` // its numbers, in one sentence
}
