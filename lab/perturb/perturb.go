// Package perturb is the third method of the verdict: while steady load is
// offered, it changes what one component has (its CPU share, a pool's size) by
// known steps, and sees how throughput and latency answer. A component whose
// share does not matter does not limit the system, however busy it looks.
//
// It is a plan of slots, an estimate of elasticities from them, and a Session
// that carries the plan out as the load's windows arrive. It starts no system
// and offers no load, and what the elasticities mean is the verdict's business.
//
// Outline. The slots are
//
//	U  A+ A−  U  B− B+  U  C+ C−  U …
//
// with U unperturbed (at least a third) and the order of components and of
// signs random. A block is two slots of one component, opposite in sign, and
// the unperturbed ones around it. The two are compared with the line between
// those, so that slow drift is removed, and what the line itself is wrong by
// nearly cancels because the signs are opposite. Each block gives one elasticity;
// see Estimate. Components that are busy are perturbed by themselves, all others
// together as one: if together they do not matter, none of them does. If they
// do, each is perturbed by itself from then on.
//
// What waits before one component has to move before throughput follows another: until
// the queue of the second of two that limit equally is worked off, less of the first does
// not show, and the first alone looks as if it did not matter. So where responses are slow,
// the first part of every slot is left out, for as long as queues take; see Config.lengths.
//
// The load is closed, with enough virtual users that the limit is never idle.
// Open load below capacity would not do: its throughput is what is offered and
// answers no step upwards. In closed load of N users the mean latency is
// N / throughput (Little's law) and tells nothing more; the 95th percentile is
// estimated because it can.
package perturb

import (
	"context"
	"strings"
	"time"
)

// The resources that this package changes by itself.
const (
	// CPU is a component's share of CPU time.
	CPU = "cpu"
	// Pool is the number of slots of a pool that takes a new size while it runs.
	Pool = "pool"
)

// Target is what a perturbation is about.
type Target struct {
	Component string `json:"component"` // a service, all instances of it
	Resource  string `json:"resource"`  // CPU or Pool
	// Name is that of a pool, as x-resources call it.
	Name string `json:"name,omitempty"`
}

// String is how a person is told: api cpu, or api pool connections.
func (t Target) String() string {
	return strings.TrimSpace(t.Component + " " + t.Resource + " " + t.Name)
}

// Knob changes how much of one resource a component has.
type Knob struct {
	Target
	// Utilisation is how much of the resource is used without perturbation, 0 to
	// 1. It decides who is perturbed by itself, and nothing else.
	Utilisation float64
	// DownOnly says that factors above 1 cannot be set.
	DownOnly bool
	// Set makes the resource factor times what it is without perturbation; 1
	// restores it. It returns when that is so, and must be quick: the slot has
	// begun. It is called from one goroutine.
	Set func(ctx context.Context, factor float64) error
	// Actual is what Set really makes of a factor, where that is not the factor
	// itself: slots come in whole numbers. It may be nil.
	Actual func(factor float64) float64
}

// Slot is a stretch of load under one setting: raw data.
type Slot struct {
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds"`
	// Settled is for how long before Start the setting was made already, in seconds: the
	// part of the slot in which queues moved, and that nothing here counts.
	Settled float64 `json:"settled,omitempty"`
	// Set is how long after Start the setting was in force, in seconds.
	Set     float64  `json:"set"`
	Targets []Target `json:"targets,omitempty"` // none: unperturbed
	// Factor is what was really set; of a group of resources that took different
	// ones their geometric mean.
	Factor   float64 `json:"factor"`
	Requests uint64  `json:"requests"` // that ended in the slot
	Failed   uint64  `json:"failed"`
	P95      float64 `json:"p95"` // of the response time, in milliseconds
}

// Throughput is the requests per second of the slot that did not fail.
func (s *Slot) Throughput() float64 {
	return float64(s.Requests-min(s.Failed, s.Requests)) / s.Seconds
}

// key tells groups of targets apart.
func (s *Slot) key() string { return keyOf(s.Targets) }

func keyOf(targets []Target) string {
	var b strings.Builder
	for _, t := range targets {
		b.WriteString(t.Component + "\x00" + t.Resource + "\x00" + t.Name + "\x01")
	}
	return b.String()
}

// Config is how to perturb.
type Config struct {
	Seed uint64
	// Budget bounds the time of all slots together.
	Budget time.Duration
	// Narrow is the half width of every interval of a throughput elasticity at
	// which no more slots are needed.
	Narrow float64
	// MinBlocks is how many blocks each component has at least before that.
	MinBlocks int
	// Singles is how many components (or pools) are perturbed by themselves from
	// the beginning: those of the highest utilisation. They are fewer, but one,
	// where the budget has no time for two blocks of each.
	Singles int
	// MinRequests is how many requests a slot should have: where load is slow,
	// slots are whole windows longer, up to MaxWindows.
	MinRequests uint64
	MaxWindows  int
}

// DefaultConfig separates an elasticity of 1 from one of 0 within half a minute
// where slots of a second vary by 5 %: ±0.25 is a quarter of what the limiting
// component shows. 100 requests would vary by 10 % if they came at random; under closed
// load they come as fast as the limit lets them, which varies less, and what it
// does vary by is in the interval. More and shorter slots follow drift better.
func DefaultConfig() Config {
	return Config{Seed: 1, Budget: 30 * time.Second, Narrow: 0.25, MinBlocks: 3, Singles: 2, MinRequests: 100, MaxWindows: 5}
}
