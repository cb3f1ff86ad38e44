package series

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/lab/probe"
)

var began = time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }

func seconds(n int) []Second {
	out := make([]Second, n)
	for i := range out {
		out[i] = Second{at(float64(i)), at(float64(i + 1))}
	}
	return out
}

// scrapes has one instance's counter at four a second, from one moment to
// another.
func scrapes(name string, from, to, perSecond float64) []probe.Scrape {
	var out []probe.Scrape
	for s := from; s <= to; s += 0.25 {
		out = append(out, probe.Scrape{At: at(s), Instance: name, Values: map[string]float64{"q_total": perSecond * (s - from), "other": 1}})
	}
	return out
}

func alive(name string) Instance {
	return Instance{Name: name, Lives: []Life{{From: at(-10), To: at(1000)}}}
}

func metric(t *testing.T, selector, as string, bounds ...string) Metric {
	t.Helper()
	s, err := ParseSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	m := Metric{Name: "q", Selector: s, Service: "api", As: as}
	for _, text := range bounds {
		b, err := ParseBound(text)
		if err != nil {
			t.Fatal(err)
		}
		m.Bounds = append(m.Bounds, b)
	}
	return m
}

func wantFigures(t *testing.T, got []float64, want ...float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range got {
		if math.IsNaN(got[i]) != math.IsNaN(want[i]) || math.Abs(got[i]-want[i]) > 1e-6 {
			t.Errorf("second %d: got %v, want %v", i, got, want)
			return
		}
	}
}

var gap = math.NaN()

func TestRateIsSummedOverInstances(t *testing.T) {
	t.Parallel()
	all := append(scrapes("api-1", -1, 4, 100), scrapes("api-2", -1, 4, 20)...)
	got, found := metric(t, "q_total", Rate).Seconds(all, []Instance{alive("api-1"), alive("api-2")}, seconds(3))
	if !found {
		t.Error("not found")
	}
	wantFigures(t, got, 120, 120, 120)
}

// whole has api-1 tell of all of its service once a second: a counter that was 1,000 before and does 50 a second, and
// two gauges, of 7 and 1.
func whole(from, to float64, took time.Duration) []probe.Scrape {
	var out []probe.Scrape
	for s := from; s <= to; s += 1 + 2*took.Seconds() {
		out = append(out, probe.Scrape{At: at(s), Took: took, Instance: "api-1", Whole: true, Values: map[string]float64{
			`done_total{stage="judge"}`: 1000 + 50*(s-from), `depth{stage="judge",subtask="0"}`: 7, `depth{stage="judge",subtask="1"}`: 1,
		}})
	}
	return out
}

// TestOneTellsOfAllInstances: a job manager tells of all task managers together, and what one of them does not
// tell is no gap, nor is its end an end of what is told.
func TestOneTellsOfAllInstances(t *testing.T) {
	t.Parallel()
	told := slices.Concat(whole(-2, 8, 10*time.Millisecond), scrapes("api-2", -1, 8, 20))
	killed := Instance{"api-1", []Life{{From: at(-10), To: at(2.1)}, {From: at(4.5), To: at(1000), Began: true}}}
	for name, instances := range map[string][]Instance{
		"all of them run":       {alive("api-1"), alive("api-2"), alive("api-3")},
		"who tells is killed":   {killed, alive("api-2")},
		"another one is killed": {alive("api-1"), {"api-2", killed.Lives}},
		"there is no other":     {alive("api-1")},
		"one follows another":   {{"api-2", killed.Lives[:1]}, {"api-1", []Life{{From: at(2.1), To: at(1000), Began: true}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, found := metric(t, "depth", Value).Seconds(told, instances, seconds(6))
			if !found {
				t.Error("not found")
			}
			wantFigures(t, got, 8, 8, 8, 8, 8, 8)
			got, _ = metric(t, `depth{stage="judge",subtask="0"}`, Value).Seconds(told, instances, seconds(1))
			wantFigures(t, got, 7)
			got, _ = metric(t, "done_total", Rate).Seconds(told, instances, seconds(6))
			wantFigures(t, got, 50, 50, 50, 50, 50, 50)
		})
	}
	// What each tells by itself is added up as ever, and lacks who tells nothing.
	got, _ := metric(t, "q_total", Rate).Seconds(told, []Instance{alive("api-2")}, seconds(2))
	wantFigures(t, got, 20, 20)
	got, _ = metric(t, "q_total", Rate).Seconds(told, []Instance{alive("api-1"), alive("api-2")}, seconds(2))
	wantFigures(t, got, gap, gap)
	// None of them runs from 2.1 s to 4.5 s.
	got, _ = metric(t, "depth", Value).Seconds(told, []Instance{killed}, seconds(6))
	if !math.IsNaN(got[3]) || math.IsNaN(got[0]) || math.IsNaN(got[5]) {
		t.Errorf("got %v, want nothing while nobody ran", got)
	}
}

// TestWhoAnswersSlowlyLeavesNoGap: who takes 1.5 s to answer is asked each 4 s.
func TestWhoAnswersSlowlyLeavesNoGap(t *testing.T) {
	t.Parallel()
	got, _ := metric(t, "depth", Value).Seconds(whole(-4, 12, 1500*time.Millisecond), []Instance{alive("api-1")}, seconds(6))
	wantFigures(t, got, 8, 8, 8, 8, 8, 8)
	// An answer that did not come is a gap.
	got, _ = metric(t, "depth", Value).Seconds(slices.DeleteFunc(whole(-2, 12, 10*time.Millisecond), func(s probe.Scrape) bool {
		return s.At.After(at(1.5)) && s.At.Before(at(5))
	}), []Instance{alive("api-1")}, seconds(6))
	if math.IsNaN(got[0]) || !math.IsNaN(got[3]) || math.IsNaN(got[5]) {
		t.Errorf("got %v, want nothing while nobody answered", got)
	}
}

// TestARestartIsNoFall kills an instance at 2.1 s and has it back at 4.5 s.
func TestARestartIsNoFall(t *testing.T) {
	t.Parallel()
	own := append(scrapes("api-1", -1, 2, 100), scrapes("api-1", 4.5, 8, 40)...)
	in := Instance{"api-1", []Life{{From: at(-10), To: at(2.1)}, {From: at(4.5), To: at(1000), Began: true}}}
	got, _ := metric(t, "q_total", Rate).Seconds(own, []Instance{in}, seconds(7))
	wantFigures(t, got, 100, 100, 10, gap, 20, 40, 40)
	// Another instance goes on meanwhile, and the total is known.
	all := slices.Concat(own, scrapes("api-2", -1, 8, 5))
	got, _ = metric(t, "q_total", Rate).Seconds(all, []Instance{in, alive("api-2")}, seconds(7))
	wantFigures(t, got, 105, 105, 15, 5, 25, 45, 45)
}

// TestAnUnrecordedRestartIsNoFall has a counter begin again of itself.
func TestAnUnrecordedRestartIsNoFall(t *testing.T) {
	t.Parallel()
	own := append(scrapes("api-1", -1, 2, 100), scrapes("api-1", 2.25, 5, 100)...)
	got, _ := metric(t, "q_total", Rate).Seconds(own, []Instance{alive("api-1")}, seconds(4))
	for i, v := range got {
		if v < 70 || v > 101 {
			t.Errorf("second %d: got %g, want about 100 and never less than nothing", i, v)
		}
	}
}

// TestSilenceIsAGap has an instance that runs and says nothing for 5 s, as when
// it is paused.
func TestSilenceIsAGap(t *testing.T) {
	t.Parallel()
	own := scrapes("api-1", -1, 1, 100)
	for _, s := range scrapes("api-1", 6, 9, 100) {
		s.Values["q_total"] += 100
		own = append(own, s)
	}
	all := slices.Concat(own, scrapes("api-2", -1, 9, 5))
	got, _ := metric(t, "q_total", Rate).Seconds(all, []Instance{alive("api-1"), alive("api-2")}, seconds(8))
	wantFigures(t, got, 105, gap, gap, gap, gap, gap, 105, 105)
}

func TestValueIsOfThoseThatRun(t *testing.T) {
	t.Parallel()
	gauge := func(name string, from, to, v float64) []probe.Scrape {
		out := scrapes(name, from, to, 0)
		for i := range out {
			out[i].Values = map[string]float64{`pool{kind="a"}`: v, `pool{kind="b"}`: 1}
		}
		return out
	}
	all := append(gauge("api-1", -1, 2, 7), gauge("api-2", -1, 5, 3)...)
	in := Instance{"api-1", []Life{{From: at(-10), To: at(2)}}}
	got, _ := metric(t, `pool{kind="a"}`, Value).Seconds(all, []Instance{in, alive("api-2")}, seconds(4))
	wantFigures(t, got, 10, 10, 3, 3)
	got, _ = metric(t, "pool", Value).Seconds(all, []Instance{alive("api-2")}, seconds(2))
	wantFigures(t, got, 4, 4)
}

// TestAPartOfASumIsAGap has one of two gauges that is no number for a second: the other is
// not what both stand at.
func TestAPartOfASumIsAGap(t *testing.T) {
	t.Parallel()
	all := scrapes("api-1", -1, 5, 0)
	for i := range all {
		s := &all[i]
		s.Values = map[string]float64{`depth{q="a"}`: 8, `depth{q="b"}`: 2}
		if s.At.After(at(1)) && !s.At.After(at(2)) {
			s.Values[`depth{q="b"}`] = math.NaN()
		}
	}
	got, found := metric(t, "depth", Value).Seconds(all, []Instance{alive("api-1")}, seconds(4))
	wantFigures(t, got, 10, gap, 10, 10)
	if got, _ := metric(t, `depth{q="a"}`, Value).Seconds(all, []Instance{alive("api-1")}, seconds(4)); !found {
		t.Errorf("got %v, not found", got)
	} else {
		wantFigures(t, got, 8, 8, 8, 8)
	}
	for i := range all {
		all[i].Values[`depth{q="b"}`] = math.NaN()
	}
	got, found = metric(t, "depth", Value).Seconds(all, []Instance{alive("api-1")}, seconds(2))
	if wantFigures(t, got, gap, gap); !found {
		t.Error("what is published in part was not found")
	}
}

// TestAScrapeThatLacksTheMetricSaysNothing of a gauge, nor of a counter that goes on.
func TestAScrapeThatLacksTheMetricSaysNothing(t *testing.T) {
	t.Parallel()
	gauge := scrapes("api-1", -1, 5, 0)
	for i := range gauge {
		if s := &gauge[i]; s.At.After(at(1)) && !s.At.After(at(2)) {
			s.Values = map[string]float64{"other": 1}
		} else {
			s.Values = map[string]float64{"depth": 8}
		}
	}
	got, _ := metric(t, "depth", Value).Seconds(gauge, []Instance{alive("api-1")}, seconds(4))
	wantFigures(t, got, 8, gap, 8, 8)
	for _, o := range metric(t, "depth", Value, "min>=8").Judge(got) {
		if !o.Met {
			t.Errorf("got %+v, want a gauge that never was below 8", o)
		}
	}
	counter := scrapes("api-1", -1, 5, 100)
	for i := range counter {
		if s := &counter[i]; s.At.After(at(1)) && !s.At.After(at(2)) {
			delete(s.Values, "q_total")
		}
	}
	got, _ = metric(t, "q_total", Rate).Seconds(counter, []Instance{alive("api-1")}, seconds(4))
	wantFigures(t, got, 100, 100, 100, 100)
	// One that appears was 0 until then.
	late := scrapes("api-1", -1, 5, 0)
	for i := range late {
		if s := &late[i]; !s.At.After(at(1)) {
			delete(s.Values, "q_total")
		} else {
			s.Values["q_total"] = 5
		}
	}
	got, _ = metric(t, "q_total", Rate).Seconds(late, []Instance{alive("api-1")}, seconds(3))
	wantFigures(t, got, 0, 5, 0)
}

func TestWhatIsNeverPublishedIsNotFound(t *testing.T) {
	t.Parallel()
	got, found := metric(t, "nothing_total", Rate, "max<5", "max>=0").Seconds(scrapes("api-1", -1, 4, 1), []Instance{alive("api-1")}, seconds(2))
	if found {
		t.Error("found")
	}
	wantFigures(t, got, gap, gap)
	for _, o := range metric(t, "nothing_total", Rate, "max<5", "max>=0").Judge(got) {
		if o.Met || o.Observed != 0 {
			t.Errorf("%s is met by nothing", o.Bound)
		}
	}
}

func TestBoundsAreOnSeconds(t *testing.T) {
	t.Parallel()
	figures := []float64{10, gap, 20, 30, 40}
	for text, want := range map[string]struct {
		observed float64
		met      bool
	}{
		"max<40": {40, false}, "max<=40": {40, true}, "min>10": {10, false}, "avg==25": {25, true},
		"med<20": {20, false}, "p(75)<31": {30, true}, "p(100)<31": {40, false}, "p(0)<11": {10, true},
	} {
		got := metric(t, "q_total", Rate, text).Judge(figures)[0]
		if got.Observed != want.observed || got.Met != want.met || got.Bound != text {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
}

func TestSelector(t *testing.T) {
	t.Parallel()
	s, err := ParseSelector(`hits{tier="re\"dis", kind="a"}`)
	if err != nil {
		t.Fatal(err)
	}
	for series, want := range map[string]bool{
		`hits{kind="a",tier="re\"dis"}`: true, `hits{kind="a",other="x",tier="re\"dis"}`: true,
		`hits{kind="a"}`: false, `hits`: false, `hits_total{kind="a",tier="re\"dis"}`: false, `hits{kind="ab",tier="re\"dis"}`: false,
		`hits{xkind="a",tier="re\"dis"}`: false,
	} {
		if got := s.Matches(series); got != want {
			t.Errorf("%s: matches %v, want %v", series, got, want)
		}
	}
	for _, bad := range []string{"", "sum(x)", "x{", `x{a=b}`, `x{a=~"b"}`, `x{a="b" c="d"}`, "1x"} {
		if _, err := ParseSelector(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	for _, bad := range []string{"", "max", "max<", "rate<5", "max<5ms", "p<5", "max(3)<5", "p(101)<5", "max<NaN", "max<5 over 10s"} {
		if _, err := ParseBound(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`hits_total{tier="redis"}`)
	f.Add("p(95)<200")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseSelector(text); err == nil && (s.Metric == "" || !strings.HasPrefix(text, s.Metric)) {
			t.Errorf("%q selects %q", text, s.Metric)
		}
		if b, err := ParseBound(text); err == nil && b.Text == "" {
			t.Errorf("%q is a bound", text)
		}
	})
}
