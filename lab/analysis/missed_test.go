package analysis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/experiment"
	"loadstone/lab/host"
	"loadstone/lab/load"
	"loadstone/lab/probe"
	"loadstone/lab/verdict"
)

// Who gets no capacity is told what the lowest rate missed, and how requests failed.
func TestMissedByTheLowestRate(t *testing.T) {
	t.Parallel()
	tried := func(kind string, rate float64, reason string, errors map[string]load.ErrorCount) archive.Measure {
		return archive.Measure{Kind: kind, Try: capacity.Try{Rate: rate, Reason: reason}, Result: load.Result{Errors: errors}}
	}
	refused := map[string]load.ErrorCount{"timeout": {Count: 2}, "connection_refused": {Count: 40, Example: "connect to 127.77.0.2:8080"}}
	for want, measures := range map[string][]archive.Measure{
		"": {tried(archive.Sweep, 5, "the sweep", nil)},
		"at 10.0 a second, http_req_duration p(95)<0.01: it was 1.2": {
			tried("search", 100, "the backlog grew", refused), tried("search", 10, "http_req_duration p(95)<0.01: it was 1.2", nil),
		},
		"at 0.0500 a second, nothing was answered in time; 40 × connection_refused (connect to 127.77.0.2:8080), 2 × timeout": {
			tried(archive.Sweep, 0.01, "the sweep", nil), tried("search", 0.05, "nothing was answered in time", refused),
		},
	} {
		if got := missedBy(archive.Trial{Measures: measures}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A full machine at the lowest rate tells nothing of the system, and the capacity of such a trial
// is open upwards; at a higher rate alone it is no excuse.
func TestNoRateCouldBeJudged(t *testing.T) {
	t.Parallel()
	full := func(rate, busy float64) archive.Measure {
		return archive.Measure{Kind: "search", Try: capacity.Try{Rate: rate, Reason: "the backlog grew"}, Result: load.Result{
			From: began, To: began.Add(time.Second), Generator: load.Generator{MachineBusy: busy},
		}}
	}
	for _, c := range []struct {
		high, low float64 // how busy the machine was at either rate
		want      string
	}{
		{1, 0.5, ""},
		{0.5, 1, "the machine was full"},
	} {
		trial := archive.Trial{Measures: []archive.Measure{full(200, c.high), full(100, c.low)}}
		if got := unjudged(trial); c.want == "" != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v: %q, want %q", c, got, c.want)
		}
		dir := t.TempDir()
		for _, file := range []string{probe.SamplesFile, probe.MetricsFile} {
			if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		o, err := observe(dir, &experiment.Experiment{Measure: experiment.Capacity}, trial)
		if err != nil {
			t.Fatal(err)
		}
		v := summarise(&experiment.Experiment{Measure: experiment.Capacity}, "v", []observed{o}, 2)
		if open := c.want != ""; v.Capacity.Value != 0 || v.Capacity.LowerBound != open || v.Figures[0].LowerBound != open || strings.Contains(v.Verdict.Summary, "could be judged") != open {
			t.Errorf("%v: capacity %+v, verdict %q", c, v.Capacity, v.Verdict.Summary)
		}
	}
}

func TestTheTryJustAboveTheCapacity(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_700_000_000, 0)
	tried := func(kind string, rate float64, held bool, seconds float64) archive.Measure {
		to := began.Add(time.Duration(seconds * float64(time.Second)))
		return archive.Measure{Kind: kind, Try: capacity.Try{Rate: rate, Held: held}, Result: load.Result{From: began, To: to}}
	}
	measures := []archive.Measure{
		tried(archive.Sweep, 105, false, 7), tried("search", 100, true, 5), tried("search", 300, false, 9), tried("search", 95, false, 9),
		tried("search", 120, false, 2), tried("confirm", 110, false, 3), tried("confirm", 105, true, 9), tried("search", 102, false, 0.3),
	}
	samples := []host.Sample{{At: began.Add(-time.Second)}, {At: began.Add(20 * time.Second), MachineTotal: 42 * time.Second}}
	seen := tries(archive.Trial{Measures: measures}, samples)
	if m := justAbove(seen, 100); m == nil || m.Rate != 110 {
		t.Errorf("got %+v, want the one at 110", m)
	}
	if m := justAbove(seen, 150); m != nil {
		t.Errorf("got %+v, want none between 150 and 195", m)
	}
}

// What less than half of the trials saw is not known.
func TestMissedOfSeveralTrials(t *testing.T) {
	t.Parallel()
	seen := func(throttled ...float64) (out []verdict.Component) {
		for _, x := range throttled {
			c := verdict.Component{}
			if x >= 0 {
				c.Missed = &verdict.Missed{Rate: 100, Throttled: x}
			}
			out = append(out, c)
		}
		return out
	}
	if m := joinMissed(seen(0.2, 0.8, -1, 0.9)); m == nil || m.Throttled != 0.8 {
		t.Errorf("got %+v, want the median of three", m)
	}
	if m := joinMissed(seen(0.2, -1)); m != nil {
		t.Errorf("got %+v of one of two trials", m)
	}
}
