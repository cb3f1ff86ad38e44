package ui

import (
	"fmt"
	"math"
	"time"

	"loadstone/lab/chart"
	"loadstone/lab/format"
)

// laneHeight is the height of a lane, in pixels.
const laneHeight = 38

// point is a figure at a moment; NaN where it is not known.
type point struct {
	at    time.Time
	value float64
}

// newLane draws one figure over the time between two moments, as a chart of its
// own. It is as high as top, or as the highest point if top is 0.
func newLane(name string, points []point, from, to time.Time, top float64) *chart.Chart {
	c := &chart.Chart{Title: name, Layout: chart.Lanes, X: chart.Axis{Scale: chart.Scale{High: to.Sub(from).Seconds()}}}
	l := chart.Lane{Name: name, Height: laneHeight, Y: chart.Axis{Scale: chart.Scale{High: max(top, highest(points))}}}
	if l.Y.High > 0 && c.X.High > 0 {
		line := make([][2]float64, len(points))
		for i, p := range points {
			line[i] = [2]float64{p.at.Sub(from).Seconds(), p.value}
		}
		l.Series = []chart.Series{{Class: "area", Path: chart.Area(line, c.X.Scale, l.Y.Scale)}}
	}
	c.Lanes = []chart.Lane{l}
	return c
}

// label says what a lane's figure is now, with its scale; class is the style of
// its area.
func label(c *chart.Chart, class, note string) *chart.Chart {
	l := &c.Lanes[0]
	l.Note, c.Desc = note, l.Name+": now "+note
	for i := range l.Series {
		l.Series[i].Class = class
	}
	return c
}

func highest(points []point) float64 {
	var seen chart.Extent
	for _, p := range points {
		seen.See(p.value)
	}
	return max(seen.High, 0)
}

// loadLanes are what the load did: answered, response time and failures.
func (c *current) loadLanes() []*chart.Chart {
	if len(c.seconds) == 0 {
		return nil
	}
	from, to := c.span()
	figure := func(of func(second) float64) []point {
		out := make([]point, len(c.seconds))
		for i, s := range c.seconds {
			out[i] = point{s.At, of(s)}
		}
		return out
	}
	last := c.seconds[len(c.seconds)-1]
	answered := figure(func(s second) float64 { return s.Rate })
	slow := figure(func(s second) float64 { return s.P95 })
	half := figure(func(s second) float64 { return s.P50 })
	lost := figure(func(s second) float64 { return float64(s.Failed + s.Dropped) })
	return numbered("load", []*chart.Chart{
		label(newLane("answered, req/s", answered, from, to, 0), "area other",
			format.Measured(last.Rate)+", most "+format.Measured(highest(answered))),
		label(newLane("p95 of response time", slow, from, to, 0), "area",
			format.Latency(last.P95)+", most "+format.Latency(highest(slow))),
		label(newLane("p50 of response time", half, from, to, highest(slow)), "area",
			format.Latency(last.P50)+", on the same scale"),
		label(newLane("failed or dropped, a second", lost, from, to, 0), "area hot",
			fmt.Sprintf("%d, most %.0f", last.Failed+last.Dropped, highest(lost))),
	})
}

// numbered gives the charts their names on the page.
func numbered(prefix string, charts []*chart.Chart) []*chart.Chart {
	for i, c := range charts {
		c.ID = fmt.Sprintf("%s-%d", prefix, i+1)
	}
	return charts
}

// cpuLanes are the components' CPU. A lane is as high as the component's share,
// where that is known.
func (c *current) cpuLanes(limits map[string]float64) []*chart.Chart {
	var out []*chart.Chart
	if len(c.cpu) == 0 {
		return nil
	}
	from, to := c.span()
	for _, name := range c.components() {
		points := make([]point, len(c.cpu))
		now := math.NaN()
		for i, s := range c.cpu {
			v, ok := s.Cores[name]
			if !ok {
				v = math.NaN()
			}
			points[i], now = point{s.At, v}, v
		}
		class, note := "area", format.Measured(now)+" cores"
		if limit := limits[name]; limit > 0 {
			note = format.Measured(now) + " of " + format.Setting(limit) + " cores"
			if now > 0.9*limit {
				class = "area hot"
			}
		}
		out = append(out, label(newLane(name, points, from, to, limits[name]), class, note))
	}
	return numbered("cpu", out)
}

// span is the time that the charts show: that of the windows and samples that
// are kept.
func (c *current) span() (from, to time.Time) {
	see := func(t time.Time) {
		if from.IsZero() || t.Before(from) {
			from = t
		}
		if t.After(to) {
			to = t
		}
	}
	if n := len(c.seconds); n > 0 {
		see(c.seconds[0].At)
		see(c.seconds[n-1].At)
	}
	if n := len(c.cpu); n > 0 {
		see(c.cpu[0].At)
		see(c.cpu[n-1].At)
	}
	if earliest := to.Add(-maxSeconds * time.Second); from.Before(earliest) {
		from = earliest
	}
	return from, to
}
