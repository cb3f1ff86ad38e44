package predict

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"loadstone/lab/analysis"
	"loadstone/lab/archive"
	"loadstone/lab/archive/archivetest"
	"loadstone/lab/experiment"
	"loadstone/lab/host"
	"loadstone/lab/model/queueing"
	"loadstone/lab/result"
	"loadstone/lab/stats"
)

var began = time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)

// truth is a system of which every capacity is known: the CPU that its
// components have, of which the least sustains what it sustains, less a little.
type truth struct {
	api, lb float64 // seconds for each request
	noise   float64
	seed    uint64
}

func (s truth) capacity(replicas int, apiCPUs, lbCPUs float64) float64 {
	return 0.96 * min(float64(replicas)*apiCPUs/s.api, lbCPUs/s.lb)
}

func (s truth) variant(name string, replicas, trials int) archivetest.Variant {
	r := rand.New(rand.NewPCG(s.seed, uint64(replicas)))
	v := archivetest.Variant{
		Name: name, Service: 3 * time.Millisecond,
		Components: []archivetest.Component{
			{Name: "api", Instances: replicas, CPUs: 0.25, Demand: time.Duration(s.api * 1e9)},
			{Name: "lb", Instances: 1, CPUs: 0.5, Demand: time.Duration(s.lb * 1e9)},
		},
	}
	for range trials {
		v.Capacities = append(v.Capacities, s.capacity(replicas, 0.25, 0.5)*math.Exp(s.noise*r.NormFloat64()))
	}
	return v
}

func derive(t *testing.T, variants ...archivetest.Variant) *result.Result {
	t.Helper()
	dir, err := archivetest.Run{
		Name: "e", Seed: 1, Started: began, Variants: variants,
		Environment: archive.Environment{Machine: host.Machine{CPU: "one", Cores: 8, LimitsEnforced: true}, Driver: "process"},
	}.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, err := archive.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	res, err := analysis.Derive(r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func of(t *testing.T, res *result.Result, variant string) *System {
	t.Helper()
	s, err := Of(res, "run", variant)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ask(t *testing.T, s *System, sets ...string) *Answer {
	t.Helper()
	q := Question{Seed: 1}
	for _, text := range sets {
		c, err := ParseChange(text, s.Services())
		if err != nil {
			t.Fatal(err)
		}
		q.Changes = append(q.Changes, c)
	}
	a, err := s.Ask(q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestModelIsWhatWasPlanted(t *testing.T) {
	t.Parallel()
	world := truth{api: 500e-6, lb: 60e-6, noise: 0.02, seed: 3}
	v := world.variant("v", 3, 6)
	v.Components[0].Tilt = 0.2
	s := of(t, derive(t, v), "")
	api, lb := s.Model.Stations[0], s.Model.Stations[1]
	if math.Abs(api.Demand.Value/500e-6-1) > 0.03 || api.Demand.Confidence < 0.95 || !(api.Demand.Low < api.Demand.Value) {
		t.Errorf("api's demand %+v, want 0.5 ms with an interval", api.Demand)
	}
	if api.Instances != 3 || math.Abs(api.Skew-1.2) > 0.01 || api.Speed != 0.25 || api.Period != 0.02 {
		t.Errorf("api %+v, want 3 instances of 0.25, the hottest 1.2 times the mean, a period of 20 ms", api)
	}
	if lb.Skew != 1 || lb.Instances != 1 {
		t.Errorf("lb %+v", lb)
	}
	if s.Objective.Share != 0.95 || s.Objective.Seconds != 0.2 || s.Measured == nil {
		t.Errorf("%+v %+v", s.Objective, s.Measured)
	}
}

// A prediction of what was planted is right within its interval: when the same
// component limits, when another takes over, and with another share of CPU.
func TestPredictionsHold(t *testing.T) {
	t.Parallel()
	const repetitions = 5
	var worlds []truth
	var systems []*System
	for seed := range uint64(repetitions) {
		world := truth{api: 500e-6, lb: 60e-6, noise: 0.03, seed: seed}
		worlds, systems = append(worlds, world), append(systems, of(t, derive(t, world.variant("v", 2, 6)), "v"))
	}
	for _, c := range []struct {
		set      []string
		replicas int
		api, lb  float64
		limit    string
	}{
		{[]string{"api.replicas=4"}, 4, 0.25, 0.5, "api"},
		{[]string{"api.cpus=0.5"}, 2, 0.5, 0.5, "api"},
		{[]string{"api.replicas=40"}, 40, 0.25, 0.5, "lb"},
		{[]string{"api.replicas=40", "lb.cpus=1"}, 40, 0.25, 1, "lb"},
	} {
		held := 0
		for i, s := range systems {
			world := worlds[i]
			a := ask(t, s, c.set...)
			want := world.capacity(c.replicas, c.api, c.lb)
			// The model's own error, of what it knows nothing about, is not in
			// the interval: in a larger system fewer requests wait.
			if a.Capacity.Low/1.05 <= want && want <= 1.05*a.Capacity.High && a.Capacity.Confidence > 0 {
				held++
			}
			if a.Limit.Station != c.limit {
				t.Errorf("%v: limited by %s, want %s", c.set, a.Limit.Station, c.limit)
			}
		}
		if held < repetitions-1 {
			t.Errorf("%v: %d of %d intervals hold the truth", c.set, held, repetitions)
		}
	}
}

func TestAnswerSaysWhatItAssumes(t *testing.T) {
	t.Parallel()
	world := truth{api: 500e-6, lb: 60e-6, noise: 0.02, seed: 5}
	s := of(t, derive(t, world.variant("v", 2, 6)), "")
	a := ask(t, s, "api.replicas=40")
	all := strings.Join(a.Assumptions, "\n")
	for _, want := range []string{"more replicas of api cost the others nothing", "CPU per request stays"} {
		if !strings.Contains(all, want) {
			t.Errorf("the assumptions lack %q: %s", want, all)
		}
	}
	if a.Before.Station != "api" || a.Next == nil || a.Next.Station != "api" {
		t.Errorf("before %+v, next %+v", a.Before, a.Next)
	}
	lb := a.Loads[1]
	if lb.Busy < 0.85 || lb.Busy > 1.000001 || a.Loads[0].WasSize != "2 × 0.25 CPU" || a.Loads[0].Size != "40 × 0.25 CPU" {
		t.Errorf("loads %+v", a.Loads)
	}
	q := Question{Users: 50, Think: 2, Seed: 1}
	closed, err := s.Ask(q)
	if err != nil {
		t.Fatal(err)
	}
	if c := closed.Closed; math.Abs(c.Throughput-25) > 0.5 || c.Bounds.High < c.Throughput || c.Bounds.Low > c.Throughput {
		t.Errorf("50 users who think for 2 s: %+v, want about 25/s", c)
	}
	var text, object bytes.Buffer
	if err := Text(&text, closed); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(&object).Encode(a); err != nil {
		t.Fatal(err)
	}
	if err := Text(&text, a); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text.String())
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	world := truth{api: 500e-6, lb: 60e-6, noise: 0.02, seed: 6}
	limited := world.variant("v", 2, 2)
	limited.GeneratorLimited = true
	a := ask(t, of(t, derive(t, limited), ""))
	if a.Measured != nil || !strings.Contains(strings.Join(a.Warnings, "\n"), "only a lower bound") || !strings.Contains(strings.Join(a.Warnings, "\n"), "2 trials are too few") {
		t.Errorf("measured %v, warnings %q", a.Measured, a.Warnings)
	}
	res := derive(t, world.variant("v", 2, 6))
	res.Environment.Cores = 1
	if a := ask(t, of(t, res, ""), "api.replicas=10"); !strings.Contains(strings.Join(a.Warnings, "\n"), "the measured machine has 1") {
		t.Errorf("warnings %q, want one about the machine", a.Warnings)
	}
	blind := derive(t, world.variant("v", 2, 6))
	blind.Variants[0].Components[0].Unseen = 1
	if _, err := Of(blind, "run", ""); err == nil || !strings.Contains(err.Error(), "not all of what api used in variant v of") {
		t.Errorf("got %v", err)
	}
	none := world.variant("v", 2, 2)
	clear(none.Capacities)
	if _, err := Of(derive(t, none), "run", ""); err == nil || !strings.Contains(err.Error(), "held no rate") {
		t.Errorf("got %v", err)
	}
	if _, err := Of(res, "run", "w"); !errors.Is(err, ErrVariant) || !strings.Contains(err.Error(), `write "v"`) {
		t.Errorf("got %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	world := truth{api: 500e-6, lb: 60e-6, noise: 0, seed: 7}
	a := ask(t, of(t, derive(t, world.variant("v", 2, 6)), ""), "api.replicas=4")
	// The machine is 10 % slower when the prediction is checked.
	slow := truth{api: 550e-6, lb: 66e-6, noise: 0, seed: 7}
	checked := derive(t, slow.variant("v", 2, 6), slow.variant("v.predicted", 4, 6))
	if err := a.Against(checked, "run-2", "v", "v.predicted"); err != nil {
		t.Fatal(err)
	}
	if c := a.Check; math.Abs(c.Error-0.1) > 0.05 || math.Abs(c.ErrorOfRatio) > 0.05 || c.Limit != "api" {
		t.Errorf("%+v, want an error of about 10 %% and none of the factor", c)
	}
}

func TestParseChange(t *testing.T) {
	t.Parallel()
	services := []string{"api", "lb", "my.db"}
	for text, want := range map[string]string{
		"api.replicas=8": "api.replicas=8", "lb.cpus = 0.5": "lb.cpus=0.5", "my.db.cpus=2": "my.db.cpus=2",
	} {
		if c, err := ParseChange(text, services); err != nil || c.String() != want {
			t.Errorf("%s: %v, %v", text, c, err)
		}
	}
	for text, want := range map[string]string{
		"api":             "is not a change; write SERVICE.replicas=N",
		"replicas=8":      "is not a change",
		"apo.replicas=8":  `write "api"`,
		"api.replica=8":   "write replicas",
		"api.replicas=0":  "a whole number from 1",
		"api.replicas=1e": "a whole number from 1",
		"api.cpus=-1":     "a number from 0.001",
		"api.cpus=NaN":    "a number from 0.001",
		"api.cpus=+Inf":   "a number from 0.001",
	} {
		if _, err := ParseChange(text, services); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	s := of(t, derive(t, truth{api: 500e-6, lb: 60e-6, seed: 8}.variant("v", 2, 1)), "")
	two, four := 2, 4
	if _, err := s.Ask(Question{Changes: []Change{{Service: "api", Replicas: &two}, {Service: "api", Replicas: &four}}}); err == nil {
		t.Error("one service was given two numbers of replicas")
	}
}

func FuzzParseChange(f *testing.F) {
	for _, s := range []string{"api.replicas=8", "lb.cpus=0.5", "", ".=", "api.cpus=1e400", "a.b.c=d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseChange(text, []string{"api", "lb"})
		if err != nil {
			return
		}
		again, err := ParseChange(c.String(), []string{"api", "lb"})
		if err != nil || again.String() != c.String() {
			t.Errorf("%q is read as %s, which is read as %s, %v", text, c, again, err)
		}
	})
}

const file = `name: e
system: compose.yaml
entry: lb
# the variants
variants:
  plain: {}
  cached:
    services:
      api: {environment: {CACHE: "on", AT: 10s}, deploy: {replicas: 3}}
  reset: {services: {api: {deploy: !reset null}}}
load: {scenarios: {s: {executor: constant-arrival-rate, request: GET /}}}
slo: {http_req_duration: [p(95)<200]}
measure: capacity
trials: 6
`

func parse(t *testing.T, text string) *experiment.Experiment {
	t.Helper()
	exp, err := experiment.Parse("e.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return exp
}

func TestExperimentOfAPrediction(t *testing.T) {
	t.Parallel()
	eight, half := 8, 0.5
	cs := []Change{{Service: "api", Replicas: &eight}, {Service: "lb", CPUs: &half}}
	exp := parse(t, file)
	for variant, want := range map[string]string{
		"plain":  "services:\n  api:\n    deploy:\n      replicas: 8\n  lb:\n    deploy:\n      resources:\n        limits:\n          cpus: \"0.5\"\n",
		"cached": "services:\n  api:\n    environment:\n      CACHE: \"on\"\n      AT: 10s\n    deploy:\n      replicas: 8\n  lb:\n    deploy:\n      resources:\n        limits:\n          cpus: \"0.5\"\n",
	} {
		text, names, err := Experiment(exp, []Topology{{variant, cs}})
		if err != nil {
			t.Fatal(err)
		}
		changed := names[0]
		again := parse(t, text)
		if len(again.Variants) != 2 || again.Variants[0].Name != variant || again.Variants[1].Name != changed {
			t.Fatalf("variants %+v", again.Variants)
		}
		i := 0
		for exp.Variants[i].Name != variant {
			i++
		}
		if got := string(again.Variants[0].Overlay); got != string(exp.Variants[i].Overlay) {
			t.Errorf("%s is not what it was: %s", variant, got)
		}
		if got := string(again.Variants[1].Overlay); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", variant, got, want)
		}
		if again.Trials != 6 || again.Entry != "lb" || !strings.Contains(text, "# the variants") {
			t.Errorf("the rest of the file changed:\n%s", text)
		}
	}
	if _, _, err := Experiment(exp, []Topology{{"reset", cs}}); err == nil || !strings.Contains(err.Error(), "leaves no room for") {
		t.Errorf("got %v", err)
	}
}

func TestGrowth(t *testing.T) {
	t.Parallel()
	world := truth{api: 500e-6, lb: 300e-6, noise: 0.02, seed: 9}
	var variants []archivetest.Variant
	for i, n := range []int{1, 2, 3, 4, 5, 6} {
		variants = append(variants, world.variant("r"+string(rune('1'+i)), n, 6))
	}
	res := derive(t, variants...)
	var overlays strings.Builder
	for i := range variants {
		n := string(rune('1' + i))
		overlays.WriteString("  r" + n + ": {services: {api: {deploy: {replicas: " + n + "}}}}\n")
	}
	// The planted file has empty overlays: put in what a real one has.
	res.Source = strings.NewReplacer("variants:\n", "variants:\n"+overlays.String(),
		"  r1: {}\n", "", "  r2: {}\n", "", "  r3: {}\n", "", "  r4: {}\n", "", "  r5: {}\n", "", "  r6: {}\n", "").Replace(res.Source)
	g, err := Grow(res, "run", "api.replicas")
	if err != nil {
		t.Fatal(err)
	}
	if g.Shape != "ceiling" || len(g.Sizes) != 6 || g.Takeover == nil || g.Takeover.Next != "lb" || g.Takeover.At != 4 {
		t.Errorf("%s, %d sizes, takeover %+v; want a ceiling, and lb from 4 replicas on", g.Shape, len(g.Sizes), g.Takeover)
	}
	var text bytes.Buffer
	if err := g.Text(&text); err != nil || !strings.Contains(text.String(), "no peak inside the measured range") {
		t.Errorf("%v in\n%s", err, text.String())
	}
	t.Log("\n" + text.String())
	for what, want := range map[string]string{"api.cpus": "write SERVICE.replicas", "apo.replicas": `write "api"`, "lb.replicas": "no two variants"} {
		if _, err := Grow(res, "run", what); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
}

// What is held at a time is no rate, which the model is of.
func TestConnectionsAreNotPredicted(t *testing.T) {
	t.Parallel()
	res := derive(t, truth{api: 500e-6, lb: 60e-6, noise: 0.02, seed: 3}.variant("v", 3, 6))
	for unit, refused := range map[string]bool{"connections": true, "rooms": true, "messages/s": false, "": false} {
		res.Unit = unit
		if _, err := Of(res, "run", ""); (err != nil) != refused || refused && !strings.Contains(err.Error(), unit+" are held") {
			t.Errorf("%q: got %v, want it refused: %v", unit, err, refused)
		}
	}
}

// What limits and what limits next are told by the same figures, and the correction by what
// the model says where something was measured.
func TestTheNextLimitIsComparable(t *testing.T) {
	t.Parallel()
	a := &Answer{
		Run: "r", Variant: "v", Unit: "req/s", Measured: &stats.Interval{Value: 494},
		Prediction: queueing.Prediction{
			Capacity: stats.Interval{Value: 641}, Factor: 0.741, Sure: 0.885,
			Limit: queueing.Limit{Station: "gateway", Bound: 887, Capacity: 641}, Next: &queueing.Limit{Station: "planner", Bound: 1030, Capacity: 756},
		},
		CorrectedBy: []string{"v"}, Base: new(494.0), Before: queueing.Limit{Station: "planner"}, system: &System{},
	}
	var text bytes.Buffer
	if err := Text(&text, a); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"limit      gateway CPU, at about 641 req/s (its bound is 887), in 88.5 % of the draws from the demands' intervals; before it was planner CPU\n",
		"next       planner CPU, at about 756 req/s (its bound is 1,030)\n",
		"corrected  ×0.741, by what the model is off in v\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}
