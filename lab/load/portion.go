package load

import "fmt"

// Portion is which part of a plan's load a generator offers where several share it: the
// arrivals whose number leaves Index when it is divided by Of, and as many of the virtual
// users. All of them walk the same schedule, so that together they offer every arrival once.
// The zero Portion is all.
type Portion struct {
	Index int `json:"index"`
	Of    int `json:"of"`
}

// Size is how many there are, 1 for the zero Portion.
func (p Portion) Size() int { return max(1, p.Of) }

// Has says whether the arrival with a number is the part's.
func (p Portion) Has(number uint64) bool { return int(number%uint64(p.Size())) == p.Index }

// Count is how many of n are the part's.
func (p Portion) Count(n int) int { return (n - p.Index + p.Size() - 1) / p.Size() }

// portion checks that the plan asks for nothing that several generators cannot share.
func (p *problems) portion(plan *Plan) {
	of := plan.Portion.Of
	if plan.Portion == (Portion{}) {
		return
	}
	p.checkf(plan.Portion.Index >= 0 && plan.Portion.Index < of, "portion: %d of %d is none", plan.Portion.Index, of)
	const several = "cannot be shared by several generators; use one, or leave it out"
	p.checkf(plan.Connections == 0, "a cap on connections "+several)
	p.checkf(plan.Setup == nil && plan.Teardown == nil, "setup and teardown "+several)
	for i := range plan.Scenarios {
		s := &plan.Scenarios[i]
		p.at = fmt.Sprintf("scenario %q: ", s.Name)
		p.checkf(s.WebSocket == nil, "WebSocket clients "+several)
		p.checkf(s.Executor != SharedIterations, "shared iterations "+several)
		p.checkf(s.PeakVUs() >= of, "it has %d virtual users for %d generators; give it one for each at least", s.PeakVUs(), of)
	}
	p.at = ""
}
