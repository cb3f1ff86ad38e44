package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
)

// knownEdge is a generator of a system that holds so many clients and no more.
type knownEdge struct {
	holds int
	plans []load.Plan
}

func (g *knownEdge) Run(_ context.Context, p load.Plan, _ func(load.Window) string) (load.Result, error) {
	g.plans = append(g.plans, p)
	if len(g.plans) > 100 {
		return load.Result{}, errors.New("it does not end")
	}
	clients := p.Scenarios[0].VUs
	begin := time.Unix(1_800_000_000, 0)
	open := min(clients, g.holds)
	return load.Result{
		From: begin, To: begin.Add(p.Length() - p.Warmup), Requests: uint64(clients), Failed: uint64(clients - open),
		Steps: []load.StepResult{
			{Scenario: "chat", Name: load.StepConnect, Requests: uint64(clients)},
			{Scenario: "chat", Name: load.StepSession, Requests: uint64(clients - open), Failed: uint64(clients - open)},
		},
		WebSocket: &load.WebSocketResult{Clients: clients, LeastOpen: clients, Connects: uint64(clients), Closed: uint64(clients - open)},
		Generator: load.Generator{Cores: 2},
	}, nil
}

// The search finds how many connections a system holds that throws out the others.
func TestConnectionsRiseToTheEdge(t *testing.T) {
	t.Parallel()
	e, err := experiment.Parse("x.yaml", []byte(`name: x
system: compose.yaml
entry: api
variants: {one: {}}
load: {warmup: 3s, scenarios: {chat: {executor: constant-vus, vus: 100, websocket: {path: /ws, connectRate: 1000/s}}}}
slo: {ws_closed: [rate==0]}
search: {budget: 60s, tolerance: 2%}
measure: capacity
trials: 1
`))
	if err != nil {
		t.Fatal(err)
	}
	const holds = 1234
	g := &knownEdge{holds: holds}
	m := &trialRun{
		execution: &execution{Config: Config{Experiment: e}, search: searchConfig(e)},
		trial:     &archive.Trial{Planned: archive.Planned{Index: 1, Variant: "one"}},
		generator: g, base: e.Plan(),
	}
	m.windows, err = archive.CreateLines(t.TempDir(), archive.WindowsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.windows.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := m.capacity(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, measured := m.trial.Conclude()
	if out.Rate > holds || out.Rate < holds*0.96 || out.Rejected <= holds || out.LowerBound || measured.Unit != "connections" {
		t.Errorf("got %+v in %s after %d attempts, want %d connections", out, measured.Unit, len(g.plans), holds)
	}
	sum := time.Duration(0)
	for _, p := range g.plans {
		sum += p.Length() - p.Warmup
	}
	if sum > 60*time.Second || sum < 40*time.Second {
		t.Errorf("got %s of measuring, want what the budget of 60s allows", sum)
	}
	first, second := g.plans[0], g.plans[1]
	if first.Warmup < 4*time.Second || second.Warmup >= 4*time.Second || second.Warmup <= time.Second || first.StopOnOverload {
		t.Errorf("got warm-ups of %s and %s, want the experiment's once, and the time to connect in each", first.Warmup, second.Warmup)
	}
	for _, k := range m.trial.Measures {
		if k.Result.IterationsInTime != uint64(k.Rate*k.Result.Seconds()) {
			t.Errorf("at %v: got %d iterations in %v s", k.Rate, k.Result.IterationsInTime, k.Result.Seconds())
		}
	}
}
