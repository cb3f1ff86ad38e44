package report

import (
	"fmt"
	"maps"
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
	*chart.Chart // nil without a course

	Name, Trial string
	Heads       []string // the watched metrics
	Rows        []faultRow
	Marks       []fact // the numbers on the shades and what they stand for
}

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
		c := faultChart{Name: v.Name}
		if v.Course != nil && len(v.Course.Seconds) > 1 {
			c.draw(fmt.Sprintf("fault-%d", i+1), v.Course, p95Limit(r))
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

func (c *faultChart) draw(id string, course *result.Course, limit float64) {
	c.Trial = strconv.Itoa(course.Trial)
	c.Chart = &chart.Chart{ID: id, Title: "Course of " + c.Name, Layout: chart.Lanes, X: secondsAxis(course.Seconds, 1)} // the last second has its length
	for i, f := range course.Faults {
		c.Shades = append(c.Shades, chart.Shade{Class: "shade", From: f.From, To: f.To, Name: strconv.Itoa(i + 1)})
	}
	figures := []figure{
		{name: "answered", unit: " req/s", class: "area other", values: known(course.Rate), mean: true},
		{name: "failed", unit: " req/s", class: "area hot", values: known(course.Failed)},
		{name: "p95 of response time", unit: " ms", class: "area", values: course.P95, log: true, limit: limit},
	}
	for _, m := range course.Watched {
		unit := ""
		if m.As == "rate" {
			unit = "/s"
		}
		figures = append(figures, figure{name: m.Name, unit: unit, class: "area", values: m.Values})
	}
	told := make([]string, len(figures))
	for i, f := range figures {
		c.Lanes = append(c.Lanes, f.lane(course.Seconds, c.X.Scale))
		told[i] = c.Lanes[i].Name + ": " + c.Lanes[i].Note
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

// figure is what a lane shows, second by second; nil is a second of which it is
// not known.
type figure struct {
	name, unit, class string
	values            []*float64
	mean              bool // of several seconds in one step, not the most
	log               bool
	limit             float64 // 0 without one
}

func (f *figure) lane(seconds []float64, x chart.Scale) chart.Lane {
	var seen chart.Extent
	for _, v := range f.values {
		switch {
		case v == nil:
		case f.log:
			seen.SeePositive(*v)
		default:
			seen.See(*v)
		}
	}
	l := chart.Lane{Name: term.Shorten(f.name, 26), Height: laneHeight}
	switch {
	case !seen.Any:
		l.Note = "not known"
		return l
	case seen.High == 0:
		l.Note = "none"
		return l
	}
	l.Note = "up to " + format.Measured(seen.High) + f.unit
	if f.log {
		l.Note += ", logarithmic"
		seen.SeePositive(f.limit)
		l.Y.Scale, _ = chart.Log(seen)
	} else {
		l.Y.Scale, _ = chart.Linear(seen, 2, true)
	}
	if f.limit > 0 {
		l.Limits = []chart.Limit{{Value: f.limit}}
	}
	l.Series = []chart.Series{{Class: f.class, Path: chart.StepArea(f.steps(seconds, x.High), x, l.Y.Scale)}}
	return l
}

// steps are the seconds, or several of them together where a load is long.
func (f *figure) steps(seconds []float64, end float64) []chart.Step {
	n := min(len(seconds), len(f.values))
	group := (n + maxColumns - 1) / maxColumns
	steps := make([]chart.Step, 0, min(n, maxColumns))
	for i := 0; i < n; i += group {
		v, ok := together(f.values[i:min(i+group, n)], f.mean)
		if !ok {
			continue
		}
		to := end
		if i+group < n {
			to = seconds[i+group]
		}
		steps = append(steps, chart.Step{From: seconds[i], To: to, Value: v})
	}
	return steps
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
