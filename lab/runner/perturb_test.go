package runner

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/host"
	"loadstone/lab/load"
	"loadstone/lab/perturb"
	"loadstone/lab/topology"
)

func TestPerturbingIsBoundedUnlessAskedFor(t *testing.T) {
	t.Parallel()
	f := func(name, measure string, trials int, p experiment.Perturb, want time.Duration) {
		t.Helper()
		e := &experiment.Experiment{Measure: measure, Trials: trials, Search: experiment.DefaultSearch(), Perturb: p}
		k := &execution{Config: Config{Experiment: e}, search: searchConfig(e)}
		if got := k.perturbBudget(); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		if p.Asked {
			return
		}
		whole := time.Duration(trials) * k.trialTime()
		if added := k.perturbTime(); added > 0 && 3*(added+k.lightTime()) > whole+time.Second {
			t.Errorf("%s: %v is added to %v, want a third at most", name, added, whole)
		}
	}
	f("few trials", experiment.Capacity, 3, experiment.Perturb{}, 0)
	f("six trials", experiment.Capacity, 6, experiment.Perturb{}, 20*time.Second)
	f("many trials", experiment.Capacity, 20, experiment.Perturb{}, 30*time.Second)
	f("asked for", experiment.Capacity, 1, experiment.Perturb{Asked: true}, 30*time.Second)
	f("asked for so long", experiment.Capacity, 1, experiment.Perturb{Asked: true, Budget: time.Minute}, time.Minute)
	f("off", experiment.Capacity, 20, experiment.Perturb{Off: true}, 0)
}

// Perturbing is one trial's, so what keeps it from being done is said of that trial alone.
func TestWhichTrialWasToBePerturbedIsSaid(t *testing.T) {
	t.Parallel()
	for trials, want := range map[int]string{
		1: "no component was perturbed: no rate was held",
		3: "no component was perturbed: that is done in the last of the 3 trials, and no rate was held in that one",
	} {
		e := &experiment.Experiment{Measure: experiment.Capacity, Trials: trials, Search: experiment.DefaultSearch(), Perturb: experiment.Perturb{Asked: true}}
		m := &trialRun{execution: &execution{Config: Config{Experiment: e}, search: searchConfig(e)}, trial: &archive.Trial{}}
		m.trial.Round = trials
		if err := m.perturb(t.Context(), load.Scenario{}); err != nil || !slices.Equal(m.trial.Warnings, []string{want}) {
			t.Errorf("%d trials: got %q, %v; want %q", trials, m.trial.Warnings, err, want)
		}
	}
}

// Closed load that may not become more than the capacity moves with nothing.
func TestNothingIsPerturbedBelowARateThatIsBounded(t *testing.T) {
	t.Parallel()
	e := &experiment.Experiment{Measure: experiment.Capacity, Trials: 1, Search: experiment.DefaultSearch(), Perturb: experiment.Perturb{Asked: true}}
	e.Search.MaxRate = 100
	m := &trialRun{execution: &execution{Config: Config{Experiment: e}, search: searchConfig(e)}, trial: &archive.Trial{}, unseen: &unseen{reason: "x"}}
	m.trial.Round = 1
	now := time.Now()
	m.trial.Measures = []archive.Measure{{Kind: archive.AsWritten, Result: load.Result{From: now, To: now.Add(time.Second), CompletedInTime: 95}}}
	const want = "no component was perturbed: that takes room above the capacity, and maxRate allows 100 req/s"
	if err := m.perturb(t.Context(), load.Scenario{}); err != nil || !slices.Equal(m.trial.Warnings, []string{want}) {
		t.Errorf("95 a second were held of 100 that are allowed: got %q, %v; want %q", m.trial.Warnings, err, want)
	}
}

func TestSteadyLoadHasTwiceTheUsersThatWereBusy(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := &load.Result{From: now, To: now.Add(time.Second), CompletedInTime: 1000, Response: load.Latency{Mean: 20}}
	p := steady(load.Plan{StopOnOverload: true}, load.Scenario{Rate: 5, StartTime: time.Second}, at, 2, 10*time.Second)
	s := p.Scenarios[0]
	if s.VUs != 40 || s.Executor != load.ConstantVUs || s.Duration != 13*time.Second || s.StartTime != 0 || p.Warmup != 3*time.Second || p.StopOnOverload {
		t.Errorf("got %+v", p)
	}
	// What holds a thousand under way is perturbed with two thousand.
	at.Response.Mean = 1000
	if p := steady(load.Plan{}, load.Scenario{}, at, 2, time.Second); p.Scenarios[0].VUs != 2000 {
		t.Errorf("a thousand under way: got %d users, want 2,000", p.Scenarios[0].VUs)
	}
	// An iteration is under way while it pauses, too.
	at.Journeys = []load.JourneyResult{{Iterations: 50, Duration: load.Latency{Mean: 4000}}}
	if p := steady(load.Plan{}, load.Scenario{}, at, 2, time.Second); p.Scenarios[0].VUs != 400 {
		t.Errorf("50 a second that take 4 s: got %d users, want 400", p.Scenarios[0].VUs)
	}
}

// Perturbing takes longer of what is slow, and of nothing that is fast.
func TestSlowSystemsArePerturbedForLonger(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		rate, response float64 // a second, ms
		want           bool
	}{{50, 5, true}, {150, 50, true}, {150, 5, true}, {450, 5, false}, {450, 30, true}, {600, 200, false}, {8000, 100, false}} {
		r := &load.Result{From: now, To: now.Add(time.Second), CompletedInTime: uint64(c.rate), Response: load.Latency{Mean: c.response}}
		if got := slow(perturb.DefaultConfig(), r); got != c.want {
			t.Errorf("%v a second that take %v ms: got slow %v, want %v", c.rate, c.response, got, c.want)
		}
	}
}

// Load that does not reach the capacity says nothing of what limits it.
func TestTooFewUsersPerturbNothing(t *testing.T) {
	t.Parallel()
	p := &perturber{seen: &usage{}, needs: 900}
	warm := func(requests, failed uint64) {
		p.window(t.Context(), load.Window{Warmup: true, Seconds: 1, Requests: requests, Failed: failed})
	}
	for _, c := range []struct{ requests, failed uint64 }{{500, 0}, {1500, 1000}} {
		warm(c.requests, c.failed)
		if stop := p.window(t.Context(), load.Window{Seconds: 1}); stop == "" || p.session != nil {
			t.Errorf("%d requests, %d failed: got %q and a session: %v, want it to be stopped", c.requests, c.failed, stop, p.session != nil)
		}
		// What was under way when it was stopped comes as one more window.
		if p.window(t.Context(), load.Window{Seconds: 0.1, Requests: 600}); p.session != nil {
			t.Fatal("the load was told to end, and what is left of it is perturbed")
		}
		p.ended = false // as for the next load
	}
	warm(950, 10)
	if p.window(t.Context(), load.Window{Seconds: 1}); p.session == nil {
		t.Error("enough was carried, and there is no session")
	}
}

// More users do not have a component carry more that is at its limit.
func TestAFullComponentIsPerturbed(t *testing.T) {
	t.Parallel()
	for utilisation, want := range map[float64]bool{0.95: true, 0.5: false} {
		var u usage
		began := time.Now()
		u.add(&host.Sample{At: began, Instances: []host.Instance{{Name: "api-1"}}})
		p := &perturber{seen: &u, needs: 900, components: []component{{name: "api", instances: []string{"api-1"}, host: machine{cores: 4}, cores: 0.5}}}
		p.window(t.Context(), load.Window{Warmup: true, Seconds: 1, Requests: 500})
		used := time.Duration(utilisation * 0.5 * float64(time.Second))
		u.add(&host.Sample{At: began.Add(time.Second), Instances: []host.Instance{{Name: "api-1", CPU: used}}})
		p.window(t.Context(), load.Window{Warmup: true, Seconds: 1, Requests: 500})
		if p.window(t.Context(), load.Window{Seconds: 1}); (p.session != nil) != want {
			t.Errorf("at %v of its limit: got a session: %v, want %v", utilisation, p.session != nil, want)
		}
	}
}

// machine can limit all but some.
type machine struct {
	host.Host
	cores int
}

func (m machine) Machine() host.Machine { return host.Machine{Cores: m.cores} }

func TestComponentsAreServicesThatRunAndCanBeLimited(t *testing.T) {
	t.Parallel()
	instances := []topology.Instance{
		{Service: "seed", Name: "seed-1"},
		{Service: "api", Name: "api-1", LimitCPUs: 0.5, Enforced: true},
		{Service: "api", Name: "api-2", LimitCPUs: 0.5, Enforced: true},
		{Service: "db", Name: "db-1"},
		{Service: "gone", Name: "gone-1"},
		{Service: "pods", Name: "pods-1", Unseen: true}, // whose limits the cluster changes
		{Service: "half", Name: "half-1"},
		{Service: "half", Name: "half-2", Unseen: true},
		{Service: "away", Name: "away-1", Unseen: true},
	}
	limits := func(instance string) host.Host {
		if instance == "gone-1" || instance == "half-2" || instance == "away-1" {
			return nil
		}
		return machine{cores: 4}
	}
	out, parts := components(instances, map[string]int{"api": 2, "db": 1, "gone": 1, "pods": 1, "half": 2, "away": 1}, limits)
	if !slices.Equal(parts, []string{"half"}) {
		t.Errorf("got parts %q", parts)
	}
	if len(out) != 3 || out[2].name != "pods" || out[0].name != "api" || len(out[0].instances) != 2 || out[0].cores != 0.5 || out[1].name != "db" || out[1].cores != 0 {
		t.Fatalf("got %+v", out)
	}
	k := out[0].knob(reading{cpu: 600 * time.Millisecond, at: time.Time{}.Add(time.Second)})
	if want := (perturb.Target{Component: "api", Resource: perturb.CPU}); !reflect.DeepEqual(k.Target, want) || k.DownOnly || k.Utilisation != 0.6 {
		t.Errorf("the knob of a limited component is %+v", k)
	}
	if k := out[1].knob(reading{cpu: 2 * time.Second, at: time.Time{}.Add(time.Second)}); !k.DownOnly || k.Utilisation != 0.5 {
		t.Errorf("the knob of a component without a limit is %+v", k)
	}
}

// refusing is a machine that changes no limit, for a reason.
type refusing struct {
	host.Host
	why error
}

func (r refusing) Limit(context.Context, string, float64) error { return r.why }

func TestWhyALimitCannotBeChangedIsTold(t *testing.T) {
	t.Parallel()
	free, elsewhere := refusing{}, refusing{why: fmt.Errorf("api-1: %w", host.ErrUnsupported)}
	locked := refusing{why: errors.New("api-1: another lab is changing it")}
	for name, c := range map[string]struct {
		hosts []host.Host
		want  host.Host
		told  []string
	}{
		"it can be":                 {[]host.Host{elsewhere, free}, free, nil},
		"it cannot be anywhere":     {[]host.Host{elsewhere, elsewhere}, nil, nil},
		"somebody else is at it":    {[]host.Host{elsewhere, locked}, nil, []string{"api-1: another lab is changing it"}},
		"there are no machines":     {nil, nil, nil},
		"another machine can do it": {[]host.Host{locked, free}, free, []string{"api-1: another lab is changing it"}},
	} {
		var told []string
		got := limiter(t.Context(), c.hosts, func(err error) { told = append(told, err.Error()) })("api-1")
		if got != c.want || !slices.Equal(told, c.told) {
			t.Errorf("%s: got %v, told %q", name, got, told)
		}
	}
}

func TestUsageIsOfTheLatestSample(t *testing.T) {
	t.Parallel()
	var u usage
	began := time.Now()
	for i := range 3 {
		cpu := time.Duration(i) * time.Second
		u.add(&host.Sample{At: began.Add(cpu), Instances: []host.Instance{{Name: "a-1", CPU: cpu}, {Name: "a-2", CPU: 2 * cpu}, {Name: "b-1", CPU: 9 * cpu}}})
	}
	if got := u.of([]string{"a-1", "a-2"}); got.cpu != 6*time.Second || !got.at.Equal(began.Add(2*time.Second)) {
		t.Errorf("got %+v", got)
	}
}
