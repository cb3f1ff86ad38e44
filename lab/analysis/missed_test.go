package analysis

import (
	"testing"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/load"
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
