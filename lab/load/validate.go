package load

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"loadstone/lab/load/feed"
)

// Bounds on what a plan may ask for: beyond them it is a slip of the pen, or
// more than one machine can do.
const (
	maxUsers = 100_000
	maxRate  = 10_000_000 // requests per second
	maxTime  = 30 * 24 * time.Hour
	maxSpeed = 1000

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
	// given are the placeholders whose values come from the plan's setup.
	given map[string]bool
}

// checkf notes a problem unless ok.
func (p *problems) checkf(ok bool, format string, args ...any) {
	if !ok {
		p.errs = append(p.errs, fmt.Errorf("%s%w", p.at, fmt.Errorf(format, args...)))
	}
}

// Validate returns all problems that a plan made of a command's flags can have, joined,
// or nil. That of a file has been checked when it was read, and what only files can say
// is not looked at again. A valid plan can be run; whether anybody answers is another
// matter.
func (p *Plan) Validate() error {
	var found problems
	found.checkf(len(p.Targets) > 0, "targets: there are none: give the base URL of the service, such as http://127.0.0.1:8080")
	for _, raw := range p.Targets {
		found.target(raw)
	}
	found.checkf(p.Timeout > 0, "timeout: %v: give the time that a request may take, such as 10s", p.Timeout)
	found.checkf(p.Warmup >= 0, "warmup: %v is negative: give 0s for none", p.Warmup)
	found.machinery(p)
	found.once(p)
	found.portion(p)
	for i := range p.Scenarios {
		s := &p.Scenarios[i]
		found.at = fmt.Sprintf("scenario %q: ", s.Name)
		found.pacing(s)
		found.checkf(!s.Calls() || p.Protocol == HTTP2, "gRPC goes over HTTP/2: give the protocol %s", HTTP2)
		if s.WebSocket == nil { // of clients there is nothing that a command's flags say
			found.content(s)
			found.flow(s)
		}
	}
	found.at = ""
	if len(found.errs) == 0 && !slices.ContainsFunc(p.Scenarios, func(s Scenario) bool { return s.Executor == Replay }) {
		found.checkf(p.Warmup < p.Length(), "warmup: %v leaves nothing to measure of a load of %v: make it shorter", p.Warmup, p.Length())
	}
	return errors.Join(found.errs...)
}

// once checks what is made once, and notes what it gives to the others.
func (p *problems) once(plan *Plan) {
	p.given = map[string]bool{}
	for name := range plan.Given {
		p.given[name] = true
	}
	for _, s := range []*Scenario{plan.Setup, plan.Teardown} {
		if s == nil {
			continue
		}
		p.at = s.Name + ": "
		p.checkf(s.Executor == PerVUIterations && s.VUs == 1 && s.Iterations == 1 && s.WebSocket == nil && !s.Weighted,
			"it is made once: give it one iteration of one user that makes steps")
		p.content(s)
		p.flow(s)
		for i := range s.Steps {
			for name := range s.Steps[i].Extract {
				p.given[name] = true
			}
		}
	}
	p.at = ""
}

func (p *problems) machinery(plan *Plan) {
	p.checkf(plan.Protocol == "" || plan.Protocol == HTTP1 || plan.Protocol == HTTP2, "protocol: %q is unknown: use %s or %s", plan.Protocol, HTTP1, HTTP2)
	p.checkf(plan.Connections <= maxUsers, "connections: %d: give a number from 1 to %d, or leave it out", plan.Connections, maxUsers)
	p.checkf(plan.Threads <= maxThreads, "threads: %d: give a number from 1 to %d, or leave it out", plan.Threads, maxThreads)
	http := slices.ContainsFunc(plan.Scenarios, func(s Scenario) bool { return s.WebSocket == nil })
	p.checkf(plan.Connections == 0 || http, "connections: %d: a WebSocket client is a connection: leave it out, and give so many virtual users", plan.Connections)
}

func (p *problems) target(raw string) {
	u, err := url.Parse(raw)
	if err != nil {
		p.checkf(false, "target %q: %v: give a base URL such as http://127.0.0.1:8080", raw, err)
		return
	}
	p.checkf(u.Scheme == "http" || u.Scheme == "https", "target %q does not begin with http:// or https://; write a base URL such as http://127.0.0.1:8080", raw)
	p.checkf(u.Hostname() != "", "target %q: it names no host: give a base URL such as http://127.0.0.1:8080", raw)
	p.checkf(u.RawQuery == "" && !u.ForceQuery && u.Fragment == "" && u.User == nil,
		"target %q: a base URL has no user, query or fragment: put those into the request", raw)
}

// pacing checks what the executor needs.
func (p *problems) pacing(s *Scenario) {
	switch s.Executor {
	case ConstantVUs, SharedIterations, PerVUIterations:
		p.users("vus", s.VUs)
	case ConstantArrivalRate:
		p.checkf(s.Rate > 0 && s.Rate <= maxRate, "rate: %v: give requests per second, above 0 and at most %d", s.Rate, maxRate)
	case RampingVUs:
		p.stages(s.Stages, maxUsers, "virtual users")
	case RampingArrivalRate:
		p.stages(s.Stages, maxRate, "requests per second")
	case Replay:
		p.checkf(s.Log.Speed > 0 && s.Log.Speed <= maxSpeed, "log: speed %v: give a factor above 0, such as 2 for twice as fast", s.Log.Speed)
	}
	if s.Open() {
		p.users("max_vus", s.MaxVUs)
		p.checkf(s.Arrivals == Poisson || s.Arrivals == Uniform, "arrivals: %q is unknown: use %s or %s", s.Arrivals, Poisson, Uniform)
		p.checkf(s.Stratum >= 0 && (s.Stratum == 0 || s.Arrivals == Poisson), "stratum: %d: only %s arrivals come in strata; leave it out, or give a number of arrivals", s.Stratum, Poisson)
		p.checkf(s.FirstStratum >= 0 && s.FirstStratum <= s.Stratum, "first_stratum: %d: give a number of arrivals up to that of a stratum, or 0", s.FirstStratum)
	}
	if s.Executor != Replay {
		p.checkf(s.Length() > 0, "duration: %v: give how long the load lasts, such as 30s", s.Length())
		p.checkf(s.Length() <= maxTime, "duration: longer than %v: make it shorter", maxTime)
	}
}

func (p *problems) users(field string, n int) {
	p.checkf(n >= 1 && n <= maxUsers, "%s: %d: give a number of virtual users from 1 to %d", field, n, maxUsers)
}

func (p *problems) stages(stages []Stage, most float64, unit string) {
	peak := 0.0
	for i, stage := range stages {
		p.checkf(stage.Duration >= 0 && stage.Duration <= maxTime, "stages[%d].duration: %v: give 0s or more, such as 30s", i, stage.Duration)
		p.checkf(stage.Target <= most, "stages[%d].target: %v: give %s, at most %.0f", i, stage.Target, unit, most)
		peak = max(peak, stage.Target)
	}
	p.checkf(peak > 0, "stages: none has any %s: give a target above 0", unit)
}

// content checks the requests of a scenario.
func (p *problems) content(s *Scenario) {
	extracted := s.extracted()
	p.checkf(s.CacheBytes >= 0 && (s.CacheBytes == 0 || len(s.Steps) > 0), "cache_bytes: %d: give a number above 0 to a scenario with steps, or leave it out", s.CacheBytes)
	used := map[string]bool{} // feeds
	fed := func(where, name string) {
		if name != "" && !extracted[name] && !p.given[name] {
			feedName, _, _ := strings.Cut(name, ".")
			used[feedName] = true
			p.placeholder(s.Feed, where, name)
		}
	}
	for i := range s.Steps {
		step := &s.Steps[i]
		p.request(&step.Request)
		for where, text := range step.Request.texts() {
			for _, piece := range SplitPlaceholders(text) {
				fed(where, piece.Name)
			}
		}
		for _, status := range step.ExpectedStatuses {
			p.checkf(status >= 100 && status <= 599, "expected_statuses: %d: give one from 100 to 599", status)
		}
		p.checks(step.Checks)
		p.checkf(step.Think[0] >= 0 && step.Think[1] <= 24*time.Hour, "think: %v: give a time up to 24h", step.Think[1])
	}
	for _, c := range s.Conditions() {
		fed("condition", c.Value)
		p.checkf(len(c.Is)+len(c.Not) > 0, "flow: the condition on %q says nothing: give what it is or is not", c.Value)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Feed)) {
		p.checkf(used[name], "feed %q: nothing in the request uses it: write {%s} where its value belongs, or leave it out", name, name)
	}
}

// extracted has the names of the values that steps extract and groups walk through.
func (s *Scenario) extracted() map[string]bool {
	names := map[string]bool{}
	for i := range s.Steps {
		for name := range s.Steps[i].Extract {
			names[name] = true
		}
	}
	for _, name := range s.Items() {
		names[name] = true
	}
	return names
}

// flow checks the order of a scenario's steps.
func (p *problems) flow(s *Scenario) {
	if s.Flow != nil {
		p.checkf(len(s.Flow) > 0, "flow: it has no parts: give some, or leave it out")
		p.checkf(!s.Weighted, "flow: an iteration of a weighted scenario makes one step: leave out one of the two")
		p.parts(s, s.Flow, 0, 1, false)
	}
}

// parts checks parts that lie so deep in groups, which make so many passes together.
func (p *problems) parts(s *Scenario, parts []Part, depth, passes int, atOnce bool) {
	p.checkf(depth <= MaxNested, "flow: groups lie more than %d deep in each other: make it flatter", MaxNested)
	for i := range parts {
		part := &parts[i]
		if len(part.Parts) == 0 {
			p.checkf(part.Step >= 0 && part.Step < len(s.Steps), "flow: step %d: there are %d, and the first is 0", part.Step, len(s.Steps))
			p.checkf(part.Repeat == 0 && part.Parallel == 0 && part.ForEach == "" && part.While == nil, "flow: step %d: only a group has repeat, parallel, for_each or while: give it parts", part.Step)
			continue
		}
		p.checkf(part.Parallel >= 0 && part.Parallel <= maxParallel, "flow: parallel: %d: give a number from 1 to %d, or leave it out", part.Parallel, maxParallel)
		p.checkf(part.Parallel == 0 || !atOnce, "flow: parallel: %d: a group around it is made at once too: leave out one of the two", part.Parallel)
		p.checkf(part.Repeat >= 0 && part.Repeat <= MaxPasses/passes, "flow: repeat: %d: give so many that no step is made more than %d times", part.Repeat, MaxPasses)
		p.checkf(part.While == nil || part.Repeat > 0 && part.Parallel == 0, "flow: while: it ends a group that repeats and is made in turn: give repeat, and leave out parallel")
		if part.ForEach != "" || part.As != "" {
			p.list(s, part)
		}
		within := min(passes*min(max(part.Repeat, 1), MaxPasses), MaxPasses)
		p.parts(s, part.Parts, depth+1, within, atOnce || part.Parallel > 0)
	}
}

// list checks what a group goes over.
func (p *problems) list(s *Scenario, part *Part) {
	_, taken := s.Feed[part.As]
	found := false
	for i := range s.Steps {
		e, ok := s.Steps[i].Extract[part.ForEach]
		if ok {
			p.checkf(e.JSON != "" && e.Initial == nil && e.Join == "", "flow: for_each: %q is a list: give a path into a JSON body, and neither an initial value nor join", part.ForEach)
		}
		_, same := s.Steps[i].Extract[part.As]
		found, taken = found || ok, taken || same
	}
	p.checkf(found, "flow: for_each: no step extracts %q: extract it in an earlier step", part.ForEach)
	p.checkf(part.As != "", "flow: for_each: %q: give the placeholder of its values in as", part.ForEach)
	p.checkf(!taken, "flow: as: %q is a feed, or a step extracts it: give another name", part.As)
	p.checkf(part.Repeat == 0, "flow: for_each: %q: a group goes over a list or repeats: leave out one of the two", part.ForEach)
}

func (p *problems) checks(checks []Check) {
	names := map[string]bool{}
	for _, check := range checks {
		p.checkf(!names[check.Name], "checks: there are two of the name %q: rename one", check.Name)
		names[check.Name] = true
		p.checkf(len(check.Status) > 0 || check.Contains != "" || check.JSON != "", "check %q: it looks for nothing: give a status, a text or a path", check.Name)
		for _, status := range check.Status {
			p.checkf(status >= 100 && status <= 599, "check %q: status %d: give one from 100 to 599", check.Name, status)
		}
	}
}

// reserved are header fields that the generator sets itself.
var reserved = []string{"content-length", "transfer-encoding", "connection", "upgrade", "expect", "te", "trailer"}

func (p *problems) request(r *Request) {
	p.checkf(isTokenText(r.Method) && r.Method != http.MethodConnect, "request: the method %q: use one such as GET", r.Method)
	p.checkf(strings.HasPrefix(r.Path, "/"), "request: the path %q: begin it with /", r.Path)
	p.checkf(!strings.ContainsFunc(r.Path, func(c rune) bool { return c <= ' ' || c >= 0x7f }),
		"request: the path %q has a space, a control character or a letter beyond ASCII: write it as %%20 and the like", r.Path)
	p.checkf(!strings.Contains(r.Path, "#"), "request: the path %q: leave out # and what follows, which is never sent", r.Path)
	p.form(r)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		value := r.Header[name]
		p.checkf(isTokenText(name), "request: the header name %q: use letters, digits and -", name)
		p.checkf(!strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }),
			"request: header %s: its value has a control character: take it out", name)
		p.checkf(!slices.Contains(reserved, strings.ToLower(name)), "request: header %s is set by the generator: leave it out", name)
		hostHasFeed := strings.EqualFold(name, "host") && len(SplitPlaceholders(value)) > 1
		p.checkf(!hostHasFeed, "request: header Host: a placeholder is of no use in it: write the host out")
	}
}

// form checks that there is one body, and that its fields can be written.
func (p *problems) form(r *Request) {
	bodies := 0
	for _, given := range []bool{r.Body != "", len(r.Form) > 0, len(r.Multipart) > 0} {
		if given {
			bodies++
		}
	}
	p.checkf(bodies <= 1, "request: it has %d of body, form and multipart: give one", bodies)
	if _, found := r.ContentType(); found {
		p.checkf(len(r.Multipart) == 0, "request: header Content-Type is set by the generator, which knows the boundary of multipart/form-data: leave it out")
	}
	for i := range r.Multipart {
		f := &r.Multipart[i]
		p.checkf(f.Name != "", "request: field %d of the form has no name: give one", i+1)
		p.checkf(f.Value == "" || f.File == "", "request: field %q of the form is a text and a file: give one", f.Name)
		p.checkf(!strings.ContainsFunc(f.Type, func(c rune) bool { return c < ' ' || c >= 0x7f }), "request: field %q of the form: its type %q: give one such as image/png", f.Name, f.Type)
	}
}

// texts are the parts of a request that placeholders may be in, by what they are called.
func (r *Request) texts() map[string]string {
	texts := map[string]string{"path": r.Path, "body": r.Body}
	for name, value := range r.Header {
		texts["header "+name] = value
	}
	for name, value := range r.Form {
		texts["form field "+name] = value
	}
	for _, f := range r.Multipart {
		texts["form field "+f.Name] += f.Value
	}
	return texts
}

// placeholder checks that a feed has what is asked for.
func (p *problems) placeholder(feeds map[string]feed.Feed, where, name string) {
	whole, column, _ := strings.Cut(name, ".")
	f, ok := feeds[whole]
	columns := f.CSV != nil && f.CSV.Column == "" || f.JSONL != nil && f.JSONL.Column == ""
	switch {
	case !ok:
		p.checkf(false, "request: the %s has {%s}, but there is no feed of that name: add it", where, name)
	case column != "": // which columns there are is in the file, which is not read here
		p.checkf(columns, "request: the %s has {%s}, but feed %q has no columns to choose from: write {%s}", where, name, whole, whole)
	}
}

// isTokenText says whether s is a token of RFC 9110, such as a header's name.
func isTokenText(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}
