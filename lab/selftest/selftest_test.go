package selftest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"loadstone/lab/experiment"
	"loadstone/lab/result"
	"loadstone/lab/selftest/plant"
	"loadstone/lab/stats"
	"loadstone/lab/topology"
	"loadstone/lab/verdict"
)

// Every system can be written, for many seeds, and read as an experiment and a
// Compose project whose plants are valid.
func TestSystemsAreWhole(t *testing.T) {
	t.Parallel()
	for _, p := range append(Systems(), Pairs()...) {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(3) {
				whole(t, p, seed)
			}
		})
	}
}

func whole(t *testing.T, p Planted, seed uint64) {
	t.Helper()
	made, stop, err := p.planted(t.Context(), seed)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	defer stop()
	path, err := p.write(t.TempDir(), seed, made)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	exp, err := experiment.Load(path)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	system, err := topology.Load(t.Context(), topology.Config{ComposeFiles: exp.SystemPaths()})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	hosts, names := map[string][]string{}, []string{}
	for _, s := range system.Services {
		names = append(names, s.Name)
		for range s.Replicas {
			hosts[s.Name] = append(hosts[s.Name], "127.0.0.1")
		}
	}
	if err := exp.CheckServices(names); err != nil {
		t.Error(err)
	}
	vars := topology.Variables(hosts, nil)
	vars[topology.BindHost] = "127.0.0.1"
	if system, err = system.Resolve(t.Context(), vars); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	for _, s := range system.Services {
		if _, err := plant.Parse(s.Command[len(s.Command)-1]); err != nil {
			t.Errorf("seed %d: service %s: %v", seed, s.Name, err)
		}
	}
	for _, c := range append(slices.Clone(p.Truth.Equally), p.Truth.Component, p.Truth.In) {
		if c != "" && !slices.Contains(names, c) {
			t.Errorf("the truth is about %s, which is none of %v", c, names)
		}
	}
}

// bounds are the rates that each part of a planted system sustains, by the
// utilisation law and from what was planted: capacity over the demand of the
// hottest instance.
func bounds(p project) map[string]float64 {
	const overhead = 0.12 // ms of CPU for a request and the calls that it makes; measured: 0.05 to 0.12
	visits := map[string]float64{p.services[0].name: 1}
	out := map[string]float64{}
	for _, s := range p.services { // callers come before those they call
		share := visits[s.name]
		if c := s.plant.Cache; c != nil {
			keys := 1400.0
			share *= 1 - float64(c.Bytes)/float64(c.EntryBytes)/keys // at most that many miss
		}
		for _, name := range s.dependsOn() {
			visits[name] = share
		}
		work, hottest := s.plant.CPUMillis, visits[s.name]/float64(s.replicas)
		if s.plant.Slow != nil {
			work *= s.plant.Slow.Factor
		}
		if s.plant.Workers == 1 {
			hottest = hottestOf(s.replicas, p.feed)
		}
		if i := slices.IndexFunc(p.services, func(by service) bool { return slices.Contains(by.dependsOn(), s.name) }); i >= 0 && p.services[i].plant.Calls[0].Uneven > 0 {
			first := float64(p.services[i].plant.Calls[0].Uneven) / 4
			hottest = first + (1-first)/float64(s.replicas)
		}
		if s.plant.Garbage != nil {
			work *= 2 // the runtime bounds what collecting takes at half of all
		}
		if s.plant.Thread {
			out[s.name+" "+verdict.Thread] = 1000 / (work + overhead)
		}
		if s.plant.Slots > 0 {
			out[s.name+" slots"] = 1000 * float64(s.plant.Slots) / s.plant.SleepMillis
		}
		if s.cpus > 0 && !s.plant.Thread {
			out[s.name+" "+verdict.CPU] = 1000 * s.cpus / (work + overhead) / hottest
		}
		if l := s.plant.Lock; l != nil {
			out[s.name+" "+verdict.Lock] = 1000 / (l.CPUMillis + l.SleepMillis)
		}
		if g := s.plant.Stage; g != nil {
			const handOn = 0.8 // ms, at most
			out[s.name+" "+verdict.Stage] = 1000 / (g.SleepMillis + handOn*float64(len(s.plant.Calls)))
		}
		if q := s.plant.Queue; q != nil {
			out[s.name+" "+verdict.Queue] = 1000 / q.SleepMillis
		}
	}
	if o := p.outside; o != nil {
		out["outside slots"] = 1000 * float64(o.Slots) / o.SleepMillis
	}
	for i, s := range p.services {
		if s.plant.Pool != nil {
			var behind plant.Config
			for _, o := range p.services {
				if slices.Contains(s.dependsOn(), o.name) {
					behind = o.plant
				}
			}
			if p.outside != nil {
				behind = *p.outside
			}
			out[s.name+" "+verdict.Pool] = 1000 * float64(s.plant.Pool.Size) / behind.SleepMillis
		}
		if w := s.plant.Wire; w != nil {
			out[s.name+" "+verdict.Lock] = w.BytesPerSecond / float64(p.services[i+1].plant.BodyBytes)
		}
	}
	return out
}

// hottestOf is the share of requests that goes to the hottest of n partitions
// when keys are drawn as feed says.
func hottestOf(n int, feed string) float64 {
	var low, high int
	var exponent float64
	if _, err := fmt.Sscanf(feed, "zipf: [%d, %d, %g]", &low, &high, &exponent); err != nil {
		return 1
	}
	parts, all := make([]float64, n), 0.0
	for key := low; key <= high; key++ {
		weight := math.Pow(float64(key-low+1), -exponent)
		parts[key%n] += weight
		all += weight
	}
	return slices.Max(parts) / all
}

// The truth is clear for every seed: what is planted is reached at less than two
// thirds of what anything else sustains, and what limits equally is equal.
func TestTruthIsClearForEverySeed(t *testing.T) {
	t.Parallel()
	for _, p := range append(Systems(), Pairs()...) {
		for seed := range uint64(200) {
			made := p.build(newDraw(seed, p.Name))
			if made.checks > 0 || made.users > 0 || p.Unlimited || slices.ContainsFunc(made.services, func(s service) bool { return s.plant.Disk != nil }) {
				break // the limit is outside the system
			}
			clearly(t, p, seed, bounds(made), made.maxRate)
			if t.Failed() {
				break
			}
		}
	}
}

func clearly(t *testing.T, p Planted, seed uint64, all map[string]float64, maxRate float64) {
	t.Helper()
	limit := maxRate
	var planted []string
	switch {
	case p.Truth.Apart > 0:
		limit := p.build(newDraw(seed, p.Name)).limit
		planted = []string{limit + " " + verdict.CPU}
	case p.Truth.Component != "":
		planted = []string{p.Truth.String()}
	case len(p.Truth.Equally) > 0:
		for _, c := range p.Truth.Equally {
			planted = append(planted, c+" "+verdict.CPU)
		}
	case p.Truth.Nobody: // the lowest, and as low as any other that is planted
		for name, bound := range all {
			if !strings.HasSuffix(name, " "+verdict.CPU) && (limit == 0 || bound < limit) {
				limit = bound
			}
		}
		for name, bound := range all {
			if bound == limit {
				planted = append(planted, name)
			}
		}
	}
	for i, name := range planted {
		if i > 0 && all[name] != limit {
			t.Errorf("%s, seed %d: %s sustains %.0f req/s, want %.0f, as much as the others", p.Name, seed, name, all[name], limit)
		}
		limit = all[name]
	}
	if limit <= 0 {
		t.Errorf("%s, seed %d: no limit is planted: %v", p.Name, seed, all)
	}
	for name, bound := range all {
		if !slices.Contains(planted, name) && limit > 0.66*bound {
			t.Errorf("%s, seed %d: %s sustains %.0f req/s, too close to the planted %.0f", p.Name, seed, name, bound, limit)
		}
	}
}

func TestParametersVaryWithTheSeedAndOnlyWithIt(t *testing.T) {
	t.Parallel()
	text := func(p Planted, seed uint64) string {
		made := p.build(newDraw(seed, p.Name))
		compose, err := made.compose(p)
		if err != nil {
			t.Fatal(err)
		}
		return string(compose) + regexp.MustCompile(`seed: \d+`).ReplaceAllString(string(made.experiment(p, seed)), "")
	}
	for _, p := range append(Systems(), Pairs()...) {
		first := text(p, 7)
		if first != text(p, 7) {
			t.Errorf("%s: the same seed plants two systems", p.Name)
		}
		if first == text(p, 8) {
			t.Errorf("%s: two seeds plant the same system", p.Name)
		}
	}
}

func TestThereAreEnoughSystems(t *testing.T) {
	t.Parallel()
	if got := len(Systems()); got < 12 {
		t.Errorf("got %d systems, want at least 12", got)
	}
	if got := len(Quick()); got != 4 {
		t.Errorf("got %d quick systems, want 4", got)
	}
	if _, err := Choose([]string{"pool", "pol"}); err == nil || !strings.Contains(err.Error(), `"pol"`) || !strings.Contains(err.Error(), "lock") {
		t.Errorf("Choose of an unknown name: got %v, want an error with it and the known ones", err)
	}
}

// verdictOf is a right verdict about a planted system.
func verdictOf(truth Truth) verdict.Verdict {
	w := verdict.Witness{Name: verdict.Demanding, Component: truth.Component, Resource: truth.Resource}
	v := verdict.Verdict{Status: verdict.Named, Component: truth.Component, Resource: truth.Resource}
	switch {
	case len(truth.Equally) > 0:
		v.Status, v.Summary = verdict.Tied, "left and right limit equally."
		w.Evidence = "right: 200 req/s; left, 201 req/s"
		for _, c := range truth.Equally {
			v.Tied = append(v.Tied, verdict.Limit{Component: c, Resource: verdict.CPU})
		}
		w.Tied = slices.Clone(v.Tied)
	case truth.Nobody:
		v.Status = verdict.Undecided
		if truth.In != "" || truth.Outside {
			v.Located = &verdict.Located{Component: cmp.Or(truth.In, "127.0.0.1:9000"), Outside: truth.Outside, AtOnce: truth.AtOnce}
		}
	case truth.Component == "":
		v.Status = verdict.LowerBoundOnly
	}
	v.Advice = truth.Advised
	v.Witnesses = []verdict.Witness{w}
	return v
}

func TestTruth(t *testing.T) {
	t.Parallel()
	pool, tie, bound := named("api", verdict.Pool), equally("left", "right"), lowerBound()
	in, out, advised := waitsIn("server"), waitsOutside(), named("api", verdict.CPU).advised("balance api")
	in.AtOnce = 4
	wrong := func(of Truth, edit func(*verdict.Verdict)) verdict.Verdict {
		v := verdictOf(of)
		edit(&v)
		return v
	}
	for name, c := range map[string]struct {
		truth          Truth
		verdict        verdict.Verdict
		judge, witness bool
	}{
		"named":            {pool, verdictOf(pool), true, true},
		"equally":          {tie, verdictOf(tie), true, true},
		"lower bound":      {bound, verdictOf(bound), true, true},
		"by its name":      {pool.called("slots"), verdictOf(named("api", "slots")), true, true},
		"by another name":  {pool.called("slots"), verdictOf(named("api", "")), false, false},
		"another service":  {pool, verdictOf(named("slow", verdict.Pool)), false, false},
		"another resource": {pool, verdictOf(named("api", verdict.CPU)), false, false},
		"right, undecided": {pool, wrong(pool, func(v *verdict.Verdict) { v.Status = verdict.Undecided }), false, true},
		"only a bound":     {pool, verdictOf(bound), false, false},
		"one of two":       {tie, verdictOf(named("left", verdict.CPU)), false, false},
		// Both are mentioned, and neither is named.
		"each by another": {tie, wrong(tie, func(v *verdict.Verdict) {
			v.Status, v.Tied, v.Summary = verdict.Undecided, nil, "The methods do not agree: demand names left and saturation names right."
			v.Witnesses[0].Tied, v.Witnesses[0].Evidence = nil, "1 % of the CPU of left moves it by 0.02 %; 1 % of the CPU of right moves it by 0.01 %"
		}), false, false},
		"one of two is left out": {tie, wrong(tie, func(v *verdict.Verdict) {
			v.Tied, v.Witnesses[0].Tied = v.Tied[:1], v.Tied[:1]
		}), false, false},
		"a third beside two": {tie, wrong(tie, func(v *verdict.Verdict) {
			v.Tied = append(v.Tied, verdict.Limit{Component: "front", Resource: verdict.CPU})
			v.Witnesses[0].Tied = v.Tied
		}), false, false},
		"two by their pools": {tie, wrong(tie, func(v *verdict.Verdict) {
			v.Tied = []verdict.Limit{{Component: "left", Resource: verdict.Pool}, {Component: "right", Resource: verdict.Pool}}
			v.Witnesses[0].Tied = v.Tied
		}), false, false},
		"in another order": {tie, wrong(tie, func(v *verdict.Verdict) {
			slices.Reverse(v.Tied)
			v.Witnesses[0].Tied = v.Tied
		}), true, true},
		"undecided between the two": {tie, wrong(tie, func(v *verdict.Verdict) { v.Status = verdict.Undecided }), false, true},
		"two though there is no limit": {bound, wrong(bound, func(v *verdict.Verdict) {
			v.Tied = []verdict.Limit{{Component: "left", Resource: verdict.CPU}, {Component: "right", Resource: verdict.CPU}}
			v.Witnesses[0].Tied = v.Tied
		}), false, false},
		"undecided, and where":               {in, verdictOf(in), true, true},
		"undecided, and somewhere else":      {in, wrong(in, func(v *verdict.Verdict) { v.Located.Component = "proxy" }), false, true},
		"undecided, and nowhere":             {in, wrong(in, func(v *verdict.Verdict) { v.Located = nil }), false, true},
		"undecided, and twice the slots":     {in, wrong(in, func(v *verdict.Verdict) { v.Located.AtOnce *= 2 }), false, true},
		"undecided, and slots within 20%":    {in, wrong(in, func(v *verdict.Verdict) { v.Located.AtOnce *= 0.85 }), true, true},
		"named where nobody is to be":        {in, wrong(in, func(v *verdict.Verdict) { v.Status, v.Component = verdict.Named, "server" }), false, true},
		"outside":                            {out, verdictOf(out), true, true},
		"in a service, and not outside":      {out, wrong(out, func(v *verdict.Verdict) { v.Located.Outside = false }), false, true},
		"nobody":                             {nobody(), verdictOf(nobody()), true, true},
		"a tie though nobody by itself":      {nobody(), verdictOf(tie), true, false},
		"advised":                            {advised, verdictOf(advised), true, true},
		"advised something else":             {advised, wrong(advised, func(v *verdict.Verdict) { v.Advice = "api CPU: 0.25 → 0.375 cores" }), false, true},
		"somebody though there is no limit":  {bound, verdictOf(pool), false, false},
		"a bound by somebody":                {bound, wrong(bound, func(v *verdict.Verdict) { v.Component = "api" }), false, true},
		"undecided though there is no limit": {bound, wrong(bound, func(v *verdict.Verdict) { v.Status = verdict.Undecided }), false, true},
	} {
		if got := c.truth.IsVerdict(&c.verdict); got != c.judge {
			t.Errorf("%s: the judge is right: got %v, want %v", name, got, c.judge)
		}
		names := c.verdict.Component != "" || len(c.verdict.Tied) > 0 && !slices.Contains([]string{"one of two is left out", "a third beside two", "undecided between the two"}, name)
		if got := c.truth.misleads(&c.verdict); got != (names && !c.judge) {
			t.Errorf("%s: it misleads: got %v, want %v", name, got, names && !c.judge)
		}
		if got := c.truth.IsNamedBy(&c.verdict.Witnesses[0]); got != c.witness {
			t.Errorf("%s: the witness is right: got %v, want %v", name, got, c.witness)
		}
	}
}

// score runs the self-test with verdicts made up: right ones, but for those of
// the named systems.
func score(t *testing.T, systems []Planted, wrong ...string) *Score {
	t.Helper()
	s, err := Run(t.Context(), Config{Dir: t.TempDir(), Seed: 5, Systems: systems, Measure: func(_ context.Context, path, dir string) (*result.Result, string, error) {
		if _, err := os.Stat(path); err != nil {
			return nil, "", err
		}
		name := filepath.Base(dir)
		i := slices.IndexFunc(systems, func(p Planted) bool { return p.Name == name })
		v := verdictOf(systems[i].Truth)
		if slices.Contains(wrong, name) {
			v = verdictOf(named("nobody-has-this", verdict.CPU))
		}
		if name == "front" && slices.Contains(wrong, "fails") {
			return nil, "", errors.New("it did not start")
		}
		return &result.Result{Variants: []result.Variant{{
			Capacity: &result.Estimate{Interval: stats.Interval{Value: 123}}, Verdict: v,
		}}}, "the-run", nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestScoreFailsWhenVerdictsAreWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		systems []Planted
		wrong   []string
		right   int
		passed  bool
	}{
		"all right":             {plain(), nil, 14, true},
		"one of fourteen":       {plain(), []string{"lock"}, 13, true},
		"two of fourteen":       {plain(), []string{"lock", "none"}, 12, false},
		"a wrong and a failure": {plain(), []string{"lock", "fails"}, 12, false},
		"one of four":           {Quick(), []string{"pool"}, 3, false},
		"four of four":          {Quick(), nil, 4, true},
		"none at all":           {nil, nil, 0, false},
	} {
		s := score(t, c.systems, c.wrong...)
		if s.Right != c.right || s.Passed != c.passed {
			t.Errorf("%s: got %d right, passed %v; want %d, %v", name, s.Right, s.Passed, c.right, c.passed)
		}
	}
}

// Each system is planted with each of the seeds, and none takes another's place.
func TestEverySeedCounts(t *testing.T) {
	t.Parallel()
	var dirs []string
	s, err := Run(t.Context(), Config{Dir: t.TempDir(), Seed: 7, Seeds: 3, Systems: Quick(), Measure: func(_ context.Context, _, dir string) (*result.Result, string, error) {
		dirs = append(dirs, filepath.Base(dir))
		return &result.Result{Variants: []result.Variant{{Verdict: verdictOf(named("nobody-has-this", verdict.CPU))}}}, "", nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Rows) != 12 || s.Rows[0].Seed != 7 || s.Rows[11].Seed != 9 || s.Misled != 12 || s.Right != 0 {
		t.Errorf("got %d rows, %d of them mislead, want 12 of 12", len(s.Rows), s.Misled)
	}
	slices.Sort(dirs)
	if n := len(slices.Compact(dirs)); n != 12 {
		t.Errorf("got %d directories, want 12", n)
	}
}

func TestTextSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	if err := WriteText(&text, score(t, plain(), "lock", "fails")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"pool       api pool",
		"lock       api lock          nobody-has-this cpu *",
		"lock, seed 5: the known bottleneck: one global lock (api lock).", "raw the-run", "It could not be measured: it did not start",
		"FAILED: 12 of 14 verdicts are right, 13 needed; seed 5", "right 86 % [57, 98], naming what does not limit 7 % [0, 34]", "perturbation right about 0 of the 0",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, text.String())
		}
	}
	path := filepath.Join(t.TempDir(), "score.json")
	if err := WriteFile(path, score(t, Quick())); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back Score
	if err := json.Unmarshal(data, &back); err != nil || back.Right != 4 || len(back.Rows) != 4 || !back.Rows[0].Verdict.Right {
		t.Errorf("read back: %v, %+v; want 4 right", err, back)
	}
}

// A self-test that is stopped has no score.
func TestStoppedRunHasNoScore(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	_, err := Run(ctx, Config{Dir: t.TempDir(), Systems: Quick(), Measure: func(context.Context, string, string) (*result.Result, string, error) {
		stop()
		return nil, "", ctx.Err()
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// On a busy machine a wrong verdict is measured again. It is left out only if other
// programs used the machine to the last and it names nothing.
func TestOnABusyMachine(t *testing.T) {
	t.Parallel()
	silent, wrong, right := lowerBound(), named("nobody-has-this", verdict.CPU), named("api", verdict.Pool)
	for name, c := range map[string]struct {
		verdicts []Truth // of one measurement after the other
		outside  float64
		idle     bool // Config.Busy is not set
		measured int
		leftOut  bool
		passed   bool
	}{
		"right the first time":    {verdicts: []Truth{right}, outside: 2, measured: 1, passed: true},
		"right the third time":    {verdicts: []Truth{wrong, silent, right}, outside: 2, measured: 3, passed: true},
		"never":                   {verdicts: []Truth{silent, wrong, silent}, outside: 2, measured: 3, leftOut: true, passed: true},
		"never, and nobody's":     {verdicts: []Truth{silent, silent, silent}, outside: 0.1, measured: 3},
		"wrong to the last":       {verdicts: []Truth{silent, silent, wrong}, outside: 2, measured: 3},
		"nobody said it was busy": {verdicts: []Truth{silent, right}, outside: 2, idle: true, measured: 1},
	} {
		systems, err := Choose([]string{"pool"})
		if err != nil {
			t.Fatal(err)
		}
		measured := 0
		s, err := Run(t.Context(), Config{Dir: t.TempDir(), Systems: systems, Busy: !c.idle, Measure: func(context.Context, string, string) (*result.Result, string, error) {
			v := verdictOf(c.verdicts[measured])
			measured++
			return &result.Result{Variants: []result.Variant{{Verdict: v, Conditions: &result.Conditions{Outside: c.outside}}}}, "", nil
		}})
		if err != nil || measured != c.measured || s.Rows[0].LeftOut != c.leftOut || s.Passed != c.passed {
			t.Errorf("%s: got %v, %d measurements, %+v, passed %v", name, err, measured, s.Rows[0], s.Passed)
		}
	}
}
