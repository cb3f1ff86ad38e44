package report

import (
	"fmt"
	"slices"
	"strconv"

	"loadstone/lab/chart"
	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/threshold"
)

// curveHeight is the height of a latency chart's plot in pixels.
const curveHeight = 200

// curveCharts are the latencies at every rate that was tried, one chart per
// variant. All share the latency axis, so that charts can be compared by
// height; each has its own rate axis, because capacities can lie a hundredfold
// apart.
type curveCharts struct {
	Charts []curveChart
	Unit   string // of rates
	Height int
	Limits bool // some chart has a threshold
}

type curveChart struct {
	ID, Name, Desc string
	XTicks, YTicks []tick
	Thresholds     []limitLine
	Points         []curveMark
	Knee           string // the middle p95 by rate, as a path; empty for few points
	Capacity       string // its place; empty without one
	CapacityLabel  string
	BandFrom, Band string // the interval's left end and width; empty without one
	Rows           []curveRow
}

// limitLine is an objective's limit, drawn as a line.
type limitLine struct{ At, Label string }

// curveMark is one percentile at one rate.
type curveMark struct {
	Kind string // 50, 95 or 99
	X, Y string
	Held bool
}

// curveRow is one tried rate in the chart's table.
type curveRow struct {
	Rate, Trial, Seconds, P50, P95, P99, Reason string
	Held                                        bool
}

// latencyLimit is an objective on a percentile of all requests' response time:
// the only kind that a latency chart can show.
type latencyLimit struct {
	limit float64
	label string
}

func latencyLimits(r *result.Result) []latencyLimit {
	var limits []latencyLimit
	objectives := slices.Clone(r.SLO)
	if len(objectives) == 0 && len(r.Variants) > 0 {
		objectives = r.Variants[0].SLO
	}
	for _, written := range objectives {
		t, ok := objective(written).parsed()
		if ok && t.Value > 0 && t.Name() == threshold.HTTPReqDuration && t.Over == 0 && (t.Aggregation == "p" || t.Aggregation == "med") {
			limits = append(limits, latencyLimit{t.Value, written.Threshold + " ms"})
		}
	}
	return limits
}

func newCurveCharts(r *result.Result) *curveCharts {
	var seen chart.Extent
	for _, v := range r.Variants {
		for _, p := range v.Curve {
			seen.SeePositive(p.P50, p.P95, p.P99)
		}
	}
	if !seen.Any {
		return nil
	}
	limits := latencyLimits(r)
	for _, t := range limits {
		seen.SeePositive(t.limit/2, t.limit) // so that the line is not the axis
	}
	scale, values := chart.Log(seen)
	height := func(v float64) string { return chart.Number((1-scale.At(v))*curveHeight, 1) }
	charts := &curveCharts{Unit: r.RateUnit(), Height: curveHeight, Limits: len(limits) > 0}
	for i := range r.Variants {
		if len(r.Variants[i].Curve) == 0 {
			continue
		}
		c := newCurveChart(&r.Variants[i], r.RateUnit(), scale)
		c.ID = fmt.Sprintf("curve-%d", i+1)
		for _, v := range values {
			c.YTicks = append(c.YTicks, tick{height(v), format.LatencyTick(v)})
		}
		for _, t := range limits {
			c.Thresholds = append(c.Thresholds, limitLine{height(t.limit), t.label})
		}
		charts.Charts = append(charts.Charts, c)
	}
	return charts
}

func newCurveChart(v *result.Variant, unit string, latency chart.Scale) curveChart {
	height := func(v float64) string { return chart.Number((1-latency.At(v))*curveHeight, 1) }
	var rates chart.Extent
	held := 0
	for _, p := range v.Curve {
		rates.See(p.Rate)
		if p.Held {
			held++
		}
	}
	scale, values := chart.Linear(rates, 4, false)
	c := curveChart{Name: v.Name}
	for _, t := range values {
		c.XTicks = append(c.XTicks, tick{scale.Percent(t), format.Setting(t)})
	}
	if v.HasCapacity() {
		c.Capacity = scale.Percent(v.Capacity.Value)
		c.CapacityLabel = capacityText(v)
	}
	if v.HasInterval() {
		c.BandFrom = scale.Percent(v.Capacity.Low)
		c.Band = chart.Percent(scale.At(v.Capacity.High) - scale.At(v.Capacity.Low))
	}
	for _, p := range v.Curve {
		c.addPoint(p, scale, height)
	}
	c.Knee = kneePath(v.Curve, scale, latency)
	c.Desc = fmt.Sprintf("%s tried, from %s to %s %s; %d held. Capacity %s.",
		format.Plural(len(v.Curve), "rate"), format.Measured(rates.Low), format.Measured(rates.High), unit, held, capacityText(v))
	return c
}

func (c *curveChart) addPoint(p result.CurvePoint, scale chart.Scale, height func(float64) string) {
	c.Rows = append(c.Rows, curveRow{
		Rate: format.Measured(p.Rate), Trial: strconv.Itoa(p.Trial), Seconds: format.Setting(p.Seconds),
		P50: format.LatencyNumber(p.P50), P95: format.LatencyNumber(p.P95), P99: format.LatencyNumber(p.P99),
		Held: p.Held, Reason: p.Reason,
	})
	if !format.Finite(p.Rate) {
		return
	}
	for _, m := range []struct {
		kind string
		ms   float64
	}{{"50", p.P50}, {"95", p.P95}, {"99", p.P99}} {
		if m.ms > 0 && format.Finite(m.ms) {
			c.Points = append(c.Points, curveMark{Kind: m.kind, X: scale.Percent(p.Rate), Y: height(m.ms), Held: p.Held})
		}
	}
}

// kneeWindow is how many neighbouring rates the line through the knee takes the
// middle of: enough to pass over one bad probe of three, few enough to bend.
const kneeWindow = 5

// kneePath is the running median of p95 by rate, so that the eye finds where it
// bends. Points are in order of their rates.
func kneePath(points []result.CurvePoint, rates, latency chart.Scale) string {
	var line [][2]float64
	var usable []result.CurvePoint
	for _, p := range points {
		if format.Finite(p.Rate) && format.Finite(p.P95) && p.P95 > 0 {
			usable = append(usable, p)
		}
	}
	for i := 0; i+kneeWindow <= len(usable); i++ {
		window := make([]float64, kneeWindow)
		for j := range window {
			window[j] = usable[i+j].P95
		}
		slices.Sort(window)
		line = append(line, [2]float64{usable[i+kneeWindow/2].Rate, window[kneeWindow/2]})
	}
	if len(line) < 2 {
		return ""
	}
	return curvePath(line, rates, latency)
}
