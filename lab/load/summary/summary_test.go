package summary_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"loadstone/lab/load"
	"loadstone/lab/load/summary"
	"loadstone/lab/threshold"
)

func text(t *testing.T, s *summary.Summary, style summary.Style) string {
	t.Helper()
	var b strings.Builder
	if err := s.Text(&b, style); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what is written; run go test ./lab/load/summary -args -update and look at the difference:\n%s", path, got)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	all := samples(t)
	for name, s := range all {
		golden(t, name+".txt", text(t, s, summary.DefaultStyle()))
	}
	golden(t, "colour.txt", text(t, all["thresholds"], summary.Style{Color: true, Width: 80}))
	golden(t, "ascii.txt", text(t, all["steps"], summary.Style{ASCII: true, Width: 80}))
}

func TestTextIsTidy(t *testing.T) {
	t.Parallel()
	for name, s := range samples(t) {
		for _, style := range []summary.Style{{}, {Width: 80}, {Color: true, Width: 100}, {ASCII: true, Width: 80}} {
			for line := range strings.Lines(text(t, s, style)) {
				line = strings.TrimSuffix(line, "\n")
				if strings.TrimRight(line, " ") != line {
					t.Errorf("%s: a line ends in blanks: %q", name, line)
				}
				if !style.Color {
					if got, want := utf8.RuneCountInString(line), max(style.Width, 80); got > want {
						t.Errorf("%s: a line has %d columns, want %d at most: %q", name, got, want, line)
					}
					if strings.Contains(line, "\x1b") {
						t.Errorf("%s: an escape sequence without colour: %q", name, line)
					}
				}
				if i := strings.IndexFunc(line, func(r rune) bool { return r > 127 }); style.ASCII && i >= 0 {
					t.Errorf("%s: not ASCII: %q", name, line)
				}
			}
		}
	}
}

func TestLowerBoundIsTheFirstThingSaid(t *testing.T) {
	t.Parallel()
	s := lowerBoundLoad(t).summary(t)
	got := text(t, s, summary.DefaultStyle())
	if want := "lower bound only: the generator was busy"; !strings.HasPrefix(got, want) {
		t.Errorf("the text begins with %q, want %q", got[:min(len(got), 60)], want)
	}
	if want := "310 iterations were dropped"; !strings.Contains(got, want) {
		t.Errorf("the text does not give the second reason, %q", want)
	}
	if got := text(t, plainLoad(t).summary(t), summary.DefaultStyle()); strings.Contains(got, "lower bound") {
		t.Errorf("a valid load is said to be a lower bound:\n%s", got)
	}
}

// A load of which nothing was answered shows no latency: how soon requests failed
// is none.
func TestSilenceIsTheFirstThingSaid(t *testing.T) {
	t.Parallel()
	s := plainLoad(t).summary(t)
	s.Requests, s.Failed, s.Status = 1200, 1200, map[int]uint64{}
	s.Errors = map[string]load.ErrorCount{"refused": {Count: 1200, Example: "connection refused"}}
	got := text(t, s, summary.DefaultStyle())
	if want := "nothing was answered: all 1,200 requests failed\n"; !strings.HasPrefix(got, want) {
		t.Errorf("the text begins with %q, want %q", got[:min(len(got), 60)], want)
	}
	for _, lack := range []string{"Latency Stats", "p75"} {
		if strings.Contains(got, lack) {
			t.Errorf("the text of a load without answers has %q:\n%s", lack, got)
		}
	}
}

func TestNewSaysWhatTheResultSaysOfItsValidity(t *testing.T) {
	t.Parallel()
	in := lowerBoundLoad(t)
	s, err := summary.New(in.plan, &in.result, nil, summary.Machine{})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, why := range in.result.Validity() {
		want = append(want, why.Text)
	}
	if got := s.ValidityReasons; !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("reasons are %q, want %q", got, want)
	}
	if got, want := s.Validity == summary.LowerBoundOnly, len(s.ValidityReasons) > 0; got != want {
		t.Errorf("validity is %q with %d reasons", s.Validity, len(s.ValidityReasons))
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	s := plainLoad(t).summary(t)
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"rate", s.Rate, 149_870.0 / 30},
		{"offered rate", s.OfferedRate, 149_873.0 / 30},
		{"CPU per request, µs", s.Generator.CPUPerRequest, 2.013e6 / float64(s.Completed)},
		{"p99", s.Latency.Response.P99, s.Percentiles[slices.IndexFunc(s.Percentiles, func(p summary.Percentile) bool { return p.Quantile == 0.99 })].Response},
		{"max", s.Percentiles[len(s.Percentiles)-1].Service, s.Latency.Service.Max},
	} {
		if math.Abs(c.got-c.want) > 1e-9*c.want {
			t.Errorf("%s is %v, want %v", c.name, c.got, c.want)
		}
	}
	if !slices.IsSortedFunc(s.Percentiles, func(a, b summary.Percentile) int {
		return slices.Compare([]float64{a.Quantile, a.Response, a.Service}, []float64{b.Quantile, b.Response, b.Service})
	}) {
		t.Errorf("percentiles do not ascend: %v", s.Percentiles)
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                string
		values              []int64 // microseconds
		least, stdev, share float64
	}{
		{"all the same", []int64{700_000, 700_000}, 700, 0, 1},
		{"two", []int64{1000, 1000, 1000, 1000, 1500, 3500}, 1, 0.9129, 5.0 / 6},
	} {
		h := load.NewHistogram()
		for _, v := range c.values {
			if err := h.RecordValue(v); err != nil {
				t.Fatal(err)
			}
		}
		in := plainLoad(t)
		in.result.Response = latencyOf(t, h)
		got := in.summary(t).Latency.Response
		if math.Abs(got.Min-c.least) > c.least/1000 || math.Abs(got.Stdev-c.stdev) > 0.001 || math.Abs(got.WithinStdev-c.share) > 1e-9 {
			t.Errorf("%s: min, stdev and share within it are %v, %v, %v, want %v, %v, %v",
				c.name, got.Min, got.Stdev, got.WithinStdev, c.least, c.stdev, c.share)
		}
	}
}

func TestJSONHasTheKeysOfTheIssue(t *testing.T) {
	t.Parallel()
	var doc map[string]any
	if err := json.Unmarshal(written(t, errorLoad(t).summary(t)), &doc); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"requests", "rate", "errors.refused.count", "errors.refused.example", "late", "dropped",
		"generator.cpu_seconds", "generator.busy", "generator.working", "generator.lateness.p99", "validity", "validity_reasons",
	} {
		at := any(doc)
		for key := range strings.SplitSeq(path, ".") {
			object, ok := at.(map[string]any)
			if !ok || object[key] == nil {
				t.Errorf("the JSON has no %s", path)
				break
			}
			at = object[key]
		}
	}
	latency, ok := doc["latency"].(map[string]any)
	if !ok || len(latency) != 2 {
		t.Fatalf("latency is %v, want response and service", doc["latency"])
	}
	for kind, of := range latency {
		values, _ := of.(map[string]any)
		for _, key := range []string{"p50", "p90", "p95", "p99", "p999", "max", "mean"} {
			if v, ok := values[key].(float64); !ok || v <= 0 {
				t.Errorf("latency.%s.%s is %v, want milliseconds", kind, key, values[key])
			}
		}
	}
}

func TestJSONHasNoNull(t *testing.T) {
	t.Parallel()
	for name, s := range samples(t) {
		if b := written(t, s); bytes.Contains(b, []byte("null")) {
			t.Errorf("%s: the JSON has a null:\n%s", name, b)
		}
	}
}

func TestJSONIsReadBackWhole(t *testing.T) {
	t.Parallel()
	for name, s := range samples(t) {
		var back summary.Summary
		if err := json.Unmarshal(written(t, s), &back); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, want := text(t, &back, summary.DefaultStyle()), text(t, s, summary.DefaultStyle()); got != want {
			t.Errorf("%s: what is read back reads otherwise:\n%s", name, got)
		}
	}
}

func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	in := plainLoad(t)
	header := in.plan.Scenarios[0].Steps[0].Request.Header
	before := maps.Clone(header)
	header["x-api-key"] = "abc"
	before["x-api-key"] = "abc"
	b := written(t, in.summary(t))
	if bytes.Contains(b, []byte("abc")) {
		t.Error("the JSON has a secret of the plan in it")
	}
	if !bytes.Contains(b, []byte("text/html")) {
		t.Error("the JSON lacks a header that is no secret")
	}
	if !maps.Equal(header, before) {
		t.Errorf("the plan was changed: %v", header)
	}
	if b := written(t, socketLoad(t).summary(t)); bytes.Contains(b, []byte("session=1")) {
		t.Error("the JSON has a WebSocket client's cookie in it")
	}
}

// What servers and files say must not steer a terminal, and must not be lost.
func TestTextOfOthersIsHarmless(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"\x1b[2Jgone", `\x1b[2Jgone`},
		{"a\nb\tc", "a b c"},
		{"a\u202eb", `a\u202eb`},
		{"a\xffb", `a\ufffdb`},
		{"Привет", "Привет"},
	} {
		in := plainLoad(t)
		in.result.Errors = map[string]load.ErrorCount{"reset": {Count: 1, Example: c[0]}}
		if got, want := text(t, in.summary(t), summary.DefaultStyle()), "reset  1\n    "+c[1]+"\n"; !strings.Contains(got, want) {
			t.Errorf("the text of %q lacks %q:\n%s", c[0], want, got)
		}
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"http_req_duration{step:login}", "p(95) < 200", string(threshold.Milliseconds)},
		{"http_req_service", "avg<200", string(threshold.Milliseconds)},
		{"http_req_failed", "rate<0.01", string(threshold.Share)},
		{"checks{check:status}", "rate>0.99", string(threshold.Share)},
		{"http_reqs", " rate>100", string(threshold.PerSecond)},
		{"http_reqs", "count>100", string(threshold.Count)},
		{"data_sent", "rate<100", string(threshold.BytesPerSecond)},
		{"data_received", "count<100", string(threshold.Bytes)},
	} {
		in := plainLoad(t)
		in.outcomes = []threshold.Outcome{{Metric: c[0], Threshold: c[1]}}
		if got, want := in.summary(t).Thresholds[0].Unit, c[2]; got != want {
			t.Errorf("%s %s is in %q, want %q", c[0], c[1], got, want)
		}
	}
}

func TestNothingObservedIsNotZero(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		outcome threshold.Outcome
		want    bool
	}{
		{threshold.Outcome{Threshold: "p(95)<200", Reason: "there was no request"}, false},
		{threshold.Outcome{Threshold: "rate<0.1", Met: true}, true},
		{threshold.Outcome{Threshold: "rate>100"}, true},
		{threshold.Outcome{Metric: "http_reqs", Threshold: "rate>100 over 10s", Reason: "from 3s to 13s"}, true},
	} {
		in := plainLoad(t)
		in.outcomes = []threshold.Outcome{c.outcome}
		if got := in.summary(t).Thresholds[0].Observed != nil; got != c.want {
			t.Errorf("%+v: something was observed: %v, want %v", c.outcome, got, c.want)
		}
	}
}

func TestBadInputIsAnError(t *testing.T) {
	t.Parallel()
	in := plainLoad(t)
	in.result.Steps[0].Service.Histogram = "HISTF"
	_, err := summary.New(in.plan, &in.result, nil, summary.Machine{})
	if err == nil || !strings.Contains(err.Error(), `step "default" of scenario "default"`) {
		t.Errorf("New of a broken histogram says %v, want the step", err)
	}
	if _, err := summary.New(in.plan, nil, nil, summary.Machine{}); err == nil {
		t.Error("New of no result succeeds")
	}
}

type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteErrorsAreReturned(t *testing.T) {
	t.Parallel()
	s := plainLoad(t).summary(t)
	if err := s.Text(full{}, summary.DefaultStyle()); !errors.Is(err, errFull) {
		t.Errorf("Text returns %v, want %v", err, errFull)
	}
	if err := s.WriteJSON(full{}); !errors.Is(err, errFull) {
		t.Errorf("WriteJSON returns %v, want %v", err, errFull)
	}
}
