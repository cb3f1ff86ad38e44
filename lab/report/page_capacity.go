package report

import (
	"fmt"
	"slices"
	"strings"

	"loadstone/lab/chart"
	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/term"
)

// capacityChart is a bar per variant on one common scale that starts at zero.
type capacityChart struct {
	Rows []capacityRow
	Axis *chart.Chart // the numbers below all bars
	Unit string
	Note string
}

// capacityRow is one variant's bar, with whiskers for its interval and a dot
// for each trial.
type capacityRow struct {
	Name, LimitedBy         string
	Value, Interval, Ratio  string
	Tilde, Decided          bool
	TrialNumbers, Certainty string
	Chart                   *chart.Chart
}

func newCapacityChart(r *result.Result) *capacityChart {
	c := &capacityChart{Unit: r.RateUnit(), Note: capacityNote(r)}
	var seen chart.Extent
	for i := range r.Variants {
		v := &r.Variants[i]
		if v.HasCapacity() {
			seen.See(v.Capacity.Value)
			c.Unit = v.Capacity.Unit
		}
		if v.HasInterval() {
			seen.See(v.Capacity.Low, v.Capacity.High)
		}
		seen.See(v.PerTrial...)
	}
	scale, values := chart.Linear(seen, 5, true)
	x := chart.Axis{Scale: scale}
	if seen.Any {
		x.Ticks = scale.Ticks(values, format.Setting)
	}
	c.Axis = &chart.Chart{Layout: chart.Ticks, X: x}
	for i := range r.Variants {
		c.Rows = append(c.Rows, newCapacityRow(r, i, x))
	}
	return c
}

// capacityNote explains the capacity chart, as far as it needs it.
func capacityNote(r *result.Result) string {
	note := "The highest rate at which every objective was met. "
	if !slices.ContainsFunc(r.Variants, func(v result.Variant) bool { return v.HasCapacity() }) {
		return note + "None was found."
	}
	note += confidences(r) + "." + endsMean(r) + " "
	if slices.ContainsFunc(r.Variants, func(v result.Variant) bool { return v.HasInterval() }) {
		note += "Whisker: interval; dot: one trial."
	} else {
		note += "Dot: one trial."
	}
	if slices.ContainsFunc(r.Variants, func(v result.Variant) bool { return v.IsLowerBound() }) {
		note += " ≥: a lower bound, the measurement ended before the system did."
	}
	note += ratioConfidence(r)
	if hasTilde(r) {
		note += " ~: " + tildeMeans(r)
	}
	return note
}

func newCapacityRow(r *result.Result, i int, x chart.Axis) capacityRow {
	v := &r.Variants[i]
	tilde, ratio, of := ratioCells(r, v.Name)
	row := capacityRow{
		Name: v.Name, LimitedBy: limitedBy(v), Decided: v.Verdict.Decided(),
		Ratio: strings.TrimSpace(strings.Replace(ratio, "x", "×", 1) + " " + of), Tilde: tilde != "", Certainty: format.Missing,
		Chart: rowChart(fmt.Sprintf("capacity-%d", i+1), "Capacity of "+v.Name, x),
	}
	if !v.HasCapacity() {
		row.Value, row.Chart.Desc = "no capacity found", "No rate that was tried met the objectives."
		return row
	}
	row.Value = format.Measured(v.Capacity.Value) + " " + v.Capacity.Unit
	if v.IsLowerBound() {
		row.Value = "≥ " + row.Value
	}
	desc := capacityText(v)
	if v.HasInterval() {
		row.Interval, row.Certainty = v.Capacity.Range(), format.Percent(v.Capacity.Confidence)
		desc += fmt.Sprintf(", interval %s at %s", v.Capacity.InWords(), row.Certainty)
	} else {
		row.Interval = format.Plural(v.Trials, "trial") + ", no interval"
		desc += ", " + row.Interval
	}
	var numbers []string
	for _, trial := range v.PerTrial {
		if format.Finite(trial) {
			numbers = append(numbers, format.Measured(trial))
		}
	}
	row.TrialNumbers = strings.Join(numbers, "; ")
	if row.TrialNumbers != "" {
		desc += "; trials: " + row.TrialNumbers
	}
	row.Chart.Desc = desc
	row.drawBar(v)
	return row
}

// The heights of what is drawn in a row, from its floor, in pixels.
const (
	rowHeight          = 52
	barLow, barHigh    = 25, 43
	whiskerAt, trialAt = 34, 15
	percentileAt       = rowHeight / 2
)

// rowChart is one variant's row over the axis of all.
func rowChart(id, title string, x chart.Axis) *chart.Chart {
	lane := chart.Lane{Height: rowHeight, Y: chart.Axis{Scale: chart.Scale{High: rowHeight}}, Bare: true}
	return &chart.Chart{ID: id, Title: title, Layout: chart.Row, X: x, Lanes: []chart.Lane{lane}}
}

// drawBar draws the capacity, its interval, an arrow where it may be more, and
// a dot for each trial.
func (row *capacityRow) drawBar(v *result.Variant) {
	lane, end := &row.Chart.Lanes[0], v.Capacity.Value
	lane.Bars = []chart.Bar{{Class: "fill", To: v.Capacity.Value, Low: barLow, High: barHigh}}
	if v.HasInterval() {
		end = v.Capacity.High
		lane.Points = append(lane.Points, chart.Point{X: v.Capacity.Value, Y: whiskerAt, Left: v.Capacity.Low, Right: v.Capacity.High})
	}
	if v.IsLowerBound() || v.HasInterval() && v.Capacity.HighOpen {
		lane.Points = append(lane.Points, chart.Point{Shape: "more", Class: "arrow", X: end, Y: whiskerAt})
	}
	for _, trial := range v.PerTrial {
		lane.Points = append(lane.Points, chart.Point{Shape: "dot", Class: "trial", X: trial, Y: trialAt})
	}
}

// loadChart is a row per variant with its percentiles of response time on one
// common logarithmic scale, for a run that drove the load as written.
type loadChart struct {
	Rows   []loadRow
	Axis   *chart.Chart // the numbers below all rows
	Limits []string     // the objectives that are lines in every row
}

type loadRow struct {
	Name, Rate    string
	P50, P95, P99 string // texts
	Met           string
	Crossed       bool
	Chart         *chart.Chart
}

func newLoadChart(r *result.Result) *loadChart {
	c := &loadChart{}
	var seen chart.Extent
	for _, v := range r.Variants {
		p := v.Latency.Response
		seen.SeePositive(p.P50, p.P95, p.P99)
	}
	limits := latencyLimits(r)
	for _, t := range limits {
		seen.SeePositive(t.limit/2, t.limit) // so that the line is not the axis
	}
	scale, values := chart.Log(seen)
	x := chart.Axis{Scale: scale, Ticks: scale.Ticks(values, format.LatencyTick)}
	c.Axis = &chart.Chart{Layout: chart.Ticks, X: x}
	var verticals []chart.Vertical
	for _, t := range limits {
		verticals = append(verticals, chart.Vertical{Class: "limit", At: t.limit})
		c.Limits = append(c.Limits, t.label)
	}
	for i := range r.Variants {
		v := &r.Variants[i]
		p := v.Latency.Response
		met := objectivesCell(v)
		row := loadRow{Name: v.Name, Rate: format.Measured(v.Rate) + " " + r.RateUnit() + " offered",
			P50: format.Latency(p.P50), P95: format.Latency(p.P95), P99: format.Latency(p.P99),
			Met: met.Text, Crossed: met.Style == term.Red,
			Chart: rowChart(fmt.Sprintf("load-%d", i+1), "Response time of "+v.Name, x)}
		row.Chart.Desc = fmt.Sprintf("Response time: p50 %s, p95 %s, p99 %s.", row.P50, row.P95, row.P99)
		row.Chart.Verticals = verticals
		if p.P50 > 0 && p.P95 > 0 && p.P99 > 0 {
			row.Chart.Lanes[0].Points = []chart.Point{
				{Shape: "m50", Class: "p50 held", X: p.P50, Y: percentileAt, Left: p.P50, Right: p.P99},
				{Shape: "m95", Class: "p95 held", X: p.P95, Y: percentileAt},
				{Shape: "m99", Class: "p99 held", X: p.P99, Y: percentileAt},
			}
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}
