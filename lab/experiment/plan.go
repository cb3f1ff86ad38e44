package experiment

import (
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/feed"
)

// Plan returns the load as the generator takes it, but for the targets, which
// only the caller knows. For measure: capacity the rate, the duration and the
// stages are the search's to set; see [Experiment.StartRate]. A load that is a
// k6 script has no plan: see Offer.K6.
func (e *Experiment) Plan() load.Plan { return e.Load.plan(e.Seed) }

func (l *Offer) plan(seed uint64) load.Plan {
	p := load.Plan{
		Scenarios: make([]load.Scenario, len(l.Scenarios)), Seed: seed, Warmup: l.Warmup, Timeout: l.Timeout,
		Protocol: l.Protocol, Connections: l.Connections, Threads: l.Threads, Spin: l.Spin,
		TLS: load.TLS{InsecureSkipVerify: l.InsecureSkipTLSVerify},
	}
	if l.TLS != nil {
		p.TLS.CAFile, p.TLS.ServerName = l.TLS.CAFile, l.TLS.ServerName
	}
	for i := range l.Scenarios {
		p.Scenarios[i] = l.Scenarios[i].resolve()
	}
	return p
}

// Secure says whether an experiment's entry service is spoken to by TLS.
func (l *Offer) Secure() bool { return l.TLS != nil || l.InsecureSkipTLSVerify }

func (s *Scenario) resolve() load.Scenario {
	out := load.Scenario{
		Name: s.Name, Executor: s.Executor,
		StartTime: s.StartTime, Duration: s.Duration, GracefulStop: s.GracefulStop,
		Rate: float64(s.Rate), StartRate: float64(s.StartRate), Arrivals: s.Arrivals,
		PreAllocatedVUs: s.PreAllocatedVUs, MaxVUs: s.MaxVUs, VUs: s.VUs, StartVUs: s.StartVUs,
		Iterations: s.Iterations, Weighted: s.Weighted, KeepCookies: s.KeepCookies,
		Feed: make(map[string]feed.Feed, len(s.Feed)),
	}
	if countsIterations(s.Executor) {
		out.Duration = s.MaxDuration
	}
	for _, stage := range s.Stages {
		out.Stages = append(out.Stages, load.Stage{Duration: stage.Duration, Target: float64(stage.Target)})
	}
	for _, step := range s.steps() {
		out.Steps = append(out.Steps, step.resolve(s.Weighted))
	}
	for name, f := range s.Feed {
		out.Feed[name] = f.resolve()
	}
	if s.Replay != nil {
		out.Log = &load.AccessLog{Path: s.Replay.Log, Speed: s.Replay.Speed}
	}
	if s.WebSocket != nil {
		out.WebSocket, out.Arrivals = s.WebSocket.resolve(), s.WebSocket.Arrivals
	}
	return out
}

// steps returns the steps of an iteration. A request without steps is the one
// step of its scenario, and goes by its name.
func (s *Scenario) steps() []Step {
	switch {
	case len(s.Steps) > 0:
		return s.Steps
	case s.Replay != nil || s.WebSocket != nil:
		return nil
	default:
		return []Step{{Name: s.Name, Request: s.Request}}
	}
}

// OneRequest says whether each iteration of the scenario is one request, so
// that iterations per second are requests per second.
func (s *Scenario) OneRequest() bool { return s.Weighted || len(s.steps()) <= 1 }

// length is how long the scenario offers load; 0 if that is not known.
func (s *Scenario) length() time.Duration {
	total := max(s.Duration, s.MaxDuration)
	for _, stage := range s.Stages {
		total += stage.Duration
	}
	return total
}

func (s Step) resolve(weighted bool) load.Step {
	r := s.Request
	out := load.Step{
		Name: s.Name, Request: load.Request{Method: r.Method, Path: r.Path, Header: r.Headers, Body: r.Body}, Think: s.Think,
	}
	if weighted {
		out.Weight = s.Weight
	}
	if len(s.Extract) > 0 {
		out.Extract = make(map[string]load.Extract, len(s.Extract))
	}
	for name, e := range s.Extract {
		out.Extract[name] = load.Extract(e)
	}
	for _, c := range s.Checks {
		out.Checks = append(out.Checks, load.Check(c))
	}
	return out
}

func (f Feed) resolve() feed.Feed {
	out := feed.Feed{Uniform: (*[2]int64)(f.Uniform), Sequential: (*[2]int64)(f.Sequential), CSV: f.CSV.resolve(), JSONL: f.JSONL.resolve(), PerVU: f.PerVU}
	if f.Zipf != nil {
		z := feed.Zipf(*f.Zipf)
		out.Zipf = &z
	}
	return out
}

func (r *Rows) resolve() *feed.File {
	if r == nil {
		return nil
	}
	return &feed.File{Path: r.File, Column: r.Column, Random: r.Order == atRandom}
}

func (w *WebSocket) resolve() *load.WebSocket {
	out := &load.WebSocket{
		Path: w.Path, Header: w.Headers, Subprotocols: w.Subprotocols,
		Message: w.Message, Rate: float64(w.Rate), Senders: w.Senders, Deliver: w.Deliver,
		ConnectRate: float64(w.ConnectRate), SlowClients: w.SlowClients, SlowRate: float64(w.SlowRate),
	}
	if w.Reconnect != nil {
		out.Reconnect, out.ReconnectAfter, out.ReconnectMost = true, w.Reconnect.After, w.Reconnect.Most
	}
	return out
}
