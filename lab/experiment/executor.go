package experiment

import (
	"slices"

	"loadstone/lab/load"
)

// externallyControlled is k6's executor whose load somebody changes while it
// runs. It is refused: a run that does not follow from its file cannot be
// repeated.
const externallyControlled = "externally-controlled"

// executor is what one of k6's executors takes beside the keys of every
// scenario, and what it cannot do without when the load is driven as written.
type executor struct {
	name    string
	takes   []string
	needs   []string
	refused bool // externallyControlled
}

// executors returns the executors that there are, in k6's order.
func executors() []executor {
	of := func(name string, needs []string, takes ...string) executor {
		return executor{name: name, takes: slices.Concat(ofRequests(), takes), needs: needs}
	}
	return []executor{
		of(load.SharedIterations, []string{"vus", "iterations"}, "vus", "iterations", "maxDuration"),
		of(load.PerVUIterations, []string{"vus", "iterations"}, "vus", "iterations", "maxDuration"),
		of(load.ConstantVUs, []string{"vus", "duration"}, "vus", "duration", "websocket"),
		of(load.RampingVUs, []string{"stages"}, "startVUs", "stages", "websocket"),
		of(load.ConstantArrivalRate, []string{"rate", "duration"}, "rate", "duration", "timeUnit", "arrivals", "preAllocatedVUs", "maxVUs"),
		of(load.RampingArrivalRate, []string{"stages"}, "startRate", "stages", "timeUnit", "arrivals", "preAllocatedVUs", "maxVUs"),
		{name: load.Replay, takes: []string{"replay", "preAllocatedVUs", "maxVUs"}, needs: []string{"replay"}},
	}
}

// executorOf returns the executor of a name; the zero value if there is none.
func executorOf(name string) executor {
	all := executors()
	i := slices.IndexFunc(all, func(ex executor) bool { return ex.name == name })
	if i < 0 {
		return executor{}
	}
	return all[i]
}

// knownTo returns the keys that a scenario of an executor has; those of all of
// them if it is unknown.
func knownTo(ex executor) []string {
	known := append(ofEvery(), ex.takes...)
	if ex.name != "" {
		return known
	}
	for _, other := range executors() {
		for _, key := range other.takes {
			if !slices.Contains(known, key) {
				known = append(known, key)
			}
		}
	}
	return known
}

// takers returns the executors that take a key.
func takers() map[string][]string {
	by := make(map[string][]string)
	for _, ex := range executors() {
		for _, key := range ex.takes {
			by[key] = append(by[key], ex.name)
		}
	}
	return by
}

// ofEvery returns the keys that every executor takes.
func ofEvery() []string { return []string{"executor", "startTime", "gracefulStop"} }

// ofRequests returns the keys that say which requests an iteration makes.
func ofRequests() []string { return append(ofIterations(), "feed") }

// ofIterations returns those that a WebSocket client has no use for.
func ofIterations() []string {
	return []string{"request", "steps", "weighted", "keepCookies", "cacheBytes"}
}

// hasRate reports whether an executor starts iterations at a rate that the
// file gives.
func hasRate(executor string) bool {
	return executor == load.ConstantArrivalRate || executor == load.RampingArrivalRate
}

// countsIterations reports whether an executor ends when a number of
// iterations is done.
func countsIterations(executor string) bool {
	return executor == load.SharedIterations || executor == load.PerVUIterations
}

// executorNames returns the names of the executors of which something is so.
func executorNames(is func(executor string) bool) []string {
	var names []string
	for _, ex := range executors() {
		if is(ex.name) {
			names = append(names, ex.name)
		}
	}
	return names
}
