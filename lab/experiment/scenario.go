package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"loadstone/lab/load"
)

const (
	// maxVUs bounds the virtual users of one scenario.
	maxVUs = 1_000_000

	defaultTimeout      = 5 * time.Second  // longer than any answer that a user waits for
	defaultGracefulStop = 30 * time.Second // k6's
	defaultStartVUs     = 1                // k6's
	// Enough connections for a fast system from the start, and as many as a
	// slow one can need on one machine: 1024 under way at 200 ms are 5120/s.
	defaultPreAllocatedVUs = 64
	defaultMaxVUs          = 1024
)

// executor is what one of k6's executors takes beside the keys of every
// scenario, and what it cannot do without when the load is driven as written.
type executor struct {
	name  string
	takes []string
	needs []string
}

// executors returns the executors that there are, in k6's order.
func executors() []executor {
	return []executor{
		{load.ConstantVUs, []string{"vus", "duration"}, []string{"vus", "duration"}},
		{load.RampingVUs, []string{"startVUs", "stages"}, []string{"stages"}},
		{
			load.ConstantArrivalRate,
			[]string{"rate", "duration", "timeUnit", "arrivals", "preAllocatedVUs", "maxVUs"},
			[]string{"rate", "duration"},
		},
		{
			load.RampingArrivalRate,
			[]string{"startRate", "stages", "timeUnit", "arrivals", "preAllocatedVUs", "maxVUs"},
			[]string{"stages"},
		},
	}
}

// ofEvery returns the keys that every executor takes.
func ofEvery() []string { return []string{"executor", "request", "feed", "startTime", "gracefulStop"} }

// isOpen reports whether an executor offers a rate, whatever comes back.
func isOpen(executor string) bool {
	return executor == load.ConstantArrivalRate || executor == load.RampingArrivalRate
}

// scenario reads one scenario. complete says that its load is driven as
// written and must be there in full.
func (d *decoder) scenario(p pair, complete bool) Scenario {
	s := Scenario{Name: p.key.text, GracefulStop: defaultGracefulStop}
	d.validName(p.key, "scenario", "lookup")
	what := "scenario " + quote(s.Name)
	sec := d.section(p.value, p.key, what, s.Name+": {executor: constant-arrival-rate, rate: 100/s, duration: 30s, request: GET /}")
	if sec == nil {
		return s
	}
	ex := sec.executor()
	s.Executor = ex.name
	sec.hints = map[string]hint{
		"url":    {"write request: GET /path", "request"},
		"target": {"write it within stages", ""},
	}
	sec.keys(ex)
	s.Request, s.Feed = sec.request()
	if f := sec.may("startTime", "startTime: 10s"); f.given() {
		s.StartTime = f.duration(0)
	}
	if f := sec.may("gracefulStop", "gracefulStop: 30s"); f.given() {
		s.GracefulStop = f.duration(0)
	}
	switch {
	case isOpen(ex.name):
		s.Arrivals = load.Poisson
		sec.users(&s)
	case ex.name == load.RampingVUs:
		s.StartVUs = defaultStartVUs
	}
	sec.shape(&s, ex, complete)
	sec.lacks()
	return s
}

// executor reads the executor. It is the zero value if that is unknown.
func (s *section) executor() executor {
	all := executors()
	names := make([]string, len(all))
	for i, ex := range all {
		names[i] = ex.name
	}
	f := s.need("executor", "executor: constant-arrival-rate")
	if f.given() && f.n.kind == text && slices.Contains([]string{
		"shared-iterations", "per-vu-iterations", "externally-controlled",
	}, f.n.text) {
		f.errorf(f.n, "k6's executor %s is not supported; write one of: %s", f.n.text, strings.Join(names, ", "))
		return executor{}
	}
	name := f.oneOf(names...)
	for _, ex := range all {
		if ex.name == name {
			return ex
		}
	}
	return executor{}
}

// keys refuses the keys that the executor does not take. With an unknown
// executor only those that no executor takes.
func (s *section) keys(ex executor) {
	known := append(ofEvery(), ex.takes...)
	takenBy := make(map[string][]string)
	for _, other := range executors() {
		for _, key := range other.takes {
			if ex.name == "" && takenBy[key] == nil {
				known = append(known, key)
			}
			takenBy[key] = append(takenBy[key], other.name)
		}
	}
	for _, p := range s.n.pairs {
		key := p.key.text
		others := takenBy[key]
		switch {
		case slices.Contains(known, key):
		case key == "rate" && ex.name == load.RampingArrivalRate:
			s.errorf(p.key, "executor %s does not take rate; write startRate", ex.name)
		case key == "vus" && ex.name == load.RampingVUs:
			s.errorf(p.key, "executor %s does not take vus; write startVUs", ex.name)
		case others != nil:
			s.errorf(p.key, "executor %s does not take %s; remove it, or write executor: %s", ex.name, key, strings.Join(others, " or "))
		case slices.Contains([]string{"exec", "env", "tags", "options", "iterations", "maxDuration", "gracefulRampDown"}, key):
			s.errorf(p.key, "k6's %s is not supported; remove it", key)
		default:
			s.unknown(p.key, known)
		}
	}
}

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
	if f := take("startVUs", "startVUs: 1"); f.given() {
		to.StartVUs = int(f.whole(0, maxVUs))
	}
	if f := take("arrivals", "arrivals: poisson"); f.given() {
		to.Arrivals = f.oneOf(load.Poisson, load.Uniform)
	}
	target := "100/s"
	if !isOpen(ex.name) {
		target = "10"
	} else if unit.given {
		target = "100"
	}
	if f := take("stages", "stages: [{duration: 30s, target: "+target+"}]"); f.given() {
		to.Stages = f.stages(ex.name, unit, target)
	}
	s.rises(to)
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
			if isOpen(executor) {
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
