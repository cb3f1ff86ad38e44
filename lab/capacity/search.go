// Package capacity finds the highest rate at which a system meets its
// objectives.
//
// The search is a pure function of what was tried so far: Config.Next says
// which rate to try next and for how long, NewTry whether a rate was held,
// Conclude what the tries amount to. It offers no load and reads no clock, so the
// same history always leads to the same answer, whether it is being made or is
// read back from a run.
package capacity

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"loadstone/lab/load"
)

// Config bounds a search.
type Config struct {
	// MaxRate is the highest rate to try, in requests per second. A system
	// that holds it has a capacity of at least that: a lower bound only.
	MaxRate float64
	// Tolerance is how close the highest rate that held and the lowest that
	// did not must come, as a share: 0.05 is 5 %.
	Tolerance float64
	// Budget is the time that the search may take, in all.
	Budget time.Duration
	// MinRequests is how many requests a try must offer to be worth judging.
	// Slow systems get longer tries for it, within the budget.
	MinRequests int
	// Enough is how many requests the try that confirms the winner offers, as far as the
	// budget allows it.
	Enough int
	// Whole says that only whole numbers are rates, from 1 on.
	Whole bool
}

// DefaultConfig is a search of eleven seconds to within 5 %.
func DefaultConfig() Config {
	return Config{MaxRate: 200_000, Tolerance: 0.05, Budget: 11 * time.Second, MinRequests: 200}
}

const (
	// enoughInAll is how many requests a search has time for. With
	// fewer, an attempt has so few that a backlog of someWaiting is a large part of them, and less of one is
	// no reason to reject a rate: at a request a second the median search came out 1.3 times too high.
	enoughInAll = 200
	// mostBudget bounds the time for that.
	mostBudget = 5 * time.Minute
)

// For is the search of a system that does about rate requests per second: of a slow one it takes longer, unless somebody
// said how long it may take.
func (c Config) For(rate float64) Config {
	if usual := DefaultConfig().Budget; c.Budget == usual {
		c.Budget = max(usual, time.Duration(min(enoughInAll/rate, mostBudget.Seconds())*float64(time.Second)))
	}
	return c
}

// Purpose says what a try is for.
type Purpose string

const (
	// Search tries narrow the bracket.
	Search Purpose = "search"
	// Confirm tries measure an end of the bracket again, for longer: the
	// winner, which then also gives the figures at capacity, and its rejected
	// neighbour.
	Confirm Purpose = "confirm"
	// Hold tries come after a search and measure its winner for as long as the experiment
	// asks: see NextHold.
	Hold Purpose = "hold"
)

// Step is a rate to try next.
type Step struct {
	Purpose  Purpose
	Rate     float64       // requests per second
	Duration time.Duration // of the measured part
}

// Try is a step that was taken.
type Try struct {
	Purpose Purpose `json:"purpose"`
	Rate    float64 `json:"rate"`
	// Unit is what Rate counts, if that is not what begins in a second.
	Unit string `json:"unit,omitempty"`
	// Held is true if the rate was really offered, the objectives were met and
	// no backlog grew. Reason says which of them failed.
	Held   bool   `json:"held"`
	Reason string `json:"reason,omitempty"`
	// GeneratorLimited is true if the try failed for the generator's sake, or had too few
	// messages to be judged: it says nothing about the system.
	GeneratorLimited bool `json:"generator_limited,omitempty"`
	// Lasted is how long was measured, and Offered how many requests began in it; 0 where that is
	// not known. Grew says that a backlog grew, and Completed how many iterations a second were done
	// meanwhile; 0 where that is not what the system does of them. Who keeps a try keeps what was
	// measured beside it: see Saw.
	Lasted    time.Duration `json:"-"`
	Offered   uint64        `json:"-"`
	Grew      bool          `json:"-"`
	Completed float64       `json:"-"`
}

// Outcome is what a history of tries amounts to.
type Outcome struct {
	// Rate is the highest rate that held below every rejected one; 0 if none did.
	Rate float64
	// Try is the index of the last try at Rate, -1 if there is none.
	Try int
	// Rejected is the lowest rate that did not hold: the edge lies from Rate to
	// Rejected. It is Rate itself where that was rejected once and held when it was
	// measured again, and nothing above it was rejected. It is 0 if there is no
	// such rate: if every rate held.
	Rejected float64
	// Edge is where all tries together put the system's edge. A rate that wavers, or a search that
	// ended before it came back up, moves it less than it moves Rate, and it is no more too low than
	// too high: it is for comparing trials, not for promising what holds. It is Rate itself where
	// that is a lower bound.
	Edge float64
	// Confirmed is true if Rate was measured again, for longer, and held. If not,
	// one short try is all that speaks for it.
	Confirmed bool
	// LowerBound is true where the measurement ended before the system did;
	// Reason then says what ended it.
	LowerBound bool
	Reason     string
}

// open says that nothing above Rate was rejected.
func (o Outcome) open() bool { return o.Rejected <= o.Rate }

// Conclude reads a history. Where a rate was tried more than once the last try
// counts that the generator did not limit; where a rate was rejected, higher rates that held do not.
func Conclude(history []Try) Outcome {
	out := conclude(history)
	switch {
	case out.LowerBound:
		out.Edge = out.Rate
	case out.Rate > 0:
		out.Edge = edgeOf(out, history)
	}
	return out
}

func conclude(history []Try) Outcome {
	out := Outcome{Try: -1}
	for _, i := range latest(history) {
		t := &history[i]
		if !t.Held {
			out.Rejected = t.Rate
			if t.GeneratorLimited {
				out.LowerBound, out.Reason = true, t.Reason
			}
			return out
		}
		out.Rate, out.Try, out.Confirmed = t.Rate, i, t.Purpose == Confirm || t.Purpose == Hold
	}
	switch wavered := func(t Try) bool { return !t.Held && !t.GeneratorLimited && t.Rate == out.Rate }; {
	case out.Try < 0:
	case slices.ContainsFunc(history, wavered):
		// The rate is the edge itself, and not only a bound.
		out.Rejected = out.Rate
	default:
		out.LowerBound, out.Reason = true, "no higher rate was rejected"
		limited := slices.IndexFunc(history, func(t Try) bool { return t.GeneratorLimited && t.Rate >= out.Rate })
		switch {
		case limited >= 0:
			out.Reason = history[limited].Reason
		case !slices.ContainsFunc(history, func(t Try) bool { return !t.Held }):
			out.Reason = "every rate that was tried held"
		}
	}
	return out
}

// latest returns the index of the last try at each rate, by rising rate. One that the generator
// limited says nothing, and leaves it at the one before; but to hold a rate is not tried again.
func latest(history []Try) []int {
	byRate := make(map[float64]int)
	for i, t := range history {
		if _, known := byRate[t.Rate]; !known || !t.GeneratorLimited || t.Purpose == Hold {
			byRate[t.Rate] = i
		}
	}
	out := make([]int, 0, len(byRate))
	for _, i := range byRate {
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b int) int { return cmp.Compare(history[a].Rate, history[b].Rate) })
	return out
}

// Next says what to try after history, which has taken spent so far; ok is
// false when the search has ended. start is the first rate to try: a guess,
// such as the throughput of a closed sweep (see Start).
//
// From start it climbs, or descends, by growing steps until a rate that held
// lies below one that did not (by the first step again, near below what held once and does
// not any more); then it halves the bracket (geometrically) until
// the ends are within the tolerance, or what is left of the budget is needed to
// measure them again: the winner, for longer, and then its rejected neighbour.
// Either of them may overturn its first result. A winner that is overturned
// becomes the neighbour, and the rate below, which held, is measured again at
// once. Then the search goes on where there is time for it. Tries grow longer as
// the bracket narrows, because telling 5 % apart takes more than telling 50 %.
func (c Config) Next(history []Try, spent time.Duration, start float64) (step Step, ok bool) {
	left := c.Budget - spent
	if len(history) == 0 {
		return c.search(min(c.within(start, 0, math.Inf(1)), c.MaxRate), first, left)
	}
	out := conclude(history)
	last := history[len(history)-1]
	switch {
	case last.GeneratorLimited && out.Rate > 0:
		// Once, a machine that stood still for a moment may be why. Twice, going on
		// upwards would only measure the generator.
		if !limitedAgain(history) {
			if step, ok := c.search(last.Rate, near, left-c.reserve(out)); ok {
				return step, true
			}
		}
		return c.confirm(history, out.Rate, left)
	case out.Rate == 0:
		return c.lower(history, out, left)
	case last.Purpose == Confirm && !last.Held:
		// An overturned winner leaves one that was only searched.
		if step, ok := c.confirm(history, out.Rate, left); ok {
			return step, true
		}
	}
	if step, ok := c.narrow(history, out, left); ok {
		return step, true
	}
	if step, ok := c.confirm(history, out.Rate, left); ok {
		return step, true
	}
	return c.confirm(history, out.Rejected, left)
}

// lower is a try below all that were rejected. A search without any answer is worth nothing: it may
// overrun.
func (c Config) lower(history []Try, out Outcome, left time.Duration) (Step, bool) {
	by, to := stride(history, false), near
	if out.Rejected*wide > leastHeld(history) {
		by = firstStride // something held not far above: the edge is near
	}
	if by > furtherBy {
		to = far // the way down is what matters
	}
	return c.search(c.within(out.Rejected/by, 0, out.Rejected), to, left+c.Budget/2)
}

// narrow is a try that narrows the bracket, if one fits.
func (c Config) narrow(history []Try, out Outcome, left time.Duration) (Step, bool) {
	rate, to := c.narrower(history, out)
	if rate == 0 {
		return Step{}, false
	}
	left += c.overrun(out, rate) - c.reserve(out)
	step, ok := c.search(rate, to, left)
	if !ok && to == further { // a short try is better than none
		return c.search(rate, far, left)
	}
	return step, ok
}

// leastHeld is the lowest rate that ever held, infinite if none did.
func leastHeld(history []Try) float64 {
	least := math.Inf(1)
	for _, t := range history {
		if t.Held {
			least = min(least, t.Rate)
		}
	}
	return least
}

// mostHolds is how many rates a trial tries to hold: what does not last for a minute is
// rarely far above what does, and each of them takes its whole time.
const mostHolds = 3

// NextHold says which rate is to be held next, for so long, once the search is over: the
// highest that held, until one has held for that long. ok is false if one has, if the last
// of mostHolds has not, or if none is left.
func NextHold(history []Try, length time.Duration) (step Step, ok bool) {
	out := conclude(history)
	holds := 0
	for _, t := range history {
		if t.Purpose == Hold {
			holds++
		}
	}
	if length <= 0 || out.Rate == 0 || holds == mostHolds || history[out.Try].Purpose == Hold {
		return Step{}, false
	}
	return Step{Purpose: Hold, Rate: out.Rate, Duration: length}, true
}

// limitedAgain says whether the generator limited the rate of the last try before.
func limitedAgain(history []Try) bool {
	last := len(history) - 1
	return slices.ContainsFunc(history[:last], func(t Try) bool { return t.Rate == history[last].Rate && t.GeneratorLimited })
}

// reach is how far a rate is from the nearest one tried, as far as it matters
// for how long to try it: the nearer, the longer.
type reach int

const (
	first reach = iota // there is none
	near
	upward  // near, and nothing above was rejected
	further // more than furtherBy times away
	far     // more than farBy times away
)

const (
	furtherBy, farBy = 1.15, 1.5
	// wide is a bracket of which nobody would be content with the lower end. Until it is
	// narrower, to confirm that end is worth nothing, and the search may overrun by
	// Budget/overrunShare: it starts somewhere, and a small budget is used up by the strides
	// from a start that is far off.
	wide         = 1.3
	overrunShare = 4
)

func reachOf(by float64) reach {
	switch {
	case by > farBy:
		return far
	case by > furtherBy:
		return further
	default:
		return near
	}
}

// narrower is the rate whose try narrows the bracket most, and its reach; 0 if
// the bracket is as narrow as is wanted, or the highest rate held.
func (c Config) narrower(history []Try, out Outcome) (rate float64, to reach) {
	switch {
	case out.open():
		if out.Rate >= c.MaxRate {
			return 0, near
		}
		by := stride(history, true)
		rate := min(c.within(out.Rate*by, out.Rate, math.Inf(1)), c.MaxRate)
		return rate, max(upward, reachOf(rate/out.Rate))
	case c.Whole && out.Rejected-out.Rate <= 1:
		return 0, near
	case out.Rejected > out.Rate*(1+c.Tolerance):
		by := math.Sqrt(out.Rejected / out.Rate)
		return c.within(out.Rate*by, out.Rate, out.Rejected), reachOf(by)
	}
	return 0, near
}

// within is rate itself or, where rates are whole, the nearest such between two others that are.
// There is one, or it is 0.
func (c Config) within(rate, above, below float64) float64 {
	if !c.Whole {
		return rate
	}
	return min(max(math.Round(rate), above+1), below-1)
}

// reserve is the time that a search try must leave: for confirming the winner
// and its neighbour. Where the winner is confirmed already it is that for a new
// winner; and where the neighbour is far off there is no doubt about it, and
// coming closer is worth more than confirming it. Before anything was rejected it
// is nothing: without an end above, all that is known is a lower bound; nor while
// the bracket is wide.
func (c Config) reserve(out Outcome) time.Duration {
	if out.Rejected == 0 || out.Rejected > wide*out.Rate {
		return 0
	}
	one := c.confirmTime() + c.between()
	if out.Confirmed || out.Rejected > out.Rate*(1+c.Tolerance)*(1+c.Tolerance) {
		return one
	}
	return 2 * one
}

// overrun is by how much trying a rate may exceed the budget.
func (c Config) overrun(out Outcome, rate float64) time.Duration {
	if out.Rejected > wide*out.Rate || out.open() && rate > wide*out.Rate {
		return c.Budget / overrunShare
	}
	return 0
}

// search is a try of a new rate; ok is false when it does not fit. Strides
// are judged on fewer requests, as what matters there is only which way to go. But in the shortest
// hardly a queue grows at a rate that is up to farBy times too high. A stride of as much lasts
// long enough for a trend; the one after a larger one is so large that it is not sustained by mistake.
func (c Config) search(rate float64, to reach, left time.Duration) (Step, bool) {
	if rate < minRate {
		return Step{}, false
	}
	lasting := func(requests int) time.Duration {
		return time.Duration(float64(requests) / rate * float64(time.Second))
	}
	d, requests := c.searchTime(), c.MinRequests
	switch to {
	case far:
		d, requests = c.Budget/20, c.MinRequests/10
	case further:
		d, requests = c.leastTime(), c.MinRequests/10
	case first:
		d = max(c.leastTime(), min(lasting(c.MinRequests/2), c.Budget/8))
		requests = c.MinRequests / 10
	case upward:
		if usual := DefaultConfig(); c.Budget < usual.Budget*2/3 && c.MinRequests == usual.MinRequests {
			requests /= 2 // what a small budget saves here pays for confirming
		}
	case near:
	}
	d = Whole(max(d, min(lasting(requests), c.Budget/4)))
	return Step{Purpose: Search, Rate: rate, Duration: d}, d+c.between() <= left
}

// confirm measures rate once more, unless it has been confirmed already. It
// takes what time there is, if that is no less than a search try.
func (c Config) confirm(history []Try, rate float64, left time.Duration) (Step, bool) {
	before := func(t Try) bool { return t.Rate == rate && t.Purpose == Confirm }
	if rate <= 0 || slices.ContainsFunc(history, before) {
		return Step{}, false
	}
	d := c.confirmTime()
	if out := conclude(history); rate == out.Rate {
		// What the neighbour does not need.
		enough := Whole(time.Duration(float64(c.Enough) / rate * float64(time.Second)))
		d = max(d, min(enough, left-2*c.between()-d))
	}
	d = min(d, left-c.between()).Truncate(load.QuotaPeriod)
	return Step{Purpose: Confirm, Rate: rate, Duration: d}, d >= Whole(c.searchTime())
}

// Whole is as long or a little longer, in whole periods of CPU quotas. A container gets its CPU in
// parts, one in each: where it may have a fifth of a core, 0.85 s have eight or nine of them by
// chance, and what is completed varies by as much. See ADR 030.
func Whole(d time.Duration) time.Duration {
	return (d + load.QuotaPeriod - 1).Truncate(load.QuotaPeriod)
}

// The shares of the budget that a try takes. A search try that narrows the
// bracket is half as long as one that confirms: its errors are mended by those,
// and what it saves pays for both ends to be confirmed. See ADR 003.
func (c Config) searchTime() time.Duration { return max(c.Budget/14, c.leastTime()) }
func (c Config) confirmTime() time.Duration {
	return max((c.Budget * 3 / 20).Truncate(load.QuotaPeriod), Whole(c.leastTime()))
}

// leastTime is that of a short try: at the default budget, and if a smaller one
// affords it, just enough samples of the work in flight to see a trend.
func (c Config) leastTime() time.Duration {
	const enough, just = 550 * time.Millisecond, load.MinSamples * load.SampleEvery
	return max(c.Budget/20, min(enough, c.Budget/8), min(just, c.Budget/6))
}

// between is what a try takes beside its measured part: warm-up, and waiting
// for what is still under way.
func (c Config) between() time.Duration { return c.Budget / 32 }

// Start is where the search of one trial starts: at guess, or up to half a
// stride from it. Where depends on nothing but the run's seed and the number of
// the trial.
//
// From one guess all trials would try the same rates, and their median would be
// one of those, however many there are. Starts that are spread evenly over a
// whole stride, which is a whole number of halved brackets, make the error of
// this grid independent from trial to trial: more trials make it less, and an
// interval over trials shows it.
func Start(guess float64, seed uint64, trial int) float64 {
	u := rand.New(rand.NewPCG(seed, uint64(trial))).Float64()
	return guess * math.Pow(firstStride, u-0.5)
}

// minRate is below what is worth trying, in requests per second.
const minRate = 0.05

// Strides are the factors from one rate to the next while there is no bracket.
// They start small, because a start from a closed sweep is close, and grow, so
// that a start that is far off costs tries by the logarithm of its error.
const (
	firstStride = 1.1
	maxStride   = 4.0
)

// stride is the next factor, upwards from the highest rate tried or downwards
// from the lowest: that between the outermost two, squared, and raised to the
// power 2.5 once it is large: then the start was far off.
func stride(history []Try, up bool) float64 {
	rates := latest(history)
	if len(rates) < 2 {
		return firstStride
	}
	a, b := history[rates[0]].Rate, history[rates[1]].Rate
	if n := len(rates); up {
		a, b = history[rates[n-2]].Rate, history[rates[n-1]].Rate
	}
	power := 2.0
	if b/a > 1.3 {
		power = 2.5
	}
	return min(max(math.Pow(b/a, power), 1.05), maxStride)
}
