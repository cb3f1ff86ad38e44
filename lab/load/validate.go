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
	mostUsers = 100_000
	mostRate  = 10_000_000 // requests per second
	mostTime  = 30 * 24 * time.Hour
)

// open says whether the scenario's requests come from a schedule.
func (s *Scenario) open() bool {
	return s.Executor == ConstantArrivalRate || s.Executor == RampingArrivalRate
}

// length is how long the scenario offers load.
func (s *Scenario) length() time.Duration {
	if s.Executor == ConstantArrivalRate || s.Executor == ConstantVUs {
		return s.Duration
	}
	var sum time.Duration
	for _, stage := range s.Stages {
		sum += stage.Duration
	}
	return sum
}

// end is when the scenario stops offering load, within the plan.
func (s *Scenario) end() time.Duration { return s.StartTime + s.length() }

// end is when the plan stops offering load.
func (p *Plan) end() time.Duration {
	var end time.Duration
	for i := range p.Scenarios {
		end = max(end, p.Scenarios[i].end())
	}
	return end
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
	if len(found.errs) == 0 {
		found.checkf(p.Warmup < p.end(), "warmup: %v leaves nothing to measure of a load of %v: make it shorter", p.Warmup, p.end())
	}
	return errors.Join(found.errs...)
}

// target checks a base URL.
func (p *problems) target(raw string) {
	u, err := url.Parse(raw)
	if err != nil {
		p.checkf(false, "target %q: %v: give a base URL such as http://127.0.0.1:8080", raw, err)
		return
	}
	p.checkf(u.Scheme != "https", "target %q: https is not supported: use http, at the service behind whatever ends TLS", raw)
	p.checkf(u.Scheme == "http" || u.Scheme == "https", "target %q: no http:// at its beginning: give a base URL such as http://127.0.0.1:8080", raw)
	p.checkf(u.Hostname() != "", "target %q: it names no host: give a base URL such as http://127.0.0.1:8080", raw)
	p.checkf(u.RawQuery == "" && !u.ForceQuery && u.Fragment == "" && u.User == nil,
		"target %q: a base URL has no user, query or fragment: put those into the request", raw)
}

// scenario checks everything about s but its name.
func (p *problems) scenario(s *Scenario) {
	p.checkf(s.StartTime >= 0, "start_time: %v is negative: give 0s to start with the load", s.StartTime)
	p.checkf(s.GracefulStop >= 0, "graceful_stop: %v is negative: give 0s to cut off requests at the end", s.GracefulStop)
	switch s.Executor {
	case ConstantVUs:
		p.users("vus", s.VUs, 1)
	case RampingVUs:
		p.users("start_vus", s.StartVUs, 0)
		p.stages(s.Stages, mostUsers, "virtual users")
		for i, stage := range s.Stages {
			p.checkf(stage.Target == math.Trunc(stage.Target), "stages[%d].target: %v: give a whole number of virtual users", i, stage.Target)
		}
		ramp := newUserRamp(s)
		p.checkf(len(s.Stages) == 0 || ramp.most() > 0, "stages: no stage has a virtual user: give a target above 0")
	case ConstantArrivalRate:
		p.rate("rate", s.Rate)
		p.checkf(s.Rate > 0, "rate: %v: give requests per second, above 0", s.Rate)
		p.schedule(s)
	case RampingArrivalRate:
		p.rate("start_rate", s.StartRate)
		p.stages(s.Stages, mostRate, "requests per second")
		total := newRateCurve(s).total
		p.checkf(len(s.Stages) == 0 || total > 0, "stages: the rate is 0 throughout: give a target above 0")
		p.schedule(s)
	default:
		p.checkf(false, "executor: %q is unknown: use %s, %s, %s or %s", s.Executor, ConstantVUs, RampingVUs, ConstantArrivalRate, RampingArrivalRate)
		return
	}
	if s.Executor == ConstantVUs || s.Executor == ConstantArrivalRate {
		p.checkf(s.Duration > 0, "duration: %v: give how long the load lasts, such as 30s", s.Duration)
	}
	p.checkf(s.StartTime <= mostTime && s.Duration <= mostTime && s.GracefulStop <= mostTime && s.length() <= mostTime,
		"duration: longer than %v: make it shorter", mostTime)
	p.request(s)
}

// users checks a number of virtual users.
func (p *problems) users(field string, n, least int) {
	p.checkf(n >= least && n <= mostUsers, "%s: %d: give a number of virtual users from %d to %d", field, n, least, mostUsers)
}

// rate checks an arrival rate.
func (p *problems) rate(field string, rate float64) {
	p.checkf(rate >= 0 && rate <= mostRate, "%s: %v: give requests per second, from 0 to %d", field, rate, mostRate)
}

// stages checks the stages of a ramp, whose targets are counted in unit.
func (p *problems) stages(stages []Stage, most float64, unit string) {
	p.checkf(len(stages) > 0, "stages: there are none: give one at least")
	var sum time.Duration
	for i, stage := range stages {
		p.checkf(stage.Duration >= 0 && stage.Duration <= mostTime, "stages[%d].duration: %v: give 0s or more, such as 30s", i, stage.Duration)
		p.checkf(stage.Target >= 0 && stage.Target <= most, "stages[%d].target: %v: give %s, from 0 to %.0f", i, stage.Target, unit, most)
		sum = min(sum+min(max(stage.Duration, 0), mostTime), mostTime+1)
	}
	p.checkf(sum <= mostTime, "stages: they last longer than %v: make them shorter", mostTime)
	p.checkf(len(stages) == 0 || sum > 0, "stages: they last no time at all: give one a duration")
}

// schedule checks what only open models have.
func (p *problems) schedule(s *Scenario) {
	p.checkf(s.Arrivals == Poisson || s.Arrivals == Uniform, "arrivals: %q is unknown: use %s or %s", s.Arrivals, Poisson, Uniform)
	p.users("pre_allocated_vus", s.PreAllocatedVUs, 1)
	p.users("max_vus", s.MaxVUs, 1)
	p.checkf(s.MaxVUs >= s.PreAllocatedVUs, "max_vus: %d is below pre_allocated_vus, %d: raise it", s.MaxVUs, s.PreAllocatedVUs)
}

// request checks the request and its feeds.
func (p *problems) request(s *Scenario) {
	p.checkf(len(s.Steps) == 1, "steps: there are %d: give one", len(s.Steps))
	if len(s.Steps) != 1 {
		return
	}
	r := &s.Steps[0].Request
	p.checkf(isTokenText(r.Method) && r.Method != "CONNECT", "request: the method %q: use one such as GET", r.Method) //nolint:usestdlibvars // a package for two words
	p.checkf(strings.HasPrefix(r.Path, "/"), "request: the path %q: begin it with /", r.Path)
	p.checkf(!strings.ContainsFunc(r.Path, func(c rune) bool { return c <= ' ' || c >= 0x7f }),
		"request: the path %q has a space, a control character or a letter beyond ASCII: write it as %%20 and the like", r.Path)
	p.checkf(!strings.Contains(r.Path, "#"), "request: the path %q: leave out # and what follows, which is never sent", r.Path)
	used := map[string]bool{}
	p.placeholders(s, "path", r.Path, used)
	p.placeholders(s, "body", r.Body, used)
	for _, name := range sortedKeys(r.Header) {
		value := r.Header[name]
		p.checkf(isTokenText(name), "request: the header name %q: use letters, digits and -", name)
		p.checkf(!strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }),
			"request: header %s: its value has a control character: take it out", name)
		p.checkf(!slices.Contains([]string{"content-length", "transfer-encoding", "connection", "upgrade", "expect", "te", "trailer"}, strings.ToLower(name)),
			"request: header %s is set by the generator: leave it out", name)
		hostHasFeed := strings.EqualFold(name, "host") && len(splitPlaceholders(value)) > 1
		p.checkf(!hostHasFeed, "request: header Host: a placeholder is of no use in it: write the host out")
		p.placeholders(s, "header "+name, value, used)
	}
	for _, name := range sortedKeys(s.Feed) {
		p.checkf(used[name], "feed %q: nothing in the request uses it: write {%s} where its value belongs, or leave it out", name, name)
		p.feed(name, s.Feed[name])
	}
}

// placeholders checks that each placeholder of text has its feed.
func (p *problems) placeholders(s *Scenario, where, text string, used map[string]bool) {
	for _, piece := range splitPlaceholders(text) {
		if piece.name == "" {
			continue
		}
		_, ok := s.Feed[piece.name]
		p.checkf(ok, "request: the %s has {%s}, but there is no feed of that name: add it", where, piece.name)
		used[piece.name] = true
	}
}

// feed checks one feed.
func (p *problems) feed(name string, f Feed) {
	p.checkf((f.Uniform == nil) != (f.Sequential == nil), "feed %q: give it either uniform or sequential", name)
	for _, bounds := range []*[2]int64{f.Uniform, f.Sequential} {
		if bounds != nil {
			p.checkf(bounds[0] <= bounds[1], "feed %q: from %d to %d: put the lower number first", name, bounds[0], bounds[1])
		}
	}
}

// isTokenText says whether s is a token of HTTP: a method, a header's name.
func isTokenText(s string) bool { return s != "" && all([]byte(s), token) }
