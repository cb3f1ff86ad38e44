package runner

import (
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
)

// startAndStopTime is what starting and stopping a small system takes. It is not
// known before: it only serves to weigh perturbing against the rest of a run.
const startAndStopTime = 1500 * time.Millisecond

// trialTime is about how long a trial of a small system takes.
func (k *execution) trialTime() time.Duration { return k.loadTime("") + startAndStopTime }

// loadTime is how long a trial of a variant is under load, without perturbing: the budget of
// the search after its warm-up, or the length of the load as written. The length of a script, or of
// so many iterations, shows only when it is over, and counts as nothing.
func (k *execution) loadTime(variant string) time.Duration {
	if k.Experiment.Measure == experiment.Capacity {
		return k.Experiment.Load.Warmup + k.search.Budget + k.Experiment.Search.Hold
	}
	var longest time.Duration
	for _, s := range k.Experiment.PlanOf(variant).Scenarios {
		d := s.StartTime
		if s.Iterations == 0 { // else Duration only bounds it
			d += s.Duration
		}
		for _, st := range s.Stages {
			d += st.Duration
		}
		longest = max(longest, d)
	}
	return longest
}

// timesUnderLoad is how long each trial is under load, with a little load and perturbing.
func (k *execution) timesUnderLoad(trials []archive.Planned) []time.Duration {
	out := make([]time.Duration, len(trials))
	for i, p := range trials {
		out[i] = k.loadTime(p.Variant)
		if p.Round == k.Experiment.Trials {
			out[i] += k.lightTime() + k.perturbTime()
		}
	}
	return out
}
