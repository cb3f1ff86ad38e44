package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/format"
	"loadstone/lab/host"
	"loadstone/lab/probe"
	"loadstone/lab/stats"
)

const (
	// warmingChance is how often a variant may be said to warm up that does not.
	warmingChance = 0.01
	// similarRates is how far rates may be apart for the demand at them to be compared:
	// what a component does at any rate is a smaller part of a request's at a higher one.
	// Of the busiest component that is little.
	similarRates = 2
)

// attempt is what one try of a search needed.
type attempt struct {
	rate   float64            // iterations done, each second
	demand map[string]float64 // ms of CPU for each of them, by service
	busy   map[string]float64 // share of its CPU, or of a core, that the busiest instance used
}

// attempts are those of a trial's search, in order.
func attempts(t archive.Trial, samples []host.Sample) (out []attempt) {
	for i := range t.Measures {
		m := &t.Measures[i]
		r := &m.Result
		span, ok := probe.Over(samples, r.From, r.To)
		searched := m.Kind == string(capacity.Search) || m.Kind == string(capacity.Confirm)
		if !ok || !searched || r.IterationsInTime == 0 {
			continue
		}
		a := attempt{rate: float64(r.IterationsInTime) / r.Seconds(), demand: map[string]float64{}, busy: map[string]float64{}}
		for _, in := range t.Instances {
			cpu := span.Instances[in.Name].CPU.Seconds()
			a.demand[in.Service] += 1000 * cpu / float64(r.IterationsInTime)
			a.busy[in.Service] = max(a.busy[in.Service], cpu/r.Seconds()/cmp.Or(in.LimitCPUs, 1))
		}
		out = append(out, a)
	}
	return out
}

// warming warns if the service that is the busiest at first needed less and less for a
// request while the capacity was searched: a cache fills, code is compiled. What was found
// is then somewhere between the cold system's capacity and the warm one's.
//
// The trend has to be none that chance makes, over all trials together, and the fall, between
// the first and the last quarter of the tries, more than the tolerance of the search: else
// the capacity hardly changes with it. Rates far from the last one are left out.
func warming(trials []observed, tolerance float64) []string {
	var series [][]float64
	service := busiest(trials)
	for _, t := range trials {
		var own []float64
		for _, a := range t.attempts {
			if by := a.rate / t.attempts[len(t.attempts)-1].rate; by <= similarRates && by >= 1/similarRates {
				own = append(own, a.demand[service])
			}
		}
		if len(own) > 0 {
			series = append(series, own)
		}
	}
	by := medianOf(series, fell)
	if !(by > tolerance) || stats.Falling(series...) > warmingChance {
		return nil
	}
	return []string{fmt.Sprintf("service demand of %s fell by %s during the search: the system was still warming up; raise `warmup` of the load", service, format.Percent(by))}
}

// busiest is the service that was in the first tries.
func busiest(trials []observed) string {
	busy := map[string]float64{}
	for _, t := range trials {
		for _, a := range t.attempts[:quarter(len(t.attempts))] {
			for service, share := range a.busy {
				busy[service] += share
			}
		}
	}
	service := ""
	for _, s := range slices.Sorted(maps.Keys(busy)) {
		if service == "" || busy[s] > busy[service] {
			service = s
		}
	}
	return service
}

// fell is by which share the mean of the last quarter is below that of the first.
func fell(xs []float64) float64 {
	n := quarter(len(xs))
	return 1 - stats.Mean(xs[len(xs)-n:])/stats.Mean(xs[:n])
}

func quarter(n int) int { return (n + 3) / 4 }
