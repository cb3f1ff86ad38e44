package runner

import (
	"slices"
	"testing"
	"time"

	"loadstone/lab/experiment"
)

// Only the last round is offered a little load and perturbed, and only then their time is counted.
func TestTimeUnderLoad(t *testing.T) {
	t.Parallel()
	f := func(name string, e *experiment.Experiment, want ...time.Duration) {
		t.Helper()
		k := &execution{Config: Config{Experiment: e}, search: searchConfig(e)}
		if got := k.timesUnderLoad(plan([]string{"a"}, e.Trials, 1)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	const s = time.Second
	search := experiment.DefaultSearch()
	f("a search", &experiment.Experiment{Measure: experiment.Capacity, Trials: 2, Search: search}, 11*s, 13*s)
	f("warmed up", &experiment.Experiment{Measure: experiment.Capacity, Trials: 1, Search: search, Load: experiment.Offer{Warmup: 30 * s}, Perturb: experiment.Perturb{Off: true}}, 43*s)
	f("perturbed", &experiment.Experiment{Measure: experiment.Capacity, Trials: 2, Search: search, Perturb: experiment.Perturb{Asked: true}}, 11*s, (11+2+3+30)*s)
	written := func(scenarios ...experiment.Scenario) *experiment.Experiment {
		return &experiment.Experiment{Measure: experiment.AsWritten, Trials: 1, Load: experiment.Offer{Scenarios: scenarios}}
	}
	f("as written", written(experiment.Scenario{StartTime: 5 * s, Duration: 20 * s}, experiment.Scenario{Duration: 22 * s}), 25*s)
	f("iterations", written(experiment.Scenario{StartTime: 2 * s, Duration: 600 * s, Iterations: 10}), 2*s)
	f("a script", written(), 0)
}
