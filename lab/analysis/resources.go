package analysis

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/load"
	"loadstone/lab/probe"
	"loadstone/lab/result"
	"loadstone/lab/series"
	"loadstone/lab/stats"
	"loadstone/lab/topology"
	"loadstone/lab/verdict"
)

// mostProbe is the share of the machine that watching may cost without a warning.
const mostProbe = 0.02

// costly warns of watching that took enough of the machine to change what was
// watched.
func costly(cores float64, machine int) []string {
	if machine < 1 || cores <= mostProbe*float64(machine) {
		return nil
	}
	return []string{fmt.Sprintf("watching the system cost %.1f %% of the machine, more than the %.0f %% that leave its figures alone",
		100*cores/float64(machine), 100*mostProbe)}
}

// declared adds to a component what the Compose file declares of its service:
// pools, locks, queues and stages, and how many requests it served. What no scrape
// tells of is left out, with a warning.
func declared(c *verdict.Component, t archive.Trial, scrapes []probe.Scrape, r *load.Result) (counts []result.Ratio, warnings []string) {
	var instances []string
	var resources []topology.Resource
	for _, in := range t.Instances {
		if in.Service == c.Name {
			instances, resources = append(instances, in.Name), in.Resources
		}
	}
	for _, d := range resources {
		m := meter{resource: d, scrapes: scrapes, measures: t.Measures, from: r.From, to: r.To, next: nextLoad(t, r.To)}
		if seconds := r.Seconds(); seconds > 0 {
			m.throughput = float64(r.IterationsInTime) / seconds
		}
		if err := m.parse(); err != nil {
			warnings = append(warnings, fmt.Sprintf("%s: its %s %s is not judged: %v", c.Name, d.Kind, d.Name, err))
			continue
		}
		if d.Kind == topology.Requests {
			var ok bool
			if c.Visits, ok = m.visits(instances); !ok {
				warnings = append(warnings, fmt.Sprintf("%s: its visits are not known: not every instance was scraped twice under load with its x-requests", c.Name))
			}
			continue
		}
		if d.Kind == topology.Work {
			seconds, ok := m.growth(instances, d.BusySeconds)
			if !ok {
				warnings = append(warnings, fmt.Sprintf("%s: what goes into its work %s is not known: not every instance was scraped twice under load with its metric", c.Name, d.Name))
				continue
			}
			c.Work = append(c.Work, verdict.Work{Name: d.Name, DemandMS: 1000 * seconds})
			continue
		}
		if d.Kind == topology.Count {
			if n, ok := m.growth(instances, d.Done); ok {
				counts = append(counts, result.Ratio{Name: d.Name + " an iteration", Component: c.Name, Value: n})
			} else {
				warnings = append(warnings, fmt.Sprintf("%s: its %s are not known: not every instance was scraped twice under load with their metric", c.Name, d.Name))
			}
			continue
		}
		found, ok := m.all(instances)
		if !ok {
			warnings = append(warnings, fmt.Sprintf("%s: its %s %s is not judged: %s", c.Name, d.Kind, d.Name, m.lacking()))
			continue
		}
		m.flush(instances, &found)
		c.Resources = append(c.Resources, found)
	}
	return counts, append(warnings, overcounted(c)...)
}

// overcounted takes out kinds of work that add up to more CPU time than the component
// had: what their counters count is no part of it.
func overcounted(c *verdict.Component) (warnings []string) {
	var sum float64
	var names []string
	for _, w := range c.Work {
		sum += w.DemandMS
		names = append(names, w.Name)
	}
	if c.Unseen > 0 { // all instances count, and CPU is of some
		c.Work = nil
		return nil
	}
	if sum <= (1+countedMore)*c.DemandMS {
		return nil
	}
	c.Work = nil
	return []string{fmt.Sprintf("%s: its work %s counts %.3g s for each second of CPU that it used, so it says nothing of that CPU: let the counters count CPU time, without waiting, and each second once",
		c.Name, strings.Join(names, " and "), sum/c.DemandMS)}
}

// countedMore is by how much counters of work may exceed the CPU time: scrapes and samples
// are not of the same moments.
const countedMore = 0.1

// visits is how many requests the instances served for each iteration: the
// forced flow law's visit ratio. ok is false if one of them does not tell.
func (m *meter) visits(instances []string) (perIteration float64, ok bool) {
	return m.growth(instances, m.resource.Done)
}

// growth is by how much a counter of all instances grew for each iteration. ok is false
// if one of them does not tell.
func (m *meter) growth(instances []string, counter string) (perIteration float64, ok bool) {
	for _, name := range instances {
		rate, told := m.view(name).Growth(m.match[counter])
		if !told {
			return 0, false
		}
		perIteration += rate
	}
	if m.throughput <= 0 {
		return 0, false
	}
	return perIteration / m.throughput, true
}

// meter reads one resource from scrapes over a span.
type meter struct {
	resource   topology.Resource
	scrapes    []probe.Scrape
	measures   []archive.Measure
	from, to   time.Time // the span that is judged
	next       time.Time // until when there is no load after it
	throughput float64   // iterations/s
	match      map[string]func(series string) bool
	lacks      string // an instance that was scraped without one of the resource's metrics
}

// lacking is why the resource is not judged.
func (m *meter) lacking() string {
	if m.lacks != "" {
		return m.lacks
	}
	return "no two scrapes under load have its metrics"
}

// without takes down that an instance does not tell a metric that is declared, if it told
// anything: what is not told is no 0. It returns false.
func (m *meter) without(name, metric string) bool {
	if len(m.view(name).Series(func(string) bool { return true })) > 0 {
		m.lacks = fmt.Sprintf("%s does not tell its metric %s under load", name, metric)
	}
	return false
}

func (m *meter) parse() error {
	d := m.resource
	m.match = make(map[string]func(string) bool)
	for _, metric := range []string{
		d.Size, d.InUse, d.Waiting, d.WaitSeconds, d.BusySeconds, d.Depth, d.Capacity, d.Done,
		d.Lag, d.BackpressuredSeconds, d.BusyMS, d.BackpressuredMS,
	} {
		if metric == "" {
			continue
		}
		s, err := series.ParseSelector(metric)
		if err != nil {
			return err
		}
		m.match[metric] = s.Matches
	}
	return nil
}

// all joins the instances: the hottest sets capacity and bound, demand and
// waiting add up. ok is false if no instance tells.
func (m *meter) all(instances []string) (out verdict.Resource, ok bool) {
	if m.resource.Kind == topology.Stage {
		return m.stage(instances)
	}
	var held, waiting, waited float64
	for _, name := range instances {
		one, told := m.one(name)
		if !told {
			continue
		}
		held += one.Capacity * one.Busy
		waiting += one.Waiting
		waited += one.WaitMS
		if !ok || one.Busy > out.Busy {
			out = one
		}
		ok = true
	}
	if m.lacks != "" {
		return out, false
	}
	out.Waiting = waiting
	if m.throughput > 0 {
		out.WaitMS = 1000 * waited / m.throughput
		if m.resource.Kind == topology.Queue {
			held = out.Busy // its capacity is of places, not of who works
		}
		out.DemandMS = 1000 * held / m.throughput
	}
	if out.Busy > 0 {
		out.Bound = m.throughput / out.Busy
	}
	return out, ok
}

// one reads an instance. WaitMS is the seconds waited in each second here.
func (m *meter) one(name string) (verdict.Resource, bool) {
	d := m.resource
	out := verdict.Resource{Name: d.Name, Kind: d.Kind, Consumer: d.Consumer, Capacity: 1}
	ok := false
	switch d.Kind {
	case topology.Pool:
		used, told := m.gauge(name, d.InUse)
		size, sized := m.gauge(name, d.Size)
		switch {
		case !told:
			return out, m.without(name, d.InUse)
		case !sized:
			return out, m.without(name, d.Size)
		case size.Mean <= 0:
			return out, false
		}
		ok, out.Capacity, out.Busy = true, size.Mean, used.Mean/size.Mean
		out.Full, _ = m.view(name).ShareAtLeast(m.match[d.InUse], m.match[d.Size])
	case topology.Lock:
		if out.Busy, ok = m.view(name).Growth(m.match[d.BusySeconds]); !ok {
			return out, m.without(name, d.BusySeconds)
		}
	case topology.Queue:
		ok = m.queue(name, &out)
	}
	if d.Waiting != "" {
		waiting, told := m.gauge(name, d.Waiting)
		if out.Waiting = waiting.Mean; !told {
			return out, m.without(name, d.Waiting)
		}
	}
	if d.WaitSeconds != "" {
		var told bool
		if out.WaitMS, told = m.view(name).Growth(m.match[d.WaitSeconds]); !told {
			return out, m.without(name, d.WaitSeconds)
		}
	}
	return out, ok
}

// neverEmpty is the share of scrapes with work in a queue from which on its
// consumer is taken to have had no pause.
const neverEmpty = 0.95

// queue reads a queue. How much its consumer can do is what it did in the tries
// in which the queue was never empty, if there was one; else the share of time
// with work in the queue stands for the consumer's utilisation.
func (m *meter) queue(name string, out *verdict.Resource) bool {
	d := m.resource
	depth, ok := m.gauge(name, d.Depth)
	if !ok {
		return m.without(name, d.Depth)
	}
	out.Depth, out.Slope, out.NotEmpty, out.Busy, out.Capacity = depth.Mean, depth.Slope, depth.Above, depth.Above, 0
	if d.Capacity != "" {
		places, told := m.gauge(name, d.Capacity)
		if out.Capacity = places.Mean; !told {
			return m.without(name, d.Capacity)
		}
		out.Full, _ = m.view(name).ShareAtLeast(m.match[d.Depth], m.match[d.Capacity])
	}
	if d.Done == "" {
		return true
	}
	done, told := m.view(name).Growth(m.match[d.Done])
	if !told {
		return m.without(name, d.Done)
	}
	most := 0.0
	for i := range m.measures {
		r := &m.measures[i].Result
		v := series.View{Scrapes: m.scrapes, Instance: name, From: r.From, To: r.To}
		g, seen := v.Gauge(m.match[d.Depth])
		rate, grew := v.Growth(m.match[d.Done])
		if seen && grew && g.Scrapes > 2 && g.Above >= neverEmpty {
			most = max(most, rate)
		}
	}
	if most > 0 {
		out.Busy, out.Counted = min(1, done/most), true
	}
	return true
}

func (m *meter) view(name string) *series.View {
	return &series.View{Scrapes: m.scrapes, Instance: name, From: m.from, To: m.to}
}

func (m *meter) gauge(name, metric string) (series.Gauge, bool) {
	return m.view(name).Gauge(m.match[metric])
}

// joinResources are the medians over trials of one component's resources, of
// the trials that tell of them, in order of name.
func joinResources(component []verdict.Component) []verdict.Resource {
	seen := make(map[string][]verdict.Resource)
	for _, c := range component {
		for _, r := range c.Resources {
			seen[r.Name] = append(seen[r.Name], r)
		}
	}
	var out []verdict.Resource
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		rs := seen[name]
		r := medians(rs, func(r *verdict.Resource) []*float64 {
			return []*float64{
				&r.Capacity, &r.DemandMS, &r.Busy, &r.NotEmpty, &r.Full, &r.Waiting, &r.WaitMS,
				&r.Depth, &r.Slope, &r.Rate, &r.Left, &r.Flushed, &r.FlushSeconds, &r.Workers, &r.BusyWorkers, &r.Skew,
			}
		})
		r.Backpressured = joinBackpressure(rs)
		r.Counted = !slices.ContainsFunc(rs, func(r verdict.Resource) bool { return !r.Counted })
		r.Bound, r.BoundLow, r.BoundHigh, r.BoundTrials = bounded(rs, func(r verdict.Resource) float64 { return r.Bound })
		out = append(out, r)
	}
	return out
}

// joinWork are the medians over trials of a component's kinds of work, of those that every
// trial tells of.
func joinWork(component []verdict.Component) []verdict.Work {
	seen := make(map[string][]verdict.Work)
	for _, c := range component {
		for _, w := range c.Work {
			seen[w.Name] = append(seen[w.Name], w)
		}
	}
	var out []verdict.Work
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if len(seen[name]) == len(component) {
			out = append(out, medians(seen[name], func(w *verdict.Work) []*float64 { return []*float64{&w.DemandMS} }))
		}
	}
	return out
}

// bounded is the median of a bound over trials, with its interval and of how
// many trials it is; these are 0 for a single trial or where there is no bound.
func bounded[T any](trials []T, bound func(T) float64) (value, low, high float64, n int) {
	m := stats.Median(values(trials, bound))
	if m.Confidence == 0 || m.Value == 0 {
		return m.Value, 0, 0, 0
	}
	return m.Value, m.Low, m.High, len(trials)
}

// pressed adds what the probe saw once a second, of the instance that was worst
// off, to a component.
func pressed(c *verdict.Component, u probe.Usage, seconds float64) {
	c.MemoryStall = max(c.MemoryStall, u.MemoryStall.Seconds()/seconds)
	c.MemoryFails = max(c.MemoryFails, u.MemoryFails/seconds)
	c.MajorFaults = max(c.MajorFaults, u.MajorFaults/seconds)
	c.OOMKills = max(c.OOMKills, u.OOMKills)
	c.DiskBytes += (u.DiskRead + u.DiskWritten) / seconds
}
