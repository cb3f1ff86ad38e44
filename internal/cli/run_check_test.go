package cli

import (
	"strings"
	"testing"
	"time"

	"loadstone/lab/experiment"
	"loadstone/lab/load"
)

// What a search takes on top of its budget depends on what is searched.
func TestCheckSaysWhatTheTimeIsFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		exp        experiment.Experiment
		time, load string
	}{
		"a rate": {
			experiment.Experiment{Measure: experiment.Capacity},
			"at least 4 min under load, and several times that where answers take a second", "s; its highest rate is searched for 2 min in each trial",
		},
		"clients": {
			experiment.Experiment{Measure: experiment.Capacity, Load: experiment.Offer{Scenarios: []experiment.Scenario{{VUs: 10, WebSocket: &experiment.WebSocket{}}}}},
			"about 4 min under load; connecting the clients of each attempt, and waiting for what is late, come on top", "s; the most connections that are held are searched for 2 min in each trial",
		},
		"as written": {experiment.Experiment{Measure: experiment.AsWritten}, "4 min under load", "s; "},
	} {
		c.exp.Search.Budget, c.exp.Search.Raise = 2*time.Minute, experiment.Connections
		if got := loadText(&c.exp, 4*time.Minute); got != c.time {
			t.Errorf("%s: got %q, want %q", name, got, c.time)
		}
		if got := scenarioText(&c.exp, &load.Scenario{Name: "s", Executor: load.ConstantArrivalRate, Rate: 5, Duration: time.Minute}); !strings.HasPrefix(got, c.load) {
			t.Errorf("%s: got %q, want %q", name, got, c.load)
		}
	}
}
