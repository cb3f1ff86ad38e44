package analysis

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/host"
	"loadstone/lab/load"
	"loadstone/lab/probe"
	"loadstone/lab/result"
	"loadstone/lab/topology"
	"loadstone/lab/verdict"
)

const experimentFile = `name: e
system: compose.yaml
entry: api
variants: {one: {}, two: {}}
load: {warmup: 30s, scenarios: {s: {executor: constant-arrival-rate, request: GET /}}}
slo: {http_req_duration: [p(95)<200], http_req_failed: [rate<0.001]}
measure: capacity
trials: 2
`

var began = time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)

// planted is a variant whose truth is known: every instance of api has a
// quarter of a CPU and spends demand on each request.
type planted struct {
	capacity  float64 // req/s
	demand    time.Duration
	instances int
	// tilt is how much more than its share the first instance is given.
	tilt float64
	// generatorLimited makes the rejected try the generator's failure.
	generatorLimited bool
	// machine is how many of the two cores are in use; 0 for a quarter of one.
	machine float64
	// resources are what api declares, and tells what its first instance
	// publishes of them after so many seconds.
	resources []topology.Resource
	tells     func(seconds float64) map[string]float64
	// unseen is in how many trials nothing was seen, the first ones; hidden in how many nothing was seen of the first
	// instance, the last ones.
	unseen int
	hidden int
}

// write makes a whole run of two trials for each variant.
func write(t *testing.T, variants map[string]planted) *archive.Run {
	t.Helper()
	m := archive.Manifest{Experiment: "e", Seed: 9, Started: began, Environment: archive.Environment{Machine: host.Machine{Cores: 2, LimitsEnforced: true}}}
	for i := range 2 {
		for _, name := range []string{"one", "two"} {
			m.Trials = append(m.Trials, archive.Planned{Index: len(m.Trials) + 1, Round: i + 1, Variant: name})
		}
	}
	d, err := archive.Create(t.TempDir(), m, []byte(experimentFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Trials {
		writeTrial(t, d, p, variants[p.Variant])
	}
	if err := d.Complete(began.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	r, err := archive.Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// writeTrial lets the load last from second 1 to 3, and the samples from 0 to 4.
func writeTrial(t *testing.T, d *archive.Dir, p archive.Planned, v planted) {
	t.Helper()
	dir, err := d.TrialDir(p)
	if err != nil {
		t.Fatal(err)
	}
	trial := archive.Trial{Planned: p, Started: began, Ended: began.Add(4 * time.Second)}
	for i := range v.instances {
		trial.Instances = append(trial.Instances, topology.Instance{
			Service: "api", Index: i + 1, Name: "api-" + string(rune('1'+i)), LimitCPUs: 0.25, Enforced: true,
			Resources: v.resources,
		})
	}
	trial.Measures = []archive.Measure{
		measure(t, archive.Sweep, capacity.Try{Rate: 1.1 * v.capacity, Held: true}),
		measure(t, "search", capacity.Try{Purpose: capacity.Search, Rate: v.capacity, Held: true}),
		measure(t, "search", capacity.Try{
			Purpose: capacity.Search, Rate: 1.04 * v.capacity, Reason: "too slow", GeneratorLimited: v.generatorLimited,
		}),
		measure(t, "confirm", capacity.Try{Purpose: capacity.Confirm, Rate: v.capacity, Held: true}),
	}
	for i := range trial.Instances {
		trial.Instances[i].Unseen = p.Round <= v.unseen || i == 0 && p.Round > 2-v.hidden
	}
	if err := d.WriteTrial(trial); err != nil {
		t.Fatal(err)
	}
	writeSamples(t, dir, v, trial)
}

func measure(t *testing.T, kind string, try capacity.Try) archive.Measure {
	t.Helper()
	h := load.NewHistogram()
	_ = h.RecordValues(20_000, 1000)
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(2 * try.Rate)
	return archive.Measure{Kind: kind, Try: try, Result: load.Result{
		From: began.Add(time.Second), To: began.Add(3 * time.Second), Offered: n, Requests: n, Iterations: n, IterationsInTime: n, CompletedInTime: n,
		Response: load.Latency{P50: 20, P95: 20, P99: 20, Max: 20, Histogram: string(text)},
		Steps:    []load.StepResult{{Scenario: "s", Name: "s", Requests: n, Failed: n / 4, Sent: 90 * n, Received: 1200 * n, Response: load.Latency{P95: 20}}},
	}}
}

func writeSamples(t *testing.T, dir string, v planted, trial archive.Trial) {
	t.Helper()
	samples, err := archive.CreateLines(dir, probe.SamplesFile)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := archive.CreateLines(dir, probe.MetricsFile)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 41 {
		s := float64(i) / 10
		sample := host.Sample{
			At: began.Add(time.Duration(s * 1e9)), MachineBusy: time.Duration(cmp.Or(v.machine, 0.25) * s * 1e9), MachineTotal: time.Duration(2 * s * 1e9),
			Self: time.Duration(0.005 * s * 1e9),
		}
		for j := range v.instances {
			if trial.Instances[j].Unseen { // its line is there
				sample.Instances = append(sample.Instances, host.Instance{Name: trial.Instances[j].Name})
				continue
			}
			share := s * v.capacity / float64(v.instances)
			if j == 0 {
				share *= 1 + v.tilt
			}
			cpu := time.Duration(share * float64(v.demand))
			busy := cpu.Seconds() / (0.25 * max(s, 0.1))
			sample.Instances = append(sample.Instances, host.Instance{
				Name: "api-" + string(rune('1'+j)), CPU: cpu, Periods: uint64(50 * s), Throttled: uint64(50 * s * max(0, 2*busy-1)), Memory: 1 << 20,
			})
		}
		if trial.Round > v.unseen {
			if err := samples.Write(sample); err != nil {
				t.Fatal(err)
			}
		}
		hits := probe.Scrape{At: sample.At, Instance: "api-1", Values: map[string]float64{"cache_hits_total": 30 * s, "cache_misses_total": 10 * s}}
		if v.tells != nil {
			maps.Copy(hits.Values, v.tells(s))
		}
		if err := metrics.Write(hits); err != nil {
			t.Fatal(err)
		}
	}
	if err := samples.Close(); err != nil {
		t.Fatal(err)
	}
	if err := metrics.Close(); err != nil {
		t.Fatal(err)
	}
}

func derive(t *testing.T, variants map[string]planted) *result.Result {
	t.Helper()
	res, err := Derive(write(t, variants))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance*want }

func TestDeriveFindsWhatWasPlanted(t *testing.T) {
	t.Parallel()
	res := derive(t, map[string]planted{
		"one": {capacity: 4800, demand: 50 * time.Microsecond, instances: 1},
		"two": {capacity: 14_000, demand: 50 * time.Microsecond, instances: 3},
	})
	if res.WarmupSeconds != 30 {
		t.Errorf("warmed up for %g s, want 30 s", res.WarmupSeconds)
	}
	one, two := res.Variants[0], res.Variants[1]
	if one.Capacity.Value != 4800 || one.Capacity.LowerBound || one.Capacity.Confidence != 0.5 {
		t.Errorf("capacity %+v, want 4800 at the confidence of two trials", one.Capacity)
	}
	api := one.Components[0]
	if !near(api.DemandMS, 0.05, 0.001) || !near(api.Bound, 5000, 0.001) || !near(api.Busy, 0.96, 0.001) {
		t.Errorf("api: %+v; want 0.05 ms, 5000 req/s, 96 %% busy", api)
	}
	if one.Verdict.Status != verdict.Named || one.Verdict.Component != "api" || one.Verdict.Resource != "cpu" {
		t.Errorf("verdict %+v, want api cpu", one.Verdict)
	}
	if three := two.Components[0]; three.Instances != 3 || !near(three.DemandMS, 0.05, 0.001) || !near(three.Bound, 15_000, 0.001) {
		t.Errorf("three instances: %+v; want 0.05 ms, 15000 req/s", three)
	}
	if c := res.Comparisons[0]; !near(c.Ratio, 14_000.0/4800, 0.001) || c.Variant != "two" || c.Baseline != "one" {
		t.Errorf("comparison %+v", c)
	}
	if len(one.Ratios) != 1 || !near(one.Ratios[0].Value, 0.75, 0.001) || one.Ratios[0].Component != "api" {
		t.Errorf("ratios %+v, want the cache's 0.75", one.Ratios)
	}
	if s := one.Steps; len(s) != 1 || s[0].PerIteration != 1 || s[0].Sent != 90 || s[0].Received != 1200 || s[0].Failed != 0.25 || s[0].Response.P95 != 20 {
		t.Errorf("steps %+v, want one with 90 bytes out, 1200 back, a quarter failed, p95 20 ms", s)
	}
	if len(one.Curve) != 6 || one.Curve[0].Rate > one.Curve[5].Rate {
		t.Errorf("%d points, want the six tries of two trials by rising rate, without the sweep", len(one.Curve))
	}
	if !near(res.Environment.ProbeCPU, 0.005, 0.01) || len(one.Timeline.Series) != 2 || one.SLO[0].Observed == 0 || !one.SLO[0].Met {
		t.Errorf("probe %v, %d series, SLO %+v", res.Environment.ProbeCPU, len(one.Timeline.Series), one.SLO)
	}
}

// The hottest instance sets the bound, not the mean.
func TestHottestInstanceBounds(t *testing.T) {
	t.Parallel()
	even := planted{capacity: 9000, demand: 50 * time.Microsecond, instances: 3}
	tilted := even
	tilted.tilt = 0.5
	res := derive(t, map[string]planted{"one": even, "two": tilted})
	if got := res.Variants[1].Components[0].Bound; !near(got, 10_000, 0.001) {
		t.Errorf("bound %.0f, want 10000: the hottest instance gets half a share more", got)
	}
}

// An idle component is not named, and a failure of the generator's is no capacity.
func TestDeriveDoesNotNameWithoutEvidence(t *testing.T) {
	t.Parallel()
	res := derive(t, map[string]planted{
		"one": {capacity: 1000, demand: 50 * time.Microsecond, instances: 1},
		"two": {capacity: 4800, demand: 50 * time.Microsecond, instances: 1, generatorLimited: true},
	})
	if v := res.Variants[0].Verdict; v.Status != verdict.Undecided || v.Component != "" {
		t.Errorf("a fifth of its share used: %+v, want undecided", v)
	}
	two := res.Variants[1]
	if two.Verdict.Status != verdict.LowerBoundOnly || !two.Capacity.LowerBound {
		t.Errorf("generator limited: %+v, want a lower bound only", two.Verdict)
	}
}

// Where nothing was seen of what components used, nothing is said of it; where it was in some trials, these count.
func TestUnseen(t *testing.T) {
	t.Parallel()
	res := derive(t, map[string]planted{
		"one": {capacity: 4800, demand: 50 * time.Microsecond, instances: 1, unseen: 2},
		"two": {capacity: 4800, demand: 50 * time.Microsecond, instances: 1, unseen: 1},
	})
	one, two := res.Variants[0], res.Variants[1]
	if one.Capacity.Value != 4800 || one.Verdict.Status != verdict.Undecided || !strings.HasPrefix(one.Verdict.Summary, "What the components used was not seen: ") {
		t.Errorf("capacity %+v, verdict %+v, want 4800 and that nothing was seen", one.Capacity, one.Verdict)
	}
	for _, w := range one.Verdict.Witnesses {
		if !strings.HasPrefix(w.Evidence, "of the components that were seen, none ") || !strings.HasSuffix(w.Evidence, "; what api used was not seen") {
			t.Errorf("%s: %q of what was not seen", w.Name, w.Evidence)
		}
	}
	if c := one.Components[0]; c.Unseen != 1 || c.Instances != 1 || c.LimitCPUs != 0 || c.Bound != 0 || c.DemandMS != 0 || c.Missed != nil || !one.Conditions.Unwatched {
		t.Errorf("component %+v, conditions %+v; want those of which nothing was seen", c, one.Conditions)
	}
	if c := two.Components[0]; two.Verdict.Component != "api" || !near(c.DemandMS, 0.05, 0.001) || !near(c.Bound, 5000, 0.001) || !near(two.Conditions.MachineBusy, 0.125, 0.001) || two.Conditions.Unwatched {
		t.Errorf("verdict %+v, component %+v, machine %v busy; want those of the trial that was watched", two.Verdict, c, two.Conditions.MachineBusy)
	}
}

// Of a service one of whose instances nobody sees it is neither said that the others do its work, nor that it does none.
func TestPartlyUnseen(t *testing.T) {
	t.Parallel()
	res := derive(t, map[string]planted{
		"one": {capacity: 9000, demand: 50 * time.Microsecond, instances: 2, hidden: 2},
		"two": {capacity: 2000, demand: 50 * time.Microsecond, instances: 2, hidden: 2},
	})
	one, two := res.Variants[0], res.Variants[1]
	if c := one.Components[0]; c.Instances != 2 || c.Unseen != 1 || c.NoneSeen() || !near(c.HottestMS, c.DemandMS, 0.001) {
		t.Errorf("component %+v, want one of two instances seen", c)
	}
	said := strings.Join(append(one.Warnings, one.Verdict.Advice, one.Verdict.Witnesses[0].Evidence), "\n")
	if strings.Contains(said, "gets no requests") || strings.Contains(said, "balance") || strings.Contains(said, "hottest") || !strings.Contains(one.Verdict.Advice, "what 1 of 2 instances of api used was not seen") {
		t.Errorf("it is said:\n%s", said)
	}
	if !strings.HasPrefix(two.Verdict.Summary, "Of the components that were seen, none was near the limit") {
		t.Errorf("verdict %q", two.Verdict.Summary)
	}
	for _, series := range one.Timeline.Series {
		if series.Name == "api-1" {
			t.Error("what was not seen is drawn")
		}
		if series.Name == "api-2" && !slices.ContainsFunc(series.CPU, func(cores float64) bool { return cores > 0.1 }) {
			t.Error("what was seen is not drawn")
		}
	}
}

// Trials in which all of a service was seen are not mixed with those in which a part was.
func TestWhereMostWasSeenCounts(t *testing.T) {
	t.Parallel()
	res := derive(t, map[string]planted{
		"one": {capacity: 9000, demand: 50 * time.Microsecond, instances: 2, hidden: 1},
		"two": {capacity: 9000, demand: 50 * time.Microsecond, instances: 1, hidden: 2}, // on a machine that is seen
	})
	if c := res.Variants[0].Components[0]; c.Unseen != 0 || !near(c.DemandMS, 0.05, 0.001) || !near(2*c.HottestMS, c.DemandMS, 0.001) {
		t.Errorf("component %+v, want that of the trial in which all was seen", c)
	}
	two := res.Variants[1]
	if c := two.Components[0]; !c.NoneSeen() || c.Missed != nil || two.Conditions.Unwatched || two.Verdict.Status != verdict.Undecided {
		t.Errorf("component %+v, conditions %+v, verdict %+v", c, two.Conditions, two.Verdict)
	}
}

// A resource that a component tells of itself is seen without its machine.
func TestUnseenComponentsTellOfTheirResources(t *testing.T) {
	t.Parallel()
	pool := topology.Resource{Name: "connections", Kind: topology.Pool, Size: "slots", InUse: "taken"}
	full := planted{capacity: 1000, demand: 50 * time.Microsecond, instances: 1, unseen: 2, resources: []topology.Resource{pool}, tells: func(float64) map[string]float64 {
		return map[string]float64{"slots": 2, "taken": 2}
	}}
	free := full
	free.tells = func(float64) map[string]float64 { return map[string]float64{"slots": 2, "taken": 0} }
	res := derive(t, map[string]planted{"one": full, "two": free})
	named := func(v *result.Variant) bool {
		return slices.ContainsFunc(v.Verdict.Witnesses, func(w verdict.Witness) bool { return w.ResourceName == "connections" })
	}
	if one, two := &res.Variants[0], &res.Variants[1]; !named(one) || named(two) {
		t.Errorf("a full pool: %+v, a free one: %+v", one.Verdict, two.Verdict)
	}
}

func TestDeriveNeedsSamples(t *testing.T) {
	t.Parallel()
	r := write(t, map[string]planted{
		"one": {capacity: 1000, demand: 50 * time.Microsecond, instances: 1},
		"two": {capacity: 1000, demand: 50 * time.Microsecond, instances: 1},
	})
	l, err := archive.CreateLines(r.TrialDir(r.Trials[0].Planned), probe.SamplesFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Derive(r); err == nil || !strings.Contains(err.Error(), "samples") {
		t.Errorf("got %v, want an error about the samples", err)
	}
}
