package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"loadstone/lab/load"
)

// Scenario is one of k6's scenarios, with k6's options by k6's names, and what
// an iteration of it does: a request, steps, or a WebSocket client's work.
type Scenario struct {
	Name string

	// How the load is shaped, by k6's names. The arrival-rate executors start
	// iterations at a rate, whatever the system answers (open model); the vus
	// executors keep a number of virtual users busy, and the iterations
	// executors do until a number of iterations is done (closed model). replay
	// repeats an access log.
	Executor string `key:"executor,need" eg:"constant-arrival-rate" enum:"shared-iterations|per-vu-iterations|constant-vus|ramping-vus|constant-arrival-rate|ramping-arrival-rate|replay"`

	// The request that is repeated: "GET /path", or method, path, headers and
	// body. {name} in the path, a header value or the body takes the next value
	// of the feed of that name.
	Request Request `key:"request" eg:"GET /path" each:"the request"`

	// The requests of an iteration, in place of request: all of them in turn,
	// or one of them if the scenario is weighted.
	Steps []Step `key:"steps" eg:"[{name: home, request: GET /}]" each:"step %d" least:"1" list:"a list with a step in it"`

	// Has each iteration make one of the steps, drawn by weight, in place of
	// all of them.
	Weighted bool `key:"weighted" eg:"true" default:"false"`

	// Has a virtual user keep its cookies from one iteration to the next. They
	// last for one iteration otherwise, as in k6.
	KeepCookies bool `key:"keepCookies" eg:"true" default:"false"`

	// Gives each virtual user a private HTTP cache of so many bytes (RFC 9111), as a
	// browser or an app has one, and keeps it from one iteration to the next: what is
	// fresh is not asked for, and what is not is asked about with If-None-Match. The
	// answers that were used last stay, each counted as its bytes on the wire.
	CacheBytes int64 `key:"cacheBytes" eg:"10000000" max:"1000000000" min:"1"`

	// The access log that executor: replay repeats.
	Replay *Replay `key:"replay" eg:"{log: access.log}"`

	// What each virtual user of a vus executor does in place of requests: it is
	// a client with one WebSocket connection. Its path, or path and more.
	WebSocket *WebSocket `key:"websocket" eg:"/chat"`

	// Where the values of the {placeholders} come from, by name.
	Feed map[string]Feed `key:"feed" eg:"{id: {uniform: [1, 1000]}}" each:"feed %s" list:"a mapping" names:"feed"`

	// How long after the start of the load this scenario starts.
	StartTime time.Duration `key:"startTime" eg:"10s" default:"0s"`

	// How long what is under way at the end may take before it is cut off.
	GracefulStop time.Duration `key:"gracefulStop" eg:"30s" default:"30s"`

	// How long the load lasts. measure: capacity chooses it itself.
	Duration time.Duration `key:"duration" eg:"30s" min:"1ns"`

	// How many iterations start, which are requests where an iteration is one:
	// 5000/s, 300/m or 1/h; a bare number beside timeUnit. For measure:
	// capacity it is where the search starts.
	Rate Rate `key:"rate" eg:"100/s" bare:""`

	// The rate at the start of the first stage, 0/s if not given. For measure:
	// capacity it is where the search starts.
	StartRate Rate `key:"startRate" eg:"100/s" bare:"" min:"0"`

	// What rates without a unit are counted by, as in k6: rate: 300 with
	// timeUnit: 1m is 300/m.
	TimeUnit time.Duration `key:"timeUnit" eg:"1s" min:"1ns"`

	// The legs of the ramp, one after the other.
	Stages []Stage `key:"stages" eg:"[{duration: 30s, target: 100/s}]" each:"stage %d" least:"1"`

	// poisson spaces arrivals as many independent users do; uniform spaces them
	// evenly, as k6 does.
	Arrivals string `key:"arrivals" eg:"poisson" default:"poisson" enum:"poisson|uniform"`

	// How many virtual users are made before the load starts: 64 if not given,
	// or maxVUs where that is lower.
	PreAllocatedVUs int `key:"preAllocatedVUs" eg:"64" max:"100000" min:"1"`

	// How many iterations may be under way at once: preAllocatedVUs if only
	// that is given, as in k6, and 1024 if neither is.
	MaxVUs int `key:"maxVUs" eg:"1024" max:"100000" min:"1"`

	// How many virtual users there are, each of which begins an iteration when
	// its last one has ended.
	VUs int `key:"vus" eg:"10" max:"100000" min:"1"`

	// The number of virtual users at the start of the first stage.
	StartVUs int `key:"startVUs" eg:"1" default:"1" max:"100000" min:"0"`

	// How many iterations are done: by all virtual users together
	// (shared-iterations), or by each of them (per-vu-iterations).
	Iterations uint64 `key:"iterations" eg:"1000" max:"1000000000000" min:"1"`

	// How long the iterations may take; what is not begun by then is not done.
	MaxDuration time.Duration `key:"maxDuration" eg:"10m" default:"10m" min:"1ns"`
}

// Replay is an access log to repeat, each request at the log's own time.
type Replay struct {
	// Path of a web server's log in the combined (or common) format, relative
	// to this file.
	Log string `key:"log,need" eg:"access.log" path:"an access log"`
	// How much faster than in the log: 2 is twice as fast, 0.5 half as fast.
	Speed float64 `key:"speed" eg:"2" default:"1" max:"1000" min:"0.001"`
}

const (
	// Enough connections for a fast system from the start, and as many as a
	// slow one can need on one machine: 1024 under way at 200 ms are 5120/s.
	defaultPreAllocatedVUs = 64
	defaultMaxVUs          = 1024
)

func (sc *Scenario) prepare(s *section) {
	ex, others := sc.executor(s), takers()
	s.shape = shapeOf(s, ex)
	s.examples = s.shape.examples()
	s.known = knownTo(ex)
	s.skipped = func(key string) bool {
		switch {
		case key == "executor":
			return ex.refused
		case key == "feed":
			return ex.name == load.Replay
		case slices.Contains(ofRequests(), key):
			return s.has("websocket") || ex.name == load.Replay
		}
		return key != "websocket" && !slices.Contains(ofEvery(), key) && !slices.Contains(ex.takes, key)
	}
	switch {
	case s.measure == AsWritten:
		s.needs = ex.needs
	case ex.name == load.Replay:
		s.needs = []string{"replay"}
	case s.has("websocket") && ex.name == load.ConstantVUs:
		s.needs = []string{"vus"}
	}
	s.refuses = func(key string) string { return refusal(ex.name, key, others[key]) }
	oneOfSteps := hint{"write it within steps, as in steps: [{name: " + sc.Name + ", request: GET /}]", ""}
	s.hints = map[string]hint{
		"url": {"write request: GET /path", "request"}, "target": {"write it within stages", ""}, "log": {"write replay: {log: access.log}", "replay"},
		"checks": oneOfSteps, "extract": oneOfSteps, "think": oneOfSteps, "weight": oneOfSteps,
	}
}

// executor returns the executor that is written. It is the zero value if that is
// unknown.
func (sc *Scenario) executor(s *section) executor {
	p, ok := s.n.pair("executor")
	if !ok || p.value.kind != text || p.value.tag != "" {
		return executor{}
	}
	if p.value.text == externallyControlled {
		all := executorNames(func(string) bool { return true })
		s.errorf(p.value, "with k6's executor %s somebody changes the load while it runs, so no run could be repeated; write one of: %s", externallyControlled, strings.Join(all, ", "))
		return executor{refused: true}
	}
	return executorOf(p.value.text)
}

func (sc *Scenario) check(s *section) {
	switch {
	case sc.Executor == load.Replay:
		sc.Arrivals = load.Uniform // those of the log, not drawn
		sc.checkUsers(s)
	case hasRate(sc.Executor):
		sc.checkUsers(s)
	case sc.Executor == load.SharedIterations && s.fields["iterations"].sound && sc.Iterations < uint64(sc.VUs):
		s.errorf(s.fields["iterations"].n, "%d virtual users cannot share iterations: %d; write %d or more, or fewer vus", sc.VUs, sc.Iterations, sc.VUs)
	}
	if f := s.fields["stages"]; f.sound {
		sc.checkRamp(s, f)
	}
	switch {
	case sc.Executor == load.Replay:
	case s.has("websocket"):
		for _, key := range ofIterations() {
			if p, ok := s.n.pair(key); ok {
				s.errorf(p.key, "a WebSocket scenario makes no requests, so %s has no use; remove it, or remove websocket", key)
			}
		}
		if sc.WebSocket != nil {
			sc.checkClients(s)
			sc.checkValues(s)
		}
	default:
		sc.checkRequests(s)
	}
}

// checkUsers checks how many virtual users an arrival-rate executor may have. As
// in k6, maxVUs is preAllocatedVUs where only that is given.
func (sc *Scenario) checkUsers(s *section) {
	pre, most := s.fields["preAllocatedVUs"], s.fields["maxVUs"]
	switch {
	case !pre.given() && !most.given():
		sc.PreAllocatedVUs, sc.MaxVUs = defaultPreAllocatedVUs, defaultMaxVUs
	case !most.given():
		sc.MaxVUs = sc.PreAllocatedVUs
	case !pre.given():
		sc.PreAllocatedVUs = min(defaultPreAllocatedVUs, sc.MaxVUs)
	}
	if sc.PreAllocatedVUs > sc.MaxVUs {
		s.errorf(most.n, "maxVUs %d is lower than preAllocatedVUs %d; write maxVUs: %d or more", sc.MaxVUs, sc.PreAllocatedVUs, sc.PreAllocatedVUs)
	}
}

// short refuses a path without its key.
func (r *Replay) short(f field) bool {
	if f.n.kind == text {
		f.errorf(f.n, "replay must have keys; write replay: {log: %s}", f.n.text)
	}
	return f.n.kind == text
}

// checkRequests checks the requests of an iteration against each other, and
// against the feeds of their placeholders.
func (sc *Scenario) checkRequests(s *section) {
	request, steps, weighted := s.fields["request"], s.fields["steps"], s.fields["weighted"]
	before := len(s.errs)
	switch {
	case request.n != nil && steps.n != nil:
		s.errorf(request.place, "request is the only step of a scenario, and this one has steps; write it as one of them, or remove steps")
	case steps.n != nil:
		sc.checkSteps(s, steps.n)
	case request.n != nil:
		if weighted.n != nil {
			s.errorf(weighted.place, "weighted draws between steps, and there is one request; write steps, or remove weighted")
		}
	case s.meant["steps"], s.meant["websocket"], s.has("replay"): // reported
	default:
		s.lack("request", request.example)
	}
	understood := (request.sound || steps.sound) && len(s.errs) == before
	it := iterationOf(sc, s)
	feeds := s.fields["feed"]
	used := s.match(it, sc.Feed)
	if understood {
		feeds.checkUsed(used, sc.Feed)
		s.checkExtracted(it)
		s.checkItems(it)
		s.checkBranches(it)
	}
}

// refusal says why an executor does not take a key; "" for a key that nobody
// knows. others are the executors that take it.
func refusal(executor, key string, others []string) string {
	instead := map[string]string{}
	switch {
	case executor == load.RampingArrivalRate:
		instead["rate"] = "startRate"
	case executor == load.RampingVUs:
		instead["vus"] = "startVUs"
	case countsIterations(executor):
		instead["duration"] = "maxDuration"
	}
	switch {
	case instead[key] != "":
		return fmt.Sprintf("executor %s does not take %s; write %s", executor, key, instead[key])
	case executor == load.Replay && slices.Contains(ofRequests(), key):
		return fmt.Sprintf("executor %s does not take %s, because the log has the requests; remove it", executor, key)
	case others != nil:
		return fmt.Sprintf("executor %s does not take %s; remove it, or write executor: %s", executor, key, strings.Join(others, " or "))
	case slices.Contains([]string{"exec", "env", "tags", "options", "gracefulRampDown"}, key):
		return fmt.Sprintf("k6's %s is not supported; remove it", key)
	}
	return ""
}

// rules say which keys an executor takes, what its stages end at, and that an
// iteration is made of one of request, steps, replay and websocket.
func (*Scenario) rules(s *schema) {
	for _, ex := range executors() {
		var refused []string
		for _, other := range executors() {
			for _, key := range other.takes {
				if !slices.Contains(ex.takes, key) {
					refused = append(refused, key)
				}
			}
		}
		s.AllOf = append(s.AllOf, &schema{If: isOneOf("executor", ex.name), Then: without(refused...)})
	}
	stages := func(s *schema, key string) *schema { return where(&schema{Items: where(s, key)}, "stages") }
	rates := func(kind string) *schema {
		s := &schema{Type: kind}
		return &schema{AllOf: []*schema{where(s, "rate"), where(s, "startRate"), stages(s, "target")}}
	}
	usersOnly := executorNames(func(name string) bool { return !hasRate(name) && name != load.Replay })
	s.AllOf = append(s.AllOf,
		&schema{If: isOneOf("executor", usersOnly...), Then: stages(&schema{Type: "integer"}, "target")},
		&schema{If: isOneOf("executor", executorNames(hasRate)...), Then: &schema{If: with("timeUnit"), Then: rates("number"), Else: rates("string")}},
		where(&schema{Not: either(&schema{Enum: []any{0}}, &schema{Type: "string", Pattern: zeroRate})}, "rate"),
		&schema{OneOf: exactlyOne("request", "steps", "replay", "websocket")},
		&schema{If: isOneOf("executor", load.Replay), Then: with("replay")},
		&schema{If: with("websocket"), Then: without(ofIterations()...)},
		&schema{If: with("request"), Then: without("weighted")},
		&schema{If: &schema{Not: with("weighted")}, Then: where(&schema{Items: without("weight")}, "steps")},
	)
}

func (*Replay) shortSchema() *schema { return nil }
