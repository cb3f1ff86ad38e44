package runner

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"loadstone/block/pause"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
)

// An entry service that is ready need not be what answers: a proxy accepts connections
// while the service behind it still starts. So before a trial measures, one virtual user
// asks until it is answered as the load expects.
const (
	// answersWithin is how long that may take, and refusedWithin how long if all answers
	// say that the request is wrong (4xx), which time does not mend.
	answersWithin = 30 * time.Second
	refusedWithin = 5 * time.Second
	// partlyWithin is how long all of an iteration may take to be right, if some of it is.
	partlyWithin = 10 * time.Second

	firstAnswerPause = 100 * time.Millisecond
	lastAnswerPause  = time.Second
)

// awaitAnswers waits until the load is answered as it expects. Its error says what was
// answered instead.
func (m *trialRun) awaitAnswers(ctx context.Context) error {
	p, ok := m.asking()
	if !ok {
		return nil
	}
	m.Events.doingf("waiting until %s answers as the load expects", m.Experiment.Entry)
	began := time.Now()
	for wait := firstAnswerPause; ; wait = min(2*wait, lastAnswerPause) {
		p.Seed++ // other values
		r, took, err := m.ask(ctx, p)
		after := time.Since(began)
		switch {
		case err != nil && p.Setup != nil && after < answersWithin && ctx.Err() == nil:
			// what the load begins with was not answered yet
		case err != nil:
			return fmt.Errorf("ask %s before the load: %w", m.Experiment.Entry, err)
		case allRight(&r):
			m.alone = took
			return m.askAgain(ctx, p)
		case r.Requests > r.Failed && after >= partlyWithin:
			m.trial.Warnings = append(m.trial.Warnings, fmt.Sprintf("for %v before the load, not all requests of an iteration were answered as it expects: %s", partlyWithin, r.Failures()))
			return nil
		case after >= answersWithin, after >= refusedWithin && onlyRefused(&r):
			return fmt.Errorf("%s does not answer as the load expects, %.0f s after it was ready: %s; see its log, correct the request, or write the statuses that are right in expectedStatuses",
				m.Experiment.Entry, after.Seconds(), r.Failures())
		}
		if !pause.For(ctx, wait) {
			return context.Cause(ctx)
		}
	}
}

// ask has the generator carry out a plan of asking, and says how long an iteration took.
func (m *trialRun) ask(ctx context.Context, p load.Plan) (r load.Result, took time.Duration, err error) {
	began := time.Now()
	r, err = m.generator.Run(ctx, p, nil)
	took = time.Since(began) / time.Duration(len(p.Scenarios))
	if r.Requests == 1 { // without what the load begins with
		took = min(took, time.Duration(r.Response.P50*float64(time.Millisecond)))
	}
	return r, took, err
}

// askAgain asks what answered slowly three times more, and takes the slowest of these for what it
// takes alone: the first answer may have been slow because nothing was connected, compiled or
// cached, and one alone may be quick by chance. What is quick is not asked again, nor is what
// takes more than that request: a setup, or a journey, of which nothing depends on what it takes alone.
func (m *trialRun) askAgain(ctx context.Context, p load.Plan) error {
	if m.Experiment.Measure != experiment.Capacity || p.Setup != nil || !m.base.Scenarios[0].OneRequest() || sweepers(m.alone, m.search.Budget/sweepShare) == sweepVUs {
		return nil
	}
	slowest := time.Duration(0)
	for range 3 {
		p.Seed++
		r, took, err := m.ask(ctx, p)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("ask %s before the load: %w", m.Experiment.Entry, err)
		}
		if err != nil || !allRight(&r) {
			return nil //nolint:nilerr // the first answer stands
		}
		slowest = max(slowest, took)
	}
	m.alone = slowest
	return nil
}

// asking is a plan of one iteration of each scenario, without its pauses. ok is false if
// nothing can be asked without changing what is to be measured: of a load as written that
// is what has an effect, which would come twice.
func (m *trialRun) asking() (p load.Plan, ok bool) {
	p = m.base
	if p.Setup != nil && m.Experiment.Measure != experiment.Capacity {
		return p, false
	}
	p.Warmup, p.StopOnOverload, p.Explain, p.Scenarios = 0, false, true, nil
	for _, s := range m.base.Scenarios {
		if len(s.Steps) == 0 || s.WebSocket != nil || m.Experiment.Measure != experiment.Capacity && !onlyReads(s.Steps) {
			continue
		}
		s.Executor, s.VUs, s.Iterations, s.Stages = load.SharedIterations, 1, 1, nil
		s.StartTime, s.Duration, s.GracefulStop = 0, p.Timeout, leastDrain
		s.Steps = slices.Clone(s.Steps)
		for i := range s.Steps {
			s.Steps[i].Think = [2]time.Duration{}
		}
		p.Scenarios = append(p.Scenarios, s)
	}
	p.Seed = m.seed() + 1<<63 // which no piece of the load has
	return p, len(p.Scenarios) > 0
}

func onlyReads(steps []load.Step) bool {
	return !slices.ContainsFunc(steps, func(s load.Step) bool {
		return !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, s.Request.Method)
	})
}

// allRight says whether something was asked, and all of it answered as the load expects.
func allRight(r *load.Result) bool {
	return r.Requests > 0 && r.Failed == 0 && !brokeOff(r)
}

func brokeOff(r *load.Result) bool {
	return slices.ContainsFunc(r.Journeys, func(j load.JourneyResult) bool { return j.BrokenOff > 0 })
}

// onlyRefused says whether all that was answered says that the request is wrong.
func onlyRefused(r *load.Result) bool {
	const client, server = 400, 500
	for status := range r.Status {
		if status < client || status >= server {
			return false
		}
	}
	return len(r.Status) > 0 && len(r.Errors) == 0
}
