package loadpage

import (
	"fmt"
	"math"

	"loadstone/lab/chart"
	"loadstone/lab/format"
)

// newTimeAxis covers the slots; it ends where they do.
func newTimeAxis(slots []slot) chart.Axis {
	x := chart.Axis{Scale: chart.Scale{Low: 0, High: math.Max(slots[len(slots)-1].to, 1e-3)}, Name: "seconds since the load began"}
	var e chart.Extent
	e.See(0, x.High)
	_, values := chart.Linear(e, 5, true)
	x.Ticks = x.Scale.Ticks(values, format.Setting)
	return x
}

// timeChart is a chart over time without lanes.
func timeChart(id, title string, slots []slot, x chart.Axis) *chart.Chart {
	c := &chart.Chart{ID: id, Title: title, Layout: chart.Axes, X: x}
	for i := 0; i < len(slots); {
		from, phase := slots[i].from, slots[i].phase
		to := from
		for ; i < len(slots) && slots[i].phase == phase; i++ {
			to = slots[i].to
		}
		if phase != measuring {
			c.Shades = append(c.Shades, chart.Shade{Class: "warm", From: from, To: to})
		}
	}
	return c
}

// stepsOf takes one value from each slot.
func stepsOf(slots []slot, of func(*slot) float64) []chart.Step {
	steps := make([]chart.Step, 0, len(slots))
	for i := range slots {
		s := &slots[i]
		steps = append(steps, chart.Step{From: s.from, To: s.to, Value: of(s)})
	}
	return steps
}

// peak is the largest of the steps' values.
func peak(steps []chart.Step) float64 {
	var e chart.Extent
	for _, s := range steps {
		e.See(s.Value)
	}
	return e.High
}

// countLane is an area over a linear axis from zero.
func countLane(name, class string, height int, x chart.Axis, steps []chart.Step) chart.Lane {
	var e chart.Extent
	e.See(peak(steps))
	if e.High <= 0 {
		e.See(0, 1)
	}
	y, values := chart.Linear(e, max(1, height/45), true)
	return chart.Lane{
		Name: name, Height: height, Y: chart.Axis{Scale: y, Ticks: y.Ticks(values, format.Setting)},
		Series: []chart.Series{{Class: class, Path: chart.StepArea(steps, x.Scale, y)}},
	}
}

func newThroughputChart(slots []slot, x chart.Axis) *chart.Chart {
	c := timeChart("throughput-chart", "Throughput over time", slots, x)
	rate := func(of func(*slot) uint64) []chart.Step {
		return stepsOf(slots, func(s *slot) float64 { return s.perSecond(of(s)) })
	}
	requests, failed := rate(func(s *slot) uint64 { return s.requests }), rate(func(s *slot) uint64 { return s.failed })
	c.Lanes = []chart.Lane{
		countLane("requests per second", "area", 160, x, requests),
		countLane("failed per second", "area hot", 48, x, failed),
	}
	c.Desc = fmt.Sprintf("Requests per second, at most %s; failed requests per second, at most %s",
		format.Measured(peak(requests)), format.Measured(peak(failed)))
	for _, more := range []struct {
		name  string
		steps []chart.Step
	}{{"dropped", rate(func(s *slot) uint64 { return s.dropped })}, {"late", rate(func(s *slot) uint64 { return s.late })}} {
		if most := peak(more.steps); most > 0 {
			c.Lanes = append(c.Lanes, countLane(more.name+" per second", "area hot", 48, x, more.steps))
			c.Desc += fmt.Sprintf("; %s, at most %s", more.name, format.Measured(most))
		}
	}
	c.Desc += "."
	return c
}

func newFlightChart(slots []slot, x chart.Axis) *chart.Chart {
	c := timeChart("flight-chart", "Work in flight and the generator’s CPU over time", slots, x)
	flight := stepsOf(slots, func(s *slot) float64 { return float64(s.inFlight) })
	busy := stepsOf(slots, func(s *slot) float64 { return s.busy })
	c.Lanes = []chart.Lane{
		countLane("requests in flight", "area", 110, x, flight),
		countLane("generator, cores", "area other", 48, x, busy),
	}
	c.Desc = fmt.Sprintf("Requests waiting or under way, at most %s; CPU of the load generator, at most %s cores.",
		format.Measured(peak(flight)), format.Measured(peak(busy)))
	return c
}
