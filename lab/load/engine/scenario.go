package engine

import (
	"sync/atomic"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/feed"
	"loadstone/lab/load/seed"
)

// scenario is one HTTP scenario of a run, over all event loops.
type scenario struct {
	spec    *load.Scenario
	run     *run
	scripts []*script // by target

	busy     atomic.Int64 // open: users that have an iteration; closed: users at work
	thinking atomic.Int64 // of them, those between requests
	mostBusy atomic.Int64 // at once, in the measured part
	caches   cacheTotals

	// Open model: its lanes share the users that there may be; see openLane.
	open []*openLane
	made atomic.Int64 // users, of all lanes

	// And a walk through the schedule that belongs to the observer.
	due      schedule
	dueSoFar uint64

	// Closed model.
	ramp    load.UserRamp
	numbers atomic.Uint64 // iterations begun
}

// newScenario prepares a scenario and gives each loop its part.
func newScenario(s *load.Scenario, r *run, ids *stepIDs) (*scenario, error) {
	feeds, err := feed.Open(r.plan.Seed, s.Name, s.Feed)
	if err != nil {
		return nil, InputError{err}
	}
	sc := &scenario{spec: s, run: r}
	for i := range r.targets {
		script, err := compile(s, r, feeds, r.targets[i].base, ids)
		if err != nil {
			return nil, InputError{err}
		}
		sc.scripts = append(sc.scripts, script)
	}
	if s.Open() {
		if sc.due, err = r.newSchedule(s); err != nil {
			return nil, err
		}
	} else {
		sc.ramp = load.NewUserRamp(s)
	}
	// No more loops than there can be users, and not always the first ones.
	part := r.plan.Portion
	of := min(len(r.loops), part.Count(s.PeakVUs()))
	for i := range of {
		l := r.loops[(i+len(r.executors))%len(r.loops)]
		own := share{index: part.Index + part.Size()*i, of: part.Size() * of}
		if !s.Open() {
			l.lanes = append(l.lanes, newClosedLane(sc, l, own))
			continue
		}
		p, err := newOpenLane(sc, l, own)
		if err != nil {
			return nil, err
		}
		sc.open = append(sc.open, p)
		l.lanes = append(l.lanes, p)
	}
	return sc, nil
}

// share is which part of something an event loop has: every of-th, from index
// on.
type share struct{ index, of int }

// count is how many of n are in the share.
func (s share) count(n int) int { return max(0, (n-s.index+s.of-1)/s.of) }

// number is the number in the whole of the share's k-th.
func (s share) number(k int) int { return k*s.of + s.index }

// begun notes that one more user is busy.
func (sc *scenario) begun(now time.Duration) {
	n := sc.busy.Add(1)
	if now >= sc.run.from {
		sc.raiseMostBusy(n)
	}
}

// raiseMostBusy makes n the most users that were busy at once, if it is more.
func (sc *scenario) raiseMostBusy(n int64) {
	for most := sc.mostBusy.Load(); n > most && !sc.mostBusy.CompareAndSwap(most, n); {
		most = sc.mostBusy.Load()
	}
}

// advance returns how many arrivals of the schedule have been due by now, and
// how many users of a closed model are at work; those who think are not. Only
// the observer calls it.
func (sc *scenario) advance(now time.Duration) (due uint64, working int) {
	if sc.due == nil {
		if now >= sc.run.from {
			sc.raiseMostBusy(sc.busy.Load())
		}
		return 0, int(sc.busy.Load() - sc.thinking.Load())
	}
	for {
		a, ok := sc.due.Peek()
		if !ok || a.At > now {
			return sc.dueSoFar, -int(sc.thinking.Load())
		}
		if sc.run.plan.Portion.Has(a.Number) {
			sc.dueSoFar++
		}
		sc.due.Advance()
	}
}

// busiest returns the most users that were busy at once in the measured part.
func (sc *scenario) busiest() int { return int(sc.mostBusy.Load()) }

// schedule is when iterations of an open scenario are to begin, in order. Two
// walks with the same plan see the same arrivals.
type schedule interface {
	// Peek returns the next arrival, or false when there is none.
	Peek() (load.Arrival, bool)
	// Advance moves on to the one after it.
	Advance()
}

// newSchedule returns the schedule of an open scenario from its first arrival.
func (r *run) newSchedule(s *load.Scenario) (schedule, error) {
	if s.Executor == load.Replay {
		return r.openLog(s)
	}
	return load.NewArrivals(s, r.plan.Seed), nil
}

// scriptKey is the stream that a scenario's weights and think times are drawn
// from.
func scriptKey(plan *load.Plan, s *load.Scenario) uint64 {
	return seed.Derive(plan.Seed, s.Name, "script")
}
