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
	Rows  []capacityRow
	Ticks []tick
	Unit  string
	Note  string
}

// capacityRow is one variant's bar, with whiskers for its interval and a dot
// for each trial.
type capacityRow struct {
	ID, Name, LimitedBy     string
	Value, Interval, Ratio  string
	Tilde, Decided          bool
	More                    bool // it may be more than what is drawn
	Desc                    string
	Bar                     string // its length; empty without a capacity
	Arrow                   string // where the arrow of that starts
	Low, High, Whisker      string // whisker ends and length; empty without an interval
	Trials                  []string
	TrialNumbers, Certainty string
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
	for _, v := range values {
		if seen.Any {
			c.Ticks = append(c.Ticks, tick{scale.Percent(v), format.Setting(v)})
		}
	}
	for i := range r.Variants {
		c.Rows = append(c.Rows, newCapacityRow(r, i, scale))
	}
	return c
}

// capacityNote explains the capacity chart, as far as it needs it.
func capacityNote(r *result.Result) string {
	note := "The highest rate at which every objective held. "
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

func newCapacityRow(r *result.Result, i int, scale chart.Scale) capacityRow {
	v := &r.Variants[i]
	tilde, ratio, of := ratioCells(r, v.Name)
	row := capacityRow{
		ID: fmt.Sprintf("capacity-%d", i+1), Name: v.Name, LimitedBy: limitedBy(v),
		Decided: v.Verdict.Decided(),
		Ratio:   strings.TrimSpace(strings.Replace(ratio, "x", "×", 1) + " " + of), Tilde: tilde != "",
		More: v.HasCapacity() && (v.IsLowerBound() || v.HasInterval() && v.Capacity.HighOpen), Certainty: format.Missing,
	}
	if !v.HasCapacity() {
		row.Value = "no capacity found"
		row.Desc = "No rate that was tried met the objectives."
		return row
	}
	row.Bar = scale.Percent(v.Capacity.Value)
	row.Arrow = row.Bar
	row.Value = format.Measured(v.Capacity.Value) + " " + v.Capacity.Unit
	if v.IsLowerBound() {
		row.Value = "≥ " + row.Value
	}
	row.Desc = capacityText(v)
	if v.HasInterval() {
		_, low, high := format.Interval(v.Capacity.Value, v.Capacity.Low, v.Capacity.High)
		row.Interval = v.Capacity.Range()
		row.Low, row.High = scale.Percent(v.Capacity.Low), scale.Percent(v.Capacity.High)
		row.Arrow = row.High
		row.Certainty = format.Percent(v.Capacity.Confidence)
		if v.Capacity.HighOpen {
			high += " or more"
		}
		row.Desc += fmt.Sprintf(", interval from %s to %s at %s", low, high, row.Certainty)
	} else {
		row.Interval = format.Plural(v.Trials, "trial") + ", no interval"
		row.Desc += ", " + row.Interval
	}
	var numbers []string
	for _, trial := range v.PerTrial {
		if format.Finite(trial) {
			row.Trials = append(row.Trials, scale.Percent(trial))
			numbers = append(numbers, format.Measured(trial))
		}
	}
	row.TrialNumbers = strings.Join(numbers, "; ")
	if row.TrialNumbers != "" {
		row.Desc += "; trials: " + row.TrialNumbers
	}
	return row
}

// loadChart is a row per variant with its percentiles of response time on one
// common logarithmic scale, for a run that drove the load as written.
type loadChart struct {
	Rows       []loadRow
	Ticks      []tick
	Thresholds []limitLine
	Note       string
}

type loadRow struct {
	ID, Name, Rate, Desc string
	P50, P95, P99        string // texts
	X50, X95, X99        string // places; empty where not measured
	Met                  string
	Crossed              bool
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
	for _, v := range values {
		c.Ticks = append(c.Ticks, tick{scale.Percent(v), format.LatencyTick(v)})
	}
	for _, t := range limits {
		c.Thresholds = append(c.Thresholds, limitLine{At: scale.Percent(t.limit), Label: t.label})
	}
	for i := range r.Variants {
		v := &r.Variants[i]
		p := v.Latency.Response
		met := objectivesCell(v)
		row := loadRow{ID: fmt.Sprintf("load-%d", i+1), Name: v.Name, Rate: format.Measured(v.Rate) + " " + r.RateUnit() + " offered",
			P50: format.Latency(p.P50), P95: format.Latency(p.P95), P99: format.Latency(p.P99),
			Met: met.Text, Crossed: met.Style == term.Red}
		row.Desc = fmt.Sprintf("Response time: p50 %s, p95 %s, p99 %s.", row.P50, row.P95, row.P99)
		if p.P50 > 0 && p.P95 > 0 && p.P99 > 0 {
			row.X50, row.X95, row.X99 = scale.Percent(p.P50), scale.Percent(p.P95), scale.Percent(p.P99)
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}
