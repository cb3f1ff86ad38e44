package scaling

import (
	"errors"
	"fmt"
	"math"
)

// Part is one component's bound on throughput.
type Part struct {
	Name string
	// Each is what one instance sustains, c/D, in requests per second.
	Each float64
	// Count is its instances; of a part that grows it is ignored.
	Count int
	// Grows is true of what the component has whose replicas are varied: its CPU,
	// its pools.
	Grows bool
}

// Takeover is where growing stops helping.
type Takeover struct {
	// Grown is the component that limits while it is small, Next the one that
	// does afterwards. Next is empty if nothing else sets a bound.
	Grown, Next string
	// At is the number of replicas from which on Next is the limit.
	At int
	// Bound is the throughput that Next allows.
	Bound float64
	// Each is what one instance of Grown sustains.
	Each float64 `json:"-"`
}

// FindTakeover says at which number of replicas another component becomes the
// limit: throughput is at most min over components of instances·c/D (Denning
// and Buzen 1978). Of the parts that grow the least counts, and there must be one.
// At is 1 where growing never helps.
func FindTakeover(parts []Part) (Takeover, error) {
	var t Takeover
	each := math.Inf(1)
	t.Bound = math.Inf(1)
	for _, p := range parts {
		if !(p.Each > 0) || math.IsInf(p.Each, 0) {
			return t, fmt.Errorf("one instance of %s sustains %v; it must be a number above 0", p.Name, p.Each)
		}
		if p.Grows {
			if p.Each < each {
				t.Grown, each = p.Name, p.Each
			}
			continue
		}
		if p.Count < 1 {
			return t, fmt.Errorf("%s has %d instances; it must have at least 1", p.Name, p.Count)
		}
		if b := p.Each * float64(p.Count); b < t.Bound {
			t.Next, t.Bound = p.Name, b
		}
	}
	if t.Grown == "" {
		return t, errors.New("one component must be the one that grows")
	}
	if t.Next == "" {
		t.Bound = 0
		return t, nil
	}
	n := math.Ceil(t.Bound/each - 1e-9)
	if n > math.MaxInt32 {
		return t, fmt.Errorf("%s would need %.3g replicas to reach %s's bound; check the demands", t.Grown, n, t.Next)
	}
	t.At, t.Each = max(1, int(n)), each
	return t, nil
}
