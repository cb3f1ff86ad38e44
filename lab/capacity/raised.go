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
	enough, few := split(r, outcomes)
	reasons := raisedFailures(r, enough)
	if len(reasons) == 0 && few != "" {
		return undecided(unit, amount, r, few)
	}
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
	inIterations(amount, r)
	return t
}

// undecided is a try that says nothing about the system, for that reason.
func undecided(unit string, amount float64, r *load.Result, reason string) Try {
	inIterations(amount, r)
	return Try{Rate: amount, Unit: unit, GeneratorLimited: true, Reason: reason}
}

// inIterations completes r with what an amount is in iterations.
func inIterations(amount float64, r *load.Result) {
	done := uint64(amount * r.Seconds())
	r.Offered, r.Iterations, r.IterationsInTime = done, done, done
}

// split returns the objectives that there was enough for to judge them, and of what there was
// too little for one of the others; empty if there is none.
func split(r *load.Result, outcomes []threshold.Outcome) (enough []threshold.Outcome, few string) {
	for _, o := range outcomes {
		n, need, step := samples(r, o)
		if n >= need {
			enough = append(enough, o)
			continue
		}
		few = fmt.Sprintf("%s %s is judged by %d times or more, and the load had %d of step %s", o.Metric, o.Threshold, need, n, step)
	}
	return enough, few
}

// samples is of how many times of messages an objective on a percentile was judged, and of how
// many it has to be: as many as have one beyond it.
func samples(r *load.Result, o threshold.Outcome) (n, need uint64, step string) {
	t, err := threshold.Parse(o.Metric, o.Threshold)
	step = sent[t.Metric]
	if err != nil || step == "" || t.Aggregation != "p" || t.Percentile >= 100 {
		return 0, 0, ""
	}
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Name == step && (t.Scenario == "" || t.Scenario == s.Scenario) {
			n += s.Requests
		}
	}
	return n, beyond(t.Percentile), step
}

// MinMessages is how many messages an attempt of a search takes that narrows the bracket, at
// least: as many as requests, and ten times what the objectives on percentiles need, because the first and the
// far attempts take a tenth.
func MinMessages(objectives []threshold.Threshold) int {
	n := DefaultConfig().MinRequests
	for _, t := range objectives {
		if sent[t.Metric] != "" && t.Aggregation == "p" && t.Percentile < 100 {
			n = max(n, 10*int(beyond(t.Percentile)))
		}
	}
	return n
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
