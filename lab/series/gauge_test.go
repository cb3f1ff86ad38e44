package series

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/lab/probe"
)

var t0 = time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)

func moment(seconds float64) time.Time {
	return t0.Add(time.Duration(seconds * float64(time.Second)))
}

func TestSeriesAreThoseOfTheInstanceInTheSpan(t *testing.T) {
	t.Parallel()
	at := func(s float64, instance, series string) probe.Scrape {
		return probe.Scrape{At: moment(s), Instance: instance, Values: map[string]float64{series: 1, "other": 1}}
	}
	v := View{Instance: "a-1", From: moment(1), To: moment(3), Scrapes: []probe.Scrape{
		at(0, "a-1", `busy{k="early"}`), {At: moment(2), Took: 2 * time.Second, Instance: "a-1", Values: map[string]float64{`busy{k="asked early"}`: 1}}, at(1, "a-1", `busy{k="y"}`), at(2, "b-1", `busy{k="b"}`), at(2, "a-1", `busy{k="x"}`), at(3, "a-1", `busy{k="y"}`),
	}}
	got := v.Series(func(series string) bool { return strings.HasPrefix(series, "busy") })
	if want := []string{`busy{k="x"}`, `busy{k="y"}`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWorkedOffEndsWhereItIsQuiet(t *testing.T) {
	t.Parallel()
	done := func(counts ...float64) []probe.Scrape {
		var out []probe.Scrape
		for i, n := range counts {
			out = append(out, probe.Scrape{At: moment(float64(i) / 4), Instance: "a-1", Values: map[string]float64{"done": n}})
		}
		return out
	}
	for name, c := range map[string]struct {
		scrapes       []probe.Scrape
		grown, within float64
	}{
		"a flush":         {done(0, 100, 200, 250, 250, 400), 150, 0.65},
		"nothing":         {done(0, 100, 100, 100), 0, 0},
		"hardly anything": {done(0, 100, 101, 102), 0, 0},
		"not quiet yet":   {done(0, 100, 200, 300), 200, 0.65},
		"one scrape":      {done(0, 100), 0, 0},
		"no scrapes":      {nil, 0, 0},
	} {
		v := View{Scrapes: c.scrapes, Instance: "a-1", From: moment(0.1), To: moment(10)}
		grown, within := v.WorkedOff(func(series string) bool { return series == "done" }, 8)
		if grown != c.grown || math.Abs(within-c.within) > 1e-9 {
			t.Errorf("%s: got %g within %g s, want %g within %g", name, grown, within, c.grown, c.within)
		}
	}
}

func TestGauges(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var scrapes []probe.Scrape
	for i := range 9 {
		s := float64(i)
		scrapes = append(scrapes,
			probe.Scrape{At: began.Add(time.Duration(i) * time.Second), Instance: "a-1", Values: map[string]float64{
				"depth": 3 * s, "cap": 12, `done{k="x"}`: 10 * s, `done{k="y"}`: 5 * s, "idle": 0,
			}},
			probe.Scrape{At: began.Add(time.Duration(i) * time.Second), Instance: "b-1", Values: map[string]float64{"depth": 1000}})
	}
	is := func(name string) func(string) bool {
		return func(series string) bool { base, _, _ := strings.Cut(series, "{"); return base == name }
	}
	from, to := began.Add(2*time.Second), began.Add(6*time.Second)
	a := View{Scrapes: scrapes, Instance: "a-1", From: from, To: to}
	g, ok := a.Gauge(is("depth"))
	if !ok || math.Abs(g.Mean-12) > 1e-9 || math.Abs(g.Slope-3) > 1e-9 || g.Most != 18 || g.Last != 18 || math.Abs(g.Above-1) > 1e-9 || g.Scrapes != 5 {
		t.Errorf("got %+v, %v", g, ok)
	}
	if g, ok := a.Gauge(is("idle")); !ok || g.Above != 0 || g.Slope != 0 {
		t.Errorf("idle: got %+v, %v", g, ok)
	}
	if _, ok := a.Gauge(is("other")); ok {
		t.Error("a metric that nobody published has a figure")
	}
	if share, ok := a.ShareAtLeast(is("depth"), is("cap")); !ok || math.Abs(share-0.6) > 1e-9 {
		t.Errorf("full: got %v, %v; want 0.6", share, ok)
	}
	if rate, ok := a.Growth(is("done")); !ok || math.Abs(rate-15) > 1e-9 {
		t.Errorf("growth: got %v, %v; want 15", rate, ok)
	}
	// Started again in the span: 10 before, then 4.
	again := []probe.Scrape{{At: from, Instance: "a-1", Values: map[string]float64{"done": 100}},
		{At: from.Add(time.Second), Instance: "a-1", Values: map[string]float64{"done": 110}},
		{At: to, Instance: "a-1", Values: map[string]float64{"done": 4}}}
	a.Scrapes = again
	if rate, ok := a.Growth(is("done")); !ok || math.Abs(rate-14.0/4) > 1e-9 {
		t.Errorf("started again: got %v, want 3.5", rate)
	}
	a.Scrapes = again[:1]
	if _, ok := a.Growth(is("done")); ok {
		t.Error("one scrape has a rate")
	}
}

// TestEachCounterBeginsAgainByItself: what is added up is the growth of each series.
func TestEachCounterBeginsAgainByItself(t *testing.T) {
	t.Parallel()
	at := func(s float64, values map[string]float64) probe.Scrape {
		return probe.Scrape{At: moment(s), Instance: "a-1", Values: values}
	}
	done := func(series string) bool { return strings.HasPrefix(series, "done") }
	for name, c := range map[string]struct {
		scrapes []probe.Scrape
		want    float64 // over 4 s
	}{
		// x begins again, which the growth of y hides in the sum: 200, 310.
		"one of two": {[]probe.Scrape{
			at(0, map[string]float64{`done{k="x"}`: 100, `done{k="y"}`: 100}), at(4, map[string]float64{`done{k="x"}`: 10, `done{k="y"}`: 300}),
		}, 210},
		"one is missing for a scrape": {[]probe.Scrape{
			at(0, map[string]float64{`done{k="x"}`: 100, `done{k="y"}`: 100}), at(2, map[string]float64{`done{k="x"}`: 104}), at(4, map[string]float64{`done{k="x"}`: 108, `done{k="y"}`: 120}),
		}, 28},
		"one is new": {[]probe.Scrape{at(0, map[string]float64{`done{k="x"}`: 100}), at(4, map[string]float64{`done{k="x"}`: 110, `done{k="y"}`: 6})}, 16},
	} {
		v := View{Scrapes: c.scrapes, Instance: "a-1", From: moment(0), To: moment(4)}
		if got, ok := v.Growth(done); !ok || math.Abs(got-c.want/4) > 1e-9 {
			t.Errorf("%s: got %v, %v; want %v", name, got, ok, c.want/4)
		}
		if grown, _ := v.WorkedOff(done, 1); math.Abs(grown-c.want) > 1e-9 {
			t.Errorf("%s: worked off %v, want %v", name, grown, c.want)
		}
	}
}

// TestHitsOfACacheThatBeganAgain: 900 hits before, and 30 of 40 look-ups after.
func TestHitsOfACacheThatBeganAgain(t *testing.T) {
	t.Parallel()
	var scrapes []probe.Scrape
	for i, n := range [][2]float64{{900, 100}, {990, 110}, {10, 5}, {30, 10}} {
		scrapes = append(scrapes, probe.Scrape{At: moment(float64(i)), Instance: "a", Values: map[string]float64{"cache_hits_total": n[0], "cache_misses_total": n[1]}})
	}
	got := HitRatios(scrapes, "a", moment(0), moment(3))
	if want := 120.0 / 140; len(got) != 1 || math.Abs(got[0].Value-want) > 1e-9 {
		t.Errorf("got %+v, want %g", got, want)
	}
}

func TestHitRatios(t *testing.T) {
	t.Parallel()
	at := func(s, hits, misses float64) probe.Scrape {
		return probe.Scrape{At: moment(s), Instance: "api-1", Values: map[string]float64{
			"cache_hits_total": hits, "cache_misses_total": misses, "alone_hits_total": 5,
		}}
	}
	scrapes := []probe.Scrape{at(0, 0, 100), at(1, 50, 200), at(2, 350, 300), at(3, 9999, 300)}
	got := HitRatios(scrapes, "api-1", moment(1.2), moment(2.2))
	if len(got) != 1 || got[0].Name != "cache" || got[0].Value != 0.75 {
		t.Errorf("got %+v, want cache 0.75", got)
	}
	if got := HitRatios(scrapes, "api-2", moment(1.2), moment(2.2)); got != nil {
		t.Errorf("of another instance: got %+v, want none", got)
	}
	if got := HitRatios(scrapes[1:2], "api-1", moment(1), moment(2)); got != nil {
		t.Errorf("of a single scrape: got %+v, want none", got)
	}
}

func TestHitRatiosOfCachesOfOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		counts map[string]float64 // from 0
		want   []HitRatio
	}{
		"a pair with labels": {
			map[string]float64{`redis_keyspace_hits_total{db="1"}`: 3, `redis_keyspace_misses_total{db="1"}`: 1},
			[]HitRatio{{`redis_keyspace{db="1"}`, 0.75}},
		},
		"Varnish": {map[string]float64{"varnish_main_cache_hit": 9, "varnish_main_cache_miss": 1}, []HitRatio{{"varnish_main_cache", 0.9}}},
		"a result": {
			map[string]float64{
				`cache_gets_total{cache="a",result="hit",tier="x"}`: 6, `cache_gets_total{cache="a",result="hit_absent",tier="x"}`: 1,
				`cache_gets_total{cache="a",result="miss",tier="x"}`: 1, `cache_gets_total{cache="a",result="failed",tier="x"}`: 2,
				`cache_gets_total{cache="b",result="hit"}`: 0, `cache_gets_total{cache="b",result="miss"}`: 0,
			},
			[]HitRatio{{`cache{cache="a",tier="x"}`, 0.7}},
		},
		"only a result": {map[string]float64{`gets_total{result="hit"}`: 1, `gets_total{result="miss"}`: 3}, []HitRatio{{"gets", 0.25}}},
		"NGINX":         {map[string]float64{`nginx_cache_requests_total{status="HIT"}`: 1, `nginx_cache_requests_total{status="MISS"}`: 1}, []HitRatio{{"nginx_cache", 0.5}}},
		"memcached": {
			map[string]float64{
				`memcached_commands_total{command="get",status="hit"}`: 1, `memcached_commands_total{command="get",status="miss"}`: 4,
				`memcached_commands_total{command="set",status="hit"}`: 7,
			},
			[]HitRatio{{`memcached_commands{command="get"}`, 0.2}},
		},
		"no cache": {map[string]float64{`http_requests_total{status="200"}`: 9, `jobs_total{outcome="missed"}`: 1, "hits_total": 4, "cache_hit_ratio": 0.5}, nil},
	} {
		zero := map[string]float64{}
		got := HitRatios([]probe.Scrape{{At: moment(0), Instance: "a", Values: zero}, {At: moment(1), Instance: "a", Values: c.counts}}, "a", moment(0), moment(1))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// A sum of which a part is no number is not known.
func TestAPartOfASumIsNotTheWhole(t *testing.T) {
	t.Parallel()
	is := func(name string) func(string) bool {
		return func(series string) bool { base, _, _ := strings.Cut(series, "{"); return base == name }
	}
	values := func(b float64) map[string]float64 {
		return map[string]float64{`depth{q="a"}`: 5, `depth{q="b"}`: b, "places": 8}
	}
	if sum, ok := Total(values(math.NaN()), is("depth")); ok || sum != 0 {
		t.Errorf("got %g, %v, want nothing", sum, ok)
	}
	if sum, ok := Total(values(3), is("depth")); !ok || sum != 8 {
		t.Errorf("got %g, %v, want 8", sum, ok)
	}
	v := View{Instance: "a-1", From: t0, To: moment(9), Scrapes: []probe.Scrape{
		{At: moment(1), Instance: "a-1", Values: values(3)},
		{At: moment(2), Instance: "a-1", Values: values(math.NaN())},
		{At: moment(3), Instance: "a-1", Values: values(1)},
	}}
	if g, ok := v.Gauge(is("depth")); !ok || g.Scrapes != 2 || g.Mean != 7 || g.Most != 8 {
		t.Errorf("got %+v, %v, want those of two scrapes", g, ok)
	}
	if share, ok := v.ShareAtLeast(is("depth"), is("places")); !ok || share != 0.5 {
		t.Errorf("got %g, %v, want half", share, ok)
	}
	for i := range v.Scrapes {
		v.Scrapes[i].Values = values(math.NaN())
	}
	if g, ok := v.Gauge(is("depth")); ok {
		t.Errorf("got %+v of what is never whole", g)
	}
	if got := v.Series(is("depth")); len(got) != 1 {
		t.Errorf("got %q, want the one that has numbers", got)
	}
	if n, ok := v.Growth(is("depth")); !ok || n != 0 {
		t.Errorf("got %g, %v: a counter that is no number is passed over", n, ok)
	}
}

// TestCountersThatGrowInSteps: a counter that is brought up to date every few seconds has a rate even
// where a span has no step of it, and that of whole steps.
func TestCountersThatGrowInSteps(t *testing.T) {
	t.Parallel()
	steps := map[float64]float64{2: 10, 5: 40, 7: 48, 12: 148} // the value from then on
	var scrapes []probe.Scrape
	value := 0.0
	for s := range 16 {
		if v, ok := steps[float64(s)]; ok {
			value = v
		}
		scrapes = append(scrapes, probe.Scrape{At: moment(float64(s)), Instance: "a-1", Values: map[string]float64{"spent": value, "never": 7}},
			probe.Scrape{At: moment(float64(s)), Instance: "b-1", Values: map[string]float64{"spent": 1000 * float64(s)}})
	}
	is := func(name string) func(string) bool { return func(s string) bool { return s == name } }
	for name, c := range map[string]struct {
		counter  string
		from, to float64
		want     float64
		ok       bool
	}{
		"no step within":        {"spent", 8, 9, 100.0 / 5, true},
		"from a step to a step": {"spent", 5, 7, 8.0 / 2, true},
		"some within":           {"spent", 6, 8, (8.0 + 100) / 7, true},
		"before the first":      {"spent", 0, 1, 30.0 / 3, true},
		"from before the first": {"spent", 0, 4, 30.0 / 3, true},
		"after the last":        {"spent", 13, 14, 100.0 / 5, true},
		"it does not grow":      {"never", 3, 9, 0, false},
		"it is not there":       {"other", 3, 9, 0, false},
	} {
		v := View{Scrapes: scrapes, Instance: "a-1", From: moment(c.from), To: moment(c.to)}
		whole, ok := v.Steps(is(c.counter))
		got, grew := whole.Growth(is(c.counter))
		if ok != c.ok || ok && !grew || ok && math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: got %v, %v; want %v, %v", name, got, ok, c.want, c.ok)
		}
	}
}
