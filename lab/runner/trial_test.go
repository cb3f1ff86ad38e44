package runner

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
	"loadstone/lab/threshold"
	"loadstone/lab/topology"
)

func parse(t *testing.T, metric, expression string) experiment.Objective {
	t.Helper()
	parsed, err := threshold.Parse(metric, expression)
	if err != nil {
		t.Fatal(err)
	}
	return experiment.Objective{Metric: metric, Thresholds: []threshold.Threshold{parsed}}
}

func objectives(t *testing.T) experiment.SLO {
	t.Helper()
	return experiment.SLO{parse(t, "http_req_duration", "p(95)<200"), parse(t, "http_req_failed", "rate<0.001")}
}

func TestPlanInterleaves(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	trials := plan(names, 3, 7)
	if again := plan(names, 3, 7); !slices.Equal(trials, again) {
		t.Errorf("the same seed plans %v and %v", trials, again)
	}
	for i, p := range trials {
		if p.Index != i+1 || p.Round != i/3+1 {
			t.Errorf("trial %d is %+v", i+1, p)
		}
	}
	// Each variant once per round; over many rounds each order comes about as often as the
	// others: of 6,000, within five standard deviations (29) of a thousand.
	orders := make(map[string]int)
	many := plan(names, 6000, 1)
	for i := 0; i < len(many); i += 3 {
		orders[many[i].Variant+many[i+1].Variant+many[i+2].Variant]++
	}
	for _, order := range []string{"abc", "acb", "bac", "bca", "cab", "cba"} {
		if n := orders[order]; n < 855 || n > 1145 {
			t.Errorf("order %s in %d of 6,000 rounds, want about 1,000: %v", order, n, orders)
		}
	}
}

func TestDrainCoversTheObjectives(t *testing.T) {
	t.Parallel()
	slo := experiment.SLO{parse(t, "http_req_duration", "p(95)<1500")}
	one := load.Scenario{Steps: make([]load.Step, 1)}
	three := load.Scenario{Steps: make([]load.Step, 3)}
	drawn := load.Scenario{Steps: make([]load.Step, 3), Weighted: true}
	whole := experiment.SLO{parse(t, "http_req_duration", "p(95)<1500"), parse(t, "iteration_duration", "p(95)<20000")}
	journey := load.Scenario{Steps: make([]load.Step, 2), Flow: []load.Part{
		{Step: 0}, {ForEach: "ids", As: "id", Parallel: 5, Parts: []load.Part{{Step: 1}, {Step: 1}}}, // 1 + 20 / 5
	}}
	think := func(s load.Scenario, pauses ...time.Duration) load.Scenario {
		s.Steps = nil
		for _, pause := range pauses {
			s.Steps = append(s.Steps, load.Step{Think: [2]time.Duration{0, pause}})
		}
		return s
	}
	// Ten passes of three seconds, six at once: in two goes.
	six := load.Scenario{Flow: []load.Part{{Step: 0}, {ForEach: "ids", As: "id", Parallel: 6, Parts: []load.Part{{Step: 1}}}}}
	endless := load.Scenario{Steps: make([]load.Step, 1), Flow: []load.Part{{Repeat: 1000, Parts: []load.Part{{Step: 0}}}}}
	for name, c := range map[string]struct {
		slo      experiment.SLO
		scenario load.Scenario
		timeout  time.Duration
		want     time.Duration
	}{
		"twice the threshold":         {slo, one, 10 * time.Second, 3 * time.Second},
		"the timeout":                 {slo, one, 2 * time.Second, 2 * time.Second},
		"at least":                    {objectives(t), one, 10 * time.Second, leastDrain},
		"three requests, in turn":     {slo, three, 10 * time.Second, 9 * time.Second},
		"a journey, in turn":          {slo, journey, 10 * time.Second, 15 * time.Second},
		"a journey with an objective": {whole, journey, 10 * time.Second, 40 * time.Second},
		"a journey of many requests":  {slo, endless, 10 * time.Second, mostDrain},
		"a request, and a pause":      {slo, think(one, 5*time.Second), 10 * time.Second, 8 * time.Second},
		"pauses in turn":              {slo, think(three, 1*time.Second, 0, 80*time.Second), 10 * time.Second, 90 * time.Second},
		"pauses at once":              {slo, think(six, time.Second, 3*time.Second), 10 * time.Second, 16 * time.Second},
		"pauses, with an objective":   {whole, think(three, 5*time.Second, 0, 80*time.Second), 10 * time.Second, 40 * time.Second},
		"one pause of three":          {slo, think(drawn, 5*time.Second, time.Second, 0), 10 * time.Second, 8 * time.Second},
		"pauses without end":          {slo, think(endless, 24*time.Hour), 10 * time.Second, mostDrain + 30*24*time.Hour},
		"one request of three":        {slo, drawn, 10 * time.Second, 3 * time.Second},
		"nothing about how long":      {experiment.SLO{parse(t, "http_reqs", "count>1e9")}, one, 10 * time.Second, leastDrain},
		"service time counts as well": {experiment.SLO{parse(t, "http_req_service", "max<2000")}, one, 10 * time.Second, 4 * time.Second},
	} {
		if got := drain(c.slo, c.scenario, c.timeout); got != c.want {
			t.Errorf("%s: drain %v, want %v", name, got, c.want)
		}
	}
}

// TestTriesWaitForTheFirstAnswers: what is slow is waited for before work in flight is looked
// at, which takes none of the search's budget, and not for ever.
func TestTriesWaitForTheFirstAnswers(t *testing.T) {
	t.Parallel()
	request := &load.Result{Response: load.Latency{P95: 700}}
	journey := &load.Result{Response: load.Latency{P95: 1}, Journeys: []load.JourneyResult{{Duration: load.Latency{P95: 700}}}}
	endless := &load.Result{Response: load.Latency{P95: 3e5}}
	for _, c := range []struct {
		r      *load.Result
		length time.Duration
		want   time.Duration
	}{
		{&load.Result{}, 3 * time.Second, maxWarmup},
		{request, 3 * time.Second, 700 * time.Millisecond},
		{journey, 600 * time.Millisecond, 700 * time.Millisecond},
		{endless, 600 * time.Millisecond, mostWarmup},
	} {
		p := try(load.Plan{}, load.Scenario{}, capacity.Step{Rate: 5, Duration: c.length}, time.Second, lasting(c.r))
		measured := p.Scenarios[0].Duration - p.Warmup
		if p.Warmup != c.want || measured != max(c.length, min(lasting(c.r), mostWarmup)) {
			t.Errorf("a try of %v warms up for %v and measures %v; want %v", c.length, p.Warmup, measured, c.want)
		}
	}
}

// TestTheBudgetIsNotForSlowAnswers: what slow answers add to an attempt is not charged, and no
// more than that: one that ends early has not measured for longer.
func TestTheBudgetIsNotForSlowAnswers(t *testing.T) {
	t.Parallel()
	const ms, s = time.Millisecond, time.Second
	for name, c := range map[string]struct {
		length, takes          time.Duration // of the step, and of an iteration
		warmup, measured, wait time.Duration // which it had
		charged                time.Duration
	}{
		"quick":                       {600 * ms, 5 * ms, 100 * ms, 600 * ms, 5 * ms, 705 * ms},
		"quick, and overloaded":       {600 * ms, 5 * ms, 100 * ms, 500 * ms, s, 1600 * ms},
		"slow":                        {600 * ms, 3 * s, 3 * s, 3 * s, 3 * s, 700 * ms},
		"slow, and ended early":       {600 * ms, 3 * s, 3 * s, 500 * ms, 3 * s, 600 * ms},
		"slow, and overloaded":        {600 * ms, 3 * s, 3 * s, 500 * ms, 8 * s, 5600 * ms},
		"slow, nothing waited for":    {600 * ms, 3 * s, 3 * s, 3 * s, 0, 700 * ms},
		"a long step of slow answers": {6 * s, 3 * s, 3 * s, 6 * s, 3 * s, 6300 * ms},
		"slower than is waited for":   {600 * ms, 9 * s, mostWarmup, mostWarmup, 9 * s, 4700 * ms},
	} {
		began := time.Unix(1_800_000_000, 0)
		r := &load.Result{From: began.Add(c.warmup), To: began.Add(c.warmup + c.measured)}
		took := c.warmup + c.measured + c.wait
		if got := took - slower(capacity.Step{Duration: c.length}, c.takes, r, took); got != c.charged {
			t.Errorf("%s: of %v the budget pays %v, want %v", name, took, got, c.charged)
		}
	}
}

// TestObserver has an objective on windows end the load in the second window,
// and windows that nobody can keep.
func TestObserver(t *testing.T) {
	t.Parallel()
	abort := parse(t, "http_req_failed", "rate<0.5")
	abort.Thresholds[0].AbortOnFail = true
	slo := experiment.SLO{abort}
	if !slo.OnWindows() || objectives(t).OnWindows() {
		t.Fatal("objectives are on windows if they end the load, and only then")
	}
	kept := 0
	o := observer{
		keep:  func(any) error { kept++; return nil },
		watch: threshold.NewWatch(slo.Thresholds()), onWindows: true,
	}
	from := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	good := load.Window{Start: from, Seconds: 1, Requests: 10}
	bad := load.Window{Start: from.Add(time.Second), Seconds: 1, Requests: 90, Failed: 90}
	if stop := o.window(good); stop != "" {
		t.Errorf("a good window ends the load: %s", stop)
	}
	if stop := o.window(bad); !strings.Contains(stop, "http_req_failed") || kept != 2 || o.failed != nil {
		t.Errorf("a bad window: stop %q, %d kept, error %v; want the load to end", stop, kept, o.failed)
	}
	o.keep = func(any) error { return errors.New("disk full") }
	if o.window(good); o.failed == nil {
		t.Error("a window that could not be kept is no error")
	}
	if stop := o.window(good); stop == "" {
		t.Error("the load goes on although its windows cannot be kept")
	}
}

func TestTargetsOfAnExperiment(t *testing.T) {
	t.Parallel()
	instances := []topology.Instance{{Service: "lb", Host: "127.77.0.2", Port: 8443}, {Service: "db", Host: "127.77.0.3", Port: 5432}, {Service: "lb", Host: "127.77.0.4"}}
	for secure, want := range map[bool]string{false: "http://127.77.0.2:8443", true: "https://127.77.0.2:8443"} {
		if got := targets(instances, "lb", secure); len(got) != 1 || got[0] != want {
			t.Errorf("secure %v: targets %v, want %s", secure, got, want)
		}
	}
}

func TestEachTrialStartsElsewhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ given, about float64 }{"from the sweep": {0, 700}, "from a given rate": {500, 500}} {
		seen := map[float64]bool{}
		for seed := range uint64(2) {
			for trial := range 6 {
				e, s := &experiment.Experiment{Seed: seed}, load.Scenario{Rate: c.given}
				m := &trialRun{execution: &execution{Config: Config{Experiment: e}}, trial: &archive.Trial{Planned: archive.Planned{Index: trial + 1}}}
				from := m.start(s, 700)
				if seen[from] || from < 0.95*c.about || from > 1.05*c.about || from != m.start(s, 700) {
					t.Errorf("%s, seed %d: trial %d starts at %v; want it about %v, always the same, and unlike the others", name, seed, trial+1, from, c.about)
				}
				seen[from] = true
			}
		}
	}
	m := &trialRun{execution: &execution{Config: Config{Experiment: &experiment.Experiment{}}}, trial: &archive.Trial{}}
	if from := m.start(load.Scenario{}, 0); from != 0 {
		t.Errorf("nothing was answered, and the search starts at %v", from)
	}
}

// TestSweepers: a sweep has no more virtual users than one after the other are answered in it.
func TestSweepers(t *testing.T) {
	t.Parallel()
	const length = 1570 * time.Millisecond
	for alone, want := range map[time.Duration]int{0: sweepVUs, time.Millisecond: sweepVUs, 100 * time.Millisecond: 15, time.Minute: leastVUs} {
		if got := sweepers(alone, length); got != want {
			t.Errorf("where a request takes %v alone a sweep has %d virtual users, want %d", alone, got, want)
		}
	}
}
