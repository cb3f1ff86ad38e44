package capacity

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

// How much an objective has to see before an attempt says something of it.
const (
	// beyondWanted is how many requests are to lie beyond an objective's percentile on
	// average. With five, an attempt at which half as many requests are too slow as are
	// allowed is rejected by chance in 4 % of attempts, and one at which twice as many are
	// is taken for good in 7 %; with two they are 8 % and 24 % (Poisson).
	beyondWanted = 5
	// noneWanted is how many requests without a failure it takes to show a share of
	// failures of less than r at 95 %, times r: the rule of three (Hanley and Lippman-Hand,
	// "If nothing goes wrong, is everything all right?", JAMA 249, 1983).
	noneWanted = 3
)

// beyond is of how many times one is beyond a percentile.
func beyond(percentile float64) uint64 { return uint64(math.Ceil(100/(100-percentile) - 1e-9)) }

// needed is of how many requests, iterations or messages an objective has to be judged; 0
// if any number will do, as for a mean.
func needed(t threshold.Threshold) uint64 {
	timed := slices.Contains([]string{threshold.HTTPReqDuration, threshold.HTTPReqService, threshold.GRPCReqDuration, threshold.IterationDuration}, t.Metric)
	switch {
	case t.Over > 0:
		return 0 // each window judges by itself
	case timed && t.Aggregation == "p" && t.Percentile < 100:
		return beyondWanted * beyond(t.Percentile)
	case t.Metric == threshold.HTTPReqFailed && t.Aggregation == "rate" && strings.HasPrefix(t.Operator, "<") && t.Value > 0:
		return uint64(math.Ceil(noneWanted/t.Value - 1e-9))
	}
	return 0
}

// Requests is how many requests the attempts of a search take: those that narrow the
// bracket for the objectives' percentiles, and the one that confirms its winner for shares
// of failures, too, which no short attempt can show.
func Requests(objectives []threshold.Threshold) (search, confirm int) {
	search = DefaultConfig().MinRequests
	confirm = search
	for _, t := range objectives {
		n := int(min(needed(t), math.MaxInt32))
		if t.Metric != threshold.HTTPReqFailed {
			search = max(search, n)
		}
		confirm = max(confirm, n)
	}
	return search, confirm
}

// TooFew says of which objective on a percentile a result has too few requests to judge it, and how many
// it takes; empty if of none. At the result's rate these come within takes, which is 0 if nothing was seen.
func TooFew(r *load.Result, objectives []threshold.Threshold) (what string, takes time.Duration) {
	for _, t := range objectives {
		if t.Metric == threshold.HTTPReqFailed {
			continue // nearly no capacity rests on enough for a small share; see Requests
		}
		need, n := needed(t), judging(r, t)
		if n >= need {
			continue
		}
		if n > 0 {
			takes = time.Duration(float64(need) / float64(n) * r.Seconds() * float64(time.Second))
		}
		return fmt.Sprintf("%s %s was judged by %d, and takes %d", t.Metric, t, n, need), takes
	}
	return "", 0
}

// judging is how many requests, or iterations, of a result an objective is about.
func judging(r *load.Result, t threshold.Threshold) (n uint64) {
	calls := t.Metric == threshold.GRPCReqDuration
	switch {
	case t.Metric == threshold.IterationDuration && t.Scenario == "" && t.Step == "":
		return r.Iterations
	case !calls && t.Scenario == "" && t.Step == "":
		return r.Requests
	}
	for i := range r.Steps {
		if s := &r.Steps[i]; (s.GRPC || !calls) && (t.Scenario == "" || t.Scenario == s.Scenario) && (t.Step == "" || t.Step == s.Name) {
			n += s.Requests
		}
	}
	return n
}
