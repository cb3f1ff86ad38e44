package capacity

import (
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

// held is a result that meets every objective.
func held() *load.Result {
	from := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	r := &load.Result{
		From: from, To: from.Add(2 * time.Second), Offered: 2000, Requests: 2000, CompletedInTime: 1990,
		Iterations: 2000, IterationsInTime: 1990,
		InFlight: load.Trend{Slope: 1, Low: -5, High: 7, Samples: 40},
	}
	h := load.NewHistogram()
	for range 2000 {
		_ = h.RecordValue(5000) // 5 ms
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		panic(err)
	}
	r.Response.Histogram = string(text)
	return r
}

// objectives parses thresholds, given as metric and expression in turn.
func objectives(t *testing.T, written ...string) []threshold.Threshold {
	t.Helper()
	var out []threshold.Threshold
	for i := 0; i < len(written); i += 2 {
		parsed, err := threshold.Parse(written[i], written[i+1])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, parsed)
	}
	return out
}

func TestHeld(t *testing.T) {
	t.Parallel()
	slow := load.NewHistogram()
	for range 2000 {
		_ = slow.RecordValue(300_000) // 300 ms
	}
	slowText, err := slow.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change  func(*load.Result)
		held    bool
		limited bool
		reason  string
	}{
		"held":                    {func(*load.Result) {}, true, false, ""},
		"too slow":                {func(r *load.Result) { r.Response.Histogram = string(slowText) }, false, false, "p(95)<200: it was 300"},
		"failures":                {func(r *load.Result) { r.Failed = 10 }, false, false, "http_req_failed"},
		"dropped count as failed": {func(r *load.Result) { r.Requests, r.Iterations, r.Dropped = 1990, 1990, 10 }, false, false, "http_req_failed"},
		"ebb and flow":            {func(r *load.Result) { r.InFlight = load.Trend{Slope: 40, Low: -80, High: 160, Samples: 9} }, true, false, ""},
		"backlog grows":           {func(r *load.Result) { r.InFlight = load.Trend{Slope: 50, Low: 20, High: 80, Samples: 40} }, false, false, "backlog grew"},
		"short and far behind":    {func(r *load.Result) { r.InFlight = load.Trend{Slope: 150, Low: -80, High: 380, Samples: 9} }, false, false, "backlog grew"},
		"aborted":                 {func(r *load.Result) { r.Aborted = "overload" }, false, false, "overload"},
		"nothing answered":        {func(r *load.Result) { r.Requests, r.IterationsInTime = 0, 0 }, false, false, "nothing was answered"},
		"late and too slow":       {func(r *load.Result) { r.Late = 200; r.Response.Histogram = string(slowText) }, false, true, "late"},
		"generator burns all":     {func(r *load.Result) { r.Generator.Busy, r.Generator.Cores = 3.7, 4; r.Failed = 10 }, false, true, "cores"},
		// Lateness is part of response time: what is met in spite of it is met.
		"late and still met": {func(r *load.Result) { r.Late = 200 }, true, false, ""},
	} {
		r := held()
		c.change(r)
		outcomes, err := threshold.NewWatch(objectives(t, "http_req_duration", "p(95)<200", "http_req_failed", "rate<0.001")).Outcomes(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := NewTry(1000, r, outcomes)
		if got.Held != c.held || got.GeneratorLimited != c.limited || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: got %+v, want held %v, generator limited %v, reason with %q", name, got, c.held, c.limited, c.reason)
		}
	}
}

// times is a distribution: most requests took the first time, few of a hundred
// the second.
func times(t *testing.T, most, slow time.Duration, few int64) load.Latency {
	t.Helper()
	h := load.NewHistogram()
	_ = h.RecordValues(most.Microseconds(), 20*(100-few))
	_ = h.RecordValues(slow.Microseconds(), 20*few)
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	return load.Latency{Histogram: string(text)}
}

// TestHeldNeedsWhatWasOffered has objectives on latency alone, which say nothing of
// what was never sent and what never came back.
func TestHeldNeedsWhatWasOffered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*load.Result)
		held    bool
		limited bool
		reason  string
	}{
		"held":            {func(*load.Result) {}, true, false, ""},
		"half is dropped": {func(r *load.Result) { r.Requests, r.Iterations, r.Dropped = 1000, 1000, 1000 }, false, false, "1000 of 2000 arrivals were dropped"},
		"many broke off":  {func(r *load.Result) { r.Journeys = []load.JourneyResult{{Iterations: 2000, BrokenOff: 21}} }, false, false, "21 of 2000 iterations broke off"},
		"few broke off":   {func(r *load.Result) { r.Journeys = []load.JourneyResult{{Iterations: 2000, BrokenOff: 20}} }, true, false, ""},
		"few are dropped": {func(r *load.Result) { r.Requests, r.Iterations, r.Dropped = 1985, 1985, 15 }, true, false, ""},
		"half is offered": {
			func(r *load.Result) { r.Offered, r.Requests, r.Iterations, r.CompletedInTime = 1000, 1000, 1000, 995 },
			false, true, "offered 500 a second in place of 1000",
		},
		"fewer by chance": {
			func(r *load.Result) { r.Offered, r.Requests, r.Iterations, r.CompletedInTime = 1800, 1800, 1800, 1800 },
			true, false, "",
		},
		"half is done, and no trend": {
			func(r *load.Result) { r.InFlight, r.CompletedInTime = load.Trend{Samples: 4}, 1000 },
			false, false, "2000 requests were offered and 1000 completed",
		},
		// Of 2,000 offered 5 % and a standard deviation, 145, may be missing, and what is under way at 5 ms.
		"a little more is missing than may be, and no trend": {
			func(r *load.Result) { r.InFlight, r.CompletedInTime = load.Trend{Samples: 4}, 1835 },
			false, false, "2000 requests were offered and 1835 completed",
		},
		"a little less is missing than may be, and no trend": {
			func(r *load.Result) { r.InFlight, r.CompletedInTime = load.Trend{Samples: 4}, 1865 }, true, false, "",
		},
		"behind at the end, and no trend upwards": {func(r *load.Result) { r.CompletedInTime = 1700 }, true, false, ""},
		// At 500 ms each, 500 are under way at the end.
		"under way at the end": {
			func(r *load.Result) {
				r.InFlight, r.CompletedInTime = load.Trend{Samples: 4}, 1490
				r.Response = times(t, 500*time.Millisecond, 500*time.Millisecond, 0)
			}, true, false, "",
		},
		"iterations that pause": {func(r *load.Result) { r.Requests, r.CompletedInTime = 4000, 1000 }, true, false, ""},
		"a closed model":        {func(r *load.Result) { r.InFlight, r.CompletedInTime = load.Trend{}, 1000 }, true, false, ""},
	} {
		r := held()
		c.change(r)
		outcomes, err := threshold.NewWatch(objectives(t, "http_req_duration", "p(95)<2000")).Outcomes(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := NewTry(1000, r, outcomes)
		if got.Held != c.held || got.GeneratorLimited != c.limited || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: got %+v, want held %v, generator limited %v, reason with %q", name, got, c.held, c.limited, c.reason)
		}
	}
}

// TestFailedTriesOfTheGenerator has tries that failed, with little sign of why.
func TestFailedTriesOfTheGenerator(t *testing.T) {
	t.Parallel()
	fast, slow := 5*time.Millisecond, 300*time.Millisecond
	late := func(r *load.Result) { // 0.8 % of the requests, by 300 ms
		r.Late, r.Response, r.Service = 16, times(t, fast, slow, 4), times(t, fast, fast, 0)
	}
	for name, c := range map[string]struct {
		change    func(*load.Result)
		objective string
		reason    string // empty if it was the system
	}{
		"0.8 % late":                         {late, "p(99.5)<200", "sent 0.8 % of the requests late, and without that http_req_duration p(99.5)<200 was met"},
		"0.8 % late, and slow by themselves": {func(r *load.Result) { late(r); r.Service = r.Response }, "p(99.5)<200", ""},
		"0.8 % late, and more waited":        {func(r *load.Result) { late(r); r.Waited = 100 }, "p(99.5)<200", ""},
		"late, but fewer than it takes":      {late, "p(99)<200", ""},
		"no percentile":                      {late, "max<200", ""},
		"2 % late, whatever the objective":   {func(r *load.Result) { late(r); r.Late = 40 }, "max<200", "sent 2.0 % of the requests more than 5 ms late"},
		"2 % of those with a time":           {func(r *load.Result) { late(r); r.Late, r.Scheduled = 16, 800 }, "max<200", "sent 2.0 % of the requests more than 5 ms late"},
		"dropped by itself":                  {func(r *load.Result) { late(r); r.Late, r.DroppedLate = 0, 4 }, "max<200", "dropped 4 arrivals although a virtual user was free"},
		"a full machine": {func(r *load.Result) {
			r.Response, r.Generator.MachineBusy = times(t, fast, slow, 4), 0.99
		}, "p(95)<2", ""},
		"an event loop at its end": {
			func(r *load.Result) { r.Response, r.Generator.Working = times(t, fast, slow, 4), 0.95 },
			"p(99)<200", "an event loop of the load generator was at work 95 %",
		},
		"an event loop with time to spare": {
			func(r *load.Result) { r.Response, r.Generator.Working = times(t, fast, slow, 4), 0.85 }, "p(99)<200", "",
		},
		"no local port": {
			func(r *load.Result) {
				r.Response = times(t, fast, slow, 4)
				r.Errors = map[string]load.ErrorCount{"port_exhausted": {Count: 7}}
			}, "p(99)<200", "7 requests of the load generator found no local port",
		},
	} {
		r := held()
		c.change(r)
		outcomes, err := threshold.NewWatch(objectives(t, "http_req_duration", c.objective)).Outcomes(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := NewTry(1000, r, outcomes)
		if got.Held || got.GeneratorLimited != (c.reason != "") || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: got %+v, want a failure, generator limited: %q", name, got, c.reason)
		}
	}
	r := held()
	r.Generator.Working = 0.99
	if got := NewTry(1000, r, nil); !got.Held || got.GeneratorLimited {
		t.Errorf("a try that was held at 99 %% of an event loop: got %+v, want it held", got)
	}
}

// What WebSocket clients sent late is told from what a system delivered late, as with requests.
func TestLateMessagesAreTheGenerators(t *testing.T) {
	t.Parallel()
	fast, slow := 5*time.Millisecond, 300*time.Millisecond
	for name, c := range map[string]struct {
		metric, step string
		service      time.Duration // of the slow ones
		limited      bool
	}{
		"late messages":        {"ws_msg_duration", load.StepMessage, fast, true},
		"late acks":            {"ws_ack_duration", load.StepAck, fast, true},
		"late pings":           {"ws_ping{scenario:chat}", load.StepPing, fast, true},
		"late and slow":        {"ws_msg_duration", load.StepMessage, slow, false},
		"connects are another": {"ws_connecting", load.StepConnect, fast, false},
	} {
		r := held()
		r.Late = 16
		r.WebSocket = &load.WebSocketResult{Clients: 10, LeastOpen: 10, Connects: 10, Sent: 2000}
		r.Steps = []load.StepResult{
			{Scenario: "chat", Name: "other", Requests: 2000, Response: times(t, slow, slow, 4), Service: times(t, slow, slow, 4)},
			{Scenario: "chat", Name: c.step, Requests: 2000, Response: times(t, fast, slow, 4), Service: times(t, fast, c.service, 4)},
		}
		outcomes, err := threshold.NewWatch(objectives(t, c.metric, "p(99.5)<200")).Outcomes(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := NewRaisedTry("connections", 10, r, outcomes); got.Held || got.GeneratorLimited != c.limited {
			t.Errorf("%s: got %+v, want a failure, generator limited: %v", name, got, c.limited)
		}
	}
}
