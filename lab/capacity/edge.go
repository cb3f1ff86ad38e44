package capacity

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"loadstone/lab/load"
)

// Tries waver: the same rate holds once and does not another time. What is assumed of how
// far the edge seems to be from where it is, as a share and a standard deviation, need not be
// right: see TestATenthIsFound.
const (
	// wavers is that of a try of waverTime, from one moment of the machine to the next. Of others
	// it goes with the root of the time.
	wavers    = 0.045
	waverTime = 2200 * time.Millisecond
	// byChance is the variance of a try of one request, by how long each takes. Of others it
	// goes with the number of requests.
	byChance = 0.2
	// lapse is the share of tries whose judgement has nothing to do with the edge: a machine
	// that stood still.
	lapse = 0.01
)

// Saw has the try know what r, which was measured in it, says of the edge beside whether the rate
// was held.
func (t *Try) Saw(r *load.Result) {
	t.Lasted, t.Offered, t.Grew, t.Completed = r.To.Sub(r.From), r.Offered, false, 0
	if t.Held || t.GeneratorLimited || t.Unit != "" {
		return
	}
	if t.Grew = backlogGrew(t.Rate, r); t.Grew && t.Purpose != Hold {
		t.Completed = completed(t.Rate, r)
	}
}

// completed is how many iterations a second were done of a rate at which a backlog grew. It is 0
// where requests failed or were dropped, which is not what they take; where
// iterations have several requests, part of which are done of those that are not; where an overload
// ended several generators at different times; and far above, where a system may do less than near
// its edge, or has hardly begun.
func completed(rate float64, r *load.Result) float64 {
	lost := float64(r.Failed) > droppedLimit*float64(r.Requests) || float64(r.Dropped) > droppedLimit*float64(r.Offered)
	cut := r.Aborted != "" && len(r.Parts) > 1
	if lost || cut || len(r.Journeys) > 0 {
		return 0
	}
	done := float64(r.IterationsInTime) / r.Seconds()
	if done*wide < rate {
		return 0
	}
	return min(done, rate) // some may have begun in the warm-up
}

// wavers is what is assumed of the try; where nothing is known of it, of one of its purpose at
// the default budget.
func (t *Try) wavers() float64 {
	lasted := t.Lasted
	if lasted <= 0 {
		switch t.Purpose {
		case Hold:
			lasted = time.Minute
		case Confirm:
			lasted = DefaultConfig().confirmTime()
		case Search:
			lasted = DefaultConfig().searchTime()
		}
	}
	sd := wavers * math.Sqrt(waverTime.Seconds()/lasted.Seconds())
	if t.Offered > 0 {
		sd = math.Hypot(sd, math.Sqrt(byChance/float64(t.Offered)))
	}
	return sd
}

// likelihood is that of what the try said if the edge is there. Where a backlog grew, what was
// completed counts in place of the judgement: it says how far below the rate the edge is, and not
// only that it is below.
func (t *Try) likelihood(edge float64) float64 {
	if t.Completed > 0 {
		off := math.Log(edge/t.Completed) / t.wavers()
		return lapse + (1-lapse)*math.Exp(-off*off/2)
	}
	holds := lapse/2 + (1-lapse)*distuv.UnitNormal.CDF((edge/t.Rate-1)/t.wavers())
	if t.Held {
		return holds
	}
	return 1 - holds
}

// edgeOf is where the edge is after what each try said. An amount of which there is none
// between the highest that held and the lowest that did not is the edge itself. Where both
// were measured again and nothing contradicts them, the edge lies between.
func edgeOf(out Outcome, history []Try) float64 {
	whole := out.Rate == math.Trunc(out.Rate) && out.Rejected == math.Trunc(out.Rejected)
	if whole && out.Rejected-out.Rate <= 1 {
		return out.Rate
	}
	said := telling(history)
	edge := posterior(said)
	if out.Confirmed && agree(out, said) {
		edge = min(max(edge, out.Rate), out.Rejected)
	}
	return edge
}

// telling are the tries that say something of the edge: not those that the generator limited,
// nor short ones that held a rate which did not last. What was completed does not count where it is,
// on average, above a rate that was rejected although no backlog grew, as for its latency, or
// that did not last: completing more is not what is asked for there.
func telling(history []Try) []Try {
	lasts, met := math.Inf(1), math.Inf(1)
	sum, n := 0.0, 0.0
	for _, t := range history {
		switch {
		case t.Held || t.GeneratorLimited:
		case t.Purpose == Hold:
			lasts = min(lasts, t.Rate)
		case !t.Grew:
			met = min(met, t.Rate)
		case t.Completed > 0:
			sum, n = sum+math.Log(t.Completed), n+1
		}
	}
	said := slices.DeleteFunc(slices.Clone(history), func(t Try) bool {
		return t.GeneratorLimited || t.Held && t.Purpose != Hold && t.Rate >= lasts
	})
	if n > 0 && math.Exp(sum/n) >= min(lasts, met) {
		for i := range said {
			said[i].Completed = 0
		}
	}
	return said
}

// agree says whether the rejected rate was measured again, and no try contradicts another.
func agree(out Outcome, said []Try) bool {
	again := func(t Try) bool { return t.Rate == out.Rejected && t.Purpose != Search }
	contradicts := func(t Try) bool { return t.Held != (t.Rate <= out.Rate) }
	return slices.ContainsFunc(said, again) && !slices.ContainsFunc(said, contradicts)
}

// edgeSteps is of how many rates the likelihood is computed: a thousandth apart, where all
// tries are within a factor of 1.1.
const edgeSteps = 400

// posterior is the mean of the logarithm of the edge, with a flat prior from a fifth below the
// lowest to a fifth above the highest rate that was tried. Each try is weighed: where a rate
// held three times and once did not, it is most likely below the edge. That is a psychometric
// function with a known slope and a lapse rate (Wichmann and Hill, The psychometric function I,
// 2001).
func posterior(said []Try) float64 {
	low, high := math.Inf(1), 0.0
	for _, t := range said {
		low, high = min(low, t.Rate), max(high, t.Rate)
	}
	if !(low > 0) || high == 0 {
		return 0
	}
	const beyond = 1.2
	low, high = math.Log(low/beyond), math.Log(high*beyond)
	at := func(i int) float64 { return low + (high-low)*(float64(i)+0.5)/edgeSteps }
	logs := make([]float64, edgeSteps) // of the likelihood
	for i := range logs {
		for j := range said {
			logs[i] += math.Log(said[j].likelihood(math.Exp(at(i))))
		}
	}
	most, sum, weights := slices.Max(logs), 0.0, 0.0
	for i, l := range logs {
		w := math.Exp(l - most)
		sum, weights = sum+w*at(i), weights+w
	}
	return math.Exp(sum / weights)
}
