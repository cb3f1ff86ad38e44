package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"loadstone/block/spelling"
	"loadstone/lab/load"
)

const (
	// maxVUs bounds the virtual users of one scenario, as the load generator does.
	maxVUs = 100_000
	// maxSteps bounds the steps of all scenarios, and maxSpeed the speed of a
	// replay, as the load generator does.
	maxSteps = 100
	maxSpeed = 1000
	// maxIterations bounds the iterations of one scenario: a year at 30,000/s.
	maxIterations = 1_000_000_000_000

	defaultTimeout      = 5 * time.Second  // longer than any answer that a user waits for
	defaultGracefulStop = 30 * time.Second // k6's
	defaultMaxDuration  = 10 * time.Minute // k6's
	defaultStartVUs     = 1                // k6's
	// Enough connections for a fast system from the start, and as many as a
	// slow one can need on one machine: 1024 under way at 200 ms are 5120/s.
	defaultPreAllocatedVUs = 64
	defaultMaxVUs          = 1024
)

// externallyControlled is k6's executor whose load somebody changes while it
// runs. It is refused: a run that does not follow from its file cannot be
// repeated.
const externallyControlled = "externally-controlled"

// executor is what one of k6's executors takes beside the keys of every
// scenario, and what it cannot do without when the load is driven as written.
type executor struct {
	name  string
	takes []string
	needs []string
}

// executors returns the executors that there are, in k6's order.
func executors() []executor {
	of := func(name string, needs []string, takes ...string) executor {
		return executor{name, slices.Concat(ofRequests(), takes), needs}
	}
	return []executor{
		of(load.SharedIterations, []string{"vus", "iterations"}, "vus", "iterations", "maxDuration"),
		of(load.PerVUIterations, []string{"vus", "iterations"}, "vus", "iterations", "maxDuration"),
		of(load.ConstantVUs, []string{"vus", "duration"}, "vus", "duration", "websocket"),
		of(load.RampingVUs, []string{"stages"}, "startVUs", "stages", "websocket"),
		of(load.ConstantArrivalRate, []string{"rate", "duration"}, "rate", "duration", "timeUnit", "arrivals", "preAllocatedVUs", "maxVUs"),
		of(load.RampingArrivalRate, []string{"stages"}, "startRate", "stages", "timeUnit", "arrivals", "preAllocatedVUs", "maxVUs"),
		{load.Replay, []string{"replay", "preAllocatedVUs", "maxVUs"}, []string{"replay"}},
	}
}

// ofEvery returns the keys that every executor takes.
func ofEvery() []string { return []string{"executor", "startTime", "gracefulStop"} }

// ofRequests returns the keys that say which requests an iteration makes.
func ofRequests() []string { return []string{"request", "steps", "weighted", "keepCookies", "feed"} }

// hasRate reports whether an executor starts iterations at a rate that the
// file gives.
func hasRate(executor string) bool {
	return executor == load.ConstantArrivalRate || executor == load.RampingArrivalRate
}

// isOpen reports whether an executor has a schedule, whatever comes back.
func isOpen(executor string) bool { return hasRate(executor) || executor == load.Replay }

// countsIterations reports whether an executor ends when a number of
// iterations is done.
func countsIterations(executor string) bool {
	return executor == load.SharedIterations || executor == load.PerVUIterations
}

// scenario reads one scenario. complete says that its load is driven as
// written and must be there in full.
func (d *decoder) scenario(p pair, complete bool) Scenario {
	s := Scenario{Name: p.key.text, GracefulStop: defaultGracefulStop}
	d.validName(p.key, "scenario", "lookup")
	what := "scenario " + spelling.Quote(s.Name)
	sec := d.section(p.value, p.key, what, s.Name+": {executor: constant-arrival-rate, rate: 100/s, duration: 30s, request: GET /}")
	if sec == nil {
		return s
	}
	ex := sec.executor()
	s.Executor = ex.name
	oneOfSteps := hint{"write it within steps, as in steps: [{name: " + s.Name + ", request: GET /}]", ""}
	sec.hints = map[string]hint{
		"url": {"write request: GET /path", "request"}, "target": {"write it within stages", ""}, "log": {"write replay: {log: access.log}", "replay"},
		"checks": oneOfSteps, "extract": oneOfSteps, "think": oneOfSteps, "weight": oneOfSteps,
	}
	sec.keys(ex)
	if f := sec.may("startTime", "startTime: 10s"); f.given() {
		s.StartTime = f.duration(0)
	}
	if f := sec.may("gracefulStop", "gracefulStop: 30s"); f.given() {
		s.GracefulStop = f.duration(0)
	}
	switch {
	case hasRate(ex.name):
		s.Arrivals = load.Poisson
		sec.users(&s)
	case ex.name == load.Replay:
		s.Arrivals = load.Uniform // those of the log, not drawn
		sec.users(&s)
	case ex.name == load.RampingVUs:
		s.StartVUs = defaultStartVUs
	}
	sec.shape(&s, ex, complete)
	sec.work(&s)
	sec.lacks()
	return s
}

// work reads what an iteration does.
func (s *section) work(to *Scenario) {
	websocket := s.may("websocket", "websocket: /chat")
	switch {
	case to.Executor == load.Replay:
		to.Replay = s.need("replay", "replay: {log: access.log}").replay()
	case websocket.n != nil:
		for _, key := range ofRequests() {
			if p, ok := s.n.pair(key); ok {
				s.errorf(p.key, "a WebSocket scenario makes no requests, so %s has no use; remove it, or remove websocket", key)
			}
		}
		to.WebSocket = websocket.websocket(to)
	default:
		s.requests(to)
	}
}

// replay reads which access log to repeat.
func (f field) replay() *Replay {
	r := &Replay{Speed: 1}
	if !f.given() {
		return r
	}
	if f.n.kind == text {
		f.errorf(f.n, "replay must have keys; write replay: {log: %s}", f.n.text)
		return r
	}
	s := f.section(f.n, f.place, "replay", f.example)
	if s == nil {
		return r
	}
	r.Log = s.need("log", "log: access.log").file("an access log")
	if speed := s.may("speed", "speed: 2"); speed.given() {
		r.Speed = speed.factor(0.001, maxSpeed)
	}
	s.done()
	return r
}

// executor reads the executor. It is the zero value if that is unknown.
func (s *section) executor() executor {
	all := executors()
	names := make([]string, len(all))
	for i, ex := range all {
		names[i] = ex.name
	}
	f := s.need("executor", "executor: constant-arrival-rate")
	if f.given() && f.n.kind == text && f.n.text == externallyControlled {
		f.errorf(f.n, "with k6's executor %s somebody changes the load while it runs, so no run could be repeated; write one of: %s", externallyControlled, strings.Join(names, ", "))
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
			if ex.name == "" && !slices.Contains(known, key) {
				known = append(known, key)
			}
			takenBy[key] = append(takenBy[key], other.name)
		}
	}
	for _, p := range s.n.pairs {
		key := p.key.text
		if slices.Contains(known, key) {
			continue
		}
		if wrong := notTaken(ex.name, key, takenBy[key]); wrong != "" {
			s.errorf(p.key, "%s", wrong)
		} else {
			s.unknown(p.key, known)
		}
	}
}

// notTaken says why an executor does not take a key; "" for a key that nobody
// knows. others are the executors that take it.
func notTaken(executor, key string, others []string) string {
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
