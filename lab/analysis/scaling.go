package analysis

import (
	"cmp"
	"fmt"
	"slices"

	"loadstone/lab/experiment"
	"loadstone/lab/model/scaling"
	"loadstone/lab/result"
	"loadstone/lab/stats"
	"loadstone/lab/verdict"
)

// lawSizes is the fewest sizes that show a bend: two always lie on a line.
const lawSizes = 3

// swept is a sweep as it was measured.
type swept struct {
	service, setting, unit string
	sizes                  []sized // by rising size
}

// sized is one size of it.
type sized struct {
	size    float64
	variant *result.Variant
}

// growth says how capacity grew over the sizes that an experiment swept; nil if
// it swept none or searched no capacity.
func growth(exp *experiment.Experiment, vs []result.Variant) *result.Scaling {
	if exp.Sweep == nil || exp.Measure != experiment.Capacity {
		return nil
	}
	w := swept{service: exp.Sweep.Service, setting: exp.Sweep.Setting(), unit: unit(exp)}
	for _, size := range exp.Sweep.Sizes() {
		i := slices.IndexFunc(vs, func(v result.Variant) bool { return v.Name == size.Variant })
		if i >= 0 && vs[i].Capacity != nil { // a run may have been of some of them
			w.sizes = append(w.sizes, sized{size.Size, &vs[i]})
		}
	}
	slices.SortFunc(w.sizes, func(a, b sized) int { return cmp.Compare(a.size, b.size) })
	s := &result.Scaling{Service: w.service, Setting: w.setting}
	for _, z := range w.sizes {
		p := result.ScalingPoint{Size: z.size, Variant: z.variant.Name, Capacity: *z.variant.Capacity}
		p.Bound, _ = w.lowest(z.variant.Components, 1)
		switch who := z.variant.Verdict.Limiting(); len(who) {
		case 0:
		case 1:
			p.Limit = who[0]
		default:
			slices.Sort(who) // so that it reads alike at all sizes
			p.Tied = who
		}
		s.Points = append(s.Points, p)
	}
	s.Law, s.Note = w.law()
	s.HeldOut = w.heldOut()
	s.Takeover = w.takeover()
	if exp.Sweep.Carry > 0 {
		s.Carry = requiredSize(s, float64(exp.Sweep.Carry), w.unit)
	}
	return s
}

// one is the size that the law calls 1: a replica, or the smallest share.
func (w *swept) one() float64 {
	if w.setting == "cpus" && len(w.sizes) > 0 {
		return w.sizes[0].size
	}
	return 1
}

// law fits all trials of all sizes. The note says why it could not.
func (w *swept) law() (law *result.ScalingLaw, note string) {
	samples := make([]scaling.Sample, len(w.sizes))
	for i, z := range w.sizes {
		samples[i] = scaling.Sample{Name: z.variant.Name, N: z.size / w.one(), Capacities: z.variant.PerTrial, LowerBound: z.variant.Capacity.LowerBound}
	}
	points, warnings := scaling.Points(samples)
	if n := len(scaling.Sizes(points)); n < lawSizes {
		return nil, fmt.Sprintf("A scaling law takes %d sizes that sustained some rate, and there are %d: two always lie on a line", lawSizes, n)
	}
	d, err := scaling.Describe(points)
	if err != nil {
		return nil, "No scaling law: " + err.Error()
	}
	low, high := w.sizes[0].size, w.sizes[len(w.sizes)-1].size
	law = &result.ScalingLaw{
		Shape:  string(d.Shape),
		Lambda: fitted(d.Law.Lambda, 1, w.unit), Sigma: fitted(d.Law.Sigma, 1, ""), Kappa: fitted(d.Law.Kappa, 1, ""),
		Curve: d.Curve(low, high, w.one()), PeakNote: d.PeakNote(), Warnings: append(warnings, d.Law.Warnings...),
	}
	if law.PeakNote == "" {
		at := fitted(d.Law.Peak.N, w.one(), w.setting)
		law.Peak = &at
	}
	return law, ""
}

// fitted puts an interval of a fit into the result's form, times a factor. One
// that is open above keeps the highest value that was looked at.
func fitted(iv stats.Interval, by float64, unit string) result.Estimate {
	return result.Estimate{Interval: stats.Interval{Value: by * iv.Value, Low: by * iv.Low, High: by * iv.High, Confidence: iv.Confidence}, Unit: unit}
}

// heldOut predicts the largest size from the next smaller one alone: its
// capacity in each trial, times by what growing moves the lowest bound.
//
// A fit over the smaller sizes does not know of a limit that none of them reached.
// The bounds of the smallest size do, but what a request costs changes with size
// (a component that idles spends more on each, and replicas share the machine's
// caches), so the nearest size is the best evidence; docs/scaling.md has figures.
func (w *swept) heldOut() *result.HeldOut {
	if len(w.sizes) < 2 {
		return nil
	}
	base, largest := w.sizes[len(w.sizes)-2], w.sizes[len(w.sizes)-1]
	measured := largest.variant.Capacity
	if base.variant.Capacity.LowerBound || measured.LowerBound || !(measured.Value > 0) {
		return nil // nothing to predict from, or to hold against
	}
	var predicted, rejected []float64
	for _, f := range base.variant.Figures {
		before, ok := w.lowest(f.Components, 1)
		after, grown := w.lowest(f.Components, largest.size/base.size)
		if ok && grown && f.Capacity > 0 {
			by := after / before
			predicted, rejected = append(predicted, f.Capacity*by), append(rejected, rejectedOr(f.Rejected)*by)
		}
	}
	if len(predicted) == 0 {
		return nil
	}
	m := between(predicted, rejected, w.unit)
	return &result.HeldOut{
		Size:      largest.size,
		Predicted: m,
		Measured:  *measured,
		Error:     m.Value/measured.Value - 1,
		From:      "the capacity and the bounds of " + base.variant.Name + ", the nearest size",
	}
}

// bound is what one resource allows.
type bound struct {
	name  string
	rate  float64
	grows bool // with the size
}

// bounds are those of all components. Every instance of a service has its own
// pools and locks, so they grow with replicas; they do not with CPUs.
func (w *swept) bounds(cs []verdict.Component) []bound {
	var out []bound
	for _, c := range cs {
		if c.Bound > 0 {
			out = append(out, bound{c.Name, c.Bound, c.Name == w.service})
		}
		for _, r := range c.Resources {
			// What fills a queue is its consumer, which is there by itself.
			if r.Bound > 0 && (r.Kind == verdict.Pool || r.Kind == verdict.Lock) {
				out = append(out, bound{c.Name + " " + r.Name, r.Bound, c.Name == w.service && w.setting != "cpus"})
			}
		}
	}
	return out
}

// lowest is the lowest bound when the service grows by a factor; ok is false if
// nothing is known of what it sustains itself.
func (w *swept) lowest(cs []verdict.Component, factor float64) (rate float64, ok bool) {
	for _, b := range w.bounds(cs) {
		if b.grows {
			b.rate, ok = b.rate*factor, true
		}
		if rate == 0 || b.rate < rate {
			rate = b.rate
		}
	}
	return rate, ok
}

// takeover is told from the smallest size alone, before any larger one is run.
func (w *swept) takeover() *result.Takeover {
	if len(w.sizes) == 0 {
		return nil
	}
	smallest := w.sizes[0]
	var parts []scaling.Part
	for _, b := range w.bounds(smallest.variant.Components) {
		p := scaling.Part{Name: b.name, Each: b.rate, Count: 1}
		if b.grows {
			p = scaling.Part{Name: w.service, Each: b.rate / smallest.size, Grows: true}
		}
		parts = append(parts, p)
	}
	t, err := scaling.FindTakeover(parts)
	if err != nil || t.Next == "" {
		return nil // it has no limit of its own, or nothing else has
	}
	at := float64(t.At)
	if w.setting == "cpus" {
		at = t.Bound / t.Each // shares come in all sizes
	}
	return &result.Takeover{Grown: t.Grown, Next: t.Next, At: at, Bound: t.Bound}
}

// requiredSize is the smallest measured size that sustains a rate.
func requiredSize(s *result.Scaling, rate float64, unit string) *result.RequiredSize {
	c := &result.RequiredSize{Rate: rate}
	for _, p := range s.Points {
		low, high := p.Capacity.Low, p.Capacity.High
		if p.Capacity.LowerBound || p.Capacity.HighOpen {
			high = max(high, rate) // it may sustain more than was tried,
			if p.Bound > 0 && p.Bound < rate {
				high = p.Capacity.Value // but not more than its demands allow
			}
		}
		sure := p.Capacity.Confidence > 0 || p.Capacity.LowerBound // one trial has no interval
		if c.Size == 0 && sure && low >= rate {
			c.Size = p.Size
		}
		if c.Size == 0 && c.Maybe == 0 && high >= rate {
			c.Maybe = p.Size
		}
	}
	c.Text = s.RequiredText(c, unit)
	return c
}
