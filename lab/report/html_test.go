package report

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"loadstone/lab/chart"
	"loadstone/lab/format"
	"loadstone/lab/loadpage/pagetest"
	"loadstone/lab/result"
	"loadstone/lab/term"
	"loadstone/lab/verdict"
)

var keep = flag.String("keep", "", "write the pages of the tests into this directory, to look at them")

// maxPage bounds report.html, so that it can be mailed and opened on a phone.
const maxPage = 510_000

// pageCases are the results of the summary's tests and one with everything.
func pageCases() map[string]*result.Result {
	cases := map[string]*result.Result{"full": fullResult()}
	for name, c := range textCases() {
		cases[name] = c.result
	}
	return cases
}

// TestPageHasJourneys: what an iteration is to its user, over networks and with a cache.
func TestPageHasJourneys(t *testing.T) {
	t.Parallel()
	r := fullResult()
	text := pagetest.Shown(pagetest.Parse(t, render(t, "journeys", r)))
	for _, v := range r.Variants {
		for _, j := range v.Journeys {
			want := []string{v.Name, j.Scenario, format.Rounded(j.Calls), format.Bytes(uint64(j.Sent + 0.5)), format.Bytes(uint64(j.Received + 0.5)), format.Percent(j.BrokenOff), format.Milliseconds(j.Duration.Max)}
			for _, far := range j.Far {
				want = append(want, "60 ms", "200 ms", format.Milliseconds(far.Open), format.Milliseconds(far.New))
			}
			if j.Cache.Hits > 0 {
				want = append(want, format.Measured(j.Cache.Hits), format.Measured(j.Cache.Revalidations), format.Measured(j.Cache.Fetched), format.Bytes(uint64(j.Cache.LargestBytes)))
			}
			for _, w := range want {
				if !strings.Contains(text, w) {
					t.Errorf("the page does not show %q", w)
				}
			}
		}
		for _, part := range []string{"Users’ caches", "Over a phone’s network"} {
			if !strings.Contains(text, part) {
				t.Errorf("the page has no part %q", part)
			}
		}
	}
	for i := range r.Variants {
		r.Variants[i].Journeys = nil
	}
	if text := pagetest.Shown(pagetest.Parse(t, render(t, "no-journeys", r))); strings.Contains(text, "Journeys") {
		t.Error("a page without journeys has a part on them")
	}
}

func render(t *testing.T, name string, r *result.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatalf("HTML: %v", err)
	}
	if *keep != "" {
		if err := os.WriteFile(filepath.Join(*keep, name+".html"), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestPagesAreSoundAndSelfContained(t *testing.T) {
	t.Parallel()
	for name, r := range pageCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := render(t, name, r)
			if len(page) > maxPage {
				t.Errorf("got %d bytes, want at most %d", len(page), maxPage)
			}
			elements := pagetest.Parse(t, page)
			wantNone(t, slices.Concat(fetched(elements), pagetest.Dangling(elements), pagetest.Unnamed(elements), pagetest.Misnumbered(elements), pagetest.Headless(elements)))
		})
	}
}

func TestPageShowsEveryNumber(t *testing.T) {
	t.Parallel()
	r := sampleResult()
	r.Variants[1].SLO[0].Met = false
	text := pagetest.Shown(pagetest.Parse(t, render(t, "numbers", r)))
	want := []string{ // some by hand, so that formatting is checked too
		"4,310 req/s", "[4,180, 4,420]", "9.84×", "[9.28, 10.30]", "96.9 %", "562", "CPU per request, µs", "41.4 MiB", "97.8 %", "41.3 %", "98.5 % used",
		"✗ crossed", "✓ met", "9 May 2026, 07:29 UTC", "took 5 min 12 s", "7.76 GiB", "0.0213 cores", "CPU limits enforced (cgroup v2)",
	}
	for _, v := range r.Variants {
		for _, p := range v.PerTrial {
			want = append(want, format.Measured(p))
		}
		for _, p := range v.Curve {
			want = append(want, format.Measured(p.Rate), format.Measured(p.P50), format.Measured(p.P95), format.Measured(p.P99))
		}
		for _, p := range []result.Percentiles{v.Latency.Response, v.Latency.Service} {
			want = append(want, format.Milliseconds(p.P50), format.Milliseconds(p.P95), format.Milliseconds(p.P99), format.Milliseconds(p.Max))
		}
		for _, s := range v.Steps {
			want = append(want, s.Name, "97 B", format.Bytes(uint64(s.Received+0.5)))
		}
		for _, c := range v.Components {
			want = append(want, format.Measured(c.DemandMS*1000), format.Measured(c.Bound), format.Percent(c.Busy), format.Percent(c.Throttled))
		}
		for _, s := range v.Timeline.Series {
			want = append(want, "peak "+format.Measured(peak(s)))
		}
		for _, s := range v.SLO {
			want = append(want, s.Metric, s.Threshold, objective(s).observed())
		}
		for _, w := range v.Verdict.Witnesses {
			want = append(want, w.Name, w.Evidence)
		}
		want = append(want, v.Name, v.Verdict.Summary, format.Measured(v.Generator)+" cores")
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the page does not show %q", w)
		}
	}
	if !strings.Contains(render(t, "numbers", r), "feed: {id: {uniform: [10000, 684822]}}\nslo:") {
		t.Error("the experiment file is not shown as it was run")
	}
}

// setStrings sets every string that comes from outside; fixed words stay, or
// the page would take other branches.
func setStrings(r *result.Result, text string) {
	visit(reflect.ValueOf(r).Elem(), func(v reflect.Value) {
		if v.Kind() == reflect.String && !slices.Contains([]string{result.Schema, "capacity", "load", verdict.Named, verdict.Undecided, verdict.LowerBoundOnly, "http_req_duration", "p(95)<200"}, v.String()) {
			v.SetString(text)
		}
	})
}

func visit(v reflect.Value, f func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Elem(), f)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			visit(v.Index(i), f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				visit(v.Field(i), f)
			}
		}
	default:
		f(v)
	}
}

func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	for i, hostile := range pagetest.Hostile {
		for _, makeResult := range []func() *result.Result{smallResult, loadResult} {
			r := makeResult()
			setStrings(r, hostile)
			elements := pagetest.Parse(t, render(t, fmt.Sprintf("hostile-%d", i), r))
			wantNone(t, slices.Concat(fetched(elements), pagetest.Dangling(elements)))
			count := 0
			wanted := strings.Join(strings.Fields(strings.Map(term.Visible, strings.ToValidUTF8(hostile, "\ufffd"))), " ")
			for _, e := range elements {
				if slices.Contains([]string{"h1", "title", "li", "pre", "code", "th", "dd", "h3"}, e.Name) &&
					strings.Contains(strings.Join(strings.Fields(e.Text), " "), wanted) {
					count++
				}
			}
			if count < 20 {
				t.Errorf("%q is shown as text in %d places, want it wherever a name stands", hostile, count)
			}
		}
	}
}

func TestNumbersThatAreNoneStayOffThePage(t *testing.T) {
	t.Parallel()
	for _, number := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1, 1e308, -1e308, 5e-324} {
		for name, makeResult := range map[string]func() *result.Result{"small": smallResult, "load": loadResult} {
			r := makeResult()
			visit(reflect.ValueOf(r).Elem(), func(v reflect.Value) {
				if v.Kind() == reflect.Float64 {
					v.SetFloat(number)
				}
			})
			elements := pagetest.Parse(t, render(t, "numbers-"+name, r))
			if math.Abs(number) < 1e300 || !format.Finite(number) {
				wantNone(t, pagetest.Misnumbered(elements))
			}
			var text bytes.Buffer
			if err := Text(&text, r, Options{Width: 100}); err != nil {
				t.Fatalf("Text: %v", err)
			}
			if regexp.MustCompile(`NaN|Inf`).MatchString(text.String()) {
				t.Errorf("%v in %s: the summary holds it:\n%s", number, name, text.String())
			}
		}
	}
}

// One number of a chart at a time, because all at once mostly hides it, and of
// three charts at once: those that lie a third of the result apart. One variant,
// because that makes many pages.
func TestOneBadNumberSpoilsNothing(t *testing.T) {
	t.Parallel()
	one := func() *result.Result {
		r := smallResult()
		r.Variants = r.Variants[1:]
		return r
	}
	fields := 0
	visit(reflect.ValueOf(one()).Elem(), func(v reflect.Value) {
		if v.Kind() == reflect.Float64 {
			fields++
		}
	})
	numbers := []float64{math.NaN(), math.Inf(-1), -3, 0}
	third := (fields + 2) / 3
	for i := range third {
		r, n := one(), 0
		visit(reflect.ValueOf(r).Elem(), func(v reflect.Value) {
			if v.Kind() == reflect.Float64 {
				if n%third == i {
					v.SetFloat(numbers[i%len(numbers)])
				}
				n++
			}
		})
		wantNone(t, pagetest.Misnumbered(pagetest.Parse(t, render(t, "one-number", r))))
	}
}

// smallResult has one of each.
func smallResult() *result.Result {
	r := fullResult()
	r.Variants, r.Comparisons = r.Variants[1:3], r.Comparisons[:1]
	r.Scaling.Points, r.Scaling.Law.Curve = r.Scaling.Points[2:], r.Scaling.Law.Curve[:3]
	r.Variants[1].Capacity.LowerBound = true
	for i := range r.Variants {
		v := &r.Variants[i]
		v.PerTrial, v.Curve, v.Components, v.Figures = v.PerTrial[:2], v.Curve[:6], v.Components[:2], v.Figures[:1]
		v.Perturbation.Slots, v.Perturbation.Effects = v.Perturbation.Slots[:3], v.Perturbation.Effects[:1]
		v.Timeline = result.Timeline{Seconds: []float64{0, 1, 2}, Rate: []float64{1, 1, 2},
			Series: []result.TimelineSeries{{Name: "api-1", LimitCPUs: 0.25, CPU: []float64{0.1, 0.2, 0.25}}, {Name: "generator", CPU: []float64{0.1, 0.1, 0.1}}}}
	}
	return r
}

func TestPartsOfDifferentLengthsAreShown(t *testing.T) {
	t.Parallel()
	r := smallResult()
	r.Variants[0].Timeline.Rate = nil
	r.Variants[0].Timeline.Series[0].CPU = nil
	r.Variants[1].Timeline.Rate = []float64{1}
	r.Variants[1].Timeline.Series[0].CPU = []float64{0.1}
	wantNone(t, pagetest.Misnumbered(pagetest.Parse(t, render(t, "lengths", r))))
}

func TestManyInstancesKeepThePageSmall(t *testing.T) {
	t.Parallel()
	r := twelveResult()
	for i := range r.Variants {
		timeline := &r.Variants[i].Timeline
		one := timeline.Series[0]
		timeline.Series = nil
		for j := range 60 {
			s := one
			s.Name = fmt.Sprintf("api-%d", j+1)
			timeline.Series = append(timeline.Series, s)
		}
		timeline.Series = append(timeline.Series, result.TimelineSeries{Name: "load generator", CPU: one.CPU})
		timeline.Series[41].CPU = slices.Repeat([]float64{0.9}, len(one.CPU))
	}
	page := render(t, "instances", r)
	if len(page) > maxPage {
		t.Errorf("got %d bytes, want at most %d", len(page), maxPage)
	}
	text := pagetest.Shown(pagetest.Parse(t, page))
	for _, want := range []string{"55 more are in result.json", "api-42", "load generator", "peak 0.900 of 0.25 CPU"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
}

func TestInstancesAreOfTheirComponent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, component string
		want            bool
	}{{"api-1", "api", true}, {"api-12", "api", true}, {"api-gateway-1", "api", false}, {"api", "api", false}, {"-1", "", false}} {
		if got := isInstanceOf(c.name, c.component); got != c.want {
			t.Errorf("isInstanceOf(%q, %q): got %v, want %v", c.name, c.component, got, c.want)
		}
	}
}

// TestColoursContrast reads the palettes of both themes and asserts WCAG 2.2's
// contrasts: 4.5 for text (1.4.3), 3 for marks that carry meaning (1.4.11).
func TestColoursContrast(t *testing.T) {
	t.Parallel()
	for _, problem := range pagetest.Faint(t, chart.Style+pageStyle, map[string]float64{
		"ink on bg": 7, "ink on panel": 7, "ink on limit-panel": 7,
		"muted on bg": 4.5, "muted on panel": 4.5,
		"limit on bg": 4.5, "limit on panel": 4.5, "limit on limit-panel": 4.5,
		"good on bg": 4.5, "link on bg": 4.5, "link on limit-panel": 4.5,
		"good on panel": 4.5, "link on panel": 4.5, "limit-fill on track": 2,
		"p99 on limit-fill": 1.4, "p99 on fill-edge": 1.4, "p99 on track": 3, "other on bg": 3,
		"blue on bg": 3, "fill-edge on bg": 3, "fill-edge on track": 3, "fill-edge on band": 3,
		"p50 on bg": 3, "p95 on bg": 3, "p99 on bg": 3, "p95 on band": 3, "p99 on band": 3,
		"limit-fill on bg": 3, "base on bg": 3, "ink on fill": 3,
		// neighbours that must be told apart without hue
		"p50 on p95": 1.4, "p95 on p99": 1.4,
	}) {
		t.Error(problem)
	}
}
