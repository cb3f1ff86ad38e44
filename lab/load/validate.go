package load

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Bounds on what a plan may ask for: beyond them it is a slip of the pen, or
// more than one machine can do.
const (
	maxUsers = 100_000
	maxRate  = 10_000_000 // requests per second
	maxTime  = 30 * 24 * time.Hour
	maxSpeed = 1000
	// A step costs up to 1 MiB for each thread in histograms.
	maxSteps   = 100
	maxThreads = 256
)

// Length is how long the scenario offers load; 0 for a replay, whose log has
// not been read.
func (s *Scenario) Length() time.Duration {
	switch s.Executor {
	case ConstantArrivalRate, ConstantVUs, SharedIterations, PerVUIterations:
		return s.Duration
	}
	var sum time.Duration
	for _, stage := range s.Stages {
		sum += stage.Duration
	}
	return sum
}

// problems gathers what is wrong with a plan.
type problems struct {
	at   string // which part is being looked at
	errs []error
}

// checkf notes a problem unless ok.
func (p *problems) checkf(ok bool, format string, args ...any) {
	if !ok {
		p.errs = append(p.errs, fmt.Errorf("%s%w", p.at, fmt.Errorf(format, args...)))
	}
}

// Validate returns all problems of the plan, joined, or nil. A valid plan can
// be run; whether anybody answers is another matter.
func (p *Plan) Validate() error {
	var found problems
	found.checkf(len(p.Targets) > 0, "targets: there are none: give the base URL of the service, such as http://127.0.0.1:8080")
	for _, raw := range p.Targets {
		found.target(raw)
	}
	found.checkf(len(p.Scenarios) > 0, "scenarios: there are none: give one at least")
	found.checkf(p.Timeout > 0, "timeout: %v: give the time that a request may take, such as 10s", p.Timeout)
	found.checkf(p.Warmup >= 0, "warmup: %v is negative: give 0s for none", p.Warmup)
	names := map[string]bool{}
	for i := range p.Scenarios {
		s := &p.Scenarios[i]
		found.at = fmt.Sprintf("scenario %q: ", s.Name)
		found.checkf(s.Name != "", "name: it has none: give it one")
		found.checkf(!names[s.Name], "name: there are two of that name: rename one")
		names[s.Name] = true
		found.scenario(s)
	}
	found.at = ""
	found.machinery(p)
	if len(found.errs) == 0 && !slices.ContainsFunc(p.Scenarios, func(s Scenario) bool { return s.Executor == Replay }) {
		found.checkf(p.Warmup < p.Length(), "warmup: %v leaves nothing to measure of a load of %v: make it shorter", p.Warmup, p.Length())
	}
	return errors.Join(found.errs...)
}

// machinery checks what is the same for all scenarios.
func (p *problems) machinery(plan *Plan) {
	p.checkf(plan.Protocol == "" || plan.Protocol == HTTP1 || plan.Protocol == HTTP2, "protocol: %q is unknown: use %s or %s", plan.Protocol, HTTP1, HTTP2)
	p.checkf(plan.Connections >= 0 && plan.Connections <= maxUsers, "connections: %d: give a number from 1 to %d, or leave it out", plan.Connections, maxUsers)
	p.checkf(plan.Threads >= 0 && plan.Threads <= maxThreads, "threads: %d: give a number from 1 to %d, or leave it out", plan.Threads, maxThreads)
	http := slices.ContainsFunc(plan.Scenarios, func(s Scenario) bool { return s.WebSocket == nil })
	p.checkf(plan.Connections == 0 || http, "connections: %d: a WebSocket client is a connection: leave it out, and give so many virtual users", plan.Connections)
	steps := 0
	for i := range plan.Scenarios {
		steps += len(plan.Scenarios[i].StepNames())
	}
	p.checkf(steps <= maxSteps, "scenarios: they have %d steps together: use %d at most", steps, maxSteps)
}

// target checks a base URL.
func (p *problems) target(raw string) {
	u, err := url.Parse(raw)
	if err != nil {
		p.checkf(false, "target %q: %v: give a base URL such as http://127.0.0.1:8080", raw, err)
		return
	}
	p.checkf(u.Scheme == "http" || u.Scheme == "https", "target %q: no http:// at its beginning: give a base URL such as http://127.0.0.1:8080", raw)
	p.checkf(u.Hostname() != "", "target %q: it names no host: give a base URL such as http://127.0.0.1:8080", raw)
	p.checkf(u.RawQuery == "" && !u.ForceQuery && u.Fragment == "" && u.User == nil,
		"target %q: a base URL has no user, query or fragment: put those into the request", raw)
}

// scenario checks everything about s but its name.
func (p *problems) scenario(s *Scenario) {
	p.checkf(s.StartTime >= 0, "start_time: %v is negative: give 0s to start with the load", s.StartTime)
	p.checkf(s.GracefulStop >= 0, "graceful_stop: %v is negative: give 0s to cut off requests at the end", s.GracefulStop)
	if !p.pacing(s) {
		return
	}
	if s.Executor != RampingVUs && s.Executor != RampingArrivalRate && s.Executor != Replay {
		p.checkf(s.Duration > 0, "duration: %v: give how long the load lasts, such as 30s", s.Duration)
	}
	p.checkf(s.StartTime <= maxTime && s.Duration <= maxTime && s.GracefulStop <= maxTime && s.Length() <= maxTime,
		"duration: longer than %v: make it shorter", maxTime)
	p.content(s)
}

// pacing checks when the scenario's iterations begin. It returns false if the
// executor is unknown.
func (p *problems) pacing(s *Scenario) bool {
	switch s.Executor {
	case ConstantVUs:
		p.users("vus", s.VUs, 1)
	case RampingVUs:
		p.users("start_vus", s.StartVUs, 0)
		p.stages(s.Stages, maxUsers, "virtual users")
		for i, stage := range s.Stages {
			p.checkf(stage.Target == math.Trunc(stage.Target), "stages[%d].target: %v: give a whole number of virtual users", i, stage.Target)
		}
		ramp := NewUserRamp(s)
		p.checkf(len(s.Stages) == 0 || ramp.Peak() > 0, "stages: no stage has a virtual user: give a target above 0")
	case ConstantArrivalRate:
		p.rate("rate", s.Rate)
		p.checkf(s.Rate > 0, "rate: %v: give requests per second, above 0", s.Rate)
		p.schedule(s)
	case RampingArrivalRate:
		p.rate("start_rate", s.StartRate)
		p.stages(s.Stages, maxRate, "requests per second")
		total := NewRateCurve(s).total
		p.checkf(len(s.Stages) == 0 || total > 0, "stages: the rate is 0 throughout: give a target above 0")
		p.schedule(s)
	case SharedIterations, PerVUIterations:
		p.users("vus", s.VUs, 1)
		p.checkf(s.Iterations > 0, "iterations: give how many there are to be, 1 at least")
	case Replay:
		p.replay(s)
	default:
		p.checkf(false, "executor: %q is unknown: use one of %s", s.Executor, strings.Join(executors, ", "))
		return false
	}
	return true
}

// executors are all of them.
var executors = []string{
	SharedIterations, PerVUIterations, ConstantVUs, RampingVUs, ConstantArrivalRate, RampingArrivalRate, Replay,
}

// replay checks what only a replay has.
func (p *problems) replay(s *Scenario) {
	p.schedule(s)
	p.checkf(s.Log != nil, "log: there is none: give the access log to replay")
	if s.Log != nil {
		p.checkf(s.Log.Path != "", "log: give the path of an access log")
		p.checkf(s.Log.Speed > 0 && s.Log.Speed <= maxSpeed, "log: speed %v: give a factor above 0, such as 2 for twice as fast", s.Log.Speed)
	}
}

// users checks a number of virtual users.
func (p *problems) users(field string, n, least int) {
	p.checkf(n >= least && n <= maxUsers, "%s: %d: give a number of virtual users from %d to %d", field, n, least, maxUsers)
}

// rate checks an arrival rate.
func (p *problems) rate(field string, rate float64) {
	p.checkf(rate >= 0 && rate <= maxRate, "%s: %v: give requests per second, from 0 to %d", field, rate, maxRate)
}

// stages checks the stages of a ramp, whose targets are counted in unit.
func (p *problems) stages(stages []Stage, most float64, unit string) {
	p.checkf(len(stages) > 0, "stages: there are none: give one at least")
	var sum time.Duration
	for i, stage := range stages {
		p.checkf(stage.Duration >= 0 && stage.Duration <= maxTime, "stages[%d].duration: %v: give 0s or more, such as 30s", i, stage.Duration)
		p.checkf(stage.Target >= 0 && stage.Target <= most, "stages[%d].target: %v: give %s, from 0 to %.0f", i, stage.Target, unit, most)
		sum = min(sum+min(max(stage.Duration, 0), maxTime), maxTime+1)
	}
	p.checkf(sum <= maxTime, "stages: they last longer than %v: make them shorter", maxTime)
	p.checkf(len(stages) == 0 || sum > 0, "stages: they last no time at all: give one a duration")
}

// schedule checks what only open models have.
func (p *problems) schedule(s *Scenario) {
	p.checkf(s.Arrivals == Poisson || s.Arrivals == Uniform, "arrivals: %q is unknown: use %s or %s", s.Arrivals, Poisson, Uniform)
	p.users("pre_allocated_vus", s.PreAllocatedVUs, 1)
	p.users("max_vus", s.MaxVUs, 1)
	p.checkf(s.MaxVUs >= s.PreAllocatedVUs, "max_vus: %d is below pre_allocated_vus, %d: raise it", s.MaxVUs, s.PreAllocatedVUs)
}

// isTokenText says whether s is a token of HTTP: a method, a header's name.
// They have letters, digits and a few signs (RFC 9110, 5.6.2).
func isTokenText(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}
