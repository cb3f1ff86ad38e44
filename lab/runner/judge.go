package runner

import (
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/capacity"
	"loadstone/lab/load"
	"loadstone/lab/load/failure"
	"loadstone/lab/threshold"
)

// What makes a failed try the generator's failure and not the system's.
const (
	// lateMuch is the share of requests that a generator with time to spare
	// sends more than load.LateAfter after their time.
	lateMuch = 0.05
	// busyMuch is the share of the machine's cores at which the generator
	// leaves too little for anyone else to be judged, and of an event loop's time
	// at which it sends bursts late.
	busyMuch = 0.9
)

// fellBehindMuch is the share of the offered requests by which a backlog may
// grow during a try that is still held: the resolution of the search. So much
// may also be missing from what was to be offered.
const fellBehindMuch = 0.05

// trendSamples is how many samples of the work in flight have a trend.
const trendSamples = 10

// droppedMuch is the share of the arrivals that may find nobody to send them
// within the timeout in a try that is held. What was dropped was not borne, and
// no latency tells of it.
const droppedMuch = 0.01

// bore is how many iterations per second a load completed. Capacity is counted
// in iterations, because those are what a schedule starts; where an iteration
// is one request they are requests.
func bore(r *load.Result) float64 { return float64(r.IterationsInTime) / r.Seconds() }

// judge says whether a rate, in iterations per second, was held: it was really
// offered, what was offered was done, the objectives were met, and no backlog
// grew. A backlog is looked for apart from the
// objectives because at a rate just above capacity latency climbs for minutes
// before it crosses any threshold.
func judge(rate float64, r *load.Result, outcomes []threshold.Outcome) capacity.Try {
	t := capacity.Try{Rate: rate}
	var reasons []string
	switch {
	case r.Aborted != "":
		reasons = append(reasons, r.Aborted)
	case r.IterationsInTime == 0:
		reasons = append(reasons, "nothing was answered in time")
	default:
		reasons = shortOf(r)
		if r.InFlight.Growing(rate) || fellBehind(r) {
			reasons = append(reasons, fmt.Sprintf("the backlog grew by %.0f a second", r.InFlight.Slope))
		}
		for _, o := range outcomes {
			if !o.Met {
				reasons = append(reasons, missed(o))
			}
		}
	}
	limit := ""
	if r.Aborted == "" {
		limit = tooFew(rate, r)
	}
	t.Held = len(reasons) == 0 && limit == ""
	t.Reason = strings.Join(reasons, "; ")
	if limit == "" {
		limit = generatorLimit(r, outcomes)
	}
	if !t.Held && limit != "" {
		t.GeneratorLimited, t.Reason = true, limit
	}
	return t
}

// shortOf says what became of arrivals that the system did not bear: they were
// dropped, or have not come back.
func shortOf(r *load.Result) (reasons []string) {
	offered := float64(r.Offered)
	if dropped := float64(r.Dropped); dropped > droppedMuch*offered {
		reasons = append(reasons, fmt.Sprintf("%d of %d arrivals were dropped", r.Dropped, r.Offered))
	}
	if missing := missing(r); missing > fellBehindMuch*offered+3*math.Sqrt(offered) {
		reasons = append(reasons, fmt.Sprintf("%d requests were offered and %d completed", r.Offered, r.CompletedInTime))
	}
	return reasons
}

// missing is how many more requests were offered than were done in the measured
// part and than may be under way at its end, in a try too short for a trend. Where there
// is one it sees that as well, and is not misled by a hiccup at the end. What may be
// under way is by Little's law, with the latency that even a quick answer took:
// one in twenty was quicker. A closed model has no arrivals to miss, and an
// iteration of several requests may pause for as long as it likes: then it is 0.
func missing(r *load.Result) float64 {
	if r.InFlight.Samples == 0 || r.InFlight.Samples >= trendSamples || r.Requests != r.Iterations {
		return 0
	}
	h, err := hdrhistogram.Decode([]byte(r.Response.Histogram))
	if err != nil {
		return 0 // the objectives cannot be judged either, which is an error there
	}
	quick := float64(h.ValueAtQuantile(5)) / 1e6
	return float64(r.Offered) - float64(r.CompletedInTime) - r.OfferedRate()*quick
}

// tooFew says that fewer iterations were to begin than the rate called for, by more than
// chance explains: then the rate was not tried. Only the generator can be why.
func tooFew(rate float64, r *load.Result) string {
	wanted := rate * r.Seconds()
	if float64(r.Offered) >= (1-fellBehindMuch)*wanted-3*math.Sqrt(wanted) {
		return ""
	}
	return fmt.Sprintf("the load generator offered %.4g a second in place of %.4g", r.OfferedRate(), rate)
}

// fellBehind says whether the backlog grew by more than fellBehindMuch of what
// was offered, and by more than chance explains (three standard deviations of
// a Poisson count). A short try has too few samples for the growth to be
// significant as a trend; if it is this large, the rate was not held all the
// same.
func fellBehind(r *load.Result) bool {
	growth, offered := r.InFlight.Slope*r.Seconds(), float64(r.Offered)
	return growth > fellBehindMuch*offered && growth > 3*math.Sqrt(offered)
}

func missed(o threshold.Outcome) string {
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
// it was not.
func generatorLimit(r *load.Result, outcomes []threshold.Outcome) string {
	late := float64(r.Late) / float64(max(r.Offered, 1))
	ports := r.Errors[failure.PortExhausted.String()].Count
	switch cores := float64(runtime.NumCPU()); {
	case late > lateMuch:
		return fmt.Sprintf("the load generator sent %.0f %% of the requests late", 100*late)
	case r.Generator.Busy > busyMuch*cores:
		return fmt.Sprintf("the load generator used %.2g of the machine's %g cores", r.Generator.Busy, cores)
	case r.Generator.Working > busyMuch:
		return fmt.Sprintf("an event loop of the load generator was at work %.0f %% of the time", 100*r.Generator.Working)
	case ports > 0:
		return fmt.Sprintf("%d requests of the load generator found no local port or file descriptor left", ports)
	}
	for _, o := range outcomes {
		if !o.Met && madeLate(r, late, o) {
			return fmt.Sprintf("the load generator sent %.1f %% of the requests late, and without that %s %s was met", 100*late, o.Metric, o.Threshold)
		}
	}
	return ""
}

// madeLate says whether an objective on a percentile of the response time was
// missed because the generator was late: more requests were late than the
// percentile forgives, and from when they were sent they were answered in time. Where
// as many waited because every virtual user was busy, that is the system's doing.
func madeLate(r *load.Result, late float64, o threshold.Outcome) bool {
	selector, ok := strings.CutPrefix(o.Metric, threshold.HTTPReqDuration)
	if !ok || r.Late <= r.Waited {
		return false
	}
	service, err := threshold.Parse(threshold.HTTPReqService+selector, o.Threshold)
	if err != nil || service.Over > 0 || service.Aggregation != "p" || late <= 1-service.Percentile/100 {
		return false
	}
	outcomes, err := threshold.NewWatch([]threshold.Threshold{service}).Outcomes(r)
	return err == nil && outcomes[0].Met
}
