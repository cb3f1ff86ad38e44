// Package verdict names what limits a system, with evidence.
//
// A limit is a component and a resource of it: its CPU, a pool, a lock, a queue,
// a stage of a pipeline or its memory. Up to three witnesses look for it in ways that can fail apart
// from each other. Demand works out how much of a resource one iteration takes and
// what throughput that allows (the utilisation law). Saturation looks at who was
// held back: throttled, with all slots in use, with work piling up. How much of its
// CPU share a component used is not enough for that, because demand is worked out
// from the same counter. Perturbation,
// where it was made, says whose throughput moved when a resource was changed.
// Evaluate joins them by the rule that is written there; where the measurement itself
// was the limit, it says so first.
//
// A demand may be that of several visits: a front that calls its store three
// times for each request makes three visits to it, and the store's demand is three
// times what one of them costs (the forced flow law, Denning and Buzen 1978). Visits
// are counted where a service says how many requests it served.
//
// In a pipeline the stages hold each other back, so being busy is not enough. Its
// limit is the first busy stage that is not held back by a later one; see
// stages for the whole rule.
//
// The network is not among the resources. The kernel counts what a process sends
// only for its whole network namespace, and all components share one here, so
// nothing would be known of any one of them. A service that knows its own link
// can declare it as a lock that is held while something is sent.
//
// The package offers no load and reads no files: it judges what it is given.
package verdict

// Input is one variant at capacity. Every figure is the median over trials.
type Input struct {
	// Capacity in iterations per second, which are requests per second where an
	// iteration is one request; 0 if no rate held.
	Capacity float64
	// Unit is what Capacity is in, where that is not requests per second. Demands are
	// then of one of these.
	Unit       string
	Components []Component
	// LowerBound is why capacity is only a lower bound; empty if it is not.
	LowerBound string
	// Missed is why no rate held, where Capacity is 0: what the lowest that was
	// tried missed. It may be empty.
	Missed string
	// MachineBusy is the share of all cores that was in use, 0 to 1, and Cores how many
	// there are; 0 if that is not known.
	MachineBusy float64
	Cores       float64
	// ListenOverflows is how many connections a full backlog turned away each
	// second, in all components together.
	ListenOverflows float64
	// Perturbations are what came of changing resources under steady load;
	// empty if that was not done.
	Perturbations []Perturbation
	// PerturbedRate is what the load of the perturbations carried while nothing was
	// changed, in Unit; 0 if it is not known. Below the capacity it kept nothing at its
	// limit, so that what moved nothing then may limit all the same.
	PerturbedRate float64
	// Carried is what was completed each second at the capacity, in Unit; 0 if it is not known.
	Carried float64
	// Settling is the share of a perturbation's slot, 0 to 1, that may pass until the queues
	// before two components that are both at their limits have moved from one to the other,
	// and throughput follows. SettleSeconds is how long they take, and LongSlots for how many
	// seconds to perturb for slots that are long enough; both are 0 if that is not known.
	Settling      float64
	SettleSeconds float64
	LongSlots     float64
	// Waits are where requests spend their time; empty if that was not seen.
	Waits []Wait
}

// Component is one service at the variant's capacity.
type Component struct {
	Name      string `json:"name"`
	Instances int    `json:"instances"`
	// Unseen is how many of its instances no machine tells of. Figures of CPU and memory are of the others,
	// and 0 where there are none.
	Unseen    int     `json:"unseen,omitempty"`
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

	// What follows is not in results of earlier versions.

	// BoundLow to BoundHigh is the interval of Bound over BoundTrials trials; both
	// are 0 if there are too few.
	BoundLow    float64 `json:"bound_low,omitempty"`
	BoundHigh   float64 `json:"bound_high,omitempty"`
	BoundTrials int     `json:"bound_trials,omitempty"`
	// UserMS and SystemMS are the parts of DemandMS, where the kernel tells.
	UserMS   float64 `json:"user_ms,omitempty"`
	SystemMS float64 `json:"system_ms,omitempty"`
	// HottestMS is the part of DemandMS that falls on the hottest instance.
	HottestMS float64 `json:"hottest_ms,omitempty"`
	// Unenforced says that nothing held its instances to LimitCPUs.
	Unenforced bool `json:"unenforced,omitempty"`
	// ThreadBusy is how much of a core the busiest thread of its hottest instance used, 0
	// to 1, taken anew every second; 0 if it is not known.
	ThreadBusy float64 `json:"thread_busy,omitempty"`
	// Visits is how many requests all its instances served for each iteration; 0
	// if it does not say.
	Visits float64 `json:"visits,omitempty"`
	// RunDelay is how long the hottest instance's threads were ready and did not
	// run, for each second that they ran. Time out of quota is part of it.
	RunDelay float64 `json:"run_delay,omitempty"`
	// Of the instance that was worst off, each second: the share of time in
	// which some of it waited for memory, how often it ran into its limit, and
	// how often it read a page from disk. OOMKills are over the measured part.
	MemoryStall float64 `json:"memory_stall,omitempty"`
	MemoryFails float64 `json:"memory_fails,omitempty"`
	MajorFaults float64 `json:"major_faults,omitempty"`
	OOMKills    uint64  `json:"oom_kills,omitempty"`
	// DiskBytes is what all instances read and wrote, in bytes a second.
	DiskBytes float64    `json:"disk_bytes,omitempty"`
	Resources []Resource `json:"resources,omitempty"`
	// CollectMS is the part of DemandMS that goes into collecting garbage, where a runtime
	// says so by itself.
	CollectMS float64 `json:"collect_ms,omitempty"`
	// Work is what parts of DemandMS go into, as the component counts them.
	Work []Work `json:"work,omitempty"`
	// Stranded is the share of its limit that the hottest instance could not use although it
	// was throttled in every scheduler period, 0 if none: what several threads leave of a
	// quota that the kernel hands out to each core in slices. Bound is without it.
	Stranded float64 `json:"stranded,omitempty"`
	// Missed is how it did at a rate just above the capacity, which was not sustained; nil
	// if none was tried.
	Missed *Missed `json:"missed,omitempty"`
}

// NoneSeen says whether nothing is known of what the component used.
func (c Component) NoneSeen() bool { return c.Unseen > 0 && c.Unseen == c.Instances }

// Missed is the CPU of a component's hottest instance at a rate that was not sustained.
type Missed struct {
	Rate float64 `json:"rate"` // in iterations per second
	// Busy, Throttled and RunDelay are those of Component, at that rate.
	Busy      float64 `json:"busy"`
	Throttled float64 `json:"throttled"`
	RunDelay  float64 `json:"run_delay,omitempty"`
}

// Work is what a part of a component's CPU time goes into, such as serializing.
type Work struct {
	Name string `json:"name"`
	// DemandMS is CPU time per iteration in milliseconds, over all instances.
	DemandMS float64 `json:"demand_ms"`
}

// Resource is a pool, a lock, a queue or a stage of a component, at the variant's
// capacity.
type Resource struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // Pool, Lock, Queue or Stage
	// Capacity is of the hottest instance: slots of a pool, 1 of a lock, what
	// fits into a queue; 0 if unknown.
	Capacity float64 `json:"capacity"`
	// DemandMS is how long one iteration holds a slot or the lock, over all
	// instances (Little's law: slots in use / throughput); of a queue how long
	// its consumer works for an iteration, as far as the queue shows.
	DemandMS float64 `json:"demand_ms"`
	// Bound is as for a Component, with its interval.
	Bound       float64 `json:"bound"`
	BoundLow    float64 `json:"bound_low,omitempty"`
	BoundHigh   float64 `json:"bound_high,omitempty"`
	BoundTrials int     `json:"bound_trials,omitempty"`
	// Busy is the utilisation of the hottest instance, 0 to 1; of a queue that
	// of its consumer, of a stage that of its hottest worker. A stage that does not
	// tell is taken to be busy when what waits for it grows.
	Busy float64 `json:"busy"`
	// Counted says of a queue that Busy is by what its consumer did, and not by how often
	// there was something in the queue.
	Counted bool `json:"counted,omitempty"`
	// NotEmpty is the share of time in which something was in the queue.
	NotEmpty float64 `json:"not_empty,omitempty"`
	// Full is the share of time in which all slots were used, or nothing more
	// fitted into the queue.
	Full float64 `json:"full,omitempty"`
	// Waiting is the mean number of those who wait, and WaitMS how long an
	// iteration did; 0 if it is not told.
	Waiting float64 `json:"waiting,omitempty"`
	WaitMS  float64 `json:"wait_ms,omitempty"`
	// Depth is the mean of what is in a queue or waits for a stage, and Slope by
	// how much it grew each second.
	Depth float64 `json:"depth,omitempty"`
	Slope float64 `json:"slope,omitempty"`
	// Consumer is the service that takes from a queue; empty for its own.
	Consumer string `json:"consumer,omitempty"`
	// After is what a stage takes from, SERVICE.RESOURCE; empty for the first.
	After string `json:"after,omitempty"`
	// Backpressured is the share of time in which a stage's hottest worker could
	// not hand on what it had done; nil if it is not told.
	Backpressured *float64 `json:"backpressured,omitempty"`
	// Workers are those of a stage that tell of themselves, and BusyWorkers those of them that worked for
	// most of the time: as much as a stage does that limits.
	Workers     float64 `json:"workers,omitempty"`
	BusyWorkers float64 `json:"busy_workers,omitempty"`
	// Skew is how many times an even part of the work the hottest worker of a stage does.
	Skew float64 `json:"skew,omitempty"`
	// Rate is what a stage or a queue's consumer did each second.
	Rate float64 `json:"rate,omitempty"`
	// Left is by how much more waited when the load ended than when it began,
	// and Flushed how many were done after it had ended, within FlushSeconds. They
	// are 0 where they are no more than a twentieth of what was done under load.
	Left         float64 `json:"left,omitempty"`
	Flushed      float64 `json:"flushed,omitempty"`
	FlushSeconds float64 `json:"flush_seconds,omitempty"`
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
	Named          = "named"            // most witnesses name the same limit
	Tied           = "tied"             // they name several that limit equally
	Undecided      = "undecided"        // they do not, or have no evidence
	LowerBoundOnly = "lower bound only" // the measurement was the limit
)

// The kinds of resource. Each component has a CPU, threads and memory; the others are
// what its x-resources say.
const (
	CPU    = "cpu"
	Pool   = "pool"
	Lock   = "lock"
	Queue  = "queue"
	Stage  = "stage"
	Memory = "memory"
	Thread = "thread" // the busiest one: more than one core is of no use to it
)

// Limit is a resource of a component.
type Limit struct {
	Component string `json:"component"`
	Resource  string `json:"resource"`       // its kind
	Name      string `json:"name,omitempty"` // of a pool, lock, queue or stage
}

// Verdict is what limits a variant.
type Verdict struct {
	Status string `json:"status"`
	// Component, Resource (its kind) and ResourceName (of a pool, lock, queue
	// or stage) are what limits, if it is named.
	Component    string    `json:"component,omitempty"`
	Resource     string    `json:"resource,omitempty"`
	ResourceName string    `json:"resource_name,omitempty"`
	Summary      string    `json:"summary"` // a few sentences for a person
	Witnesses    []Witness `json:"witnesses"`
	// Tied are those that limit equally.
	Tied []Limit `json:"tied,omitempty"`
	// Agreement is how many of the witnesses that were heard name it, which of them
	// cannot distinguish it from what, and which name nothing: "2/3", or
	// "2/4 (demand cannot distinguish it from b; saturation and waiting name nothing)".
	Agreement string `json:"agreement,omitempty"`
	// Dissent are the witnesses that name something else instead. One that names nothing
	// does not contradict, and is not among them; nor is that of where requests wait, as
	// they may wait in front of what limits.
	Dissent []string `json:"dissent,omitempty"`
	// Located is where requests wait, where that was seen. It names no resource: of what is
	// waited for there may be nothing known.
	Located *Located `json:"located,omitempty"`
	// Advice is what to change first, and what the bounds expect of it.
	Advice string `json:"advice,omitempty"`
}

// Witness is one independent line of evidence.
type Witness struct {
	Name      string `json:"name"`                // demand, saturation or perturbation
	Component string `json:"component,omitempty"` // whom it names; empty for nobody
	Resource  string `json:"resource,omitempty"`
	Evidence  string `json:"evidence"` // its numbers, in one sentence
	// ResourceName is that of a pool, lock, queue or stage.
	ResourceName string `json:"resource_name,omitempty"`
	// Tied are those that it cannot tell apart; it names no component then.
	Tied []Limit `json:"tied,omitempty"`
}

// named are those that it has a voice for.
func (w *Witness) named() []Limit {
	if w.Component == "" {
		return w.Tied
	}
	return []Limit{{w.Component, w.Resource, w.ResourceName}}
}
