package loadpage

import (
	"fmt"
	"math"
	"strconv"

	"loadstone/lab/chart"
	"loadstone/lab/format"
	"loadstone/lab/load/summary"
	"loadstone/lab/threshold"
)

// timesHeight is the height of a plot of latencies in pixels.
const timesHeight = 200

// latencyLimits are the thresholds that a chart of all requests' response times
// can show, in milliseconds.
func latencyLimits(s *summary.Summary) []chart.Limit {
	var limits []chart.Limit
	for _, t := range s.Thresholds {
		parsed, err := threshold.Parse(t.Metric, t.Expression)
		if err != nil || t.Metric != threshold.HTTPReqDuration || !(parsed.Value > 0) || !format.Finite(parsed.Value) {
			continue // a metric with a selector is about other requests
		}
		switch parsed.Aggregation {
		case "p", "med":
			limits = append(limits, chart.Limit{Value: parsed.Value, Label: t.Expression + " ms"})
		}
	}
	return limits
}

// newTimesCharts are the quantiles of response and of service time, slot by
// slot. Both have the same axis, so that they can be compared by height.
func newTimesCharts(slots []slot, x chart.Axis, limits []chart.Limit) []*chart.Chart {
	var seen chart.Extent
	for i := range slots {
		r, s := slots[i].response, slots[i].service
		seen.SeePositive(r.p50, r.p95, r.p99, s.p50, s.p95, s.p99)
	}
	if !seen.Any {
		return nil
	}
	for _, l := range limits {
		seen.SeePositive(l.Value/2, l.Value) // so that the line is not the axis
	}
	scale, values := chart.Log(seen)
	y := chart.Axis{Scale: scale, Ticks: scale.Ticks(values, format.LatencyTick)}
	var charts []*chart.Chart
	for _, of := range []struct {
		id, name string
		times    func(*slot) quantiles
		limits   []chart.Limit
	}{
		{"response", "Response time", func(s *slot) quantiles { return s.response }, limits},
		{"service", "Service time", func(s *slot) quantiles { return s.service }, nil},
	} {
		c := timeChart(of.id+"-chart", of.name+" over time", slots, x)
		l := chart.Lane{Height: timesHeight, Name: of.name, Y: y, Limits: of.limits}
		c.Desc = of.name + " in each second."
		for _, q := range []struct {
			name string
			of   func(quantiles) float64
		}{
			{"p50", func(q quantiles) float64 { return q.p50 }},
			{"p95", func(q quantiles) float64 { return q.p95 }},
			{"p99", func(q quantiles) float64 { return q.p99 }},
		} {
			steps := stepsOf(slots, func(s *slot) float64 { return q.of(of.times(s)) })
			l.Series = append(l.Series, chart.Series{Class: "line " + q.name, Path: chart.StepLine(steps, x.Scale, scale)})
			c.Desc += fmt.Sprintf(" %s: at most %s.", q.name, format.Latency(peak(steps)))
		}
		c.Lanes = []chart.Lane{l}
		charts = append(charts, c)
	}
	return charts
}

// newCurveChart is the distribution as HdrHistogram's plots have it: the share
// of the requests that took longer goes down tenfold from one mark to the next,
// so that the slowest get as much room as the rest. It ends where one request
// is left.
func newCurveChart(s *summary.Summary) *chart.Chart {
	if len(s.Percentiles) == 0 || s.Requests < 2 {
		return nil
	}
	var seen chart.Extent
	var response, service [][2]float64
	end := math.Log10(float64(s.Requests))
	for _, p := range s.Percentiles {
		seen.SeePositive(p.Response, p.Service)
		x := end
		if p.Quantile < 1 {
			x = math.Min(-math.Log10(1-p.Quantile), end)
		}
		if p.Response > 0 && format.Finite(p.Response) {
			response = append(response, [2]float64{x, p.Response})
		}
		if p.Service > 0 && format.Finite(p.Service) {
			service = append(service, [2]float64{x, p.Service})
		}
	}
	if !seen.Any {
		return nil
	}
	x := chart.Axis{Scale: chart.Scale{Low: 0, High: math.Max(end, 1)}, Name: "% of the requests were no slower"}
	for power := range int(x.High+1e-9) + 1 {
		x.Ticks = append(x.Ticks, chart.Tick{Value: float64(power), Label: nines(power)})
	}
	y, values := chart.Log(seen)
	c := &chart.Chart{ID: "curve-chart", Title: "Distribution of latencies", Layout: chart.Axes, X: x}
	c.Lanes = []chart.Lane{{
		Height: timesHeight + 40, Name: "latency", Y: chart.Axis{Scale: y, Ticks: y.Ticks(values, format.LatencyTick)},
		Series: []chart.Series{{Class: "line service", Path: chart.Line(service, x.Scale, y)}, {Class: "line response", Path: chart.Line(response, x.Scale, y)}},
	}}
	c.Desc = fmt.Sprintf("Response time: p50 %s, p99 %s, longest %s. Service time: p50 %s, p99 %s, longest %s.",
		format.Latency(s.Latency.Response.P50), format.Latency(s.Latency.Response.P99), format.Latency(s.Latency.Response.Max),
		format.Latency(s.Latency.Service.P50), format.Latency(s.Latency.Service.P99), format.Latency(s.Latency.Service.Max))
	return c
}

// nines writes the share of all but one in 10^power as a percentage.
func nines(power int) string {
	switch power {
	case 0:
		return "0"
	case 1:
		return "90"
	default:
		return strconv.FormatFloat(100-math.Pow10(2-power), 'f', power-2, 64)
	}
}
