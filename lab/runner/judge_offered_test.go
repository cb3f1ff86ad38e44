package runner

import (
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

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

// TestJudgeWhatWasOffered has objectives on latency alone, which say nothing of
// what was never sent and what never came back.
func TestJudgeWhatWasOffered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*load.Result)
		held    bool
		limited bool
		reason  string
	}{
		"held":            {func(*load.Result) {}, true, false, ""},
		"half is dropped": {func(r *load.Result) { r.Requests, r.Iterations, r.Dropped = 1000, 1000, 1000 }, false, false, "1000 of 2000 arrivals were dropped"},
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
		slo := experiment.SLO{parse(t, "http_req_duration", "p(95)<2000")}
		outcomes, err := threshold.NewWatch(slo.Thresholds()).Outcomes(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := judge(1000, r, outcomes)
		if got.Held != c.held || got.GeneratorLimited != c.limited || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: got %+v, want held %v, generator limited %v, reason with %q", name, got, c.held, c.limited, c.reason)
		}
	}
}

// TestJudgeTheGenerator has tries that failed, with little sign of why.
func TestJudgeTheGenerator(t *testing.T) {
	t.Parallel()
	fast, slow := 5*time.Millisecond, 300*time.Millisecond
	late := func(r *load.Result) { // 4 % of the requests, by 300 ms
		r.Late, r.Response, r.Service = 80, times(t, fast, slow, 4), times(t, fast, fast, 0)
	}
	for name, c := range map[string]struct {
		change    func(*load.Result)
		objective string
		reason    string // empty if it was the system
	}{
		"4 % late":                       {late, "p(99)<200", "sent 4.0 % of the requests late, and without that http_req_duration p(99)<200 was met"},
		"4 % late, and 4 % of them slow": {func(r *load.Result) { late(r); r.Service = r.Response }, "p(99)<200", ""},
		"4 % late, and more waited":      {func(r *load.Result) { late(r); r.Waited = 100 }, "p(99)<200", ""},
		"late, but fewer than it takes":  {func(r *load.Result) { late(r); r.Late = 15 }, "p(99)<200", ""},
		"no percentile":                  {late, "max<200", ""},
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
		outcomes, err := threshold.NewWatch(experiment.SLO{parse(t, "http_req_duration", c.objective)}.Thresholds()).Outcomes(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := judge(1000, r, outcomes)
		if got.Held || got.GeneratorLimited != (c.reason != "") || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: got %+v, want a failure, generator limited: %q", name, got, c.reason)
		}
	}
	r := held()
	r.Generator.Working = 0.99
	if got := judge(1000, r, nil); !got.Held || got.GeneratorLimited {
		t.Errorf("a try that was held at 99 %% of an event loop: got %+v, want it held", got)
	}
}

func TestEachTrialStartsElsewhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ given, about float64 }{"from the sweep": {0, 700}, "from a given rate": {500, 500}} {
		seen := map[float64]bool{}
		for seed := range uint64(2) {
			for trial := range 6 {
				e := &experiment.Experiment{Seed: seed}
				e.Load.Scenarios = []experiment.Scenario{{Rate: experiment.Rate(c.given)}}
				m := &measurer{conductor: &conductor{Config: Config{Experiment: e}}, trial: &archive.Trial{Planned: archive.Planned{Index: trial + 1}}}
				from := m.start(700)
				if seen[from] || from < 0.95*c.about || from > 1.05*c.about || from != m.start(700) {
					t.Errorf("%s, seed %d: trial %d starts at %v; want it about %v, always the same, and unlike the others", name, seed, trial+1, from, c.about)
				}
				seen[from] = true
			}
		}
	}
	m := &measurer{conductor: &conductor{Config: Config{Experiment: &experiment.Experiment{}}}, trial: &archive.Trial{}}
	if from := m.start(0); from != 0 {
		t.Errorf("nothing was answered, and the search starts at %v", from)
	}
}
