package load

import (
	"fmt"

	"loadstone/lab/load/failure"
)

// Where the generator begins to be what is measured.
const (
	// lateMuch is the share of requests sent late (see Late) that a generator
	// with time to spare does not reach, bursts of the schedule included.
	lateMuch = 0.01
	// lateLeast is how many it takes: one hiccup of the machine is none.
	lateLeast = 5
	// busyMuch is the share of an event loop's time, or of the machine's, that
	// leaves too little for bursts.
	busyMuch = 0.9
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
	g := &r.Generator
	late := float64(r.Late) / float64(max(r.Offered, 1))
	add(late > lateMuch && r.Late >= lateLeast, "the load generator sent %.1f %% of the requests more than %d ms late although a virtual user was free", 100*late, LateAfter.Milliseconds())
	add(g.Working > busyMuch, "an event loop of the load generator was at work %.0f %% of the time: give it more threads, or a faster machine", 100*g.Working)
	add(g.Cores > 0 && g.Busy > busyMuch*float64(g.Cores), "the load generator used %.2f of the machine's %d cores", g.Busy, g.Cores)
	n := r.Errors[failure.PortExhausted.String()].Count
	add(n > 0, "%d requests found no local port or file descriptor left: give the load generator more addresses, or a higher limit", n)
	add(r.Dropped > 0, "%d of %d arrivals were dropped, because no virtual user or connection came free within the timeout: how long they would have taken is not known", r.Dropped, r.Offered)
	return why
}
