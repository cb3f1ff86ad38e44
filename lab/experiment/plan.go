package experiment

import (
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/feed"
)

// Plan returns the load as the generator takes it, but for the targets, which
// only the caller knows. For measure: capacity the rate, the duration and the
// stages are the search's to set, which starts at a rate that is given. A load that
// is a k6 script has no plan: see Offer.K6.
func (e *Experiment) Plan() load.Plan { return e.Load.plan(e.Seed) }

func (l *Offer) plan(seed uint64) load.Plan {
	p := load.Plan{
		Scenarios: make([]load.Scenario, len(l.Scenarios)), Seed: seed, Warmup: l.Warmup, Timeout: l.Timeout,
		Protocol: l.Protocol, Protos: l.Proto, Connections: l.Connections, Threads: l.Threads, Spin: l.Spin,
		TLS: load.TLS{InsecureSkipVerify: l.InsecureSkipTLSVerify},
	}
	for _, text := range l.LocalIPs {
		prefix, _ := load.ParsePrefix(text) // its form was checked
		p.LocalIPs = append(p.LocalIPs, prefix)
	}
	if l.TLS != nil {
		p.TLS.CAFile, p.TLS.ServerName = l.TLS.CAFile, l.TLS.ServerName
	}
	for i := range l.Scenarios {
		p.Scenarios[i] = l.Scenarios[i].resolve()
	}
	p.Setup, p.Teardown = l.Setup.once("setup"), l.Teardown.once("teardown")
	return p
}

// Secure says whether an experiment's entry service is spoken to by TLS.
func (l *Offer) Secure() bool { return l.TLS != nil || l.InsecureSkipTLSVerify }

func (sc *Scenario) resolve() load.Scenario {
	out := load.Scenario{
		Name: sc.Name, Executor: sc.Executor,
		StartTime: sc.StartTime, Duration: sc.Duration, GracefulStop: sc.GracefulStop,
		Rate: float64(sc.Rate), StartRate: float64(sc.StartRate), Arrivals: sc.Arrivals,
		PreAllocatedVUs: sc.PreAllocatedVUs, MaxVUs: sc.MaxVUs, VUs: sc.VUs, StartVUs: sc.StartVUs,
		Iterations: sc.Iterations, Weighted: sc.Weighted, KeepCookies: sc.KeepCookies, CacheBytes: sc.CacheBytes,
		Feed: make(map[string]feed.Feed, len(sc.Feed)),
	}
	if countsIterations(sc.Executor) {
		out.Duration = sc.MaxDuration
	}
	for _, stage := range sc.Stages {
		out.Stages = append(out.Stages, load.Stage{Duration: stage.Duration, Target: float64(stage.Target)})
	}
	out.Flow = sc.flow()
	for _, step := range sc.steps() {
		out.Steps = append(out.Steps, step.resolve(sc.Weighted))
	}
	for name, f := range sc.Feed {
		out.Feed[name] = f.resolve()
	}
	if sc.Replay != nil {
		out.Log = &load.AccessLog{Path: sc.Replay.Log, Speed: sc.Replay.Speed}
	}
	if sc.WebSocket != nil {
		out.WebSocket, out.Arrivals = sc.WebSocket.resolve(), sc.WebSocket.Arrivals
	}
	return out
}

// steps returns the steps of an iteration. A request without steps is the one
// step of its scenario, and goes by its name.
func (sc *Scenario) steps() []Step {
	switch {
	case len(sc.Steps) > 0:
		return requests(sc.Steps)
	case sc.Replay != nil || sc.WebSocket != nil:
		return nil
	default:
		return []Step{{Name: sc.Name, Request: sc.Request}}
	}
}

// OneRequest says whether each iteration of the scenario is one request, so
// that iterations per second are requests per second.
func (sc *Scenario) OneRequest() bool {
	return sc.CacheBytes == 0 && (sc.Weighted || len(sc.steps()) <= 1 && sc.flow() == nil)
}

// length is how long the scenario offers load; 0 if that is not known.
func (sc *Scenario) length() time.Duration {
	total := max(sc.Duration, sc.MaxDuration)
	for _, stage := range sc.Stages {
		total += stage.Duration
	}
	return total
}

func (step *Step) resolve(weighted bool) load.Step {
	request := step.Request.resolve()
	if step.GRPC != nil {
		request = step.GRPC.resolve()
	}
	out := load.Step{Name: step.Name, Request: request, Think: step.Think, ExpectedStatuses: step.ExpectedStatuses}
	if weighted {
		out.Weight = step.Weight
	}
	if len(step.Extract) > 0 {
		out.Extract = make(map[string]load.Extract, len(step.Extract))
	}
	for name, e := range step.Extract {
		out.Extract[name] = load.Extract(e)
	}
	for _, c := range step.Checks {
		out.Checks = append(out.Checks, load.Check(c))
	}
	return out
}

func (r *Request) resolve() load.Request {
	out := load.Request{Method: r.Method, Path: r.Path, Header: r.Headers, Body: r.Body, Form: r.Form}
	for _, f := range r.Multipart {
		out.Multipart = append(out.Multipart, load.FormField(f))
	}
	return out
}

func (f *Feed) resolve() feed.Feed {
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
		Room: w.Room, Hello: w.Hello, Joined: w.Joined, Lifetime: w.Lifetime, Ping: w.Ping,
		Message: w.Message, Ack: w.Ack, Refused: w.Refused, Skipped: w.Skipped,
		Rate: float64(w.Rate), Senders: w.Senders, Deliver: w.Deliver,
		ConnectRate: float64(w.ConnectRate), SlowClients: w.SlowClients, SlowRate: float64(w.SlowRate),
	}
	if w.Login != nil {
		login := Step{Request: w.Login.Request, Extract: w.Login.Extract}
		step := login.resolve(false)
		out.Login = &load.Login{Request: step.Request, Extract: step.Extract}
	}
	if w.Reconnect != nil {
		out.Reconnect, out.ReconnectAfter, out.ReconnectMost = true, w.Reconnect.After, w.Reconnect.Most
		out.Resend = w.Reconnect.Resend
		for name, marks := range w.Reconnect.Recover {
			if out.Recover == nil {
				out.Recover = map[string][]string{}
			}
			out.Recover[name] = marks
		}
	}
	return out
}
