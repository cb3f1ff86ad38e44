package report

import (
	"fmt"
	"slices"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/term"
	"loadstone/lab/verdict"
)

// table writes a row per variant in the first layout that fits: in full, with
// units in the header, with short names, and as a list if none fits.
func (s *summary) table() {
	if len(s.result.Variants) == 0 {
		return
	}
	s.line("")
	layouts := []layout{{units: true, name: 40}, {name: 40}, {name: 20}, {name: 12}}
	for _, l := range layouts {
		g := s.capacityGrid(l)
		if s.result.MeasuresLoad() {
			g = s.loadGrid(l)
		}
		if g.Width() > s.width {
			continue
		}
		for _, line := range g.Lines(s.color) {
			s.line(line)
		}
		s.legend(hasTilde(s.result))
		return
	}
	for i := range s.result.Variants {
		s.listed(&s.result.Variants[i])
	}
	s.legend(hasTilde(s.result))
}

// layout is how much room a table takes: whether each cell repeats its unit,
// and the most columns for a name.
type layout struct {
	units bool
	name  int
}

func (s *summary) capacityGrid(l layout) *term.Table {
	g := &term.Table{Columns: []term.Column{{Gap: 2}, {Gap: 2, Right: true}, {Gap: 1}, {Gap: 2, Right: true},
		{Gap: 1}, {Gap: 2, Right: true}, {Gap: 2}}}
	versus := ""
	if len(s.result.Comparisons) > 0 {
		versus = "vs " + term.Shorten(term.Printable(s.result.Baseline()), min(l.name, 16))
	}
	head := []string{"variant", "capacity", "", versus, "", "p95", "limited by"}
	if !l.units {
		head[1] = term.Printable(s.result.RateUnit())
	}
	g.Add(term.Faint.Cells(head...)...)
	for i := range s.result.Variants {
		v := &s.result.Variants[i]
		value, interval := capacityCells(v, l.units)
		tilde, ratio, ratioInterval := ratioCells(s.result, v.Name)
		doubt := term.Plain
		if tilde != "" {
			doubt = term.Yellow
		}
		g.Add(term.Plain.Cell(term.Shorten(term.Printable(v.Name), l.name)), term.Bold.Cell(value), term.Plain.Cell(interval),
			doubt.Cell(strings.TrimSpace(tilde+" "+ratio)), doubt.Cell(ratioInterval),
			term.Plain.Cell(format.Latency(v.Latency.Response.P95)), limitCell(v, l.name))
	}
	return g
}

func (s *summary) loadGrid(l layout) *term.Table {
	g := &term.Table{Columns: []term.Column{{Gap: 2}, {Gap: 2, Right: true}, {Gap: 2, Right: true}, {Gap: 2, Right: true},
		{Gap: 2, Right: true}, {Gap: 2, Right: true}, {Gap: 2}, {Gap: 2}}}
	offered, unit := "offered", " "+term.Printable(s.result.RateUnit())
	if !l.units {
		offered, unit = term.Printable(s.result.RateUnit()), ""
	}
	g.Add(term.Faint.Cells("variant", offered, "p50", "p95", "p99", "failed", "objectives", "limited by")...)
	for i := range s.result.Variants {
		v := &s.result.Variants[i]
		response := v.Latency.Response
		g.Add(term.Plain.Cell(term.Shorten(term.Printable(v.Name), l.name)), term.Plain.Cell(format.Measured(v.Rate)+unit),
			term.Plain.Cell(format.Latency(response.P50)), term.Bold.Cell(format.Latency(response.P95)), term.Plain.Cell(format.Latency(response.P99)),
			term.Plain.Cell(format.Percent(v.Failed)), objectivesCell(v), limitCell(v, l.name))
	}
	return g
}

// capacityCells are the capacity and its interval: "≥4,310", "[4,180, 4,420] req/s".
func capacityCells(v *result.Variant, units bool) (value, interval string) {
	if !v.HasCapacity() {
		return "none", ""
	}
	c := v.Capacity
	value = format.Measured(c.Value)
	if v.HasInterval() {
		interval = c.Range()
	}
	if units {
		interval = strings.TrimSpace(interval + " " + term.Printable(c.Unit))
	}
	if c.LowerBound {
		value = "≥" + value
	}
	return value, interval
}

// ratioCells are the mark of a difference that was not shown, the ratio to the
// baseline and its interval.
func ratioCells(r *result.Result, variant string) (tilde, ratio, interval string) {
	if len(r.Comparisons) > 0 && variant == r.Baseline() {
		return "", "baseline", ""
	}
	c := r.Comparison(variant)
	sign, known := boundSign(r, variant)
	if c == nil || !known || !format.Finite(c.Ratio) {
		return "", "", ""
	}
	value, low, high := format.Interval(c.Ratio, c.Low, c.High)
	ratio = sign + value + "x"
	if c.HasRange() {
		interval = "[" + low + ", " + high + "]"
	}
	if c.NoDifference() {
		tilde = "~"
	}
	return tilde, ratio, interval
}

func hasTilde(r *result.Result) bool {
	return slices.ContainsFunc(r.Variants, func(v result.Variant) bool {
		tilde, _, _ := ratioCells(r, v.Name)
		return tilde != ""
	})
}

func limitCell(v *result.Variant, limit int) term.Cell {
	c := term.Plain.Cell(term.Shorten(term.Printable(limitedBy(v)), max(limit, len(verdict.LowerBoundOnly))))
	if !v.Verdict.Decided() {
		c.Style = term.Yellow
	}
	return c
}

// objectivesCell says how many objectives the variant met.
func objectivesCell(v *result.Variant) term.Cell {
	met := 0
	for _, s := range v.SLO {
		if s.Met {
			met++
		}
	}
	switch {
	case len(v.SLO) == 0:
		return term.Plain.Cell("none set")
	case met == len(v.SLO):
		return term.Green.Cell(fmt.Sprintf("✓ %d of %d", met, len(v.SLO)))
	default:
		return term.Red.Cell(fmt.Sprintf("✗ %d of %d", met, len(v.SLO)))
	}
}

// listed writes one variant's row as lines, for a terminal that is narrower
// than the table.
func (s *summary) listed(v *result.Variant) {
	s.prose("  ", v.Name, term.Bold)
	if s.result.MeasuresLoad() {
		s.prose("    offered  ", format.Measured(v.Rate)+" "+term.Printable(s.result.RateUnit()), term.Plain)
	} else {
		value, interval := capacityCells(v, true)
		s.prose("    capacity ", value+" "+interval, term.Plain)
		if tilde, ratio, of := ratioCells(s.result, v.Name); ratio != "" {
			s.prose("    ratio    ", strings.Join([]string{tilde, ratio, of}, " "), term.Plain)
		}
	}
	s.prose("    p95      ", format.Latency(v.Latency.Response.P95), term.Plain)
	limit := limitCell(v, s.width)
	s.prose("    limit    ", limit.Text, limit.Style)
}

// legend says what the signs of the table mean, as far as they occur.
func (s *summary) legend(tilde bool) {
	s.line("")
	if s.result.MeasuresLoad() {
		s.prose("  ", "Response times under the load as written, from the intended start; "+s.trials()+".", term.Faint)
		return
	}
	text := "[low, high]: " + confidences(s.result) + "." + endsMean(s.result)
	if !slices.ContainsFunc(s.result.Variants, func(v result.Variant) bool { return v.HasInterval() }) {
		text = confidences(s.result) + "."
	}
	if slices.ContainsFunc(s.result.Variants, func(v result.Variant) bool { return v.IsLowerBound() }) {
		text += " ≥: a lower bound, the measurement ended before the system did."
	}
	if tilde {
		text += " ~: " + tildeMeans(s.result)
	}
	s.prose("  ", text+ratioConfidence(s.result)+" p95: response time at capacity.", term.Faint)
}

func (s *summary) trials() string {
	counts := map[int]bool{}
	for _, v := range s.result.Variants {
		counts[v.Trials] = true
	}
	if len(counts) == 1 {
		return "median of " + format.Plural(s.result.Variants[0].Trials, "trial")
	}
	return "median over trials"
}
