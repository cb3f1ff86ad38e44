package runner

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

// retryAfter is how long who was refused waits where it is not known what an answer takes.
const retryAfter = 10 * time.Millisecond

// pace has virtual users keep to the search's maxRate, and ask again as soon as those that are served.
func (m *trialRun) pace(s *load.Scenario) {
	s.MaxRate, s.RetryAfter = m.search.MaxRate, cmp.Or(m.alone, retryAfter)
	s.RetryMost = s.RetryAfter
}

// capacity searches the highest rate that is held.
func (m *trialRun) capacity(ctx context.Context) error {
	scenario := m.base.Scenarios[0]
	if raised := m.Experiment.Raised(); raised.What != "" {
		return m.raise(ctx, scenario, raised)
	}
	takes, swept, began, err := m.sweep(ctx, scenario)
	if err != nil {
		return err
	}
	from, wait := m.start(scenario, swept), drain(m.slo(), scenario, m.base.Timeout)
	search := m.search.For(cmp.Or(swept, from)) // where it starts may be a guess of somebody's
	lowLoad := takes
	var history []capacity.Try
	over := false // the search
	for {
		step, ok := search.Next(history, time.Since(began), from)
		if over = over || !ok; over {
			step, ok = capacity.NextHold(history, m.Experiment.Search.Hold)
		}
		if !ok {
			return m.perturb(ctx, scenario)
		}
		m.Events.doingf("%s %.0f req/s", doing(step), step.Rate)
		asked := time.Now()
		plan := try(m.base, scenario, step, wait, takes)
		stratify(plan, step.Purpose, lowLoad)
		r, outcomes, err := m.offer(ctx, string(step.Purpose), plan, m.slo())
		if err != nil {
			return err
		}
		began = began.Add(slower(step, takes, r, time.Since(asked)))
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

// idle says whether a sweep kept no part of the system busy: its requests were answered about
// as if each were alone, and hardly any was turned away, which takes no time and says that there
// are as many users as the system has places for.
func (m *trialRun) idle(swept *load.Result) bool {
	return mostRefused*swept.Failed <= swept.Requests && swept.Response.P50*float64(time.Millisecond) < idleBelow*float64(m.alone)
}

// takes is about how long an iteration lasts at the rates that a search begins with, after
// its sweep and one with fewer users that kept the system idle; nil if there was none. Where
// requests queued, it is no more than one takes alone.
func (m *trialRun) takes(swept, fewer *load.Result) time.Duration {
	switch turnedAway := 2*swept.Failed > swept.Requests; { // which takes no time
	case fewer != nil && turnedAway:
		return lasting(fewer)
	case fewer != nil:
		return min(lasting(fewer), lasting(swept))
	case turnedAway && m.alone > 0 && len(swept.Journeys) == 0:
		return m.alone
	case m.alone > 0 && len(swept.Journeys) == 0 && !m.idle(swept):
		return min(m.alone, lasting(swept))
	}
	return lasting(swept)
}

// sweep loads the system beyond its objectives, and says how many good iterations a second
// came of it, about how long each takes, and when the budget of the search began. What answers
// late for its time is given more, up to a request's timeout; what is about as quick as before,
// more virtual users. The budget is for the usual length of one sweep, and not for what slow
// answers add: more and longer ones, and what is still under way after them.
func (m *trialRun) sweep(ctx context.Context, s load.Scenario) (takes time.Duration, rate float64, began time.Time, err error) {
	usual := m.search.Budget / sweepShare
	vus, most, length, wait := sweepVUs, sweepVUs, m.sweepLength(0), leastDrain
	warmup, cold := m.base.Warmup, false // cold: the warm-up waits until it is known for how many users
	if s.OneRequest() {                  // of which none is left under way when the search begins; a journey may take minutes
		vus, wait = sweepers(m.alone, usual), drain(m.slo(), s, m.base.Timeout)
	}
	if vus < sweepVUs {
		most, length, wait = mostSweepVUs, m.sweepLength(m.alone), m.base.Timeout
		warmup, cold = 0, warmup > 0
	}
	fewer, users := (*load.Result)(nil), 0 // the sweep before, and its virtual users
	for base := m.base; ; {
		m.pace(&s)
		s.RetryMost = max(s.RetryAfter, length/sweepAnswers)
		base.Warmup, warmup = warmup, 0
		m.Events.doingf("%s", sweeping(base.Warmup, vus))
		r, _, err := m.offer(ctx, archive.Sweep, sweep(base, s, vus, length, wait), nil)
		if err != nil {
			return 0, 0, began, err
		}
		began = time.Now().Add(-usual)
		answered := r.IterationsInTime > 0
		switch {
		case answered && vus < m.busy(most) && m.idle(r):
			fewer, users, vus = r, vus, min(4*vus, m.busy(most))
			m.alone = m.learned(r)
			length = max(length, m.sweepLength(m.alone))
			continue
		case !answered && fewer != nil: // these are too many
			r, vus = fewer, users
		case answered:
		case length >= m.base.Timeout:
			return 0, 0, began, fmt.Errorf("nothing was answered in a sweep of %.1f s with %d virtual users: %s", r.Seconds(), vus, cmp.Or(r.Failures(), "every request was still under way"))
		default:
			length = min(2*length, m.base.Timeout)
			continue
		}
		if cold {
			warmup, cold = m.base.Warmup, false
			continue
		}
		rate, err = m.guess(r, vus)
		return m.takes(r, fewer), rate, began, err
	}
}

// learned is what an iteration takes alone, after a sweep that kept the system idle.
func (m *trialRun) learned(idle *load.Result) time.Duration {
	took := time.Duration(idle.Response.P50 * float64(time.Millisecond))
	if idle.Requests < tellingAnswers {
		return max(took, m.alone)
	}
	return took
}

// sweepLength is how long a sweep lasts of what takes so long alone: enough for three answers of
// each user, and for as many iterations as the search's highest rate allows.
func (m *trialRun) sweepLength(takes time.Duration) time.Duration {
	begin := time.Duration(sweepAnswers / m.search.MaxRate * float64(time.Second))
	return max(m.search.Budget/sweepShare, begin, min(sweepAnswers*takes, m.base.Timeout))
}

// busy is how many users, up to most, the search's highest rate keeps busy, by Little's law.
func (m *trialRun) busy(most int) int {
	return int(min(math.Ceil(m.search.MaxRate*m.alone.Seconds()), float64(most)))
}

// sweeping is what a sweep is to whoever looks on.
func sweeping(warmup time.Duration, vus int) string {
	if warmup > 0 {
		return fmt.Sprintf("warming up for %v, then sweeping, with %d virtual users", warmup, vus)
	}
	return fmt.Sprintf("sweeping with %d virtual users", vus)
}

// guess is how many good iterations a second came of a sweep.
func (m *trialRun) guess(r *load.Result, vus int) (rate float64, err error) {
	rate, reason := swept(r, m.slo())
	m.record(archive.Sweep, capacity.Try{Rate: r.IterationRate(), Held: reason == "", Reason: reason}, r)
	if rate == 0 && m.alone > 0 {
		rate = 1 / m.alone.Seconds() // it answers one user at least
	}
	if rate == 0 {
		return 0, fmt.Errorf("every answer in a sweep of %.1f s with %d virtual users was a failure: %s", r.Seconds(), vus, r.Failures())
	}
	return rate, nil
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
