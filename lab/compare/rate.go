package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/stats"
)

// percentile is one that is compared.
type percentile struct {
	name string
	of   func(result.CurvePoint) float64
}

func percentiles() []percentile {
	return []percentile{
		{"p50", func(p result.CurvePoint) float64 { return p.P50 }},
		{"p95", func(p result.CurvePoint) float64 { return p.P95 }},
		{"p99", func(p result.CurvePoint) float64 { return p.P99 }},
	}
}

// latency compares response times under the same load: that of the experiment, if it was
// offered as written, else one rate. At their capacities all variants are about as late as
// the objective allows, so that latency there says nothing.
func (t *tabler) latency(pairs []pair) error {
	return t.add(t.latencyTitle(), t.separately(), func() (out []asked, notes []string) {
		var without, unlike []string
		for _, p := range pairs {
			m := match(p)
			switch {
			case m.ok:
				out = append(out, m.rows(p)...)
			case p.base.Asked != p.sample.Asked:
				unlike = append(unlike, fmt.Sprintf("%s (%s and %s)", p.name, p.base.Asked, p.sample.Asked))
			default:
				without = append(without, p.name)
			}
		}
		if len(without) > 0 {
			notes = append(notes, "no rate that both were tried at: "+strings.Join(without, ", "))
		}
		if len(unlike) > 0 {
			notes = append(notes, "not the same load, so that response times are not compared: "+strings.Join(unlike, ", "))
		}
		return out, notes
	})
}

// matched is the load that both of a pair were under.
type matched struct {
	curves [2][]curve // of base and sample
	of     func(cs []curve, x percentile) []stats.Trial
	where  string
	ok     bool // there is one
}

// match finds the load that both of a pair were under. As written it is what was asked
// for: the rate that came of that differs by chance, and with virtual users by how slow the
// answers were, which is the very thing to be compared.
func match(p pair) matched {
	m := matched{curves: [2][]curve{curves(p.base), curves(p.sample)}}
	switch {
	case p.base.Asked != p.sample.Asked:
	case p.base.Asked != "":
		m.where, m.of = p.base.Asked, whole
		m.ok = len(m.curves[0]) > 0 && len(m.curves[1]) > 0
	default:
		var rate float64
		if rate, m.ok = commonRate(m.curves[0], m.curves[1]); m.ok {
			m.where = format.Measured(rate)
			m.of = func(cs []curve, x percentile) []stats.Trial { return at(cs, rate, x) }
		}
	}
	return m
}

// rows are a pair's percentiles there.
func (m *matched) rows(p pair) (out []asked) {
	for _, x := range percentiles() {
		a := asked{Row: Row{
			Name:   fmt.Sprintf("%s, %s at %s", p.name, x.name, m.where),
			Metric: stats.Metric{Name: x.name, Unit: "ms"},
		}}
		a.line = stats.Line{
			Metric: a.Metric,
			Base:   stats.Sample{Name: p.base.Name, Trials: m.of(m.curves[0], x)},
			Sample: stats.Sample{Name: p.sample.Name, Trials: m.of(m.curves[1], x)},
		}
		a.Base, a.Sample, a.Change = stats.Median(a.line.Base.Values()), stats.Median(a.line.Sample.Values()), stats.Unclear
		if len(a.line.Base.Trials) == 0 || len(a.line.Sample.Trials) == 0 {
			continue // a latency of 0 was not measured
		}
		out = append(out, a)
	}
	return out
}

// whole is a percentile of each trial of a load as written, of which each trial has one.
func whole(cs []curve, x percentile) []stats.Trial {
	var out []stats.Trial
	for _, c := range cs {
		if v := x.of(c.points[0]); v > 0 && !math.IsInf(v, 0) {
			out = append(out, stats.Trial{Round: c.round, Value: v})
		}
	}
	return out
}

// curve are the rates that one trial tried, by rising rate.
type curve struct {
	round  int
	points []result.CurvePoint
}

func curves(v *result.Variant) []curve {
	of := make(map[int]*curve)
	for _, f := range v.Figures {
		of[f.Trial] = &curve{round: f.Round}
	}
	for _, p := range v.Curve {
		if c := of[p.Trial]; c != nil && p.Rate > 0 {
			c.points = append(c.points, p)
		}
	}
	var out []curve
	for _, trial := range slices.Sorted(maps.Keys(of)) {
		if c := of[trial]; len(c.points) > 0 && len(out) < stats.MaxTrials {
			slices.SortStableFunc(c.points, func(a, b result.CurvePoint) int { return cmp.Compare(a.Rate, b.Rate) })
			out = append(out, *c)
		}
	}
	return out
}

// slack is how far outside of what a trial tried a rate may be: offered rates
// differ a little from one try of the same rate to the next.
const slack = 0.02

// covers says whether the trial tried rates around this one.
func (c curve) covers(rate float64) bool {
	first, last := c.points[0].Rate, c.points[len(c.points)-1].Rate
	return rate >= first*(1-slack) && rate <= last*(1+slack)
}

// commonRate is the rate that most trials of both tried rates around, the lowest
// of those that are equally good: near the knee latency is mostly chance. ok is
// false if no rate has two trials of each, or one of each if there is but one.
func commonRate(base, sample []curve) (rate float64, ok bool) {
	least := min(2, len(base), len(sample))
	if least == 0 {
		return 0, false
	}
	covered := func(cs []curve, rate float64) (n int) {
		for _, c := range cs {
			if c.covers(rate) {
				n++
			}
		}
		return n
	}
	var rates []float64
	for _, c := range slices.Concat(base, sample) {
		for _, p := range c.points {
			rates = append(rates, p.Rate)
		}
	}
	slices.Sort(rates)
	best := 0
	for _, r := range rates {
		// Fewest first: a test is as strong as its smaller sample.
		a, b := covered(base, r), covered(sample, r)
		if n := 2*stats.MaxTrials*min(a, b) + a + b; min(a, b) >= least && n > best {
			best, rate = n, r
		}
	}
	return rate, best > 0
}

// at is a percentile of each trial that covers the rate.
func at(cs []curve, rate float64, x percentile) []stats.Trial {
	var out []stats.Trial
	for _, c := range cs {
		if !c.covers(rate) {
			continue
		}
		if v := c.interpolate(rate, x.of); v > 0 && !math.IsInf(v, 0) {
			out = append(out, stats.Trial{Round: c.round, Value: v})
		}
	}
	return out
}

// interpolate takes latency between two tried rates as exponential in the rate;
// beyond either end, by the slack at most, it is that of the end. Tries of the
// same rate count by their geometric mean.
func (c curve) interpolate(rate float64, of func(result.CurvePoint) float64) float64 {
	i, _ := slices.BinarySearchFunc(c.points, rate, func(p result.CurvePoint, r float64) int { return cmp.Compare(p.Rate, r) })
	if same := c.tried(rate); len(same) > 0 {
		sum := 0.0
		for _, p := range same {
			sum += math.Log(of(p))
		}
		return math.Exp(sum / float64(len(same)))
	}
	if i == 0 {
		return of(c.points[0])
	}
	if i == len(c.points) {
		return of(c.points[i-1])
	}
	a, b := c.points[i-1], c.points[i]
	w := (rate - a.Rate) / (b.Rate - a.Rate)
	return math.Exp((1-w)*math.Log(of(a)) + w*math.Log(of(b)))
}

// tried are the points at a rate.
func (c curve) tried(rate float64) []result.CurvePoint {
	var out []result.CurvePoint
	for _, p := range c.points {
		if math.Abs(p.Rate-rate) <= 1e-9*rate {
			out = append(out, p)
		}
	}
	return out
}
