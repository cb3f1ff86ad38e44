package experiment

import (
	"fmt"
	"slices"
	"time"

	"loadstone/lab/load"
)

// shape reads what makes the executor's shape: rates, stages, users, times.
func (s *section) shape(to *Scenario, ex executor, complete bool) {
	unit := timeUnit{}
	take := func(key, example string) field {
		if !slices.Contains(ex.takes, key) {
			return field{}
		}
		if complete && slices.Contains(ex.needs, key) {
			return s.need(key, example)
		}
		return s.may(key, example)
	}
	if f := take("timeUnit", "timeUnit: 1s"); f.n != nil {
		unit = timeUnit{given: true, each: f.duration(1)}
		to.TimeUnit = unit.each
	}
	to.Duration = take("duration", "duration: 30s").duration(1)
	to.Rate = take("rate", "rate: 100/s").positiveRate(unit)
	to.StartRate = take("startRate", "startRate: 100/s").rate(unit)
	if f := take("vus", "vus: 10"); f.given() {
		to.VUs = int(f.whole(1, maxVUs))
	}
	if countsIterations(ex.name) {
		s.iterations(to, take("iterations", "iterations: 1000"))
	}
	if f := take("startVUs", "startVUs: 1"); f.given() {
		to.StartVUs = int(f.whole(0, maxVUs))
	}
	if f := take("arrivals", "arrivals: poisson"); f.given() {
		to.Arrivals = f.oneOf(load.Poisson, load.Uniform)
	}
	target := "100/s"
	if !hasRate(ex.name) {
		target = "10"
	} else if unit.given {
		target = "100"
	}
	if f := take("stages", "stages: [{duration: 30s, target: "+target+"}]"); f.given() {
		to.Stages = f.stages(ex.name, unit, target)
	}
	s.rises(to)
}

// iterations reads how many iterations are done, and in which time.
func (s *section) iterations(to *Scenario, f field) {
	to.MaxDuration = defaultMaxDuration
	if most := s.may("maxDuration", "maxDuration: 10m"); most.given() {
		to.MaxDuration = most.duration(1)
	}
	if !f.given() {
		return
	}
	before := len(s.errs)
	to.Iterations = uint64(f.whole(1, maxIterations))
	if len(s.errs) == before && to.Executor == load.SharedIterations && to.Iterations < uint64(to.VUs) {
		s.errorf(f.n, "%d virtual users cannot share iterations: %d; write %d or more, or fewer vus", to.VUs, to.Iterations, to.VUs)
	}
}

// rises refuses a ramp that offers nothing or takes no time.
func (s *section) rises(to *Scenario) {
	p, ok := s.n.pair("stages")
	if !ok || len(to.Stages) == 0 {
		return
	}
	var total time.Duration
	peak := float64(to.StartRate)
	if to.Executor == load.RampingVUs {
		peak = float64(to.StartVUs)
	}
	for _, stage := range to.Stages {
		if stage.Duration < 0 || stage.Target < 0 {
			return // broken, and reported
		}
		total += stage.Duration
		peak = max(peak, float64(stage.Target))
	}
	if total > maxLength {
		s.errorf(p.key, "the stages take longer than %d days; write shorter ones", maxLength/(24*time.Hour))
	}
	if total == 0 {
		s.errorf(p.key, "the stages take no time; write a duration above 0 in one of them")
	}
	if peak == 0 {
		s.errorf(p.key, "the stages never rise above 0; write a target above 0 in one of them")
	}
}

// broken marks a stage that could not be read.
const broken = -1

// stages reads the legs of a ramp. A leg that cannot be read has a negative
// duration or target.
func (f field) stages(executor string, unit timeUnit, target string) []Stage {
	if f.n.kind != list {
		f.wrong("a list")
		return nil
	}
	if len(f.n.items) == 0 {
		f.errorf(f.n, "stages is an empty list; write %s", f.example)
		return nil
	}
	stages := make([]Stage, len(f.n.items))
	for i, n := range f.n.items {
		stage := Stage{Duration: broken, Target: broken}
		before := len(f.errs)
		sec := f.section(n, n, fmt.Sprintf("stage %d", i+1), "{duration: 30s, target: "+target+"}")
		if sec != nil {
			length := sec.need("duration", "duration: 30s").duration(0)
			to := sec.need("target", "target: "+target)
			var reached Target
			if hasRate(executor) {
				reached = Target(to.rate(unit))
			} else if to.given() {
				reached = Target(to.targetUsers())
			}
			sec.done()
			if len(f.errs) == before {
				stage = Stage{Duration: length, Target: reached}
			}
		}
		stages[i] = stage
	}
	return stages
}

// targetUsers reads a stage's number of virtual users.
func (f field) targetUsers() int64 {
	if rateForm.MatchString(f.n.text) {
		f.errorf(f.n, "target %s is a rate, and this executor counts virtual users; write %s", f.n.text, f.example)
		return 0
	}
	return f.whole(0, maxVUs)
}

// users reads how many virtual users an arrival-rate executor may have. As in
// k6, maxVUs is preAllocatedVUs where only that is given.
func (s *section) users(to *Scenario) {
	pre, most := s.may("preAllocatedVUs", "preAllocatedVUs: 64"), s.may("maxVUs", "maxVUs: 1024")
	to.PreAllocatedVUs, to.MaxVUs = defaultPreAllocatedVUs, defaultMaxVUs
	if pre.given() {
		to.PreAllocatedVUs = int(pre.whole(1, maxVUs))
		to.MaxVUs = to.PreAllocatedVUs
	}
	if most.given() {
		to.MaxVUs = int(most.whole(1, maxVUs))
		if !pre.given() {
			to.PreAllocatedVUs = min(to.PreAllocatedVUs, to.MaxVUs)
		}
	}
	if to.PreAllocatedVUs > to.MaxVUs {
		s.errorf(most.n, "maxVUs %d is lower than preAllocatedVUs %d; write maxVUs: %d or more", to.MaxVUs, to.PreAllocatedVUs, to.PreAllocatedVUs)
	}
}
