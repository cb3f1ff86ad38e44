package report

import (
	"fmt"
	"slices"
	"strings"

	"loadstone/lab/chart"
	"loadstone/lab/format"
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

func newCapacityChart(r *Result) *capacityChart {
	c := &capacityChart{Unit: r.rateUnit(), Note: r.capacityNote()}
	var seen chart.Extent
	for i := range r.Variants {
		v := &r.Variants[i]
		if v.hasCapacity() {
			seen.See(v.Capacity.Value)
			c.Unit = v.Capacity.Unit
		}
		if v.hasInterval() {
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
func (r *Result) capacityNote() string {
	note := "The highest rate at which every objective held. "
	if !slices.ContainsFunc(r.Variants, func(v Variant) bool { return v.hasCapacity() }) {
		return note + "None was found."
	}
	note += r.confidences() + "." + r.endsMean() + " "
	if slices.ContainsFunc(r.Variants, func(v Variant) bool { return v.hasInterval() }) {
		note += "Whisker: interval; dot: one trial."
	} else {
		note += "Dot: one trial."
	}
	if slices.ContainsFunc(r.Variants, func(v Variant) bool { return v.isLowerBound() }) {
		note += " ≥: a lower bound, the measurement ended before the system did."
	}
	note += r.ratioConfidence()
	if r.hasTilde() {
		note += " ~: " + r.tildeMeans()
	}
	return note
}

func newCapacityRow(r *Result, i int, scale chart.Scale) capacityRow {
	v := &r.Variants[i]
	tilde, ratio, of := r.ratioCells(v.Name)
	row := capacityRow{
		ID: fmt.Sprintf("capacity-%d", i+1), Name: v.Name, LimitedBy: v.limitedBy(),
		Decided: v.Verdict.decided(),
		Ratio:   strings.TrimSpace(strings.Replace(ratio, "x", "×", 1) + " " + of), Tilde: tilde != "",
		More: v.hasCapacity() && (v.isLowerBound() || v.hasInterval() && v.Capacity.HighOpen), Certainty: format.Missing,
	}
	if !v.hasCapacity() {
		row.Value = "no capacity found"
		row.Desc = "No rate that was tried met the objectives."
		return row
	}
	row.Bar = scale.Percent(v.Capacity.Value)
	row.Arrow = row.Bar
	row.Value = format.Measured(v.Capacity.Value) + " " + v.Capacity.Unit
	if v.isLowerBound() {
		row.Value = "≥ " + row.Value
	}
	row.Desc = v.capacityText()
	if v.hasInterval() {
		_, low, high := format.Interval(v.Capacity.Value, v.Capacity.Low, v.Capacity.High)
		row.Interval = RangeOf(*v.Capacity)
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
	Thresholds []threshold
	Note       string
}

type loadRow struct {
	ID, Name, Rate, Desc string
	P50, P95, P99        string // texts
	X50, X95, X99        string // places; empty where not measured
	Met                  string
	Crossed              bool
}

func newLoadChart(r *Result) *loadChart {
	c := &loadChart{}
	var seen chart.Extent
	for _, v := range r.Variants {
		p := v.Latency.Response
		seen.SeePositive(p.P50, p.P95, p.P99)
	}
	limits := r.latencyLimits()
	for _, t := range limits {
		seen.SeePositive(t.limit/2, t.limit) // so that the line is not the axis
	}
	scale, values := chart.Log(seen)
	for _, v := range values {
		c.Ticks = append(c.Ticks, tick{scale.Percent(v), format.LatencyTick(v)})
	}
	for _, t := range limits {
		c.Thresholds = append(c.Thresholds, threshold{At: scale.Percent(t.limit), Label: t.label})
	}
	for i := range r.Variants {
		v := &r.Variants[i]
		p := v.Latency.Response
		met := v.objectivesCell()
		row := loadRow{ID: fmt.Sprintf("load-%d", i+1), Name: v.Name, Rate: format.Measured(v.Rate) + " " + r.rateUnit() + " offered",
			P50: format.Latency(p.P50), P95: format.Latency(p.P95), P99: format.Latency(p.P99),
			Met: met.text, Crossed: met.style == red}
		row.Desc = fmt.Sprintf("Response time: p50 %s, p95 %s, p99 %s.", row.P50, row.P95, row.P99)
		if p.P50 > 0 && p.P95 > 0 && p.P99 > 0 {
			row.X50, row.X95, row.X99 = scale.Percent(p.P50), scale.Percent(p.P95), scale.Percent(p.P99)
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}
