package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/chart"
	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/term"
)

const (
	// laneHeight is that of a lane without an axis, in pixels.
	laneHeight = 34
	// allLanes bounds the lanes of all charts together, and with them the page;
	// each chart gets an equal part, within bounds. The hottest are kept.
	allLanes           = 72
	minLanes, maxLanes = 4, 16
	// maxSlices bounds the rows of a chart's table.
	maxSlices = 24
)

// cpuChart is CPU over time: one lane for the offered rate and one for each
// instance, all on one time axis. Lanes, because curves of ten instances that
// use about the same lie on top of each other.
type cpuChart struct {
	*chart.Chart

	Name, Trial string
	Unit        string // of the offered rate
	Omitted     string
	Heads       []string // of the table: the series
	Rows        []cpuRow
}

// cpuRow is one stretch of time in the table: the mean of each series.
type cpuRow struct {
	Span, Rate string
	CPU        []string
}

func newCPUChart(r *result.Result, i int) (cpuChart, bool) {
	v := &r.Variants[i]
	t := v.Timeline
	n := len(t.Seconds)
	if n < 2 || !slices.ContainsFunc(t.Seconds, format.Finite) {
		return cpuChart{}, false
	}
	x := secondsAxis(t.Seconds, 0)
	c := cpuChart{Name: v.Name, Trial: strconv.Itoa(t.Trial), Unit: r.RateUnit()}
	c.Chart = &chart.Chart{ID: fmt.Sprintf("cpu-%d", i+1), Title: "CPU over time of " + v.Name, Layout: chart.Lanes, X: x}
	series := hottest(t.Series, min(max(allLanes/len(r.Variants), minLanes), maxLanes))
	if left := len(t.Series) - len(series); left > 0 {
		c.Omitted = fmt.Sprintf("The %d instances that came closest to their limits are shown; %d more are in result.json.", len(series), left)
	}
	c.addRate(t, r.RateUnit())
	var told []string
	for _, s := range series {
		hot := slices.ContainsFunc(v.Verdict.Limiting(), func(c string) bool { return isInstanceOf(s.Name, c) })
		c.addSeries(s, t.Seconds, hot)
		told = append(told, s.Name+": "+c.Lanes[len(c.Lanes)-1].Note)
	}
	c.Desc = "CPU use over one trial. " + strings.Join(told, "; ") + "."
	c.tabulate(t, series)
	return c, true
}

// hottest returns the series to draw, in their order: those that came closest
// to their limits if there are too many.
func hottest(series []result.TimelineSeries, limit int) []result.TimelineSeries {
	if len(series) <= limit {
		return series
	}
	order := make([]int, len(series))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(peakUse(series[b]), peakUse(series[a])) })
	order = order[:limit]
	slices.Sort(order)
	kept := make([]result.TimelineSeries, 0, limit)
	for _, i := range order {
		kept = append(kept, series[i])
	}
	return kept
}

// isInstanceOf says whether name is the component's name with a number, as
// Compose names instances: api-1 is one of api, api-gateway-1 is not.
func isInstanceOf(name, component string) bool {
	number, ok := strings.CutPrefix(name, component+"-")
	_, err := strconv.ParseUint(number, 10, 32)
	return ok && component != "" && err == nil
}

// peakUse is the highest use as a share of the limit. What has no limit, the load
// generator above all, ranks before what has one: nothing else shows how near
// it came to its end.
func peakUse(s result.TimelineSeries) float64 {
	if s.LimitCPUs > 0 {
		return peak(s) / s.LimitCPUs
	}
	return math.MaxFloat64
}

func peak(s result.TimelineSeries) float64 {
	var seen chart.Extent
	seen.See(s.CPU...)
	return seen.High
}

// secondsAxis is time from the first second to so many after the last.
func secondsAxis(seconds []float64, after float64) chart.Axis {
	var span chart.Extent
	span.See(seconds...)
	x := chart.Axis{Scale: chart.Scale{Low: span.Low, High: math.Max(span.High+after, span.Low+1)}}
	_, values := chart.Linear(span, 5, false)
	x.Ticks = x.Scale.Ticks(values, func(v float64) string { return format.Setting(v) + " s" })
	return x
}

func (c *cpuChart) addRate(t result.Timeline, unit string) {
	var seen chart.Extent
	seen.See(t.Rate...)
	if !seen.Any || seen.High <= 0 {
		return
	}
	steps := make([]chart.Step, 0, len(t.Rate))
	for i := range min(len(t.Seconds), len(t.Rate)) {
		to := c.X.High
		if i+1 < len(t.Seconds) {
			to = t.Seconds[i+1]
		}
		steps = append(steps, chart.Step{From: t.Seconds[i], To: to, Value: t.Rate[i]})
	}
	y := chart.Scale{High: seen.High * 1.05}
	c.Lanes = append(c.Lanes, chart.Lane{
		Name: "offered rate", Note: "up to " + format.Measured(seen.High) + " " + unit, Height: laneHeight,
		Series: []chart.Series{{Class: "area other", Path: chart.StepArea(steps, c.X.Scale, y)}},
	})
}

func (c *cpuChart) addSeries(s result.TimelineSeries, seconds []float64, hot bool) {
	highest := peak(s)
	l := chart.Lane{Name: term.Shorten(s.Name, 26), Height: laneHeight}
	top := highest * 1.05
	switch {
	case s.LimitCPUs > 0 && format.Finite(s.LimitCPUs):
		top = math.Max(top, s.LimitCPUs*1.12)
		l.Limits = []chart.Limit{{Value: s.LimitCPUs}}
		l.Note = fmt.Sprintf("peak %s of %s CPU", format.Measured(highest), format.Setting(s.LimitCPUs))
	default:
		top = math.Max(math.Ceil(highest), 1) // whole cores, so that a small use looks small
		l.Note = fmt.Sprintf("peak %s CPU, no limit", format.Measured(highest))
	}
	class := "area"
	if hot {
		class = "area hot"
	}
	points := make([][2]float64, 0, len(seconds))
	for i := range min(len(seconds), len(s.CPU)) {
		points = append(points, [2]float64{seconds[i], s.CPU[i]})
	}
	l.Y.Scale = chart.Scale{High: top}
	l.Series = []chart.Series{{Class: class, Path: chart.Area(points, c.X.Scale, l.Y.Scale)}}
	c.Lanes = append(c.Lanes, l)
}

// tabulate gives the chart's numbers as means: over each stretch of one
// offered rate, or over equal stretches where the rate changes all the time.
func (c *cpuChart) tabulate(t result.Timeline, series []result.TimelineSeries) {
	for _, s := range series {
		c.Heads = append(c.Heads, s.Name)
	}
	for _, stretch := range stretches(t) {
		from, to := stretch[0], stretch[1]
		row := cpuRow{Span: format.At(t.Seconds[from], -1) + "–" + format.At(t.Seconds[to-1], -1), Rate: format.Missing}
		if to <= len(t.Rate) {
			row.Rate = format.Measured(mean(t.Rate[from:to]))
		}
		for _, s := range series {
			text := format.Missing
			if to <= len(s.CPU) {
				text = format.Measured(mean(s.CPU[from:to]))
			}
			row.CPU = append(row.CPU, text)
		}
		c.Rows = append(c.Rows, row)
	}
}

// stretches cuts the timeline where the offered rate changes; where that gives
// more than maxSlices, into maxSlices of equal length.
func stretches(t result.Timeline) [][2]int {
	n := len(t.Seconds)
	var cuts [][2]int
	start := 0
	for i := 1; i <= n; i++ {
		if i == n || i < len(t.Rate) && t.Rate[i] != t.Rate[i-1] {
			cuts = append(cuts, [2]int{start, i})
			start = i
		}
	}
	if len(cuts) <= maxSlices {
		return cuts
	}
	cuts = cuts[:0]
	for i := range maxSlices {
		from, to := i*n/maxSlices, (i+1)*n/maxSlices
		if to > from {
			cuts = append(cuts, [2]int{from, to})
		}
	}
	return cuts
}

// mean of the finite numbers; NaN if there are none.
func mean(values []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if format.Finite(v) {
			sum, n = sum+v, n+1
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}
