package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/stats"
	"loadstone/lab/verdict"
)

// tabler makes the tables of a difference.
type tabler struct {
	difference *Difference
	result     *result.Result // whose unit and measure all of them have
	design     stats.Design
	// baseline is what both runs share, for compare.Referenced.
	baseline *pair
}

// The titles of tables that are told apart.
const (
	capacityTitle = "capacity"
	baselineTitle = "capacity of the baseline"
	rateTitle     = "response time at the same rate"
	loadTitle     = "response time under the same load"
	failedTitle   = "failed requests"
)

// values gives a variant's figure of each trial; those that are not above 0 are
// ones that were not measured.
type values func(v *result.Variant) []stats.Trial

// asked is a row that is yet to be compared.
type asked struct {
	Row

	line stats.Line
}

// all makes every table. rates says whether rates can be compared.
func (t *tabler) all(pairs []pair, rates bool) error {
	withBaseline := pairs
	if t.baseline != nil {
		withBaseline = append([]pair{*t.baseline}, pairs...)
	}
	var steps []func() error
	if rates {
		if t.result.Measure == "capacity" {
			steps = append(steps, func() error { return t.capacity(pairs) })
		}
		steps = append(steps,
			func() error { return t.latency(withBaseline) },
			func() error { return t.demand(pairs, withBaseline) })
	}
	steps = append(steps, func() error { return t.failed(withBaseline) })
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// separately is the design for what is not relative to a baseline.
func (t *tabler) separately() stats.Design {
	if t.design == stats.Referenced {
		return stats.Separate
	}
	return t.design
}

func (t *tabler) capacity(pairs []pair) error {
	metric := stats.Metric{Name: "capacity", Unit: t.result.RateUnit(), HigherIsBetter: true}
	found := func(v *result.Variant) []stats.Trial {
		return trials(v, func(f result.Figure) float64 { return f.Capacity })
	}
	of, notes := found, []string(nil)
	if len(pairs) > 0 && t.haveEdges(pairs) {
		notes = []string{"compared by where all attempts of a trial put what is sustained; shown is what was sustained"}
		of = func(v *result.Variant) []stats.Trial {
			return trials(v, func(f result.Figure) float64 { return f.Compared() })
		}
	}
	shown := func(v *result.Variant) stats.Interval { return stats.Median(stats.Sample{Trials: found(v)}.Values()) }
	rows := func(pairs []pair, reference values) (out []asked) {
		for _, p := range pairs {
			a := asked{Row: Row{Name: p.name, Metric: metric, BaseBound: bound(p.base), SampleBound: bound(p.sample)}}
			t.ask(&a, p, of, reference)
			a.Base, a.Sample = shown(p.base), shown(p.sample)
			out = append(out, a)
		}
		return out
	}
	if t.baseline == nil {
		return t.add(capacityTitle, t.design, func() ([]asked, []string) { return rows(pairs, nil), notes })
	}
	if err := t.add(capacityTitle, stats.Referenced, func() ([]asked, []string) { return rows(pairs, of), notes }); err != nil {
		return err
	}
	err := t.add(baselineTitle, stats.Separate, func() ([]asked, []string) { return rows([]pair{*t.baseline}, nil), nil })
	if err != nil {
		return err
	}
	if r := t.difference.Baseline(); r != nil && r.Result != nil && r.Result.Outcome == stats.Different {
		t.difference.Warnings = append(t.difference.Warnings, fmt.Sprintf(
			"%s, the baseline of both runs, differs by a factor of %s. If that is the machine, it cancels out of the other variants, which are relative to it; if it was changed on purpose, compare without --relative",
			t.baseline.name, format.Measured(r.Result.Ratio.Value)))
	}
	return nil
}

// haveEdges says whether all trials say where the system's edge is: those of earlier versions do
// not, and the highest rate that held is somewhat lower.
func (t *tabler) haveEdges(pairs []pair) bool {
	if t.baseline != nil {
		pairs = append(slices.Clone(pairs), *t.baseline)
	}
	return !slices.ContainsFunc(pairs, func(p pair) bool {
		return slices.ContainsFunc(slices.Concat(p.base.Figures, p.sample.Figures), func(f result.Figure) bool { return f.Capacity > 0 && f.Edge == 0 })
	})
}

func bound(v *result.Variant) bool { return v.Capacity != nil && v.Capacity.LowerBound }

// demand compares the CPU that components need. Where there is a baseline, it is
// relative to all CPU that a request costs there: how fast the machine is.
func (t *tabler) demand(pairs, withBaseline []pair) error {
	title := "CPU per " + format.One(t.result.RateUnit())
	var reference values
	if t.baseline != nil {
		reference = total
	} else {
		pairs = withBaseline
	}
	return t.add(title, t.design, func() (out []asked, notes []string) {
		if t.baseline != nil && (partlySeen(t.baseline.base) || partlySeen(t.baseline.sample)) {
			return nil, []string{"not all that the baseline's components used was seen, so that nothing is relative to it"}
		}
		for _, p := range pairs {
			for _, c := range p.base.Components {
				if !slices.ContainsFunc(p.sample.Components, func(o verdict.Component) bool { return o.Name == c.Name }) {
					continue
				}
				a := asked{Row: Row{Name: p.name + ", " + c.Name, Metric: stats.Metric{Name: c.Name + " CPU", Unit: "ms"}}}
				of := func(v *result.Variant) []stats.Trial { return demandOf(v, c.Name) }
				t.ask(&a, p, of, reference)
				if a.Note == "" { // a component that used nothing says nothing
					out = append(out, a)
				}
			}
		}
		return out, nil
	})
}

func demandOf(v *result.Variant, component string) []stats.Trial {
	return trials(v, func(f result.Figure) float64 {
		for _, c := range f.Components {
			if c.Name == component && c.Unseen == 0 {
				return c.DemandMS
			}
		}
		return 0
	})
}

func partlySeen(v *result.Variant) bool {
	return slices.ContainsFunc(v.Components, func(c verdict.Component) bool { return c.Unseen > 0 })
}

func total(v *result.Variant) []stats.Trial {
	return trials(v, func(f result.Figure) float64 {
		sum := 0.0
		for _, c := range f.Components {
			if c.Unseen > 0 {
				return 0 // which is left out
			}
			sum += c.DemandMS
		}
		return sum
	})
}

// failed compares the share of failures where there were any. A share below
// half a request in the smallest trial has no ratio and cannot be told from 0:
// it counts as that half.
func (t *tabler) failed(pairs []pair) error {
	return t.add(failedTitle, t.separately(), func() (out []asked, notes []string) {
		for _, p := range pairs {
			least := math.Inf(1)
			some := false
			for _, f := range slices.Concat(p.base.Figures, p.sample.Figures) {
				if f.Measured && f.Requests > 0 {
					least = min(least, 0.5/float64(f.Requests))
					some = some || f.Failed > 0
				}
			}
			if !some {
				continue
			}
			a := asked{Row: Row{Name: p.name, Metric: stats.Metric{Name: "failed", Unit: "share"}}}
			of := func(v *result.Variant) []stats.Trial {
				return trials(v, func(f result.Figure) float64 { return max(f.Failed, least) })
			}
			t.ask(&a, p, of, nil)
			shown := func(v *result.Variant) stats.Interval {
				var xs []float64
				for _, f := range v.Figures {
					if f.Measured {
						xs = append(xs, f.Failed)
					}
				}
				return stats.Median(xs)
			}
			a.Base, a.Sample = shown(p.base), shown(p.sample)
			out = append(out, a)
		}
		return out, nil
	})
}

// trials are a figure of each trial in which something was measured.
func trials(v *result.Variant, of func(result.Figure) float64) []stats.Trial {
	var out []stats.Trial
	for _, f := range v.Figures {
		if x := of(f); f.Measured && x > 0 && !math.IsInf(x, 0) && len(out) < stats.MaxTrials {
			out = append(out, stats.Trial{Round: f.Round, Value: x})
		}
	}
	return out
}

// ask fills in what a row compares, or its note if there is nothing to.
func (t *tabler) ask(a *asked, p pair, of, reference values) {
	base, sample := stats.Sample{Name: p.base.Name, Trials: of(p.base)}, stats.Sample{Name: p.sample.Name, Trials: of(p.sample)}
	a.Change = stats.Unclear
	a.Base, a.Sample = stats.Median(base.Values()), stats.Median(sample.Values())
	switch none := len(base.Trials) == 0; {
	case none && len(sample.Trials) == 0:
		a.Note = "no trial held any rate"
		return
	case none:
		a.Note = "no trial of the first held any rate"
		return
	case len(sample.Trials) == 0 && bound(p.sample):
		a.Note = "no rate could be judged any more"
		return
	case len(sample.Trials) == 0:
		a.Note, a.Change = "holds no rate any more", stats.Worse
		return
	}
	var left []string
	for _, v := range []*result.Variant{p.base, p.sample} {
		if n := len(v.Figures) - len(of(v)); n > 0 {
			left = append(left, fmt.Sprintf("%d of %d", n, len(v.Figures)))
		}
	}
	if len(left) > 0 {
		t.difference.warn(fmt.Sprintf("%s, %s: trials without a figure are left out (%s)", p.name, a.Metric.Name, strings.Join(left, " and ")))
	}
	if reference != nil {
		var err error
		if base, err = stats.Relative(base, stats.Sample{Name: t.baseline.name, Trials: reference(t.baseline.base)}); err != nil {
			a.Note = "the baseline has no trial in the same rounds"
			return
		}
		if sample, err = stats.Relative(sample, stats.Sample{Name: t.baseline.name, Trials: reference(t.baseline.sample)}); err != nil {
			a.Note = "the baseline has no trial in the same rounds"
			return
		}
	}
	a.line = stats.Line{Metric: a.Metric, Sample: sample, Base: base}
}

func (d *Difference) warn(text string) {
	if !slices.Contains(d.Warnings, text) {
		d.Warnings = append(d.Warnings, text)
	}
}

// add compares what was asked and keeps the table, if it has rows or notes.
func (t *tabler) add(title string, design stats.Design, ask func() ([]asked, []string)) error {
	rows, notes := ask()
	table := Table{Title: title, Design: design, Judged: t.judged(title), Notes: notes}
	if design == stats.Referenced {
		table.Reference = t.baseline.name
	}
	var lines []stats.Line
	for _, a := range rows {
		if a.Note == "" {
			lines = append(lines, a.line)
		}
	}
	compared, err := compareLines(title, lines, design)
	if err != nil {
		return err
	}
	for _, a := range rows {
		if a.Note == "" {
			a.setResult(compared[0])
			compared = compared[1:]
		}
		table.Rows = append(table.Rows, a.Row)
	}
	if len(table.Rows) > 0 || len(table.Notes) > 0 {
		t.difference.Tables = append(t.difference.Tables, table)
	}
	return nil
}

// compareLines compares capacities of one run's variants as its report does.
func compareLines(title string, lines []stats.Line, design stats.Design) ([]stats.Row, error) {
	if title == capacityTitle && design == stats.Interleaved {
		if rows, joint, err := stats.Joint(lines); joint || err != nil {
			return rows, err
		}
	}
	return stats.Table(lines, design)
}

// judged says which tables decide whether a run is worse.
func (t *tabler) judged(title string) bool {
	switch title {
	case capacityTitle, failedTitle, loadTitle:
		return true
	default:
		return false
	}
}

// latencyTitle says what response times are compared at. Those at the rate of a search
// are not judged: see Table.
func (t *tabler) latencyTitle() string {
	if t.result.Measure == "capacity" {
		return rateTitle
	}
	return loadTitle
}

// setResult adds what the comparison found. A lower bound can be told from
// what it exceeds, and from nothing else: the truth may lie higher.
func (r *Row) setResult(c stats.Row) {
	r.Result, r.Adjusted, r.Change = &c.Result, c.Adjusted, c.Change
	if c.Result.Outcome != stats.Different || !r.BaseBound && !r.SampleBound {
		return
	}
	if more := c.Result.Ratio.Value > 1; r.BaseBound && (more || r.SampleBound) || r.SampleBound && !more {
		r.Change, r.Note = stats.Unclear, "a lower bound: the true ratio may be on either side of 1"
	}
}
