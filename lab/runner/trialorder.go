package runner

import (
	"math"
	"math/rand/v2"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
)

// plan lays out the trials: every variant once per round, in an order that the seed
// draws for each round by itself. The tests of a comparison take that equals could change
// places within a round (see lab/stats), which a fixed order makes untrue: what follows
// another variant, or the start of a round, would always be the same one.
func plan(variants []string, rounds int, seed uint64) []archive.Planned {
	var out []archive.Planned
	draw := rand.New(rand.NewPCG(seed, trialOrder))
	for r := range rounds {
		for _, i := range draw.Perm(len(variants)) {
			out = append(out, archive.Planned{Index: len(out) + 1, Round: r + 1, Variant: variants[i]})
		}
	}
	return out
}

// trialOrder is the stream of the seed from which orders are drawn.
const trialOrder = 0x6f72646572

// The shares of a search's budget that the closed sweep and each try's warm-up
// take. Starting a try costs a moment until its arrivals are in their stride.
const (
	sweepShare  = 7 // a seventh
	warmupShare = 6 // of the try's own time, at most maxWarmup
	maxWarmup   = 300 * time.Millisecond
	// The virtual users of a sweep: as many as keep a system busy that answers within a
	// search's sweepShare/sweepVUs; of a slower one as many as it answers one after the other
	// within a sweep, but leastVUs. More would only leave it a queue that outlasts the sweep. It
	// gets more, up to mostSweepVUs, while they keep it idle.
	sweepVUs, leastVUs, mostSweepVUs = 64, 4, 1024
	// sweepAnswers is how many times one after the other each of them is answered, so that how
	// long an answer takes, and their number, rest on more than chance.
	sweepAnswers = 3
	// idleBelow is how many times as long as with fewer users an iteration takes where a sweep
	// keeps no part of the system busy. A queue of four times the users takes four times as
	// long. With so few users as leastVUs chance is large, and to take an idle system for a busy
	// one is the worse mistake: the search starts far too low.
	idleBelow = 3
	// tellingAnswers is of how many answers the median tells that one alone takes less than was
	// thought: of four that vary it is a sixth of the mean by chance.
	tellingAnswers = 20
	// mostRefused is what share, one of so many, of a sweep's requests may have failed where it
	// kept the system idle.
	mostRefused = 10
	// mostWarmup bounds how long a try waits for slow answers before it measures, and how much
	// longer it measures for them.
	mostWarmup  = 5 * time.Second
	leastDrain  = time.Second
	drainPerSLO = 2
	mostDrain   = time.Minute // of iterations of which the objectives say nothing, without their pauses
)

// sweep is closed load: so many virtual users that the system is never idle.
// Its throughput is about what the system sustains, so the search starts there;
// it also warms up what is to be measured, for a third of its time and for the
// warm-up that the experiment asks for, which comes on top.
func sweep(base load.Plan, s load.Scenario, vus int, d, drain time.Duration) load.Plan {
	s.Executor, s.VUs, s.Stages = load.ConstantVUs, vus, nil
	s.Duration, s.StartTime, s.GracefulStop = base.Warmup+d, 0, drain
	base.Scenarios, base.Warmup = []load.Scenario{s}, base.Warmup+d/3
	return base
}

// sweepers is how many virtual users a sweep of such a length has, where an iteration takes
// alone with nothing else under way; 0 if that is not known.
func sweepers(alone, length time.Duration) int {
	if alone <= 0 {
		return sweepVUs
	}
	return int(min(max(length/alone, leastVUs), sweepVUs))
}

// try is open load at a constant rate. An iteration takes lasting: until the first have
// ended, work in flight rises at any rate, and that is no backlog; and of a system that works
// on many at a time a backlog shows only after as long again. So the warm-up takes as long, and
// the try no less.
func try(base load.Plan, s load.Scenario, step capacity.Step, drain, lasting time.Duration) load.Plan {
	lasting = min(lasting, mostWarmup)
	warmup, measured := max(usualWarmup(step), lasting), capacity.Whole(max(step.Duration, lasting))
	s.Executor, s.Rate, s.Stages = load.ConstantArrivalRate, step.Rate, nil
	s.Duration, s.StartTime, s.GracefulStop = warmup+measured, 0, drain
	base.Scenarios, base.Warmup, base.StopOnOverload = []load.Scenario{s}, warmup, true
	return base
}

// The least that a stratum of a try's arrivals has of each. In shorter ones they would come more
// evenly than those of many users do; if none were, a try of half a second would offer a tenth
// more or less than its rate. See ADR 031.
const (
	strataArrivals = 25
	strataTime     = 250 * time.Millisecond
	strataTakes    = 10 // iterations one after the other: how many are under way at once is left to chance
)

// stratify has a try's arrivals come in strata, of which a whole number fills what is measured: one
// at least, where an iteration takes so long at low load that they would outlast it. What is held for long is
// left to chance, as it will be.
func stratify(p load.Plan, purpose capacity.Purpose, takes time.Duration) {
	s := &p.Scenarios[0]
	if purpose == capacity.Hold || s.Arrivals != load.Poisson {
		return
	}
	measured := s.Rate * (s.Duration - p.Warmup).Seconds()
	each := max(strataArrivals, s.Rate*max(strataTime, strataTakes*takes).Seconds())
	s.Stratum = max(1, int(math.Round(measured/max(1, math.Floor(measured/each)))))
	s.FirstStratum = int(math.Round(s.Rate*p.Warmup.Seconds())) % s.Stratum
}

// usualWarmup is how long a try warms up where answers are quick.
func usualWarmup(step capacity.Step) time.Duration { return min(maxWarmup, step.Duration/warmupShare) }

// slower is how much of the time that a try took came of slow answers: of its warm-up, of what
// it measured for longer, and of the wait for the last answers. No search's budget is for that.
func slower(step capacity.Step, lasting time.Duration, r *load.Result, took time.Duration) time.Duration {
	usual, lasting := usualWarmup(step), min(lasting, mostWarmup)
	if lasting <= usual {
		return 0
	}
	measured := r.To.Sub(r.From) // less than planned where it ended early
	return lasting - usual + max(measured-step.Duration, 0) + min(max(took-lasting-measured, 0), lasting)
}

// lasting is how long nearly all iterations took.
func lasting(r *load.Result) time.Duration {
	ms := r.Response.P95
	if len(r.Journeys) > 0 {
		ms = r.Journeys[0].Duration.P95
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// drain is how long iterations under way at the end of a try may take: twice the largest
// duration that the objectives mention, so that none is cut off which they could still
// tell apart. If they mention none of iterations it is that of a request, for each that
// is made in turn, and what an iteration pauses: users that think are not the system's
// doing, and what they ask for after that is to be answered too.
func drain(slo experiment.SLO, s load.Scenario, timeout time.Duration) time.Duration {
	each := min(max(leastDrain, drainPerSLO*slo.LongestWait()), timeout)
	whole := drainPerSLO * slo.LongestIteration()
	switch {
	case s.OneRequest():
		return max(each, min(whole, timeout))
	case whole > 0:
		return max(each, whole)
	}
	return min(each*time.Duration(s.InTurn()), max(each, mostDrain)) + s.Pauses()
}
