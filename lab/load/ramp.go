package load

import (
	"math/bits"
	"time"
)

// UserRamp is the number of virtual users of a closed scenario as a function
// of the time since its start. As in k6, a stage moves from the count before
// it to its target in steps of one user, evenly spaced, the last of them at
// the stage's end; a stage of no length is a jump.
type UserRamp struct {
	first  int
	stages []userStage
}

type userStage struct {
	length time.Duration
	target int
}

// NewUserRamp returns the ramp of a constant-vus or ramping-vus scenario.
func NewUserRamp(s *Scenario) UserRamp {
	if s.Executor != RampingVUs {
		return UserRamp{first: s.VUs, stages: []userStage{{length: s.Duration, target: s.VUs}}}
	}
	r := UserRamp{first: s.StartVUs}
	for _, stage := range s.Stages {
		r.stages = append(r.stages, userStage{length: stage.Duration, target: int(stage.Target)})
	}
	return r
}

// End is when the ramp is over and all users are to stop.
func (r *UserRamp) End() time.Duration {
	var sum time.Duration
	for _, stage := range r.stages {
		sum += stage.length
	}
	return sum
}

// Peak is the largest number of users that the ramp asks for.
func (r *UserRamp) Peak() int {
	most := r.first
	for _, stage := range r.stages {
		most = max(most, stage.target)
	}
	return most
}

// At returns how many users there are to be at time t, from 0 up to the end.
func (r *UserRamp) At(t time.Duration) int {
	count := r.first
	for _, stage := range r.stages {
		if t < stage.length {
			return stage.at(count, t)
		}
		count = stage.target
		t -= stage.length
	}
	return count
}

// at returns the count t into the stage, which began with from users.
func (s *userStage) at(from int, t time.Duration) int {
	done := int(mulDiv(uint64(t), s.steps(from), uint64(s.length), 0))
	if s.target < from {
		return from - done
	}
	return from + done
}

// steps is how many users the stage adds or takes away.
func (s *userStage) steps(from int) uint64 {
	return uint64(max(s.target-from, from-s.target))
}

// Next returns the first time after t at which the number of users changes,
// or false if it stays as it is to the end.
func (r *UserRamp) Next(t time.Duration) (time.Duration, bool) {
	now := r.At(t)
	var start time.Duration
	from := r.first
	for _, stage := range r.stages {
		end := start + stage.length
		if stage.length > 0 && t < end {
			if at, ok := stage.next(from, max(t-start, 0), now); ok {
				return start + at, true
			}
			if r.At(end) != now {
				return end, true
			}
		}
		start, from = end, stage.target
	}
	return 0, false
}

// next returns when, within the stage, the count leaves its value now.
func (s *userStage) next(from int, t time.Duration, now int) (time.Duration, bool) {
	steps := s.steps(from)
	if s.at(from, t) != now || steps == 0 {
		return 0, false
	}
	done := mulDiv(uint64(t), steps, uint64(s.length), 0)
	if done >= steps {
		return 0, false
	}
	// The step that comes next is due at (done+1)·length/steps, rounded up.
	at := time.Duration(mulDiv(done+1, uint64(s.length), steps, steps-1))
	return at, at < s.length
}

// mulDiv returns (a·b + add) / c without overflow on the way. The quotient
// must fit 64 bits; here it is bounded by a stage's length or its steps.
func mulDiv(a, b, c, add uint64) uint64 {
	high, low := bits.Mul64(a, b)
	low, carry := bits.Add64(low, add, 0)
	quotient, _ := bits.Div64(high+carry, low, c)
	return quotient
}
