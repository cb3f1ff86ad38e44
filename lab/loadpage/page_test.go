package loadpage

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/lab/format"
	"loadstone/lab/load"
	"loadstone/lab/load/summary"
	"loadstone/lab/loadpage/pagetest"
	"loadstone/lab/term"
)

var (
	update = flag.Bool("update", false, "rewrite the golden files in testdata")
	keep   = flag.String("keep", "", "write the pages of the tests into this directory, to look at them")
)

// maxPage bounds the page, so that it can be mailed and opened on a phone.
const maxPage = 300_000

func render(t *testing.T, name string, s *summary.Summary, windows []load.Window) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, s, windows); err != nil {
		t.Fatalf("HTML: %v", err)
	}
	if *keep != "" {
		if err := os.WriteFile(filepath.Join(*keep, name+".html"), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func pages(t *testing.T) map[string]string {
	t.Helper()
	windows := sampleWindows(t, 40)
	nothing, err := summary.New(load.Plan{}, &load.Result{}, nil, summary.Machine{})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"normal":      render(t, "normal", sampleSummary(t), windows),
		"lower-bound": render(t, "lower-bound", lowerBound(t), windows),
		"no-windows":  render(t, "no-windows", sampleSummary(t), nil),
		"one-window":  render(t, "one-window", sampleSummary(t), windows[5:6]),
		"nothing":     render(t, "nothing", nothing, []load.Window{{}}),
	}
}

func TestPageIsAsAgreed(t *testing.T) {
	t.Parallel()
	windows := sampleWindows(t, 40)
	got := render(t, "golden", sampleSummary(t), windows)
	path := filepath.Join("testdata", "page.html")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("no golden file, run the test with -args -update: %v", err)
	}
	if got != string(want) {
		t.Errorf("differs from %s; if that is right, look at the page and run the test with -args -update", path)
	}
}

func TestPagesAreSoundAndSelfContained(t *testing.T) {
	t.Parallel()
	for name, page := range pages(t) {
		if len(page) > maxPage {
			t.Errorf("%s: got %d bytes, want at most %d", name, len(page), maxPage)
		}
		for _, problem := range problems(pagetest.Parse(t, page)) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// problems are what all checks find that a load's page must pass.
func problems(elements []*pagetest.Element) []string {
	return slices.Concat(pagetest.Fetched(elements, pagetest.Within), pagetest.Dangling(elements),
		pagetest.Unnamed(elements), pagetest.Misnumbered(elements))
}

func TestVerdictComesFirst(t *testing.T) {
	t.Parallel()
	change := func(f func(*summary.Summary)) *summary.Summary {
		s := sampleSummary(t)
		f(s)
		return s
	}
	for _, c := range []struct {
		s    *summary.Summary
		want string
		bad  bool
	}{
		{change(func(*summary.Summary) {}), "487 req/s with p95 4.08 ms: 1 of 5 thresholds crossed", true},
		{change(func(s *summary.Summary) { s.Thresholds = s.Thresholds[1:] }), ": all 4 thresholds met", false},
		{change(func(s *summary.Summary) { s.Thresholds = s.Thresholds[1:2] }), ": the threshold is met", false},
		{lowerBound(t), "Lower bound only: 487 req/s with p95 4.08 ms", true},
		{change(func(s *summary.Summary) { s.Failed = s.Requests }), "No request was answered well: ", true},
		{&summary.Summary{}, "No request was made", true},
	} {
		elements := pagetest.Parse(t, render(t, "verdict", c.s, nil))
		for _, e := range elements {
			if e.Name == "h1" && (!strings.Contains(e.Text, c.want) || (e.Attr["class"] == "bad") != c.bad) {
				t.Errorf("got %q (%q), want %q, bad %v", e.Text, e.Attr["class"], c.want, c.bad)
			}
		}
	}
	text := pagetest.Shown(pagetest.Parse(t, render(t, "reason", lowerBound(t), nil)))
	for _, want := range []string{
		"The measurement itself was the limit: The busiest event loop was at work 99.2 % of the time. The system can do this, and maybe more.",
		"The load ended early: http_req_failed rate<0.01: observed 0.31", "412 of 17,300 iterations were late.",
		"Work in flight grew by 31.4 requests each second",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func TestPageShowsEveryNumber(t *testing.T) {
	t.Parallel()
	windows := sampleWindows(t, 40)
	s := sampleSummary(t)
	text := pagetest.Shown(pagetest.Parse(t, render(t, "numbers", s, windows)))
	want := []string{
		"9 May 2026, 07:29:05 UTC", "35 s measured", "5 s warm-up before", "seed 7",
		"500 per second for 40 s, poisson", "from 10 per second, to 1,000 in 30 s, to 5,000 in 1 min",
		"200 virtual users for 1 min 30 s, after 10 s", "1 iteration by 10 virtual users", "20 iterations by each of 1 virtual user",
		"access.log at 2 times its speed", "WebSocket /ws", "GET /menu?page={page} or POST /order", "GET /menu?page={page}, then POST /order",
		"no whole answer within 5s", "connection reset by peer", "404", "Not Found", "503", "Service Unavailable",
		"p99.9", "p99.999", "longest", "99.7 %", "0.0310 ms, 0.412 ms, 2.31 ms, 6.10 ms", "0.178 %", "412.5 ms", "498.2 per second", "12,345,678 B",
		"the worst window began at 12 s", "is a menu", "99.9 %", "11,990", "lookup · list", "12,000", "8,000", "11.8 MiB", "3.3 MiB",
		"linux/amd64, 2 cores, GOMAXPROCS 2", "12 iterations of", "3 iterations began more than 5 ms late",
	}
	for _, p := range s.Percentiles {
		want = append(want, format.LatencyNumber(p.Response), format.LatencyNumber(p.Service))
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the page does not show %q", w)
		}
	}
}

func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	windows := sampleWindows(t, 8)
	for i, hostile := range pagetest.Hostile {
		s := sampleSummary(t)
		s.URL, s.Targets, s.Aborted, s.ValidityReasons = hostile, []string{hostile}, hostile, []string{hostile}
		s.Validity = summary.LowerBoundOnly
		s.Errors = map[string]load.ErrorCount{hostile: {Count: 1, Example: hostile}}
		s.Checks = []load.CheckResult{{Scenario: hostile, Step: hostile, Name: hostile}}
		s.Values = []load.ValueResult{{Scenario: hostile, Step: hostile, Name: hostile}}
		s.Steps[0].Scenario, s.Steps[0].Name = hostile, hostile
		s.Thresholds = []summary.Threshold{{Metric: hostile, Expression: hostile, Reason: hostile, Unit: hostile}}
		s.Machine.OS = hostile
		c := &s.Plan.Scenarios[0]
		c.Name, c.Executor = hostile, hostile
		c.Steps = []load.Step{{Request: load.Request{Method: hostile, Path: hostile, Body: hostile}}}
		page := render(t, "hostile", s, windows)
		if strings.Contains(page, "<script") {
			t.Errorf("%d: a script is on the page", i)
		}
		elements := pagetest.Parse(t, page)
		for _, problem := range append(pagetest.Fetched(elements, pagetest.Within), pagetest.Dangling(elements)...) {
			t.Errorf("%d: %s", i, problem)
		}
		wanted := strings.Join(strings.Fields(strings.Map(term.Visible, strings.ToValidUTF8(hostile, "\ufffd"))), " ")
		if n := strings.Count(pagetest.Shown(elements), wanted); n < 12 {
			t.Errorf("%d: %q is shown as text in %d places, want it wherever it stands", i, hostile, n)
		}
	}
}

// The structure's promise, in the words of the hostile server that matters.
func TestScriptInAnErrorExampleDoesNotSurvive(t *testing.T) {
	t.Parallel()
	s := sampleSummary(t)
	s.Errors = map[string]load.ErrorCount{"bad_http": {Count: 1, Example: `malformed status line "<script>alert(1)</script>"`}}
	page := render(t, "script", s, nil)
	if strings.Contains(page, "<script") || !strings.Contains(page, "&lt;script&gt;alert(1)&lt;/script&gt;") {
		t.Error("the example's script is not escaped")
	}
}

func FuzzErrorExampleStaysText(f *testing.F) {
	for _, example := range []string{"", "reset", `<script>alert(1)</script>`, "</code></td>\x00\xff", "&#60;b>", "\xed\xa0\x80\u2028"} {
		f.Add(example)
	}
	f.Fuzz(func(t *testing.T, example string) {
		s := &summary.Summary{Requests: 2, Errors: map[string]load.ErrorCount{"bad_http": {Count: 1, Example: example}}}
		var b bytes.Buffer
		if err := HTML(&b, s, nil); err != nil {
			t.Fatalf("HTML: %v", err)
		}
		elements := pagetest.Parse(t, b.String())
		if found := append(pagetest.Fetched(elements, pagetest.Within), pagetest.Dangling(elements)...); len(found) > 0 {
			t.Error(found)
		}
		for _, e := range elements {
			want := strings.Map(term.Visible, strings.ToValidUTF8(example, "\ufffd"))
			if e.Name == "code" && len(e.Parents) > 1 && e.Parents[len(e.Parents)-1] == "td" && len(e.Text) < len(want) {
				t.Errorf("got %q, want %q", e.Text, want)
			}
		}
	})
}

func TestNumbersThatAreNoneStayOffThePage(t *testing.T) {
	t.Parallel()
	for _, number := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300} {
		windows := sampleWindows(t, 8)
		windows[6].Busy, windows[6].InFlight = number, -5
		s := sampleSummary(t)
		s.Rate, s.Seconds, s.WarmupSeconds, s.FailedShare, s.OfferedRate = number, number, number, number, number
		s.Latency = summary.Latencies{Response: summary.Latency{P50: number, P95: number, P99: number, Max: number, Mean: number, Stdev: number, WithinStdev: number}}
		s.Generator = summary.Generator{CPUSeconds: number, Busy: number, Working: number, CPUPerRequest: number,
			Lateness: summary.Lateness{P50: number, Max: 1, WithinMs: number}}
		s.Percentiles[3].Response, s.Percentiles[4].Service = number, number
		s.Thresholds[0].Observed = &number
		s.Plan = load.Plan{} // JSON has no such numbers, so a plan has none
		if problems := pagetest.Misnumbered(pagetest.Parse(t, render(t, "numbers-none", s, windows))); len(problems) > 0 && math.Abs(number) != 1e300 {
			t.Errorf("%v: %v", number, problems)
		}
	}
}

func TestLongLoadMakesNoLongerPage(t *testing.T) {
	t.Parallel()
	short := sampleWindows(t, 20)
	var long []load.Window
	for i := range 2000 {
		w := short[i%len(short)]
		w.Start, w.Warmup = short[0].Start.Add(time.Duration(i)*time.Second), i < 5
		long = append(long, w)
	}
	page := render(t, "long", sampleSummary(t), long)
	if len(page) > maxPage {
		t.Errorf("got %d bytes, want at most %d", len(page), maxPage)
	}
	slots, err := newTimeline(long)
	if err != nil {
		t.Fatal(err)
	}
	requests, end := uint64(0), 0.0
	for i, s := range slots {
		requests += s.requests
		if s.from != end || (s.phase == warmup) != (i == 0) {
			t.Errorf("slot %d: got from %v, phase %v; want it to begin at %v", i, s.from, s.phase, end)
		}
		end = s.to
	}
	var want uint64
	for i := range long {
		want += long[i].Requests
	}
	if requests != want || end != 2000 || len(slots) > mostSlots+1 {
		t.Errorf("got %d requests in %d slots up to %v s, want %d in at most %d up to 2000", requests, len(slots), end, want, mostSlots+1)
	}
}

func TestUnreadableWindowIsAnError(t *testing.T) {
	t.Parallel()
	windows := sampleWindows(t, 3)
	s := sampleSummary(t)
	windows[1].Service = "no histogram"
	var b bytes.Buffer
	err := HTML(&b, s, windows)
	if err == nil || !strings.Contains(err.Error(), "service times of window 2") || b.Len() > 0 {
		t.Errorf("got %v and %d bytes, want an error that names the window and no page", err, b.Len())
	}
	if err := HTML(&b, nil, nil); err == nil {
		t.Error("without a summary: got no error")
	}
}
