package threshold_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/lab/threshold"
)

// parse reads "METRIC EXPRESSION". The metric may have spaces in its selector.
func parse(t *testing.T, text string) threshold.Threshold {
	t.Helper()
	metric, expression := split(text)
	got, err := threshold.Parse(metric, expression)
	if err != nil {
		t.Fatalf("Parse(%s, %s) fails: %v", metric, expression, err)
	}
	return got
}

func split(text string) (metric, expression string) {
	from := strings.LastIndexByte(text, '}') + 1
	space := strings.IndexByte(text[from:], ' ')
	return text[:from+space], text[from+space+1:]
}

func TestParse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want threshold.Threshold
	}{
		{"http_req_duration   p( 99.9 ) <= 1.5e2 ", threshold.Threshold{Aggregation: "p", Percentile: 99.9, Operator: "<=", Value: 150}},
		{"http_req_service med<5", threshold.Threshold{Aggregation: "med", Operator: "<", Value: 5}},
		{"http_req_failed rate===0", threshold.Threshold{Aggregation: "rate", Operator: "==="}},
		{"http_reqs count!=7", threshold.Threshold{Aggregation: "count", Operator: "!=", Value: 7}},
		{"http_req_duration p(95)<200 over 10s", threshold.Threshold{Aggregation: "p", Percentile: 95, Operator: "<", Value: 200, Over: 10 * time.Second}},
		{"http_req_duration p(95) < 200  over  1m30s ", threshold.Threshold{Aggregation: "p", Percentile: 95, Operator: "<", Value: 200, Over: 90 * time.Second}},
		{"checks rate>0.9 over 1h", threshold.Threshold{Aggregation: "rate", Operator: ">", Value: 0.9, Over: time.Hour}},
		{"http_req_duration{step:login} max<9", threshold.Threshold{Step: "login", Aggregation: "max", Operator: "<", Value: 9}},
		{"http_req_duration{name:login} max<9", threshold.Threshold{Step: "login", Aggregation: "max", Operator: "<", Value: 9}},
		{"http_req_failed{ scenario:look up , step : 'a, b' } rate<1", threshold.Threshold{Scenario: "look up", Step: "a, b", Aggregation: "rate", Operator: "<", Value: 1}},
		{`checks{check:"status: is 200}"} rate>0.9`, threshold.Threshold{Check: "status: is 200}", Aggregation: "rate", Operator: ">", Value: 0.9}},
		{"checks{check:body is right, step:a} rate>0.9", threshold.Threshold{Check: "body is right", Step: "a", Aggregation: "rate", Operator: ">", Value: 0.9}},
		{"ws_msg_duration{scenario:room} p(99)<100", threshold.Threshold{Scenario: "room", Aggregation: "p", Percentile: 99, Operator: "<", Value: 100}},
	}
	for _, tt := range tests {
		got := parse(t, tt.text)
		metric, expression := split(tt.text)
		if got.Name() != metric || got.String() != strings.TrimSpace(expression) {
			t.Errorf("%s: got the name %q and the source %q", tt.text, got.Name(), got.String())
		}
		tt.want.Metric, _, _ = strings.Cut(metric, "{")
		if plain(got) != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.text, plain(got), tt.want)
		}
	}
}

// plain is what a threshold says, without how it was written.
func plain(t threshold.Threshold) threshold.Threshold {
	return threshold.Threshold{
		Metric: t.Metric, Scenario: t.Scenario, Step: t.Step, Check: t.Check, Aggregation: t.Aggregation, Percentile: t.Percentile,
		Operator: t.Operator, Value: t.Value, Over: t.Over, AbortOnFail: t.AbortOnFail, DelayAbortEval: t.DelayAbortEval,
	}
}

func TestParseSaysWhatToWriteInstead(t *testing.T) {
	t.Parallel()
	const all = "http_req_duration, http_req_service, grpc_req_duration, http_req_failed, http_reqs, iterations, iteration_duration, dropped_iterations, checks, extracted, data_sent, data_received, ws_connecting, ws_msg_duration, ws_ack_duration, ws_ping, ws_msgs_lost, ws_msgs_skipped, ws_msgs_refused, ws_msgs_duplicates, ws_closed, ws_sessions, ws_msgs_sent, ws_msgs_received"
	tests := []struct{ metric, expression, want string }{
		{"http_req_duration", "rate<200", "http_req_duration has no rate; write one of: avg, min, med, max, p(N), such as p(95)<200"},
		{"http_req_duration", "mx<200", "http_req_duration has no mx; write max, such as p(95)<200"},
		{"http_req_failed", "avg<5", "http_req_failed has no avg; write rate, such as rate<0.001"},
		{"http_req_failed", "count<1", "http_req_failed has no count; write rate, such as rate<0.001"},
		{"http_req_failed", "p(95)<1", "http_req_failed has no p(95); write rate, such as rate<0.001"},
		{"http_req_duration", "median<200", "http_req_duration has no median; write med"},
		{"http_req_duration", "p(95)<Inf", `"Inf" is not a number; write p(95)<200`},
		{"http_req_duration", "p(95)!=NaN", `"NaN" is not a number; write p(95)<200`},
		{"http_req_duration", "p(95)<200ms", "200ms has a unit, and thresholds are in milliseconds without it; write p(95)<200"},
		{"http_req_duration", "p(95)<200 ms", "200ms has a unit, and thresholds are in milliseconds without it; write p(95)<200"},
		{"http_req_duration", "p(95)<0.2s", "0.2s has a unit, and thresholds are in milliseconds without it; write p(95)<200"},
		{"http_req_duration", "p(95)<-200", "http_req_duration is never negative; write a number above 0, as in p(95)<200"},
		{"http_req_duration", "fast", `"fast" is no threshold; write an aggregation, a comparison and a number, such as p(95)<200`},
		{"http_req_duration", "p(95)=200", `"p(95)=200" is no threshold; write an aggregation, a comparison and a number, such as p(95)<200`},
		{"http_req_duration", "p95<200", "p95 is not an aggregation; write p(95)"},
		{"http_req_duration", "p(95)<fast", `"fast" is not a number; write p(95)<200`},
		{"http_req_duration", "p(950)<200", "there is no percentile 950; write a number from 0 to 100, such as p(99.9)"},
		{"http_req_duration", "p(most)<200", "p(most) is no percentile; write a number from 0 to 100 in it, such as p(95)"},
		{"http_req_duration", "p(N)<200", "p(N) is no percentile; write a number from 0 to 100 in it, such as p(95)"},
		{"http_req_failed", "rate<0.1%", "0.1% has a unit, and http_req_failed is a share; write rate<0.001"},
		{"http_req_failed", "rate<5", "http_req_failed is a share from 0 to 1, never 5; write rate<0.05 for 5 %"},
		{"checks", "rate>95%", "95% has a unit, and checks is a share; write rate>0.95"},
		{"http_reqs", "rate>100/s", "100/s has a unit, and a threshold has none; write rate>100"},
		{"data_received", "rate<5MB/s", "5MB/s has a unit, and data_received is in bytes without it; write rate<5000000"},
		{"data_sent", "count<2KiB", "2KiB has a unit, and data_sent is in bytes without it; write count<2048"},
		{"dropped_iterations", "total<5", "dropped_iterations has no total; write count"},

		{"http_req_duration", "p(95)<200 over 10", "the window 10 has no unit; write over 10s"},
		{"http_req_duration", "p(95)<200 over", `"p(95)<200 over" says over without how long; write p(95)<200 over 10s`},
		{"http_req_duration", "p(95)<200 in 10s", `"in 10s" is no window; write p(95)<200 over 10s`},
		{"http_req_duration", "p(95)<200 over a minute", `"p(95)<200 over a minute" is no threshold; write an aggregation, a comparison and a number, such as p(95)<200`},
		{"http_req_duration", "p(95)<200 over minutes", `"minutes" is no length of a window; write over 10s, with a number and s or m`},
		{"http_req_duration", "p(95)<200 over 500ms", "a window is whole seconds, not 500ms; write over 1s"},
		{"http_req_duration", "p(95)<200 over 2.4s", "a window is whole seconds, not 2.4s; write over 2s"},
		{"http_req_duration", "p(95)<200 over 0s", "a window is whole seconds, not 0s; write over 1s"},
		{"http_req_duration", "p(95)<200 over 2h", "a window is an hour at most, not 2h; write over 60m, or leave it out for the load as a whole"},
		{"http_req_duration", "p(95)<200 && avg<5", `"p(95)<200 && avg<5" is more than one threshold; write each as an entry of the list, the first as p(95)<200`},
		{"ws_msgs_sent", "rate>5 over 10s", "ws_msgs_sent is known of the load as a whole only; write the threshold without over"},
		{"checks{check:a}", "rate>0.5 over 10s", "in windows, checks are known together only; write checks without a selector, or the threshold without over"},

		{"http_req_durations", "p(95)<200", `the load does not produce the metric "http_req_durations"; write http_req_duration`},
		{"http_req_waiting", "p(95)<200", `the load does not produce the metric "http_req_waiting"; write http_req_service, the nearest to it`},
		{"cpu", "p(95)<200", `the load does not produce the metric "cpu"; write one of: ` + all},
		{"http_req_duration{step:login", "p(95)<200", `"http_req_duration{step:login" has a selector without an end; write http_req_duration{step:NAME}`},
		{"http_req_duration{login}", "p(95)<200", `"{login}" is no selector; write http_req_duration{step:NAME}`},
		{"http_req_duration{}", "p(95)<200", `"{}" is no selector; write http_req_duration{step:NAME}`},
		{"http_req_duration{step:}", "p(95)<200", "http_req_duration selects by step without saying which; write http_req_duration{step:NAME}"},
		{"http_req_duration{step:a,name:b}", "p(95)<200", "http_req_duration selects by step twice; write one of them"},
		{"http_req_duration{status:200}", "p(95)<200", `http_req_duration cannot be selected by "status", which is not kept; write one of: scenario, step`},
		{"http_req_duration{check:a}", "p(95)<200", "http_req_duration cannot be selected by check; write http_req_duration{step:NAME}"},
		{"http_req_duration{expected_response:true}", "p(95)<200", "expected_response leaves out the requests that failed, so that a system which fails fast looks fast; write http_req_duration without it and http_req_failed beside it"},
		{"iterations{scenario:a}", "count>5", "iterations is counted over the whole load and has no selectors; write iterations"},
		{"ws_connecting{step:connect}", "p(95)<5", "ws_connecting cannot be selected by step; write ws_connecting{scenario:NAME}"},
	}
	for _, tt := range tests {
		got, err := threshold.Parse(tt.metric, tt.expression)
		if err == nil || err.Error() != tt.want {
			t.Errorf("Parse(%s, %s)\n got %v\nwant %s", tt.metric, tt.expression, err, tt.want)
		}
		if got != (threshold.Threshold{}) {
			t.Errorf("Parse(%s, %s) = %+v beside an error", tt.metric, tt.expression, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "<", "p(95)", "p(95)<", "<200", "p(95)<200 or avg<5", "p(95) 200", "p()<1", "p(-1)<1", "p(100.1)<1",
		"p(95)<0x10", "p(95)<1_000", "p(95)<Inf", "p(95)<NaN", "p(95)<1e999", "p(95)=<5", "p(95)<<5", "p(N)<5", "count<5",
		"p(95)<200 over 10s over 10s", "p(95)<200 over -10s", "p(95)<200 over 1000000h", "p(95)<200 over\n10s x", "over 10s",
	} {
		if got, err := threshold.Parse(threshold.HTTPReqDuration, bad); err == nil {
			t.Errorf("Parse(%q) = %+v, want an error", bad, got)
		}
	}
}

// TestWhatItSaysToWriteIsRight parses the examples.
func TestWhatItSaysToWriteIsRight(t *testing.T) {
	t.Parallel()
	for _, metric := range metrics {
		if err := threshold.CheckMetric(metric); err != nil {
			t.Errorf("CheckMetric(%s) = %v", metric, err)
		}
		if _, err := threshold.Parse(metric, threshold.Example(metric)); err != nil {
			t.Errorf("the example %s of %s: %v", threshold.Example(metric), metric, err)
		}
	}
	if got := threshold.Example("http_req_failed{step:a}"); got != "rate<0.001" {
		t.Errorf("got the example %s of a selected metric, want rate<0.001", got)
	}
	if got := threshold.Example("no_such"); got != "p(95)<200" {
		t.Errorf("got the example %s of an unknown metric, want p(95)<200", got)
	}
	if err := threshold.CheckMetric("http_reqs{method:GET}"); err == nil {
		t.Error("CheckMetric takes a selector that there is not")
	}
}

var metrics = []string{
	threshold.HTTPReqDuration, threshold.HTTPReqService, threshold.HTTPReqFailed, threshold.HTTPReqs, threshold.Iterations,
	threshold.IterationDuration, threshold.DroppedIterations, threshold.Checks, threshold.DataSent, threshold.DataReceived, threshold.WSConnecting,
	threshold.WSMsgDuration, threshold.WSSessions, threshold.WSMsgsSent, threshold.WSMsgsReceived,
}

func TestThresholdHolds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		operator           string
		below, equal, over bool
	}{
		{"<", true, false, false},
		{"<=", true, true, false},
		{">", false, false, true},
		{">=", false, true, true},
		{"==", false, true, false},
		{"===", false, true, false},
		{"!=", true, false, true},
		{"", false, false, false},
		{"=", false, false, false},
	}
	for _, tt := range tests {
		x := threshold.Threshold{Operator: tt.operator, Value: 5}
		below, equal, over := x.Holds(4), x.Holds(5), x.Holds(6)
		if below != tt.below || equal != tt.equal || over != tt.over {
			t.Errorf("%q 5 holds for 4, 5, 6: %v %v %v, want %v %v %v", tt.operator, below, equal, over, tt.below, tt.equal, tt.over)
		}
		if x.Holds(math.NaN()) {
			t.Errorf("%q 5 holds for NaN", tt.operator)
		}
	}
}

// FuzzParse holds Parse to what its callers rely on: it ends without a panic,
// in one line that can be printed or in a threshold that can be judged and that
// reads as itself.
func FuzzParse(f *testing.F) {
	for _, seed := range [][2]string{
		{"http_req_duration", "p(95)<200"},
		{"http_req_duration{step:login}", "p( 99.9 ) <= 1.5e2 over 10s"},
		{`checks{check:"a, b",scenario:'c'}`, "rate>0.99"},
		{"http_req_failed", "rate<5%"},
		{"data_sent", "rate<5GiB/s"},
		{"http_reqs{", "count>1"},
		{"http_reqs{a:\",b:'}", "count>1 over 1h0m0s"},
		{"ws_sessions{scenario:\x00\n}", "p(\n)<1"},
		{"http_req_duration{step::}", "p(100)<1 over 1e9h"},
		{"{}", "==="},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, metric, expression string) {
		got, err := threshold.Parse(metric, expression)
		if err != nil {
			if text := err.Error(); text == "" || strings.ContainsAny(text, "\n\r\x00") || len(text) > 1000 {
				t.Errorf("Parse(%q, %q) fails with %q", metric, expression, text)
			}
			return
		}
		if !slices.Contains(metrics, got.Metric) || !(got.Value >= 0) || math.IsInf(got.Value, 0) || !(got.Percentile >= 0 && got.Percentile <= 100) {
			t.Errorf("Parse(%q, %q) = %+v", metric, expression, got)
		}
		if got.Over < 0 || got.Over%time.Second != 0 || got.Over > threshold.MostOver {
			t.Errorf("Parse(%q, %q) has a window of %s", metric, expression, got.Over)
		}
		again, err := threshold.Parse(got.Name(), got.String())
		if err != nil || again != got {
			t.Errorf("Parse(%q, %q) = %+v, which reads as %+v, %v", metric, expression, got, again, err)
		}
		if got.Holds(math.NaN()) || got.Operator != "!=" && got.Holds(got.Value) != strings.Contains(got.Operator, "=") {
			t.Errorf("Parse(%q, %q) = %+v does not compare", metric, expression, got)
		}
	})
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]threshold.Unit{
		"http_req_duration{step:login} p(95) < 200": threshold.Milliseconds,
		"ws_connecting max<200":                     threshold.Milliseconds,
		"http_req_failed rate<0.01":                 threshold.Share,
		"checks{check:status} rate>0.99":            threshold.Share,
		"http_reqs rate>100":                        threshold.PerSecond,
		"http_reqs count>100":                       threshold.Count,
		"data_sent rate<100":                        threshold.BytesPerSecond,
		"data_received count<100":                   threshold.Bytes,
	} {
		if got := parse(t, text).Unit(); got != want {
			t.Errorf("%s: unit %q, want %q", text, got, want)
		}
	}
}
