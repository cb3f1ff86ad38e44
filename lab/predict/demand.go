package predict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/model/queueing"
	"loadstone/lab/result"
	"loadstone/lab/stats"
	"loadstone/lab/verdict"
)

// What a component needs for a request depends on how near it is to its limit. A
// throttled one serves what has gathered meanwhile in one go, and uses its whole
// share at any rate near capacity: the tries of one trial, at rates that differ by
// half, show the same use, and so say nothing of what one more request costs. Only
// the component at its limit with two shares of CPU does. Where variants of the run
// differ in sizes alone, that is what is taken:
//   - at its limit with several shares: a line through those points, so much for
//     each instance whatever the rate, and so much for each request;
//   - at its limit with one share: CPU per request there;
//   - never at its limit: CPU per request where it was nearest, which is too much, as
//     it was idle in between, or too little, if what came before it sent it bursts. A
//     prediction that moves the limit there says so.

const (
	// atLimit is the share of its CPU from which a component counts as being at
	// its limit: quotas are not used up to the last.
	atLimit = 0.85
	// apart is by how much shares must differ for a line through two points: where
	// each rate is known to ±5 %, the slope is then known to about a fifth.
	apart = 1.4
	// matters is the share of its CPU below which a component will not limit soon,
	// so that it is not worth looking for better figures of it.
	matters = 0.25
)

// usage is what a component used at capacity in one variant: medians over trials.
type usage struct {
	variant string
	limit   float64 // of each instance, in cores; 0 if it has none
	busy    float64 // of the hottest instance's limit
	rate    float64 // requests per second of each instance
	each    stats.Interval
}

// use is what a component used in a variant; ok is false if that is not known.
func use(v *result.Variant, name string) (u usage, ok bool) {
	var busy, rates, demands []float64
	u.variant = v.Name
	for _, f := range v.Figures {
		i := slices.IndexFunc(f.Components, func(c verdict.Component) bool { return c.Name == name })
		if !f.Measured || i < 0 || !(f.Components[i].DemandMS > 0) || f.Components[i].Unseen > 0 || !(f.Throughput > 0) {
			continue
		}
		c := f.Components[i]
		u.limit = c.LimitCPUs
		busy, rates = append(busy, c.Busy), append(rates, f.Throughput/float64(max(1, c.Instances)))
		demands = append(demands, c.DemandMS/1000)
	}
	if len(demands) == 0 {
		return usage{}, false
	}
	u.busy, u.rate, u.each = stats.Median(busy).Value, stats.Median(rates).Value, stats.Median(demands)
	return u, true
}

// demand is what a component needs for each request, and what each of its
// instances uses whatever the rate.
func (s *System) demand(name string, family []*result.Variant) (each stats.Interval, idle float64) {
	own, ok := use(family[0], name)
	if !ok {
		return queueing.Known(0), 0
	}
	var full []usage
	nearest := own
	for _, v := range family {
		u, ok := use(v, name)
		if !ok {
			continue
		}
		if u.busy >= atLimit {
			full = addUsage(full, u, own.variant)
		}
		if u.busy > nearest.busy && u.busy >= matters && own.busy < atLimit {
			nearest = u
		}
	}
	s.busiest[name] = nearest.busy
	if d, ok := line(full); ok {
		var from []string
		widest := own.each
		for _, u := range full {
			from = append(from, u.variant)
			if u.each.High*widest.Low > widest.High*u.each.Low {
				widest = u.each
			}
		}
		s.Assumptions = append(s.Assumptions, fmt.Sprintf("each instance of %s uses %s CPU whatever the rate, and %s ms for each request, from its capacity in %s",
			name, format.Measured(d.Idle.Value), format.Measured(1000*d.PerRequest.Value), strings.Join(from, ", ")))
		// Two points leave nothing to tell the line's error from: it is taken to be
		// that of the point which is known least.
		by := d.PerRequest.Value / widest.Value
		return stats.Interval{Value: d.PerRequest.Value, Low: by * widest.Low, High: by * widest.High, Confidence: widest.Confidence}, d.Idle.Value
	}
	if nearest.variant != own.variant {
		s.elsewhere = append(s.elsewhere, fmt.Sprintf("%s in %s (%s busy and not %s)", name, nearest.variant, format.Percent(nearest.busy), format.Percent(own.busy)))
	}
	return nearest.each, 0
}

// addUsage adds a usage to those at their limit: one for each share of CPU, the
// variant's own, or else the busiest.
func addUsage(full []usage, u usage, own string) []usage {
	i := slices.IndexFunc(full, func(o usage) bool { return o.limit == u.limit })
	switch {
	case i < 0:
		return append(full, u)
	case full[i].variant != own && u.busy > full[i].busy:
		full[i] = u
	}
	return full
}

// line is what a component at its limit needs, apart and for each request; ok is
// false if that cannot be told. A quota is not used up to the last: what is left
// of it at capacity counts as used, so that the line is that of what can be had.
func line(full []usage) (d queueing.Demand, ok bool) {
	var points []queueing.Usage
	least, most := math.Inf(1), 0.0
	for _, u := range full {
		points = append(points, queueing.Usage{Rate: u.rate, Busy: u.rate * u.each.Value / u.busy})
		least, most = min(least, u.limit), max(most, u.limit)
	}
	if most < apart*least {
		return queueing.Demand{}, false
	}
	d, err := queueing.FitDemand(points)
	// A line that has nothing apart, or none, is no better than the division.
	return d, err == nil && d.Idle.Value > 0
}
