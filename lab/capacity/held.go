package capacity

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

// What may be missing from a rate that is held all the same. The limits of the
// generator are package load's.
const (
	// backlogLimit is the share of the offered requests by which a backlog may
	// grow during a try, and by which what was offered may fall short of the
	// rate: the resolution of the search.
	backlogLimit = 0.05
	// droppedLimit is the share of the arrivals that may find nobody to send them
	// within the timeout, and of iterations of several requests that may break off. The
	// system did not carry these, no latency shows it, and of the requests of a long
	// iteration one that fails is too few for an objective.
	droppedLimit = 0.01
	// chance is how many standard deviations of a Poisson count are chance, where nothing
	// tells how much less it may be.
	chance = 3
	// unseen is how many of them may be missing from a try that is too short for a trend: as a search is
	// to err upwards as often as downwards, and not by a third in a hundred requests.
	unseen = 1
	// someWaiting is the backlog that says something, however few requests there are.
	someWaiting = 3
)

// NewTry says whether a rate, in iterations per second, was held: it was really
// offered, what was offered was done, the objectives were met, and no backlog
// grew. A backlog is looked for apart from the objectives because at a rate just
// above capacity latency climbs for minutes before it crosses any threshold.
// A try that failed for the generator's sake is GeneratorLimited. The Try has no
// Purpose yet.
func NewTry(rate float64, r *load.Result, outcomes []threshold.Outcome) Try {
	reasons := failures(rate, r, outcomes)
	limit := ""
	if r.Aborted == "" {
		limit = underOffered(rate, r)
	}
	t := Try{Rate: rate, Held: len(reasons) == 0 && limit == "", Reason: strings.Join(reasons, "; ")}
	if limit == "" {
		limit = generatorLimit(r, outcomes)
	}
	if !t.Held && limit != "" {
		t.GeneratorLimited, t.Reason = true, limit
	}
	return t
}

// failures says why a rate that was offered was not held; nothing if it was.
func failures(rate float64, r *load.Result, outcomes []threshold.Outcome) []string {
	switch {
	case r.Aborted != "":
		return []string{r.Aborted}
	case r.IterationsInTime == 0:
		return []string{"nothing was answered in time"}
	}
	reasons := shortfalls(r)
	if backlogGrew(rate, r) {
		reasons = append(reasons, fmt.Sprintf("the backlog grew by %.0f a second", r.InFlight.Slope))
	}
	for _, o := range outcomes {
		if o.Met {
			continue
		}
		reason := missedObjective(o)
		if what := r.Failures(); what != "" && strings.HasPrefix(o.Metric, threshold.HTTPReqFailed) {
			reason += " (" + what + ")"
		}
		reasons = append(reasons, reason)
	}
	return reasons
}

// shortfalls says what became of arrivals that the system did not carry: they
// were dropped, or have not come back.
func shortfalls(r *load.Result) (reasons []string) {
	offered := float64(r.Offered)
	if dropped := float64(r.Dropped); dropped > droppedLimit*offered {
		reasons = append(reasons, fmt.Sprintf("%d of %d arrivals were dropped", r.Dropped, r.Offered))
	}
	for _, j := range r.Journeys {
		if broken := float64(j.BrokenOff); broken > droppedLimit*float64(j.Iterations) {
			reasons = append(reasons, fmt.Sprintf("%d of %d iterations broke off", j.BrokenOff, j.Iterations))
		}
	}
	if missing := missingRequests(r); missing > backlogLimit*offered+unseen*math.Sqrt(offered) {
		reasons = append(reasons, fmt.Sprintf("%d requests were offered and %d completed", r.Offered, r.CompletedInTime))
	}
	return reasons
}

// missingRequests is how many more requests were offered than were done in the
// measured part and than may be under way at its end, in a try too short for a
// trend. Where there is a trend it shows that as well, and is not misled by a
// hiccup at the end. What may be under way is by Little's law, with the latency
// that even a quick answer took: one in twenty was quicker. A closed model has no
// arrivals to miss, and an iteration of several requests may pause for as long as
// it likes: then it is 0.
func missingRequests(r *load.Result) float64 {
	if r.InFlight.Samples == 0 || r.InFlight.Samples >= load.MinSamples || r.Requests != r.Iterations {
		return 0
	}
	h, err := hdrhistogram.Decode([]byte(r.Response.Histogram))
	if err != nil {
		return 0 // the objectives cannot be judged either, which is an error there
	}
	quick := float64(h.ValueAtQuantile(5)) / 1e6
	return float64(r.Offered) - float64(r.CompletedInTime) - r.OfferedRate()*quick
}

// underOffered says that fewer iterations were to begin than the rate called for,
// by more than chance explains: then the rate was not tried. Only the generator
// can be why. It is empty if enough were.
func underOffered(rate float64, r *load.Result) string {
	wanted := rate * r.Seconds()
	if float64(r.Offered) >= (1-backlogLimit)*wanted-chance*math.Sqrt(wanted) {
		return ""
	}
	return fmt.Sprintf("the load generator offered %.4g a second in place of %.4g", r.OfferedRate(), rate)
}

// backlogGrew says whether the backlog grew at the rate without doubt, or by more than backlogLimit of
// what was offered, and not by chance. A short try has too few samples for the growth to be significant; but a search
// is to err as often upwards as downwards, so that a growth that counts is taken for one where
// it is more than its standard error, which is about half of what the interval reaches down.
// Without an interval a Poisson count's chance is allowed for: of a hundred requests a third may
// be missing then (ADR 003).
func backlogGrew(rate float64, r *load.Result) bool {
	if r.InFlight.Growing(rate) {
		return true
	}
	growth, offered := r.InFlight.Slope*r.Seconds(), float64(r.Offered)
	if growth <= backlogLimit*offered {
		return false
	}
	likely := r.InFlight.Samples >= load.MinSamples && r.InFlight.Low > -r.InFlight.Slope
	return likely && growth > someWaiting || growth > chance*math.Sqrt(offered)
}

// missedObjective says what was observed in place of what was to be.
func missedObjective(o threshold.Outcome) string {
	if o.Observed == 0 && o.Reason != "" { // nothing to observe
		return fmt.Sprintf("%s %s: %s", o.Metric, o.Threshold, o.Reason)
	}
	text := fmt.Sprintf("%s %s: it was %.4g", o.Metric, o.Threshold, o.Observed)
	if o.Reason != "" {
		text += " " + o.Reason
	}
	return text
}

// generatorLimit says why the generator was the limit of a failed try; empty if
// it was not. What the system may share with it, a full machine, is not the
// generator's alone: the search goes on, and what it finds is a lower bound.
func generatorLimit(r *load.Result, outcomes []threshold.Outcome) string {
	for _, why := range r.Validity() {
		if !why.Shared {
			return why.Text
		}
	}
	for _, o := range outcomes {
		if !o.Met && missedByLateness(r, o) {
			return fmt.Sprintf("the load generator sent %.1f %% of the requests late, and without that %s %s was met", 100*r.LateShare(), o.Metric, o.Threshold)
		}
	}
	return ""
}

// sent is of which step the times of WebSocket clients' messages are.
var sent = map[string]string{
	threshold.WSMsgDuration: load.StepMessage, threshold.WSAckDuration: load.StepAck, threshold.WSPing: load.StepPing,
}

// onlyCalls says whether all requests were calls of gRPC.
func onlyCalls(r *load.Result) bool {
	return !slices.ContainsFunc(r.Steps, func(s load.StepResult) bool { return !s.GRPC })
}

// missedByLateness is for objectives that fewer late requests than load.LateLimit miss. It says whether an objective on a percentile of the response
// time, of requests or of what WebSocket clients send, was missed because the generator was late: more requests were late than
// the percentile leaves out, and from when they were sent they were answered in
// time. Where as many waited because every virtual user was busy, that is the
// system's doing.
func missedByLateness(r *load.Result, o threshold.Outcome) bool {
	service, err := threshold.Parse(o.Metric, o.Threshold)
	if step := sent[service.Metric]; step != "" {
		service.Step = step
	} else if service.Metric != threshold.HTTPReqDuration && (service.Metric != threshold.GRPCReqDuration || !onlyCalls(r)) {
		return false
	}
	service.Metric = threshold.HTTPReqService
	if r.Late <= r.Waited {
		return false
	}
	if err != nil || service.Over > 0 || service.Aggregation != "p" || r.LateShare() <= 1-service.Percentile/100 {
		return false
	}
	outcomes, err := threshold.NewWatch([]threshold.Threshold{service}).Outcomes(r)
	return err == nil && outcomes[0].Met
}
