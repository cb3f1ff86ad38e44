package load

import (
	"fmt"
	"time"

	"loadstone/lab/load/failure"
)

// LateAfter is how much later than intended a request may be sent before it
// counts as late.
const LateAfter = 5 * time.Millisecond

// The bounds beyond which the generator, or what it shares with the system, is what was
// measured. Whoever judges a measurement asks Validity, and none of these.
const (
	// LateLimit is the share of the arrivals of schedules that may be sent late by the
	// generator's own doing. A generator with time to spare does not reach it, bursts of
	// the schedule included. It is also the share of scheduler periods in which a quota may
	// stop the generator: what is due in such a period may be late.
	LateLimit = 0.01
	// minLate is how many arrivals it takes besides: a few may be one hiccup of the
	// machine.
	minLate = 5
	// BusyLimit is the share of an event loop's time, or of the machine's cores, that
	// leaves the generator too little for bursts.
	BusyLimit = 0.9
	// FullMachine is the share of the machine's cores in use, by whomever, at which
	// nothing can be told from the machine itself.
	FullMachine = 0.97
)

// Reason is one why a measurement is a lower bound only.
type Reason struct {
	Text string
	// Shared says that the limit was one that the system may share with the generator:
	// the machine, or the quota of both. Else it was the generator's own.
	Shared bool
}

// Validity says whether the measurement itself was the limit: nothing if it was
// not, else a reason each with its figures. Then what was measured is a lower
// bound only: the system might have done better under a generator that could
// offer more, and it might have looked worse.
//
// Arrivals that were dropped because every virtual user waited for the system for as long
// as a request may take are the system's doing, or that of the plan's cap, and no reason.
func (r *Result) Validity() []Reason {
	var why []Reason
	add := func(is, shared bool, format string, args ...any) {
		if is {
			why = append(why, Reason{fmt.Sprintf(format, args...), shared})
		}
	}
	for i := range r.Parts {
		for _, reason := range r.Parts[i].Validity() {
			why = append(why, Reason{fmt.Sprintf("generator %d: %s", i+1, reason.Text), reason.Shared})
		}
	}
	if len(r.Parts) > 0 {
		return why
	}
	g, late := &r.Generator, r.LateShare()
	add(late > LateLimit && r.Late+r.DroppedLate >= minLate, false, "the load generator sent %.1f %% of the requests more than %d ms late although a virtual user was free", 100*late, LateAfter.Milliseconds())
	add(r.DroppedLate > 0, false, "the load generator dropped %d arrivals although a virtual user was free", r.DroppedLate)
	add(g.Working > BusyLimit, false, "an event loop of the load generator was at work %.0f %% of the time: give it more threads, or a faster machine", 100*g.Working)
	add(g.Cores > 0 && g.Busy > BusyLimit*float64(g.Cores), false, "the load generator used %.2f of the machine's %d cores", g.Busy, g.Cores)
	n := r.Errors[failure.PortExhausted.String()].Count
	add(n > 0, false, "%d requests of the load generator found no local port or file descriptor left: give it more addresses, or a higher limit", n)
	add(g.MachineBusy >= FullMachine, true, "the machine was full: all its cores were in use for %.0f %% of the time, by the load generator and whatever else ran on it", 100*g.MachineBusy)
	add(g.Throttled > LateLimit, true, "the load generator was stopped in %.0f %% of the scheduler's periods, because the CPU quota of its control group was used up", 100*g.Throttled)
	return why
}

// LateShare is the share of the arrivals of schedules that the generator sent late, or
// dropped by its own doing; of several generators that of the worst.
func (r *Result) LateShare() float64 {
	var worst float64
	for i := range r.Parts {
		worst = max(worst, r.Parts[i].LateShare())
	}
	if len(r.Parts) > 0 {
		return worst
	}
	all := r.Scheduled
	if all == 0 {
		all = r.Offered // by a version that did not tell them apart
	}
	return float64(r.Late+r.DroppedLate) / float64(max(all, 1))
}
