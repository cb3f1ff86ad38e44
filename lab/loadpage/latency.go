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
func latencyLimits(s *summary.Summary) []limit {
	var limits []limit
	for _, t := range s.Thresholds {
		parsed, err := threshold.Parse(t.Metric, t.Expression)
		if err != nil || t.Metric != threshold.HTTPReqDuration || !(parsed.Value > 0) || !format.Finite(parsed.Value) {
			continue // a metric with a selector is about other requests
		}
		switch parsed.Aggregation {
		case "p", "med":
			limits = append(limits, limit{parsed.Value, t.Expression + " ms"})
		}
	}
	return limits
}

// newTimesCharts are the quantiles of response and of service time, slot by
// slot. Both have the same axis, so that they can be compared by height.
func newTimesCharts(slots []slot, x chart.Scale, limits []limit) []*plot {
	var seen chart.Extent
	for i := range slots {
		r, s := slots[i].response, slots[i].service
		seen.SeePositive(r.p50, r.p95, r.p99, s.p50, s.p95, s.p99)
	}
	if !seen.Any {
		return nil
	}
	for _, l := range limits {
		seen.SeePositive(l.value/2, l.value) // so that the line is not the axis
	}
	y, values := chart.Log(seen)
	var charts []*plot
	for _, of := range []struct {
		id, name string
		times    func(*slot) quantiles
		limits   []limit
	}{
		{"response", "Response time", func(s *slot) quantiles { return s.response }, limits},
		{"service", "Service time", func(s *slot) quantiles { return s.service }, nil},
	} {
		c := timeChart(of.id+"-chart", of.name+" over time", slots, x)
		l := lane{Height: timesHeight, Name: of.name, limits: of.limits}
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
			if path := linePath(steps, x, y); path != "" {
				l.Curves = append(l.Curves, curve{"line " + q.name, path})
			}
			c.Desc += fmt.Sprintf(" %s: at most %s.", q.name, format.Latency(peak(steps)))
		}
		c.add(l, y, values, format.LatencyTick)
		charts = append(charts, c)
	}
	return charts
}

// newCurveChart is the distribution as HdrHistogram's plots have it: the share
// of the requests that took longer goes down tenfold from one mark to the next,
// so that the slowest get as much room as the rest. It ends where one request
// is left.
func newCurveChart(s *summary.Summary) *plot {
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
	x := chart.Scale{Low: 0, High: math.Max(end, 1)}
	y, values := chart.Log(seen)
	c := &plot{ID: "curve-chart", Title: "Distribution of latencies", XName: "% of the requests were no slower"}
	for power := range int(x.High+1e-9) + 1 {
		c.XTicks = append(c.XTicks, tick{x.Percent(float64(power)), nines(power)})
	}
	l := lane{Height: timesHeight + 40, Name: "latency"}
	for _, of := range []curve{{"line service", polyPath(service, x, y)}, {"line response", polyPath(response, x, y)}} {
		if of.Path != "" {
			l.Curves = append(l.Curves, of)
		}
	}
	c.Desc = fmt.Sprintf("Response time: p50 %s, p99 %s, longest %s. Service time: p50 %s, p99 %s, longest %s.",
		format.Latency(s.Latency.Response.P50), format.Latency(s.Latency.Response.P99), format.Latency(s.Latency.Response.Max),
		format.Latency(s.Latency.Service.P50), format.Latency(s.Latency.Service.P99), format.Latency(s.Latency.Service.Max))
	c.add(l, y, values, format.LatencyTick)
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
