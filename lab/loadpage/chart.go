package loadpage

import (
	"fmt"
	"math"
	"strings"

	"loadstone/lab/chart"
	"loadstone/lab/format"
)

// plot is one drawing: lanes under each other over one horizontal axis.
type plot struct {
	ID, Title, Desc string
	XTicks          []tick // in percent
	XName           string
	Shades          []shade // the warm-up, and after the end
	Lanes           []lane
	Height          int // of all lanes, in pixels
}

// shade is a stretch of the horizontal axis, in percent.
type shade struct{ From, Length string }

// lane is a plot of its own height with a vertical axis of its own.
type lane struct {
	Y, Height int // in pixels
	Name      string
	NameY     int
	YTicks    []tick // in pixels from the chart's top
	Limits    []tick // thresholds, likewise
	Curves    []curve

	limits []limit
}

// limit is a threshold's value on a lane's axis.
type limit struct {
	value float64
	label string
}

// curve is a line, or an area down to the lane's bottom, in units of which the
// lane has unit each way.
type curve struct {
	Kind string // the style sheet's class
	Path string
}

// unit is the side of a lane's coordinate system, which is stretched to it.
const unit = 1000

// laneGap is the room above a lane for its name.
const laneGap = 30

// add puts a lane under those that are there, and its axis beside it.
func (c *plot) add(l lane, y chart.Scale, values []float64, label func(float64) string) {
	l.Y = c.Height + laneGap
	l.NameY = l.Y - 9
	place := func(v float64) string { return chart.Number(float64(l.Y)+(1-y.At(v))*float64(l.Height), 1) }
	for _, v := range values {
		l.YTicks = append(l.YTicks, tick{place(v), label(v)})
	}
	for _, limit := range l.limits {
		l.Limits = append(l.Limits, tick{place(limit.value), limit.label})
	}
	c.Height = l.Y + l.Height
	c.Lanes = append(c.Lanes, l)
}

// touching is how far two steps may be apart, in seconds, to be one line: a
// window that ended a little late leaves no gap.
const touching = 0.1

// step is a value that holds for a stretch of an axis.
type step struct{ from, to, value float64 }

// write appends a path command: a letter and its numbers.
func write(b *strings.Builder, command byte, numbers ...float64) {
	b.WriteByte(command)
	for i, v := range numbers {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(chart.Number(v*unit, 1))
	}
}

// linePath draws values as steps. One that is no number, or no height on a
// logarithmic axis, leaves a gap.
func linePath(steps []step, x, y chart.Scale) string {
	var b strings.Builder
	open, end := false, math.NaN()
	for _, s := range steps {
		if !format.Finite(s.value) || y.Log && s.value <= 0 {
			open = false
			continue
		}
		height := 1 - y.At(s.value)
		if open && s.from <= end {
			write(&b, 'V', height)
		} else {
			write(&b, 'M', x.At(s.from), height)
		}
		write(&b, 'H', x.At(s.to))
		open, end = true, s.to+touching
	}
	return b.String()
}

// areaPath draws values as steps with everything below them. Steps that touch
// are one shape: between two shapes a screen would show a seam.
func areaPath(steps []step, x, y chart.Scale) string {
	var b strings.Builder
	open, end := false, 0.0
	shut := func() {
		if open {
			write(&b, 'V', 1)
			b.WriteByte('Z')
		}
		open = false
	}
	for _, s := range steps {
		if !format.Finite(s.value) || s.value <= 0 {
			shut()
			continue
		}
		if !open || s.from > end {
			shut()
			write(&b, 'M', x.At(s.from), 1)
		}
		write(&b, 'V', 1-y.At(s.value))
		write(&b, 'H', x.At(s.to))
		open, end = true, s.to+touching
	}
	shut()
	return b.String()
}

// polyPath draws a line through points.
func polyPath(points [][2]float64, x, y chart.Scale) string {
	var b strings.Builder
	for i, p := range points {
		command := byte('L')
		if i == 0 {
			command = 'M'
		}
		write(&b, command, x.At(p[0]), 1-y.At(p[1]))
	}
	return b.String()
}

// newTimeAxis covers the slots; it ends where they do.
func newTimeAxis(slots []slot) chart.Scale {
	return chart.Scale{Low: 0, High: math.Max(slots[len(slots)-1].to, 1e-3)}
}

// timeChart is a chart over time without lanes.
func timeChart(id, title string, slots []slot, x chart.Scale) *plot {
	c := &plot{ID: id, Title: title, XName: "seconds since the load began"}
	var e chart.Extent
	e.See(0, x.High)
	_, values := chart.Linear(e, 5, true)
	for _, v := range values {
		if v <= x.High {
			c.XTicks = append(c.XTicks, tick{x.Percent(v), format.Setting(v)})
		}
	}
	for i := 0; i < len(slots); {
		from, phase := slots[i].from, slots[i].phase
		to := from
		for ; i < len(slots) && slots[i].phase == phase; i++ {
			to = slots[i].to
		}
		if phase != measuring {
			c.Shades = append(c.Shades, shade{x.Percent(from), chart.Percent(x.At(to) - x.At(from))})
		}
	}
	return c
}

// stepsOf takes one value from each slot.
func stepsOf(slots []slot, of func(*slot) float64) []step {
	steps := make([]step, 0, len(slots))
	for i := range slots {
		s := &slots[i]
		steps = append(steps, step{s.from, s.to, of(s)})
	}
	return steps
}

// peak is the largest of the steps' values.
func peak(steps []step) float64 {
	var e chart.Extent
	for _, s := range steps {
		e.See(s.value)
	}
	return e.High
}

// addCounts adds a lane of areas over a linear axis from zero. The first is
// drawn first, the others over it.
func (c *plot) addCounts(name string, height int, x chart.Scale, of map[string][]step, order ...string) {
	var e chart.Extent
	for _, steps := range of {
		e.See(peak(steps))
	}
	if e.High <= 0 {
		e.See(0, 1)
	}
	y, values := chart.Linear(e, max(1, height/45), true)
	l := lane{Height: height, Name: name}
	for _, kind := range order {
		if path := areaPath(of[kind], x, y); path != "" {
			l.Curves = append(l.Curves, curve{"area " + kind, path})
		}
	}
	c.add(l, y, values, format.Setting)
}

func newThroughputChart(slots []slot, x chart.Scale) *plot {
	c := timeChart("throughput-chart", "Throughput over time", slots, x)
	requests := stepsOf(slots, func(s *slot) float64 { return s.perSecond(s.requests) })
	failed := stepsOf(slots, func(s *slot) float64 { return s.perSecond(s.failed) })
	dropped := stepsOf(slots, func(s *slot) float64 { return s.perSecond(s.dropped) })
	late := stepsOf(slots, func(s *slot) float64 { return s.perSecond(s.late) })
	c.addCounts("requests per second", 160, x, map[string][]step{"rate": requests}, "rate")
	c.addCounts("failed per second", 48, x, map[string][]step{"hot": failed}, "hot")
	c.Desc = fmt.Sprintf("Requests per second, at most %s; failed requests per second, at most %s",
		format.Measured(peak(requests)), format.Measured(peak(failed)))
	for _, more := range []struct {
		name  string
		steps []step
	}{{"dropped", dropped}, {"late", late}} {
		if most := peak(more.steps); most > 0 {
			c.addCounts(more.name+" per second", 48, x, map[string][]step{"hot": more.steps}, "hot")
			c.Desc += fmt.Sprintf("; %s, at most %s", more.name, format.Measured(most))
		}
	}
	c.Desc += "."
	return c
}

func newFlightChart(slots []slot, x chart.Scale) *plot {
	c := timeChart("flight-chart", "Work in flight and the generator’s CPU over time", slots, x)
	flight := stepsOf(slots, func(s *slot) float64 { return float64(s.inFlight) })
	busy := stepsOf(slots, func(s *slot) float64 { return s.busy })
	c.addCounts("requests in flight", 110, x, map[string][]step{"rate": flight}, "rate")
	c.addCounts("generator, cores", 48, x, map[string][]step{"other": busy}, "other")
	c.Desc = fmt.Sprintf("Requests waiting or under way, at most %s; CPU of the load generator, at most %s cores.",
		format.Measured(peak(flight)), format.Measured(peak(busy)))
	return c
}
