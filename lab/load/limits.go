package load

import (
	"fmt"
	"time"

	"loadstone/lab/load/failure"
)

// LateAfter is how much later than intended a request may be sent before it
// counts as late.
const LateAfter = 5 * time.Millisecond

// The shares of requests sent late, by the generator's own doing, from which on
// the generator is what was measured. They differ because they decide different
// things: a warning costs nothing where it is wrong, while a failed try that is
// put down to the generator ends a search with a lower bound.
const (
	// LateInMeasurement makes a measurement a lower bound only. A generator with
	// time to spare does not reach it, bursts of the schedule included.
	LateInMeasurement = 0.01
	// minLate is how many requests it takes besides: a few may be one hiccup of
	// the machine.
	minLate = 5
	// LateInFailedTry makes a try of a rate that failed the generator's failure,
	// whatever the objective was. Where fewer were late it is the generator's
	// failure only if the objective would have been met without (see
	// capacity.NewTry).
	LateInFailedTry = 0.05
)

// The shares of time at work from which on the generator is what was measured.
const (
	// BusyLimit is the share of an event loop's time, or of the machine's cores,
	// that leaves too little for bursts and, of the machine, for anything else. A
	// measurement beyond it is a lower bound only, and a failed try the
	// generator's failure.
	BusyLimit = 0.9
	// BusyInReport is the share of an event loop's time from which on a report
	// asks the reader to look. It is lower because a report shows the median over
	// trials, and half of them are above that.
	BusyInReport = 0.8
)

// Validity says whether the measurement itself was the limit: nothing if it was
// not, else a reason each with its figures. Then what was measured is a lower
// bound only: the system might have done better under a generator that could
// offer more, and it might have looked worse.
func (r *Result) Validity() []string {
	var why []string
	add := func(is bool, format string, args ...any) {
		if is {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	for i := range r.Parts {
		for _, reason := range r.Parts[i].Validity() {
			why = append(why, fmt.Sprintf("generator %d: %s", i+1, reason))
		}
	}
	if len(r.Parts) > 0 {
		add(r.Dropped > 0, dropped, r.Dropped, r.Offered)
		return why
	}
	g, late := &r.Generator, r.LateShare()
	add(late > LateInMeasurement && r.Late >= minLate, "the load generator sent %.1f %% of the requests more than %d ms late although a virtual user was free", 100*late, LateAfter.Milliseconds())
	add(g.Working > BusyLimit, "an event loop of the load generator was at work %.0f %% of the time: give it more threads, or a faster machine", 100*g.Working)
	add(g.Cores > 0 && g.Busy > BusyLimit*float64(g.Cores), "the load generator used %.2f of the machine's %d cores", g.Busy, g.Cores)
	n := r.Errors[failure.PortExhausted.String()].Count
	add(n > 0, "%d requests found no local port or file descriptor left: give the load generator more addresses, or a higher limit", n)
	add(r.Dropped > 0, dropped, r.Dropped, r.Offered)
	return why
}

const dropped = "%d of %d arrivals were dropped, because no virtual user or connection came free within the timeout: how long they would have taken is not known"

// LateShare is the share of what was offered that was sent late; of several generators
// that of the worst.
func (r *Result) LateShare() float64 {
	var worst float64
	for i := range r.Parts {
		worst = max(worst, r.Parts[i].LateShare())
	}
	if len(r.Parts) > 0 {
		return worst
	}
	return float64(r.Late) / float64(max(r.Offered, 1))
}
