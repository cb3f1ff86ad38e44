package compare

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
	"loadstone/lab/host"
	"loadstone/lab/result"
	"loadstone/lab/stats"
)

var began = time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)

// world makes capacities: the machine's level, and noise around it.
type world struct {
	r     *rand.Rand
	level float64
	noise float64
}

func newWorld(seed uint64, level float64) world {
	return world{r: rand.New(rand.NewPCG(seed, 5)), level: level, noise: 0.03}
}

func (w world) capacities(mean float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = mean * w.level * math.Exp(w.noise*w.r.NormFloat64())
	}
	return out
}

// variant is api with a quarter of a CPU and lb with half of one; api limits.
func (w world) variant(name string, mean float64, n int) archivetest.Variant {
	return archivetest.Variant{
		Name: name, Capacities: w.capacities(mean, n), Service: 4 * time.Millisecond,
		Components: []archivetest.Component{
			{Name: "api", Instances: 1, CPUs: 0.25, Demand: time.Duration(0.24 / (mean * w.level) * 1e9)},
			{Name: "lb", Instances: 1, CPUs: 0.5, Demand: time.Duration(50e3 / w.level)},
		},
	}
}

func derive(t *testing.T, p archivetest.Run) *result.Result {
	t.Helper()
	dir, err := p.Write(t.TempDir())
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

func planting(variants ...archivetest.Variant) archivetest.Run {
	return archivetest.Run{Name: "e", Seed: 1, Started: began, Environment: archive.Environment{Machine: host.Machine{CPU: "one", Cores: 2, LimitsEnforced: true}}, Variants: variants}
}

func between(t *testing.T, a, b *result.Result, c Config) *Difference {
	t.Helper()
	d, err := Between(a, b, [2]string{"run-a", "run-b"}, c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *Difference) table(t *testing.T, title string) Table {
	t.Helper()
	for _, table := range d.Tables {
		if table.Title == title {
			return table
		}
	}
	t.Fatalf("no table %q", title)
	return Table{}
}

// An A/A experiment shows "~", also if the machine was 15 % faster in one run:
// the shared baseline takes that out.
func TestEqualsOnAFasterMachine(t *testing.T) {
	t.Parallel()
	wrong, absolute := 0, 0
	const repetitions = 10
	for i := range uint64(repetitions) {
		a, b := newWorld(2*i, 1), newWorld(2*i+1, 1.15)
		slow := derive(t, planting(a.variant("plain", 400, 6), a.variant("cached", 1000, 6)))
		fast := derive(t, planting(b.variant("plain", 400, 6), b.variant("cached", 1000, 6)))
		if between(t, slow, fast, Config{Relative: true}).table(t, "capacity").Rows[0].Change != stats.Unclear {
			wrong++
		}
		if between(t, slow, fast, Config{}).table(t, "capacity").Rows[0].Change != stats.Unclear {
			absolute++
		}
	}
	if wrong > 2 {
		t.Errorf("equals differ in %d of %d relative comparisons", wrong, repetitions)
	}
	if absolute < repetitions/2 {
		t.Errorf("a machine that is 15 %% faster was seen in %d of %d absolute comparisons", absolute, repetitions)
	}
}

func TestRealDifferenceIsFound(t *testing.T) {
	t.Parallel()
	a, b := newWorld(1, 1), newWorld(2, 1.1)
	before := derive(t, planting(a.variant("plain", 400, 6), a.variant("cached", 1000, 6)))
	after := derive(t, planting(b.variant("plain", 400, 6), b.variant("cached", 1300, 6)))
	d := between(t, before, after, Config{Relative: true})
	r := d.table(t, "capacity").Rows[0]
	if r.Change != stats.Better || math.Abs(r.Result.Ratio.Value-1.3) > 0.05 || r.Result.Ratio.Low > 1.3 || r.Result.Ratio.High < 1.3 {
		t.Errorf("%+v %+v, want better by 1.3", r, r.Result)
	}
	if got := d.table(t, "CPU per request").Rows[0]; got.Name != "cached, api" || got.Change != stats.Better {
		t.Errorf("%+v, want less CPU per request", got)
	}
	if len(d.Worse(0.05)) != 0 {
		t.Errorf("worse: %+v", d.Worse(0.05))
	}
	back := between(t, after, before, Config{Relative: true})
	if worse := back.Worse(0.2); len(worse) != 1 || worse[0].Metric.Name != "capacity" {
		t.Errorf("the other way round: %+v, want a capacity that is worse by more than 20 %%", worse)
	}
	if worse := back.Worse(0.5); len(worse) != 0 {
		t.Errorf("worse by half: %+v", worse)
	}
}

// What is compared is where all attempts put the edge, and what is shown is what held. Where one
// of the runs does not know its edges, what held is compared.
func TestCapacitiesAreComparedByTheirEdges(t *testing.T) {
	t.Parallel()
	one, same := newWorld(1, 1), newWorld(1, 1)
	a, b := derive(t, planting(one.variant("plain", 400, 6))), derive(t, planting(same.variant("plain", 400, 6)))
	edges := func(r *result.Result, times float64) {
		for i := range r.Variants[0].Figures {
			r.Variants[0].Figures[i].Edge = times * r.Variants[0].Figures[i].Capacity
		}
	}
	for name, c := range map[string]struct {
		before float64
		want   stats.Change
	}{"both know": {1, stats.Better}, "one does not": {0, stats.Unclear}} {
		edges(a, c.before)
		edges(b, 1.3)
		r := between(t, a, b, Config{}).table(t, "capacity").Rows[0]
		if r.Change != c.want || math.Abs(r.Base.Value-400) > 30 || math.Abs(r.Sample.Value-400) > 30 {
			t.Errorf("%s: got %s, %+v and %+v, want %s, and 400 shown twice", name, r.Change, r.Base, r.Sample, c.want)
		}
	}
}

func TestWithinARun(t *testing.T) {
	t.Parallel()
	w := newWorld(3, 1)
	res := derive(t, planting(w.variant("one", 400, 6), w.variant("same", 400, 6), w.variant("fast", 500, 6)))
	d, err := Within(res, "run")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]stats.Change{"one → same": stats.Unclear, "one → fast": stats.Better, "same → fast": stats.Better}
	rows := d.table(t, "capacity").Rows
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want all %d pairs", len(rows), len(want))
	}
	for _, r := range rows {
		if r.Change != want[r.Name] {
			t.Errorf("%s: %s %+v", r.Name, r.Change, r.Result)
		}
	}
	latency := d.table(t, "response time at the same rate").Rows
	if len(latency) != 9 || latency[3].Change != stats.Better {
		t.Errorf("%d rows, %+v; want a better latency of fast at the same rate", len(latency), latency[3])
	}
	if _, err := Within(derive(t, planting(w.variant("one", 400, 2))), "run"); err == nil || !strings.Contains(err.Error(), "name a second run") {
		t.Errorf("one variant: %v", err)
	}
}

// What came of a load as written differs by chance, and with virtual users by how slow the
// answers were. What was asked for is the same, and so is what is compared.
func TestALoadAsWrittenIsMatchedByWhatWasAsked(t *testing.T) {
	t.Parallel()
	run := func(seed uint64, rate float64, service time.Duration) *result.Result {
		p := planting(newWorld(seed, 1).variant("plain", 1000, 6))
		p.Seed, p.Rate, p.Variants[0].Service = seed, rate, service
		return derive(t, p)
	}
	before, after := run(1, 200, 2*time.Millisecond), run(2, 200, 70*time.Millisecond)
	d := between(t, before, after, Config{})
	rows := d.table(t, "response time under the same load").Rows
	if len(rows) != 3 || rows[0].Name != "plain, p50 at 200/s" || rows[0].Change != stats.Worse || rows[0].Result.Ratio.Value < 30 {
		t.Errorf("got %+v, want all of three percentiles far worse", rows)
	}
	if worse := d.Worse(0.05); len(worse) != 3 {
		t.Errorf("worse: %+v, want the three percentiles", worse)
	}
	notes := between(t, before, run(3, 300, 2*time.Millisecond), Config{}).table(t, "response time under the same load").Notes
	if want := "not the same load, so that response times are not compared: plain (200/s and 300/s)"; len(notes) != 1 || notes[0] != want {
		t.Errorf("got the notes %q, want %q", notes, want)
	}
}

func TestTooFewTrials(t *testing.T) {
	t.Parallel()
	w := newWorld(4, 1)
	d, err := Within(derive(t, planting(w.variant("one", 400, 2), w.variant("fast", 800, 2))), "run")
	if err != nil {
		t.Fatal(err)
	}
	if r := d.table(t, "capacity").Rows[0]; r.Result.Outcome != stats.TooFew || len(d.Undecidable()) != 1 || len(d.Worse(0)) != 0 {
		t.Errorf("%+v", r.Result)
	}
}

// Nothing is said of what lies beyond a lower bound.
func TestLowerBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		base, sample bool
		ratio        float64
		want         stats.Change
	}{
		"at least so much more":      {false, true, 1.5, stats.Better},
		"no more than a lower bound": {false, true, 0.6, stats.Unclear},
		"more than a lower bound":    {true, false, 1.5, stats.Unclear},
		"less than a lower bound":    {true, false, 0.6, stats.Worse},
		"two lower bounds":           {true, true, 1.5, stats.Unclear},
	} {
		w := newWorld(6, 1)
		base, sample := w.variant("base", 400, 6), w.variant("sample", 400*c.ratio, 6)
		base.GeneratorLimited, sample.GeneratorLimited = c.base, c.sample
		d, err := Within(derive(t, planting(base, sample)), "run")
		if err != nil {
			t.Fatal(err)
		}
		r := d.table(t, "capacity").Rows[0]
		if r.Change != c.want || r.BaseBound != c.base || r.SampleBound != c.sample {
			t.Errorf("%s: %s, bounds %v and %v; want %s", name, r.Change, r.BaseBound, r.SampleBound, c.want)
		}
		var b bytes.Buffer
		if err := Text(&b, d, false); err != nil || !strings.Contains(b.String(), "≥") {
			t.Errorf("%s: %v in\n%s", name, err, b.String())
		}
	}
}

func TestNoRateAnyMore(t *testing.T) {
	t.Parallel()
	a := newWorld(7, 1)
	before, after := a.variant("v", 400, 6), a.variant("v", 400, 6)
	clear(after.Capacities)
	d := between(t, derive(t, planting(before)), derive(t, planting(after)), Config{})
	if worse := d.Worse(0.5); len(worse) != 1 || !strings.Contains(worse[0].Note, "holds no rate") {
		t.Errorf("worse: %+v", worse)
	}
	// It is not worse if nothing could be judged.
	open := derive(t, planting(after))
	open.Variants[0].Capacity.LowerBound = true
	d = between(t, derive(t, planting(before)), open, Config{})
	if worse := d.Worse(0.5); len(worse) > 0 {
		t.Errorf("not judged: worse %+v", worse)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(8, 1)
	fine, bad := w.variant("v", 400, 6), w.variant("v", 400, 6)
	bad.Failed = 40
	d := between(t, derive(t, planting(fine)), derive(t, planting(bad)), Config{})
	r := d.table(t, "failed requests").Rows[0]
	if r.Change != stats.Worse || r.Base.Value != 0 || math.Abs(r.Sample.Value-0.05) > 0.01 {
		t.Errorf("%+v, want 0 and about 5 %%", r)
	}
	d = between(t, derive(t, planting(fine)), derive(t, planting(w.variant("v", 800, 6))), Config{})
	for _, table := range d.Tables {
		if table.Title == "failed requests" {
			t.Errorf("nothing failed, and it was compared: %+v", table)
		}
	}
}

func TestWhatElseDiffers(t *testing.T) {
	t.Parallel()
	w := newWorld(9, 1)
	a, b := planting(w.variant("v", 400, 2), w.variant("gone", 400, 2)), planting(w.variant("v", 400, 2), w.variant("new", 400, 2))
	b.Environment.CPU, b.Environment.Kernel, b.Seed, b.Objective = "another", "6.1", 2, "p(95)<100"
	b.Variants[0].Components[0].Instances = 3
	d := between(t, derive(t, a), derive(t, b), Config{})
	got := make(map[string]Setting)
	for _, s := range d.Settings {
		got[s.What] = s
	}
	for what, want := range map[string]Setting{
		"CPU":      {"CPU", "one", "another"},
		"kernel":   {"kernel", "", "6.1"},
		"seed":     {"seed", "1", "2"},
		"api of v": {"api of v", "1 × 0.25 CPU", "3 × 0.25 CPU"},
	} {
		if got[what] != want {
			t.Errorf("%s: %+v, want %+v", what, got[what], want)
		}
	}
	if _, ok := got["cores"]; ok {
		t.Error("cores are the same, and are listed")
	}
	if all := strings.Join(d.Warnings, "\n"); !strings.Contains(all, "only run-a has gone") || !strings.Contains(all, "only run-b has new") || !strings.Contains(all, "the objectives differ") {
		t.Errorf("warnings: %s", all)
	}
	if len(d.Source) != 4 {
		t.Errorf("%+v, want two lines of either file", d.Source)
	}
	if _, err := Between(derive(t, planting(w.variant("x", 400, 2))), derive(t, a), [2]string{"a", "b"}, Config{}); err == nil || !strings.Contains(err.Error(), "none in common") || !strings.Contains(err.Error(), "--variants x=") {
		t.Errorf("got %v", err)
	}
}

func TestLineDifference(t *testing.T) {
	t.Parallel()
	got := lineDifference("a\nb\nc\nd\n", "a\nB\nc\nd\ne\n")
	want := []Line{{"base", 2, "b"}, {"sample", 2, "B"}, {"sample", 5, "e"}}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
	if d := lineDifference("same\n", "same\n"); d != nil {
		t.Errorf("equal texts differ: %+v", d)
	}
	if d := lineDifference("", "x"); len(d) != 1 {
		t.Errorf("one line against none: %+v", d)
	}
}

func TestCommonRate(t *testing.T) {
	t.Parallel()
	trial := func(round int, rates ...float64) curve {
		c := curve{round: round}
		for _, r := range rates {
			c.points = append(c.points, result.CurvePoint{Rate: r, P95: r / 10})
		}
		return c
	}
	a := []curve{trial(1, 100, 200), trial(2, 150, 250)}
	b := []curve{trial(1, 160, 300), trial(2, 190, 400)}
	rate, ok := commonRate(a, b)
	if !ok || rate != 190 {
		t.Fatalf("got %v, %v; want 190, the lowest rate that all four cover", rate, ok)
	}
	got := at(a, rate, percentiles()[1])
	if want := math.Pow(10, 0.1) * math.Pow(20, 0.9); len(got) != 2 || math.Abs(got[0].Value-want) > 1e-9 {
		t.Errorf("got %+v, want %v first", got, want)
	}
	if _, ok := commonRate(a, []curve{trial(1, 900), trial(2, 1000)}); ok {
		t.Error("a rate was found that only one of them tried")
	}
}

func TestForms(t *testing.T) {
	t.Parallel()
	w := newWorld(10, 1)
	a := planting(w.variant("plain", 400, 6), w.variant("a|b", 900, 6))
	a.Variants[1].Name = "a_b"
	b := planting(w.variant("plain", 400, 6), w.variant("a_b", 700, 6))
	b.Seed = 3
	d := between(t, derive(t, a), derive(t, b), Config{Relative: true})
	var text, colour, markdown, object bytes.Buffer
	if err := Text(&text, d, false); err != nil {
		t.Fatal(err)
	}
	if err := Text(&colour, d, true); err != nil {
		t.Fatal(err)
	}
	if err := Markdown(&markdown, d); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(&object).Encode(d); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s\n%s", text.String(), markdown.String())
	if strings.Contains(text.String(), "\x1b") || !strings.Contains(colour.String(), "\x1b[31m") {
		t.Error("colours where none are wanted, or none where they are")
	}
	for _, want := range []string{"worse", "n=6+6", "relative to plain", "seed"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if !strings.Contains(markdown.String(), `a\_b`) || strings.Contains(markdown.String(), "\x1b") {
		t.Error("the Markdown has markup of its values")
	}
	for line := range strings.Lines(markdown.String()) {
		if strings.HasPrefix(line, "|") && strings.Count(line, "|")-strings.Count(line, `\|`) != 5 && !strings.Contains(line, "what differs") && !strings.HasPrefix(line, "|---|---|---|\n") && strings.Count(line, "|") != 4 {
			t.Errorf("a row of another width: %s", line)
		}
	}
}

// Variants are paired by name, or as they are told to be, or as the only ones of their runs.
func TestVariantsOfOtherNamesArePaired(t *testing.T) {
	t.Parallel()
	w := newWorld(10, 1)
	one, other := derive(t, planting(w.variant("baseline", 400, 6))), derive(t, planting(w.variant("cached", 600, 6)))
	two := derive(t, planting(w.variant("cached", 600, 6), w.variant("bigger", 800, 6)))
	for name, c := range map[string]struct {
		base, sample *result.Result
		by           map[string]string
		rows         string // of the first table
		warning      string
		err          string
	}{
		"the only ones":             {one, other, nil, "baseline → cached", "the variants have different names, baseline in run-a and cached in run-b", ""},
		"as told":                   {one, two, map[string]string{"baseline": "bigger"}, "baseline → bigger", "", ""},
		"of the same name, as told": {two, two, map[string]string{"cached": "bigger", "bigger": "bigger"}, "cached → bigger, bigger", "", ""},
		"one and two":               {one, two, nil, "", "", "run-a and run-b have none in common: one has baseline, the other cached, bigger; say which belong together with --variants, such as --variants baseline=cached"},
		"no such":                   {one, two, map[string]string{"baseline": "biger"}, "", "", `run-b has no variant "biger"; write "bigger"`},
		"nor before":                {one, two, map[string]string{"base": "bigger"}, "", "", `run-a has no variant "base"`},
	} {
		d, err := Between(c.base, c.sample, [2]string{"run-a", "run-b"}, Config{Variants: c.by})
		if c.err != "" {
			if err == nil || !errors.Is(err, ErrVariants) || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got %v, want %q", name, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var rows []string
		for _, r := range d.table(t, "capacity").Rows {
			rows = append(rows, r.Name)
		}
		all := strings.Join(d.Warnings, "\n")
		if got := strings.Join(rows, ", "); got != c.rows || !strings.Contains(all, c.warning) || strings.Contains(all, "not compared") {
			t.Errorf("%s: got %q, warnings %q, want %q and %q", name, got, all, c.rows, c.warning)
		}
	}
}

// TestASlowerMachineIsSaid, if both runs know how fast theirs was.
func TestASlowerMachineIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(9, 1)
	run := func(slowness ...float64) *result.Result {
		p := planting(w.variant("v", 400, 3))
		p.Slowness = slowness
		return derive(t, p)
	}
	other, elsewhere := run(1, 1, 1), run(1, 1, 1)
	other.Environment.Speed.Work, elsewhere.Environment.Go = "other", "go1.99"
	slow, full := run(1.3, 1.25, 1.2), run(1, 1, 1)
	full.Environment.Speed.Median.MemoryMS *= 1.6
	for name, c := range map[string]struct {
		a, b *result.Result
		want string
	}{
		"slower":           {run(1, 1.01, 1.02), slow, "the machine was slower in B: computing took 24 % more CPU time, and requests may have taken more, too: a difference need not be the system's"},
		"faster":           {slow, run(1, 1, 1), "the machine was slower in A: computing took 25 % more CPU time, and requests may have taken more, too: a difference need not be the system's"},
		"slower memory":    {run(1, 1, 1), full, "the machine was slower in B: reading memory took 60 % more CPU time, and requests may have taken more, too: a difference need not be the system's"},
		"as fast":          {run(1, 1.01, 1.02), run(1.04, 1.05, 1.06), ""},
		"one does not say": {run(), slow, ""},
		"other work":       {other, slow, ""},
		"compiled anew":    {elsewhere, slow, ""},
	} {
		got := ""
		for _, text := range between(t, c.a, c.b, Config{}).Warnings {
			if strings.HasPrefix(text, "the machine was slower") {
				got = text
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
