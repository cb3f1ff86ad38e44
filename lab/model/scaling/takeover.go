package scaling

import (
	"errors"
	"fmt"
	"math"
)

// Part is one component's bound on throughput.
type Part struct {
	Name string
	// Each is what one instance bears, c/D, in requests per second.
	Each float64
	// Count is its instances; of a part that grows it is ignored.
	Count int
	// Grows is true of the component whose replicas are varied.
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
}

// FindTakeover says at which number of replicas another component becomes the
// limit: throughput is at most min over components of instances·c/D (Denning
// and Buzen 1978). Exactly one part must grow. At is 1 where growing never helps.
func FindTakeover(parts []Part) (Takeover, error) {
	var t Takeover
	each, grown := 0.0, 0
	t.Bound = math.Inf(1)
	for _, p := range parts {
		if !(p.Each > 0) || math.IsInf(p.Each, 0) {
			return t, fmt.Errorf("one instance of %s bears %v; it must be a number above 0", p.Name, p.Each)
		}
		if p.Grows {
			t.Grown, each = p.Name, p.Each
			grown++
			continue
		}
		if p.Count < 1 {
			return t, fmt.Errorf("%s has %d instances; it must have at least 1", p.Name, p.Count)
		}
		if b := p.Each * float64(p.Count); b < t.Bound {
			t.Next, t.Bound = p.Name, b
		}
	}
	if grown != 1 {
		return t, errors.New("exactly one component must be the one that grows")
	}
	if t.Next == "" {
		t.Bound = 0
		return t, nil
	}
	n := math.Ceil(t.Bound/each - 1e-9)
	if n > math.MaxInt32 {
		return t, fmt.Errorf("%s would need %.3g replicas to reach %s's bound; check the demands", t.Grown, n, t.Next)
	}
	t.At = max(1, int(n))
	return t, nil
}
