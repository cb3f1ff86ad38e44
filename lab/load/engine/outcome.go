package engine

import (
	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

// result puts together what was recorded. Everything must have ended.
func (r *run) result() (load.Result, error) {
	t, w := &r.recorder.total.measured, &r.recorder.total.warm
	all := t.all(r.recorder.aside)
	result := load.Result{
		From:             r.clock.wall(r.from),
		To:               r.clock.wall(r.observer.ended),
		Offered:          t.iterations + t.dropped,
		Iterations:       t.iterations,
		Requests:         all.requests,
		Failed:           all.failed,
		Dropped:          t.dropped,
		DroppedLate:      t.droppedLate,
		Scheduled:        t.arrivals,
		Waited:           t.waited,
		Late:             t.late,
		IterationsInTime: t.iterationsInTime + w.iterationsInTime,
		CompletedInTime:  t.requestsInTime + w.requestsInTime,
		Sent:             t.wrote + all.wrote,
		Received:         t.got + all.got,
		Status:           all.statuses(),
		Errors:           map[string]load.ErrorCount{},
		Refusals:         t.refusals,
		MaxInFlight:      r.observer.most,
		InFlight:         r.observer.fit.Trend(load.TrendConfidence),
		Generator:        r.observer.usage,
		Aborted:          r.observer.why,
		WebSocket:        r.socketStats(),
		Notes:            r.notes,
	}
	for _, e := range r.executors {
		result.MaxInFlight = max(result.MaxInFlight, e.busiest())
	}
	for kind, count := range t.failures {
		if count.Count > 0 {
			result.Errors[failure.Kind(kind).String()] = count
		}
	}
	result.Generator.Lateness = t.latenessOf()
	var err error
	if result.Response, err = load.NewLatency(all.response); err != nil {
		return load.Result{}, err
	}
	if result.Service, err = load.NewLatency(all.service); err != nil {
		return load.Result{}, err
	}
	return result, r.details(&result)
}

// details adds what there is about each step and check.
func (r *run) details(result *load.Result) error {
	t := &r.recorder.total.measured
	for i := range r.plan.Scenarios {
		s := &r.plan.Scenarios[i]
		for k, name := range s.StepNames() {
			step, err := t.steps[r.ids[i].steps[k]].result(s.Name, name)
			if err != nil {
				return err
			}
			of := s.WebSocket != nil && (name == load.StepSession || name == load.StepRefused)
			if step.Requests == 0 && (s.Executor == load.Replay || of) {
				continue // the log has none of this method; nobody was thrown out, or refused
			}
			step.GRPC = k < len(s.Steps) && s.Steps[k].Request.GRPC
			result.Steps = append(result.Steps, step)
		}
		if r.timed(i) {
			journey, err := r.trip(t, i).result(s.Name)
			if err != nil {
				return err
			}
			result.Journeys = append(result.Journeys, journey)
		}
		if s.CacheBytes > 0 {
			c, held := t.trips[r.ids[i].trip].cache, &r.executors[i].(*scenario).caches
			result.Caches = append(result.Caches, load.CacheResult{
				Scenario: s.Name, Hits: c.hits, Revalidations: c.revalidated, Fetched: c.fetched,
				HeldBytes: held.size.Load(), LargestBytes: held.largest.Load(),
			})
		}
		if err := r.answers(t, i, result); err != nil {
			return err
		}
	}
	return nil
}

// answers adds what there is about the answers of scenario number i: values and checks.
func (r *run) answers(t *sums, i int, result *load.Result) error {
	s := &r.plan.Scenarios[i]
	for k := range s.Steps {
		values, err := r.values(t, i, k)
		if err != nil {
			return err
		}
		result.Values = append(result.Values, values...)
		for c, check := range s.Steps[k].Checks {
			p := t.checks[r.ids[i].checks[k][c]]
			result.Checks = append(result.Checks, load.CheckResult{
				Scenario: s.Name, Step: s.Steps[k].Name, Name: check.Name, Passes: p.passed, Fails: p.failed,
			})
		}
	}
	return nil
}

// result is a step's part of a Result.
func (t *tally) result(scenario, name string) (load.StepResult, error) {
	r := load.StepResult{Scenario: scenario, Name: name, Requests: t.requests, Failed: t.failed, Sent: t.wrote, Received: t.got, Status: t.statuses()}
	response, service := t.response, t.service
	if response == nil {
		response, service = load.NewHistogram(), load.NewHistogram()
	}
	var err error
	if r.Response, err = load.NewLatency(response); err != nil {
		return r, err
	}
	r.Service, err = load.NewLatency(service)
	return r, err
}

// timed says whether the iterations of scenario number i are in a result by themselves.
func (r *run) timed(i int) bool {
	return r.recorder.trips > 0 && r.plan.Scenarios[i].WebSocket == nil
}

// trip adds up the iterations of scenario number i. Where they are requests these have
// been timed.
func (r *run) trip(of *sums, i int) *trip {
	sum, ids := &trip{}, r.ids[i]
	if ids.trip != noTrip {
		sum.merge(&of.trips[ids.trip])
		return sum
	}
	for _, at := range ids.steps {
		step := &of.steps[at]
		sum.merge(&trip{iterations: step.requests, broken: uint64(step.status[0]), duration: step.response})
	}
	return sum
}

// result is a scenario's iterations in a Result.
func (t *trip) result(scenario string) (load.JourneyResult, error) {
	duration := t.duration
	if duration == nil {
		duration = load.NewHistogram()
	}
	latency, err := load.NewLatency(duration)
	return load.JourneyResult{Scenario: scenario, Iterations: t.iterations, BrokenOff: t.broken, Duration: latency}, err
}

// statuses returns the counts of the statuses that there were.
func (t *tally) statuses() map[int]uint64 {
	out := map[int]uint64{}
	for status, n := range t.status {
		if n > 0 && status > 0 {
			out[status] = uint64(n)
		}
	}
	return out
}
