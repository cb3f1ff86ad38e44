package report

import (
	"fmt"
	"slices"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/result"
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
		if g.width() > s.width {
			continue
		}
		for _, line := range g.lines(s.paint) {
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

func (s *summary) capacityGrid(l layout) *grid {
	g := &grid{columns: []column{{gap: 2}, {gap: 2, right: true}, {gap: 1}, {gap: 2, right: true},
		{gap: 1}, {gap: 2, right: true}, {gap: 2}}}
	versus := ""
	if len(s.result.Comparisons) > 0 {
		versus = "vs " + shorten(printable(s.result.Baseline()), min(l.name, 16))
	}
	head := []string{"variant", "capacity", "", versus, "", "p95", "limited by"}
	if !l.units {
		head[1] = printable(s.result.RateUnit())
	}
	g.add(styled(faint, head...)...)
	for i := range s.result.Variants {
		v := &s.result.Variants[i]
		value, interval := capacityCells(v, l.units)
		tilde, ratio, ratioInterval := ratioCells(s.result, v.Name)
		doubt := plain
		if tilde != "" {
			doubt = yellow
		}
		g.add(cell{text: shorten(printable(v.Name), l.name)}, cell{value, bold}, cell{text: interval},
			cell{strings.TrimSpace(tilde + " " + ratio), doubt}, cell{ratioInterval, doubt},
			cell{text: format.Latency(v.Latency.Response.P95)}, limitCell(v, l.name))
	}
	return g
}

func (s *summary) loadGrid(l layout) *grid {
	g := &grid{columns: []column{{gap: 2}, {gap: 2, right: true}, {gap: 2, right: true}, {gap: 2, right: true},
		{gap: 2, right: true}, {gap: 2, right: true}, {gap: 2}, {gap: 2}}}
	offered, unit := "offered", " "+printable(s.result.RateUnit())
	if !l.units {
		offered, unit = printable(s.result.RateUnit()), ""
	}
	g.add(styled(faint, "variant", offered, "p50", "p95", "p99", "failed", "objectives", "limited by")...)
	for i := range s.result.Variants {
		v := &s.result.Variants[i]
		response := v.Latency.Response
		g.add(cell{text: shorten(printable(v.Name), l.name)}, cell{text: format.Measured(v.Rate) + unit},
			cell{text: format.Latency(response.P50)}, cell{format.Latency(response.P95), bold}, cell{text: format.Latency(response.P99)},
			cell{text: format.Percent(v.Failed)}, objectivesCell(v), limitCell(v, l.name))
	}
	return g
}

func styled(st style, texts ...string) []cell {
	row := make([]cell, len(texts))
	for i, text := range texts {
		row[i] = cell{text, st}
	}
	return row
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
		interval = strings.TrimSpace(interval + " " + printable(c.Unit))
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

func limitCell(v *result.Variant, limit int) cell {
	c := cell{text: shorten(printable(limitedBy(v)), max(limit, len(result.LowerBoundOnly)))}
	if !v.Verdict.Decided() {
		c.style = yellow
	}
	return c
}

// objectivesCell says how many objectives the variant met.
func objectivesCell(v *result.Variant) cell {
	met := 0
	for _, s := range v.SLO {
		if s.Met {
			met++
		}
	}
	switch {
	case len(v.SLO) == 0:
		return cell{text: "none set"}
	case met == len(v.SLO):
		return cell{fmt.Sprintf("✓ %d of %d", met, len(v.SLO)), green}
	default:
		return cell{fmt.Sprintf("✗ %d of %d", met, len(v.SLO)), red}
	}
}

// listed writes one variant's row as lines, for a terminal that is narrower
// than the table.
func (s *summary) listed(v *result.Variant) {
	s.prose("  ", v.Name, bold)
	if s.result.MeasuresLoad() {
		s.prose("    offered  ", format.Measured(v.Rate)+" "+printable(s.result.RateUnit()), plain)
	} else {
		value, interval := capacityCells(v, true)
		s.prose("    capacity ", value+" "+interval, plain)
		if tilde, ratio, of := ratioCells(s.result, v.Name); ratio != "" {
			s.prose("    ratio    ", strings.Join([]string{tilde, ratio, of}, " "), plain)
		}
	}
	s.prose("    p95      ", format.Latency(v.Latency.Response.P95), plain)
	limit := limitCell(v, s.width)
	s.prose("    limit    ", limit.text, limit.style)
}

// legend says what the signs of the table mean, as far as they occur.
func (s *summary) legend(tilde bool) {
	s.line("")
	if s.result.MeasuresLoad() {
		s.prose("  ", "Response times under the load as written, from the intended start; "+s.trials()+".", faint)
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
	s.prose("  ", text+ratioConfidence(s.result)+" p95: response time at capacity.", faint)
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
