package autoscale

import (
	"math"
	"time"
)

// Scaler replays a policy on one service. All times are since a beginning of the caller's
// choice, and must not go back. It belongs to one goroutine.
type Scaler struct {
	policy      *Policy
	recommended []recommendation
	ups, downs  []change
}

// recommendation is how many replicas the formula asked for.
type recommendation struct {
	at       time.Duration
	replicas int
}

// change is a number of replicas that were started, or stopped.
type change struct {
	at time.Duration
	by int
}

// NewScaler returns a scaler that has seen nothing.
func NewScaler(p *Policy) *Scaler { return &Scaler{policy: p} }

// Observed is what a look at a service finds.
type Observed struct {
	// Utilisation has, for each replica that was ready since the last look, the share that it
	// used of what it may use: 1 for all of it.
	Utilisation []float64
	// Starting is how many others there are, not ready as yet.
	Starting int
}

// Desire returns how many replicas there should be, of those that are observed now. Whoever
// calls it does that before the next look.
func (s *Scaler) Desire(now time.Duration, o Observed) int {
	current := len(o.Utilisation) + o.Starting
	switch { // what somebody else has set is put right at once
	case current > s.policy.MaxReplicas:
		return s.changed(now, current, s.policy.MaxReplicas)
	case current < s.policy.MinReplicas:
		return s.changed(now, current, s.policy.MinReplicas)
	}
	wanted := s.stabilise(now, current, s.recommend(current, o))
	return s.changed(now, current, s.limit(now, current, wanted))
}

// recommend is the formula: desired = ceil(current × utilisation / target), unless the ratio
// is within the tolerance. Replicas that are starting count as idle if more are wanted: they
// are on their way.
func (s *Scaler) recommend(current int, o Observed) int {
	if len(o.Utilisation) == 0 {
		return current // nothing is known
	}
	sum := 0.0
	for _, u := range o.Utilisation {
		sum += u
	}
	ratio := sum / float64(len(o.Utilisation)) / s.policy.target()
	if s.tolerable(ratio) {
		return current
	}
	if ratio < 1 || o.Starting == 0 {
		return ceil(ratio * float64(len(o.Utilisation)))
	}
	all := float64(len(o.Utilisation) + o.Starting)
	ratio = sum / all / s.policy.target()
	if s.tolerable(ratio) || ratio < 1 {
		return current
	}
	return max(ceil(ratio*all), current)
}

func (s *Scaler) tolerable(ratio float64) bool {
	return ratio >= 1-*s.policy.Behavior.ScaleDown.Tolerance && ratio <= 1+*s.policy.Behavior.ScaleUp.Tolerance
}

// ceil rounds up, but not what only the last bit of a quotient adds.
func ceil(x float64) int { return int(math.Ceil(x - 1e-9)) }

// stabilise keeps to the lowest recommendation of scaleUp's window, and to the highest of
// scaleDown's.
func (s *Scaler) stabilise(now time.Duration, current, wanted int) int {
	up, down := wanted, wanted
	var kept []recommendation
	upWindow, downWindow := s.policy.Behavior.ScaleUp.window(), s.policy.Behavior.ScaleDown.window()
	for _, r := range s.recommended {
		if r.at > now-upWindow {
			up = min(up, r.replicas)
		}
		if r.at > now-downWindow {
			down = max(down, r.replicas)
		}
		if r.at > now-max(upWindow, downWindow) {
			kept = append(kept, r)
		}
	}
	kept = append(kept, recommendation{now, wanted})
	s.recommended = kept
	return min(max(current, up), down)
}

func (r *Rules) window() time.Duration {
	return time.Duration(*r.StabilizationWindowSeconds) * time.Second
}

// limit keeps to the policies, and to the numbers of replicas that there may be.
func (s *Scaler) limit(now time.Duration, current, wanted int) int {
	switch {
	case wanted > current:
		most := s.policy.Behavior.ScaleUp.most(current, func(start int, r Rule) int {
			if r.Type == Pods {
				return start + r.Value
			}
			return ceil(float64(start) * (1 + float64(r.Value)/100))
		}, s.within(now), 1)
		return min(wanted, max(most, current), s.policy.MaxReplicas)
	case wanted < current:
		least := s.policy.Behavior.ScaleDown.most(current, func(start int, r Rule) int {
			if r.Type == Pods {
				return start - r.Value
			}
			return int(float64(start) * (1 - float64(r.Value)/100))
		}, s.within(now), -1)
		return max(wanted, min(least, current), s.policy.MinReplicas)
	}
	return wanted
}

// most is how far the policies let the number go: up by sign 1, down by -1. started is how
// many more there are than when a period began.
func (r *Rules) most(current int, reach func(start int, r Rule) int, started func(period time.Duration) int, sign int) int {
	if r.SelectPolicy == Disabled {
		return current
	}
	var out int
	for i, rule := range r.Policies {
		at := reach(current-started(time.Duration(rule.PeriodSeconds)*time.Second), rule)
		if further := sign*(at-out) > 0; i == 0 || further == (r.SelectPolicy == Max) {
			out = at
		}
	}
	return out
}

// within returns how many replicas were started in the last time, less those stopped.
func (s *Scaler) within(now time.Duration) func(time.Duration) int {
	return func(period time.Duration) (n int) {
		for _, c := range s.ups {
			if c.at > now-period {
				n += c.by
			}
		}
		for _, c := range s.downs {
			if c.at > now-period {
				n -= c.by
			}
		}
		return n
	}
}

// changed takes note of a change.
func (s *Scaler) changed(now time.Duration, from, to int) int {
	switch {
	case to > from:
		s.ups = append(s.ups, change{now, to - from})
	case to < from:
		s.downs = append(s.downs, change{now, from - to})
	}
	return to
}
