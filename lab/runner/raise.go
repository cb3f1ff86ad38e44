package runner

import (
	"context"
	"math"
	"time"

	"loadstone/lab/capacity"
	"loadstone/lab/experiment"
	"loadstone/lab/format"
	"loadstone/lab/load"
)

// raise searches how many connections, messages a second or rooms are held. Each attempt
// connects its clients anew: a server's memory of those before is not in what is measured,
// and the connecting is.
func (m *trialRun) raise(ctx context.Context, scenario load.Scenario, raised experiment.Raised) error {
	search, unit := m.search, raised.Unit()
	search.MaxRate, search.MinRequests, search.Whole = raised.Most, 1, raised.What != experiment.Messages
	search.Enough = 0
	if each := raised.Messages(&scenario); each > 0 { // MinRequests is in what rises, a second
		search.MinRequests = int(math.Ceil(float64(capacity.MinMessages(m.slo().Thresholds())) / each))
	}
	spent := time.Duration(0)                                             // measuring: what many clients take to connect is not what the budget is for
	wait := max(drain(m.slo(), scenario, m.base.Timeout), m.base.Timeout) // what is late is lost, and not cut off
	warmup := m.base.Warmup
	from := capacity.Start(raised.From, m.Experiment.Seed, m.trial.Index)
	var history []capacity.Try
	over := false // the search
	for {
		step, ok := search.Next(history, spent, from)
		if over = over || !ok; over {
			step, ok = capacity.NextHold(history, m.Experiment.Search.Hold)
		}
		if !ok {
			return nil
		}
		s, amount := raised.At(scenario, step.Rate)
		m.Events.doingf("%s %s %s", doing(step), format.Rounded(amount), unit)
		r, outcomes, err := m.offer(ctx, string(step.Purpose), m.held(s, warmup+raised.Settle(&s), step.Duration, wait), m.slo())
		if err != nil {
			return err
		}
		warmup = 0 // the system is warm
		spent += step.Duration
		t := capacity.NewRaisedTry(unit, amount, r, outcomes)
		t.Purpose = step.Purpose
		history = append(history, t)
		m.record(string(step.Purpose), t, r)
	}
}

// held is an attempt: all clients connect in its warm-up, and stay.
func (m *trialRun) held(s load.Scenario, warmup, measured, drain time.Duration) load.Plan {
	s.Duration, s.StartTime, s.GracefulStop = warmup+measured, 0, drain
	p := m.base
	p.Scenarios, p.Warmup = []load.Scenario{s}, warmup
	return p
}
