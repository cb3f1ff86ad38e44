package capacity

import (
	"fmt"
	"math"
	"strings"

	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

// NewRaisedTry says whether so many connections, messages a second or rooms were held, of
// WebSocket clients: they were really there, none was dropped, and the objectives were met.
// A backlog is not looked for: a delivery that waits behind others is late, and lost in the end.
// r is completed with what that is in iterations, so that costs can be had of it: an
// iteration is a connection's, or a room's, second, or a message. The Try has no Purpose yet.
func NewRaisedTry(unit string, amount float64, r *load.Result, outcomes []threshold.Outcome) Try {
	reasons := raisedFailures(r, outcomes)
	t := Try{Rate: amount, Unit: unit, Held: len(reasons) == 0, Reason: strings.Join(reasons, "; ")}
	limit := ""
	if strings.HasSuffix(unit, "/s") && t.Held { // who is not let in sends nothing either
		limit = underSent(amount, r)
	}
	t.Held = t.Held && limit == ""
	if limit == "" {
		limit = generatorLimit(r, outcomes)
	}
	if !t.Held && limit != "" {
		t.GeneratorLimited, t.Reason = true, limit
	}
	done := uint64(amount * r.Seconds())
	r.Late = uint64(r.LateShare() * float64(done))
	r.Offered, r.Iterations, r.IterationsInTime = done, done, done
	return t
}

// underSent says that fewer messages were to be sent than was asked for, by more than chance
// explains; empty if enough were.
func underSent(amount float64, r *load.Result) string {
	if r.WebSocket == nil {
		return ""
	}
	wanted, sent := amount*r.Seconds(), float64(r.WebSocket.Sent+r.Dropped)
	if sent >= (1-backlogLimit)*wanted-chance*math.Sqrt(wanted) {
		return ""
	}
	return fmt.Sprintf("the load generator sent %.4g messages a second in place of %.4g", sent/r.Seconds(), amount)
}

// raisedFailures says why it was not held; nothing if it was.
func raisedFailures(r *load.Result, outcomes []threshold.Outcome) []string {
	w := r.WebSocket
	switch {
	case r.Aborted != "":
		return []string{r.Aborted}
	case w == nil || w.Connects == 0:
		return []string{"nobody could connect"}
	}
	var reasons []string
	if float64(w.LeastOpen) < (1-backlogLimit)*float64(w.Clients) {
		reasons = append(reasons, fmt.Sprintf("%d of %d clients were connected at the fewest", w.LeastOpen, w.Clients))
	}
	if all := w.Sent + r.Dropped; float64(r.Dropped) > droppedLimit*float64(all) {
		reasons = append(reasons, fmt.Sprintf("%d of %d messages could not be sent", r.Dropped, all))
	}
	if all := w.Acked + w.Refused; float64(w.Refused) > droppedLimit*float64(all) {
		reasons = append(reasons, fmt.Sprintf("%d of %d messages were not accepted", w.Refused, all))
	}
	for _, o := range outcomes {
		if !o.Met {
			reasons = append(reasons, missedObjective(o))
		}
	}
	return reasons
}
