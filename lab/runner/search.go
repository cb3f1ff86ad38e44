package runner

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

// capacity searches the highest rate that is held.
func (m *trialRun) capacity(ctx context.Context) error {
	scenario := m.base.Scenarios[0]
	if raised := m.Experiment.Raised(); raised.What != "" {
		return m.raise(ctx, scenario, raised)
	}
	r, swept, began, err := m.sweep(ctx, scenario)
	if err != nil {
		return err
	}
	from := m.start(scenario, swept)
	wait, takes := drain(m.slo(), scenario, m.base.Timeout), lasting(r)
	var history []capacity.Try
	over := false // the search
	for {
		step, ok := m.search.Next(history, time.Since(began), from)
		if over = over || !ok; over {
			step, ok = capacity.NextHold(history, m.Experiment.Search.Hold)
		}
		if !ok {
			return m.perturb(ctx, scenario)
		}
		m.Events.doingf("%s %.0f req/s", doing(step), step.Rate)
		r, outcomes, err := m.offer(ctx, string(step.Purpose), try(m.base, scenario, step, wait, takes), m.slo())
		if err != nil {
			return err
		}
		t := capacity.NewTry(step.Rate, r, outcomes)
		if t.Purpose = step.Purpose; t.Held {
			takes = lasting(r)
		}
		history = append(history, t)
		m.record(string(step.Purpose), t, r)
	}
}

// doing is what a step is to whoever looks on.
func doing(s capacity.Step) string {
	if s.Purpose == capacity.Hold {
		return fmt.Sprintf("holding for %v", s.Duration)
	}
	return "trying"
}

// start is where the trial's search starts: about the rate that the experiment
// gives or, if it gives none, what the system sustained when it was never idle.
func (m *trialRun) start(s load.Scenario, swept float64) float64 {
	guess := swept
	if max(s.Rate, s.StartRate) > 0 {
		guess = max(s.Rate, s.StartRate)
	}
	return capacity.Start(guess, m.Experiment.Seed, m.trial.Index)
}

// sweep loads the system beyond its objectives, and says how many good iterations a second
// came of it, and when the budget of the search began. What answers late for its time is
// given more, up to a request's timeout.
func (m *trialRun) sweep(ctx context.Context, s load.Scenario) (r *load.Result, rate float64, began time.Time, err error) {
	base, length := m.base, m.search.Budget/sweepShare
	for {
		began = time.Now().Add(base.Warmup) // which the budget is not for
		if w := base.Warmup; w > 0 {
			m.Events.doingf("warming up for %v, then sweeping, with %d virtual users", w, sweepVUs)
		} else {
			m.Events.doingf("sweeping with %d virtual users", sweepVUs)
		}
		r, _, err = m.offer(ctx, archive.Sweep, sweep(base, s, length), nil)
		if err != nil {
			return nil, 0, began, err
		}
		if r.IterationsInTime > 0 {
			break
		}
		if length >= m.base.Timeout {
			return nil, 0, began, fmt.Errorf("nothing was answered in a sweep of %.1f s with %d virtual users: %s", r.Seconds(), sweepVUs, cmp.Or(r.Failures(), "every request was still under way"))
		}
		base.Warmup = 0
		length = min(2*length, m.base.Timeout)
	}
	rate, reason := swept(r, m.slo())
	m.record(archive.Sweep, capacity.Try{Rate: r.IterationRate(), Held: reason == "", Reason: reason}, r)
	if rate == 0 && m.alone > 0 {
		rate = 1 / m.alone.Seconds() // it answers one user at least
	}
	if rate == 0 {
		return nil, 0, began, fmt.Errorf("every answer in a sweep of %.1f s with %d virtual users was a failure: %s", r.Seconds(), sweepVUs, r.Failures())
	}
	return r, rate, began, nil
}

// swept is how many iterations a second of a sweep were good. If failures are within the
// objectives all of them are; else those that had none, and reason says what was missed. A
// sweep is to take longer than the objectives allow, so that times say nothing.
func swept(r *load.Result, slo experiment.SLO) (rate float64, reason string) {
	var judged []threshold.Threshold
	for _, t := range slo.Thresholds() {
		if t.Over == 0 && t.Metric == threshold.HTTPReqFailed {
			judged = append(judged, t)
		}
	}
	rate = r.IterationRate()
	outcomes, err := threshold.NewWatch(judged).Outcomes(r)
	if err != nil || r.Requests == 0 {
		return rate, ""
	}
	met := len(outcomes) > 0
	for _, o := range outcomes {
		if !o.Met {
			met, reason = false, fmt.Sprintf("%s %s: it was %.4g (%s)", o.Metric, o.Threshold, o.Observed, r.Failures())
		}
	}
	if met {
		return rate, ""
	}
	return rate * float64(r.Requests-min(r.Failed, r.Requests)) / float64(r.Requests), reason
}
