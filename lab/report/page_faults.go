package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/chart"
	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/term"
)

// maxColumns bounds the points of a lane, and with them the page: a longer load
// has several seconds in one of them, the mean of rates and the most of the
// rest.
const maxColumns = 600

// faultChart is one trial of a variant second by second, the faults shaded, and
// what each of them cost.
type faultChart struct {
	ID, Name, Desc string
	Trial          string
	Height         int
	Lanes          []lane
	Ticks          []tick
	Shades         []shade
	Heads          []string // the watched metrics
	Rows           []faultRow
	Marks          []fact // the numbers on the shades and what they stand for
}

// shade is the time of a fault. Its number is drawn on top.
type shade struct{ From, Width, Number string }

// faultRow is one fault in the table; the triples are before, during and after.
type faultRow struct {
	Number, What, At     string
	Back, Recovered, Bad string
	Failed, Kinds        string
	P95, P99             [3]string
	Watched              []string
	Cost, Never          bool
}

func newFaultCharts(r *result.Result) []faultChart {
	var charts []faultChart
	for i := range r.Variants {
		v := &r.Variants[i]
		if v.Course == nil && len(v.Faults) == 0 {
			continue
		}
		c := faultChart{ID: fmt.Sprintf("fault-%d", i+1), Name: v.Name}
		if v.Course != nil && len(v.Course.Seconds) > 1 {
			c.draw(v.Course, p95Limit(r))
		}
		c.tabulate(v)
		charts = append(charts, c)
	}
	return charts
}

// p95Limit is the objective that the lane of p95 can show; 0 without one.
func p95Limit(r *result.Result) float64 {
	for _, l := range latencyLimits(r) {
		if strings.HasPrefix(l.label, "p(95)") {
			return l.limit
		}
	}
	return 0
}

func (c *faultChart) draw(course *result.Course, limit float64) {
	c.Trial = strconv.Itoa(course.Trial)
	var span chart.Extent
	span.See(course.Seconds...)
	time := chart.Scale{Low: span.Low, High: span.High + 1} // the last second has its length
	_, values := chart.Linear(span, 5, false)
	for _, v := range values {
		if v >= time.Low && v <= time.High {
			c.Ticks = append(c.Ticks, tick{time.Percent(v), format.Setting(v) + " s"})
		}
	}
	for i, f := range course.Faults {
		width := max(time.At(f.To)-time.At(f.From), 0.002) // to be seen if it took no time
		c.Shades = append(c.Shades, shade{time.Percent(f.From), chart.Percent(width), strconv.Itoa(i + 1)})
	}
	draw := func(name, unit, kind string, values []*float64, log, mean bool, limit float64) {
		c.addLane(name, unit, kind, course.Seconds, values, time, log, mean, limit)
	}
	draw("answered", "req/s", "rate", known(course.Rate), false, true, 0)
	draw("failed", "req/s", "hot", known(course.Failed), false, false, 0)
	draw("p95 of response time", "ms", "cpu", course.P95, true, false, limit)
	for _, m := range course.Watched {
		unit := ""
		if m.As == "rate" {
			unit = "/s"
		}
		draw(m.Name, unit, "cpu", m.Values, false, false, 0)
	}
	c.Height = len(c.Lanes)*(laneLabel+laneHeight+laneGap) - laneGap
	told := make([]string, len(c.Lanes))
	for i, l := range c.Lanes {
		told[i] = l.Name + ": " + l.Note
	}
	c.Desc = "One trial second by second, with " + format.Plural(len(course.Faults), "fault") + ". " + strings.Join(told, "; ") + "."
}

func known(values []float64) []*float64 {
	out := make([]*float64, len(values))
	for i := range values {
		if format.Finite(values[i]) {
			out[i] = &values[i]
		}
	}
	return out
}

//nolint:revive // one lane's properties, used in one place
func (c *faultChart) addLane(name, unit, kind string, seconds []float64, values []*float64, time chart.Scale, log, mean bool, limit float64) {
	var seen chart.Extent
	for _, v := range values {
		if v == nil {
			continue
		}
		if log {
			seen.SeePositive(*v)
		} else {
			seen.See(*v)
		}
	}
	top := len(c.Lanes) * (laneLabel + laneHeight + laneGap)
	l := lane{Name: term.Shorten(name, 26), Kind: kind, Y: top + laneLabel, Label: top + laneLabel - 5}
	space := " "
	if unit == "/s" {
		space = ""
	}
	switch {
	case !seen.Any:
		l.Note = "not known"
	case seen.High == 0:
		l.Note = "none"
	default:
		l.Note = strings.TrimSpace("up to " + format.Measured(seen.High) + space + unit)
	}
	if seen.Any && seen.High > 0 {
		var scale chart.Scale
		if log {
			seen.SeePositive(limit)
			scale, _ = chart.Log(seen)
			l.Note += ", logarithmic"
		} else {
			scale, _ = chart.Linear(seen, 2, true)
		}
		l.Path = columnsPath(seconds, values, time, scale, mean)
		if limit > 0 && log {
			l.Limit = chart.Number((1-scale.At(limit))*laneHeight, 1)
		}
	}
	c.Lanes = append(c.Lanes, l)
}

// columnsPath draws each second as a column from the lane's floor. A second of
// which nothing is known is left out, and its neighbours are not joined.
func columnsPath(seconds []float64, values []*float64, time, scale chart.Scale, mean bool) string {
	var b strings.Builder
	write := func(command byte, share float64, units float64) {
		b.WriteByte(command)
		b.WriteString(strconv.Itoa(int(math.Round(share * units))))
	}
	const floor = laneUnits / 10
	group := (len(seconds) + maxColumns - 1) / maxColumns
	open, lastY := false, -1.0
	n := min(len(seconds), len(values))
	for i := 0; i < n; i += group {
		v, ok := together(values[i:min(i+group, n)], mean)
		if !ok || !format.Finite(seconds[i]) {
			if open {
				b.WriteString("V100Z")
			}
			open = false
			continue
		}
		from, to := time.At(seconds[i]), 1.0
		if i+group < n {
			to = time.At(seconds[i+group])
		}
		y := 1 - scale.At(v)
		switch {
		case !open:
			write('M', from, laneUnits)
			b.WriteString(" 100")
			write('V', y, floor)
		case y != lastY:
			write('V', y, floor)
		}
		write('H', to, laneUnits)
		open, lastY = true, y
	}
	if open {
		b.WriteString("V100Z")
	}
	return b.String()
}

// together is one figure for some seconds: the mean, or the most.
func together(values []*float64, mean bool) (v float64, ok bool) {
	n := 0
	for _, x := range values {
		switch {
		case x == nil || !format.Finite(*x):
			continue
		case mean:
			v += *x
		case n == 0 || *x > v:
			v = *x
		}
		n++
	}
	if mean && n > 0 {
		v /= float64(n)
	}
	return v, n > 0
}

func (c *faultChart) tabulate(v *result.Variant) {
	for i := range v.Faults {
		f := &v.Faults[i]
		row := faultRow{
			Number: strconv.Itoa(i + 1), What: f.What, At: format.Setting(f.At) + " s",
			Back: secondsText(f.Back, "not back"), Recovered: secondsText(f.Recovered, "never"), Bad: strconv.Itoa(f.BadSeconds),
			Failed: format.Count(f.Failed), Kinds: failureKinds(f), Cost: f.Failed > 0, Never: f.Recovered == nil,
		}
		for j, figures := range []*result.FaultFigures{f.Before, f.During, f.After} {
			row.P95[j], row.P99[j] = format.Missing, format.Missing
			if figures != nil {
				row.P95[j], row.P99[j] = format.LatencyNumber(figures.P95), format.LatencyNumber(figures.P99)
			}
		}
		for _, w := range f.Watched {
			if i == 0 {
				c.Heads = append(c.Heads, w.Name)
			}
			row.Watched = append(row.Watched, watchedText(w))
		}
		c.Rows = append(c.Rows, row)
		c.Marks = append(c.Marks, fact{row.Number, f.What})
	}
}

// kinds are how requests failed, the most frequent kind first.
func failureKinds(f *result.Fault) string {
	names := slices.SortedFunc(maps.Keys(f.Kinds), func(a, b string) int {
		if f.Kinds[a] != f.Kinds[b] {
			return int(min(max(int64(f.Kinds[b])-int64(f.Kinds[a]), -1), 1))
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = format.Count(f.Kinds[name]) + " " + name
	}
	return strings.Join(parts, ", ")
}

// String is "120 → 610 (5.08×)": the mean before and the most during.
func watchedText(w result.FaultWatched) string {
	text := func(v *float64) string {
		if v == nil || !format.Finite(*v) {
			return format.Missing
		}
		return format.Measured(*v)
	}
	s := text(w.Before) + " → " + text(w.Most)
	if w.Before != nil && w.Most != nil && *w.Before > 0 && format.Finite(*w.Most / *w.Before) {
		s += " (" + format.Measured(*w.Most / *w.Before) + "×)"
	}
	return s
}

func secondsText(v *float64, never string) string {
	switch {
	case v == nil:
		return never
	case !format.Finite(*v):
		return format.Missing
	case *v == 0:
		return "0 s"
	default:
		return format.Measured(*v) + " s"
	}
}
