// Package capacity finds how much load a system bears.
//
// The search is a pure function of what was tried so far: Config.Next says
// which rate to try next and for how long, Conclude says what the tries amount
// to. It offers no load and reads no clock, so the same history always leads
// to the same answer, whether it is being made or is read back from a run.
//
// Median and Ratio turn the answers of several trials into values with
// intervals.
package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
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
}

// DefaultConfig is a search of eleven seconds to within 5 %.
func DefaultConfig() Config {
	return Config{MaxRate: 200_000, Tolerance: 0.05, Budget: 11 * time.Second, MinRequests: 200}
}

// Validate returns everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if !(c.MaxRate > 0) || math.IsInf(c.MaxRate, 0) {
		errs = append(errs, fmt.Errorf("the highest rate to try is %v; it must be a number above 0", c.MaxRate))
	}
	if !(c.Tolerance >= 0.005 && c.Tolerance <= 0.5) {
		errs = append(errs, fmt.Errorf("the tolerance is %v; it must be from 0.005 to 0.5", c.Tolerance))
	}
	if c.Budget < time.Second {
		errs = append(errs, fmt.Errorf("the search budget is %v; it must be at least 1s", c.Budget))
	}
	if c.MinRequests < 1 {
		errs = append(errs, fmt.Errorf("the least number of requests is %d; it must be at least 1", c.MinRequests))
	}
	return errors.Join(errs...)
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
	// Held is true if the rate was really offered, the objectives were met and
	// no backlog grew. Reason says which of them failed.
	Held   bool   `json:"held"`
	Reason string `json:"reason,omitempty"`
	// GeneratorLimited is true if the try failed for the generator's sake: it
	// says nothing about the system.
	GeneratorLimited bool `json:"generator_limited,omitempty"`
}

// Outcome is what a history of tries amounts to.
type Outcome struct {
	// Rate is the highest rate that held below every rejected one; 0 if none did.
	Rate float64
	// Try is the index of the last try at Rate, -1 if there is none.
	Try int
	// Rejected is the lowest rate that did not hold; 0 if every rate held.
	Rejected float64
	// LowerBound is true where the measurement ended before the system did;
	// Reason then says what ended it.
	LowerBound bool
	Reason     string
}

// Conclude reads a history. Where a rate was tried more than once the last try
// counts; where a rate was rejected, higher rates that held do not.
func Conclude(history []Try) Outcome {
	out := Outcome{Try: -1}
	var rejected *Try
	last := latest(history)
	for _, i := range last {
		if t := &history[i]; !t.Held {
			rejected = t
			break
		}
		out.Rate, out.Try = history[i].Rate, i
	}
	switch {
	case rejected == nil && out.Try >= 0:
		// Where a try was rejected and the same rate held later, the rate is
		// the edge itself, and not only a bound.
		all := !slices.ContainsFunc(history, func(t Try) bool { return !t.Held })
		if all {
			out.LowerBound, out.Reason = true, "every rate that was tried held"
		}
	case rejected != nil:
		out.Rejected = rejected.Rate
		if rejected.GeneratorLimited {
			out.LowerBound, out.Reason = true, rejected.Reason
		}
	}
	return out
}

// latest returns the index of the last try at each rate, by rising rate.
func latest(history []Try) []int {
	byRate := make(map[float64]int)
	for i, t := range history {
		byRate[t.Rate] = i
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
// such as the throughput of a closed sweep.
//
// From start it climbs, or descends, by growing steps until a rate that held
// lies below one that did not; then it halves the bracket (geometrically) until
// the ends are within the tolerance; then it measures the winner again, for
// longer, and then its rejected neighbour. Either of them may overturn its
// first result, and the search goes on from there. Tries grow longer as the
// bracket narrows, because telling 5 % apart takes more than telling 50 %.
func (c Config) Next(history []Try, spent time.Duration, start float64) (step Step, ok bool) {
	left := c.Budget - spent
	if len(history) == 0 {
		return c.search(min(start, c.MaxRate), firstStride, left)
	}
	out := Conclude(history)
	switch last := history[len(history)-1]; {
	case last.GeneratorLimited && out.Rate > 0:
		// Going on upwards would only measure the generator.
		return c.confirm(history, out.Rate, left)
	case out.Rate == 0:
		// A search without any answer is worth nothing: it may overrun.
		by := stride(history, false)
		return c.search(out.Rejected/by, by, left+c.Budget/2)
	case out.Rejected == 0 && out.Rate >= c.MaxRate:
		return c.confirm(history, out.Rate, left)
	case out.Rejected == 0:
		by := stride(history, true)
		return c.orConfirm(history, out.Rate, min(out.Rate*by, c.MaxRate), left)
	case out.Rejected > out.Rate*(1+c.Tolerance):
		return c.orConfirm(history, out.Rate, math.Sqrt(out.Rate*out.Rejected), left)
	}
	if step, ok := c.confirm(history, out.Rate, left); ok {
		return step, true
	}
	return c.confirm(history, out.Rejected, left)
}

// orConfirm searches at rate if that leaves time to confirm the winner, and
// confirms it now if not.
func (c Config) orConfirm(history []Try, winner, rate float64, left time.Duration) (Step, bool) {
	by := max(rate/winner, winner/rate)
	if step, ok := c.search(rate, by, left-c.confirmTime()); ok {
		return step, true
	}
	return c.confirm(history, winner, left)
}

// search is a try of a new rate, which is by times away from the nearest one
// tried; ok is false when it does not fit. Long strides are judged on a tenth
// of the requests: what matters there is only which way to go.
func (c Config) search(rate, by float64, left time.Duration) (Step, bool) {
	if rate < minRate {
		return Step{}, false
	}
	d, requests := c.Budget/8, float64(c.MinRequests)
	switch {
	case by > 1.3:
		d, requests = c.Budget/20, requests/10
	case by == firstStride:
		requests /= 10
	case by < 1+2*c.Tolerance:
		d = c.Budget / 7
	}
	d = max(d, min(time.Duration(requests/rate*float64(time.Second)), c.Budget/2))
	return Step{Purpose: Search, Rate: rate, Duration: d}, d <= left
}

// confirm measures rate once more, unless it has been confirmed already.
func (c Config) confirm(history []Try, rate float64, left time.Duration) (Step, bool) {
	for _, t := range history {
		if t.Rate == rate && t.Purpose == Confirm {
			return Step{}, false
		}
	}
	d := min(c.confirmTime(), left)
	return Step{Purpose: Confirm, Rate: rate, Duration: d}, rate > 0 && d >= c.Budget/10
}

func (c Config) confirmTime() time.Duration { return c.Budget / 5 }

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
// from the lowest: that between the outermost two, raised to the power 2.5.
func stride(history []Try, up bool) float64 {
	rates := latest(history)
	if len(rates) < 2 {
		return firstStride
	}
	a, b := history[rates[0]].Rate, history[rates[1]].Rate
	if n := len(rates); up {
		a, b = history[rates[n-2]].Rate, history[rates[n-1]].Rate
	}
	return min(max(math.Pow(b/a, 2.5), 1.05), maxStride)
}
