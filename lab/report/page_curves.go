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
	Limits bool   // some chart has a threshold
}

type curveChart struct {
	*chart.Chart

	Name     string
	Capacity string // empty without one
	Rows     []curveRow
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
	lane := chart.Lane{Height: curveHeight, Y: chart.Axis{Scale: scale, Ticks: scale.Ticks(values, format.LatencyTick)}}
	for _, t := range limits {
		lane.Limits = append(lane.Limits, chart.Limit{Value: t.limit, Label: t.label})
	}
	charts := &curveCharts{Unit: r.RateUnit(), Limits: len(limits) > 0}
	for i := range r.Variants {
		if len(r.Variants[i].Curve) > 0 {
			charts.Charts = append(charts.Charts, newCurveChart(fmt.Sprintf("curve-%d", i+1), &r.Variants[i], r.RateUnit(), lane))
		}
	}
	return charts
}

func newCurveChart(id string, v *result.Variant, unit string, lane chart.Lane) curveChart {
	var rates chart.Extent
	held := 0
	for _, p := range v.Curve {
		rates.See(p.Rate)
		if p.Held {
			held++
		}
	}
	scale, values := chart.Linear(rates, 4, false)
	c := curveChart{Name: v.Name, Chart: &chart.Chart{
		ID: id, Title: "Latency by rate of " + v.Name, Layout: chart.Axes,
		X: chart.Axis{Scale: scale, Ticks: scale.Ticks(values, format.Setting), Name: "offered rate, " + unit},
	}}
	if v.HasCapacity() {
		c.Verticals = []chart.Vertical{{Class: "capline", At: v.Capacity.Value}}
		c.Capacity = capacityText(v)
	}
	if v.HasInterval() {
		c.Shades = []chart.Shade{{Class: "band", From: v.Capacity.Low, To: v.Capacity.High}}
	}
	for _, p := range v.Curve {
		lane.Points = append(lane.Points, c.points(p)...)
	}
	lane.Series = []chart.Series{{Class: "line median", Path: kneePath(v.Curve, scale, lane.Y.Scale)}}
	c.Lanes = []chart.Lane{lane}
	c.Desc = fmt.Sprintf("%s tried, from %s to %s %s; %d held. Capacity %s.",
		format.Plural(len(v.Curve), "rate"), format.Measured(rates.Low), format.Measured(rates.High), unit, held, capacityText(v))
	return c
}

// points are the percentiles at one rate, and its row in the table.
func (c *curveChart) points(p result.CurvePoint) (points []chart.Point) {
	c.Rows = append(c.Rows, curveRow{
		Rate: format.Measured(p.Rate), Trial: strconv.Itoa(p.Trial), Seconds: format.Setting(p.Seconds),
		P50: format.LatencyNumber(p.P50), P95: format.LatencyNumber(p.P95), P99: format.LatencyNumber(p.P99),
		Held: p.Held, Reason: p.Reason,
	})
	held := ""
	if p.Held {
		held = " held"
	}
	for _, m := range []struct {
		kind string
		ms   float64
	}{{"50", p.P50}, {"95", p.P95}, {"99", p.P99}} {
		if m.ms > 0 && format.Finite(m.ms) && format.Finite(p.Rate) {
			points = append(points, chart.Point{Shape: "m" + m.kind, Class: "p" + m.kind + held, X: p.Rate, Y: m.ms})
		}
	}
	return points
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
	return chart.Line(line, rates, latency)
}
