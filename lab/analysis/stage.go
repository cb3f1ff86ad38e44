package analysis

import (
	"cmp"
	"strings"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/series"
	"loadstone/lab/topology"
	"loadstone/lab/verdict"
)

// stage reads a step of a pipeline. Rate and what waits are those of all
// instances together; how busy it is, and how much it was held back, are those
// of the hottest worker, because the others cannot take over its part.
//
// Its bound is the utilisation law's, throughput / utilisation, for what it did:
// where more comes than it does, only so much of the throughput got through it.
func (m *meter) stage(instances []string) (out verdict.Resource, ok bool) {
	d := m.resource
	out = verdict.Resource{Name: d.Name, Kind: d.Kind, After: d.After}
	var all []worker
	for _, name := range instances {
		if m.handled(name, &out) {
			all = append(all, m.workers(name)...)
		}
	}
	ok = len(all) > 0
	hottest(all, &out)
	if m.lacks != "" {
		return out, false
	}
	behind := out.Behind()
	if behind && d.BusySeconds == "" && d.BusyMS == "" {
		out.Busy = 1
	}
	if ok && out.Busy > 0 && m.throughput > 0 {
		out.Bound = m.throughput / out.Busy
		if behind {
			out.Bound *= out.Rate / (out.Rate + out.Slope)
		}
		out.DemandMS = 1000 / max(out.Bound, 1e-9)
	}
	return out, ok
}

// hottest is how busy the hottest worker is, and how many others are.
func hottest(all []worker, out *verdict.Resource) {
	sum := 0.0
	for i, w := range all {
		out.Workers++
		if w.busy >= verdict.BusyMuch {
			out.BusyWorkers++
		}
		if i == 0 || w.busy > out.Busy {
			out.Busy, out.Backpressured = min(1, w.busy), w.held
		}
		sum += min(1, w.busy)
	}
	if sum > 0 {
		out.Skew = out.Workers * out.Busy / sum
	}
}

// handled adds what an instance did and what waited for it. It is false if it tells
// nothing of the former.
func (m *meter) handled(name string, out *verdict.Resource) bool {
	d := m.resource
	rate, told := m.view(name).Growth(m.match[d.Done])
	if !told {
		return m.without(name, d.Done)
	}
	out.Rate += rate
	if d.Lag != "" {
		lag, told := m.gauge(name, d.Lag)
		if !told {
			m.without(name, d.Lag)
		}
		out.Depth += lag.Mean
		out.Slope += lag.Slope
		out.NotEmpty = max(out.NotEmpty, lag.Above)
	}
	return true
}

// worker is one series of a stage: the share of time in which it worked, and in
// which it could not hand on; nil if that is not told.
type worker struct {
	busy float64
	held *float64
}

// workers are those of one instance, one of which nothing is known if it does not
// tell. A worker is held back as the series with its labels says, or else as all
// that do not tell them apart say on average.
func (m *meter) workers(name string) []worker {
	d := m.resource
	busy, held := m.shares(name, d.BusySeconds, d.BusyMS), m.shares(name, d.BackpressuredSeconds, d.BackpressuredMS)
	var all *float64
	if len(held) > 0 {
		sum := 0.0
		for _, share := range held {
			sum += share / float64(len(held))
		}
		all = &sum
	}
	if counter := cmp.Or(d.BusySeconds, d.BusyMS); len(busy) == 0 && counter != "" {
		m.without(name, counter)
	}
	if len(busy) == 0 {
		return []worker{{held: all}}
	}
	var out []worker
	for labels, share := range busy {
		w := worker{busy: share, held: all}
		if own, ok := held[labels]; ok {
			w.held = &own
		}
		out = append(out, w)
	}
	return out
}

// shares are the shares of time that an instance's series tell of, by their
// labels: of counters of seconds, or gauges of milliseconds in each second.
func (m *meter) shares(name, seconds, millis string) map[string]float64 {
	out := make(map[string]float64)
	v := m.view(name)
	read := func(metric string, share func(match func(string) bool) (float64, bool)) {
		if metric == "" {
			return
		}
		for _, series := range v.Series(m.match[metric]) {
			_, labels, _ := strings.Cut(series, "{")
			if x, ok := share(func(s string) bool { return s == series }); ok {
				out[labels] = x
			}
		}
	}
	read(seconds, v.Growth)
	read(millis, func(match func(string) bool) (float64, bool) {
		g, ok := v.Gauge(match)
		return g.Mean / 1000, ok
	})
	return out
}

const (
	// flushMuch is the share of what was done under load from which on work that
	// was left over is worth a word: rates are not known better.
	flushMuch = 0.05
	// quietRate is the share of the rate under load below which a stage is taken
	// to have run out of work.
	quietRate = 0.02
)

// flush looks at what a queue or a stage had to do when the load was over.
// Stages go on with what was buffered, so a rate that is measured then, or over
// the whole time, is more than what came.
func (m *meter) flush(instances []string, out *verdict.Resource) {
	d := m.resource
	waiting := d.Lag
	if d.Kind == topology.Queue {
		waiting = d.Depth
	}
	if d.Done == "" {
		return
	}
	out.Rate = 0
	for _, name := range instances {
		rate, _ := m.view(name).Growth(m.match[d.Done])
		out.Rate += rate
	}
	var left, flushed, within float64
	for _, name := range instances {
		if waiting != "" {
			g, _ := m.gauge(name, waiting)
			left += g.Last - g.First
		}
		after := series.View{Scrapes: m.scrapes, Instance: name, From: m.to, To: m.next}
		grown, seconds := after.WorkedOff(m.match[d.Done], quietRate*out.Rate)
		flushed += grown
		within = max(within, seconds)
	}
	much := flushMuch * out.Rate * m.to.Sub(m.from).Seconds()
	if left > much {
		out.Left = left
	}
	if flushed > much {
		out.Flushed, out.FlushSeconds = flushed, within
	}
}

const (
	// tryWarmup and perturbWarmup are longer than the load lasts before the part
	// of it that the trial's record begins with.
	tryWarmup     = 500 * time.Millisecond
	perturbWarmup = 3500 * time.Millisecond
)

// nextLoad is until when nothing is offered after a moment.
func nextLoad(t archive.Trial, after time.Time) time.Time {
	next := t.Ended
	begins := func(at time.Time, warmup time.Duration) {
		if at.After(after) && at.Add(-warmup).Before(next) {
			next = at.Add(-warmup)
		}
	}
	for i := range t.Measures {
		begins(t.Measures[i].Result.From, tryWarmup)
	}
	if len(t.Perturbations) > 0 {
		begins(t.Perturbations[0].Start, perturbWarmup)
	}
	return next
}

// joinBackpressure is the median of those that tell; nil if none does.
func joinBackpressure(rs []verdict.Resource) *float64 {
	var shares []float64
	for _, r := range rs {
		if r.Backpressured != nil {
			shares = append(shares, *r.Backpressured)
		}
	}
	if len(shares) == 0 {
		return nil
	}
	middle := median(shares)
	return &middle
}
