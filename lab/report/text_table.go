package report

import (
	"fmt"
	"slices"
	"strings"

	"loadstone/lab/format"
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
		if s.result.measuresLoad() {
			g = s.loadGrid(l)
		}
		if g.width() > s.width {
			continue
		}
		for _, line := range g.lines(s.paint) {
			s.line(line)
		}
		s.legend(s.result.hasTilde())
		return
	}
	for i := range s.result.Variants {
		s.listed(&s.result.Variants[i])
	}
	s.legend(s.result.hasTilde())
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
		versus = "vs " + shorten(printable(s.result.baseline()), min(l.name, 16))
	}
	head := []string{"variant", "capacity", "", versus, "", "p95", "limited by"}
	if !l.units {
		head[1] = printable(s.result.rateUnit())
	}
	g.add(styled(faint, head...)...)
	for i := range s.result.Variants {
		v := &s.result.Variants[i]
		value, interval := v.capacityCells(l.units)
		tilde, ratio, ratioInterval := s.result.ratioCells(v.Name)
		doubt := plain
		if tilde != "" {
			doubt = yellow
		}
		g.add(cell{text: shorten(printable(v.Name), l.name)}, cell{value, bold}, cell{text: interval},
			cell{strings.TrimSpace(tilde + " " + ratio), doubt}, cell{ratioInterval, doubt},
			cell{text: format.Latency(v.Latency.Response.P95)}, v.limitCell(l.name))
	}
	return g
}

func (s *summary) loadGrid(l layout) *grid {
	g := &grid{columns: []column{{gap: 2}, {gap: 2, right: true}, {gap: 2, right: true}, {gap: 2, right: true},
		{gap: 2, right: true}, {gap: 2, right: true}, {gap: 2}, {gap: 2}}}
	offered, unit := "offered", " "+printable(s.result.rateUnit())
	if !l.units {
		offered, unit = printable(s.result.rateUnit()), ""
	}
	g.add(styled(faint, "variant", offered, "p50", "p95", "p99", "failed", "objectives", "limited by")...)
	for i := range s.result.Variants {
		v := &s.result.Variants[i]
		response := v.Latency.Response
		g.add(cell{text: shorten(printable(v.Name), l.name)}, cell{text: format.Measured(v.Rate) + unit},
			cell{text: format.Latency(response.P50)}, cell{format.Latency(response.P95), bold}, cell{text: format.Latency(response.P99)},
			cell{text: format.Percent(v.Failed)}, v.objectivesCell(), v.limitCell(l.name))
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
func (v *Variant) capacityCells(units bool) (value, interval string) {
	if !v.hasCapacity() {
		return "none", ""
	}
	c := v.Capacity
	value = format.Measured(c.Value)
	if v.hasInterval() {
		interval = RangeOf(*c)
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
func (r *Result) ratioCells(variant string) (tilde, ratio, interval string) {
	if len(r.Comparisons) > 0 && variant == r.baseline() {
		return "", "baseline", ""
	}
	c := r.comparison(variant)
	sign, known := r.boundSign(variant)
	if c == nil || !known || !format.Finite(c.Ratio) {
		return "", "", ""
	}
	value, low, high := format.Interval(c.Ratio, c.Low, c.High)
	ratio = sign + value + "x"
	if hasRange(c) {
		interval = "[" + low + ", " + high + "]"
	}
	if holdsOne(c) {
		tilde = "~"
	}
	return tilde, ratio, interval
}

func (r *Result) hasTilde() bool {
	return slices.ContainsFunc(r.Variants, func(v Variant) bool {
		tilde, _, _ := r.ratioCells(v.Name)
		return tilde != ""
	})
}

func (v *Variant) limitCell(limit int) cell {
	c := cell{text: shorten(printable(v.limitedBy()), max(limit, len(LowerBoundOnly)))}
	if !v.Verdict.decided() {
		c.style = yellow
	}
	return c
}

// objectivesCell says how many objectives the variant met.
func (v *Variant) objectivesCell() cell {
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
func (s *summary) listed(v *Variant) {
	s.prose("  ", v.Name, bold)
	if s.result.measuresLoad() {
		s.prose("    offered  ", format.Measured(v.Rate)+" "+printable(s.result.rateUnit()), plain)
	} else {
		value, interval := v.capacityCells(true)
		s.prose("    capacity ", value+" "+interval, plain)
		if tilde, ratio, of := s.result.ratioCells(v.Name); ratio != "" {
			s.prose("    ratio    ", strings.Join([]string{tilde, ratio, of}, " "), plain)
		}
	}
	s.prose("    p95      ", format.Latency(v.Latency.Response.P95), plain)
	limit := v.limitCell(s.width)
	s.prose("    limit    ", limit.text, limit.style)
}

// legend says what the signs of the table mean, as far as they occur.
func (s *summary) legend(tilde bool) {
	s.line("")
	if s.result.measuresLoad() {
		s.prose("  ", "Response times under the load as written, from the intended start; "+s.trials()+".", faint)
		return
	}
	text := "[low, high]: " + s.result.confidences() + "." + s.result.endsMean()
	if !slices.ContainsFunc(s.result.Variants, func(v Variant) bool { return v.hasInterval() }) {
		text = s.result.confidences() + "."
	}
	if slices.ContainsFunc(s.result.Variants, func(v Variant) bool { return v.isLowerBound() }) {
		text += " ≥: a lower bound, the measurement ended before the system did."
	}
	if tilde {
		text += " ~: " + s.result.tildeMeans()
	}
	s.prose("  ", text+s.result.ratioConfidence()+" p95: response time at capacity.", faint)
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
