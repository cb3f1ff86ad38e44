package runner

import (
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
)

// plan lays out the trials: every variant once per round, in an order that
// moves on by one each round (A B C, B C A, …), so that slow drift of the
// machine falls on all variants alike.
func plan(variants []string, rounds int) []archive.Planned {
	var out []archive.Planned
	for r := range rounds {
		for i := range variants {
			out = append(out, archive.Planned{Index: len(out) + 1, Round: r + 1, Variant: variants[(i+r)%len(variants)]})
		}
	}
	return out
}

// The shares of a search's budget that the closed sweep and each try's warm-up
// take. Starting a try costs a moment until its arrivals are in their stride.
const (
	sweepShare  = 7 // a seventh
	warmupShare = 6 // of the try's own time, at most maxWarmup
	maxWarmup   = 300 * time.Millisecond
	sweepVUs    = 64
	leastDrain  = time.Second
	drainPerSLO = 2
)

// sweep is closed load: so many virtual users that the system is never idle.
// Its throughput is about what the system sustains, so the search starts there;
// it also warms up what is to be measured, for a third of its time and for the
// warm-up that the experiment asks for, which comes on top.
func sweep(base load.Plan, s load.Scenario, budget time.Duration) load.Plan {
	d := budget / sweepShare
	s.Executor, s.VUs, s.Stages = load.ConstantVUs, sweepVUs, nil
	s.Duration, s.StartTime, s.GracefulStop = base.Warmup+d, 0, leastDrain
	base.Scenarios, base.Warmup = []load.Scenario{s}, base.Warmup+d/3
	return base
}

// try is open load at a constant rate.
func try(base load.Plan, s load.Scenario, step capacity.Step, drain time.Duration) load.Plan {
	warmup := min(maxWarmup, step.Duration/warmupShare)
	s.Executor, s.Rate, s.Stages = load.ConstantArrivalRate, step.Rate, nil
	s.Duration, s.StartTime, s.GracefulStop = warmup+step.Duration, 0, drain
	base.Scenarios, base.Warmup, base.StopOnOverload = []load.Scenario{s}, warmup, true
	return base
}

// drain is how long iterations under way at the end of a try may take: for each
// request twice the largest latency that the objectives mention, so that none
// is cut off which they could still tell apart.
func drain(slo experiment.SLO, s load.Scenario, timeout time.Duration) time.Duration {
	each := min(max(leastDrain, drainPerSLO*slo.LongestWait()), timeout)
	if s.Weighted {
		return each
	}
	return each * time.Duration(max(len(s.Steps), 1))
}
