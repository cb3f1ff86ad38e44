package report

import (
	"fmt"
	"math"
	"strings"

	"loadstone/lab/chart"
	"loadstone/lab/format"
	"loadstone/lab/result"
)

// scalingHeight is the height of the scaling chart's plot in pixels.
const scalingHeight = 260

// scalingChart is capacity by size: what was measured, the fitted curve, and
// the largest size as it was predicted without being seen.
type scalingChart struct {
	Title, Unit, Desc string
	Height            int
	XName             string
	XTicks, YTicks    []tick
	Points            []scalingMark
	Path              string // of the fit, in units of a drawing of laneUnits by laneUnits
	Predicted         *scalingMark
	Takeover, Carry   string // the place from left, and the one from above; empty without
	TakeoverLabel     string
	TakeoverBound     string
	CarryLabel        string
	Answers           []string
	Notes             []string
	Rows              []scalingRow
}

// scalingMark is a point with its whiskers.
type scalingMark struct {
	X, Y, Low, High string // Low and High are empty without an interval
	Bound           bool
}

type scalingRow struct {
	Size, Variant, Capacity, Interval, Predicted, Limit string
}

func newScalingChart(r *result.Result) *scalingChart {
	s := r.Scaling
	if s == nil || len(s.Points) == 0 {
		return nil
	}
	c := &scalingChart{Unit: r.RateUnit(), Height: scalingHeight, XName: strings.TrimSpace(s.Service + " " + s.Setting)}
	c.Title = "Capacity by " + c.XName
	x, y, ok := c.axes(s)
	if !ok {
		return nil
	}
	mark := func(size float64, i result.Interval) scalingMark {
		m := scalingMark{X: x.Percent(size), Y: height(y, i.Value), Bound: i.LowerBound}
		if i.HasRange() {
			m.Low, m.High = height(y, i.Low), height(y, i.High)
		}
		return m
	}
	for _, p := range s.Points {
		c.Points = append(c.Points, mark(p.Size, p.Capacity))
		row := scalingRow{Size: format.Setting(p.Size), Variant: p.Variant, Capacity: p.Capacity.Bounded(), Interval: p.Capacity.Range(), Predicted: format.Missing, Limit: sizeLimitedBy(&p)}
		if s.HeldOut != nil && s.HeldOut.Size == p.Size {
			row.Predicted = s.HeldOut.Predicted.Bounded() + " " + s.HeldOut.Predicted.Range()
		}
		c.Rows = append(c.Rows, row)
	}
	if s.HeldOut != nil {
		m := mark(s.HeldOut.Size, s.HeldOut.Predicted)
		c.Predicted = &m
	}
	if s.Law != nil {
		c.Path = curvePath(s.Law.Curve, x, y)
		c.Notes = append(c.Notes, s.Law.Warnings...)
	}
	c.addLines(s, x, y)
	c.tell(s)
	return c
}

// axes cover everything that is drawn; capacity starts at zero.
func (c *scalingChart) axes(s *result.Scaling) (x, y chart.Scale, ok bool) {
	var sizes, rates chart.Extent
	see := func(i result.Interval) { rates.See(i.Value); rates.See(i.High) }
	for _, p := range s.Points {
		sizes.See(p.Size)
		see(p.Capacity)
	}
	if s.HeldOut != nil {
		sizes.See(s.HeldOut.Size)
		see(s.HeldOut.Predicted)
	}
	if s.Law != nil {
		for _, p := range s.Law.Curve {
			sizes.See(p[0])
			rates.See(p[1])
		}
	}
	if s.Carry != nil {
		rates.See(s.Carry.Rate)
	}
	if !sizes.Any || !rates.Any {
		return x, y, false
	}
	var ticks []float64
	x, _ = chart.Linear(sizes, 6, true)
	for _, p := range s.Points {
		ticks = append(ticks, p.Size)
	}
	for _, v := range ticks { // sizes are few, and no others were measured
		c.XTicks = append(c.XTicks, tick{x.Percent(v), format.Setting(v)})
	}
	y, ticks = chart.Linear(rates, 5, true)
	for _, v := range ticks {
		c.YTicks = append(c.YTicks, tick{height(y, v), format.Setting(v)})
	}
	return x, y, true
}

func height(y chart.Scale, v float64) string {
	return chart.Number((1-y.At(v))*scalingHeight, 1)
}

// curvePath is a line through points; those that are no numbers are left out.
func curvePath(points [][2]float64, x, y chart.Scale) string {
	var b strings.Builder
	for _, p := range points {
		if !format.Finite(p[0]) || !format.Finite(p[1]) {
			continue
		}
		command := "L"
		if b.Len() == 0 {
			command = "M"
		}
		fmt.Fprintf(&b, "%s%d %d", command, int(math.Round(x.At(p[0])*laneUnits)), int(math.Round((1-y.At(p[1]))*laneUnits)))
	}
	return b.String()
}

// addLines draws where another component takes over, and the rate asked for.
func (c *scalingChart) addLines(s *result.Scaling, x, y chart.Scale) {
	if t := s.Takeover; t != nil && format.Finite(t.At) && t.At >= x.Low && t.At <= x.High {
		c.Takeover, c.TakeoverLabel = x.Percent(t.At), t.Next+" limits"
		if t.Bound > 0 && format.Finite(t.Bound) && t.Bound <= y.High {
			c.TakeoverBound = height(y, t.Bound)
		}
	}
	if s.Carry != nil && format.Finite(s.Carry.Rate) && s.Carry.Rate > 0 {
		c.Carry, c.CarryLabel = height(y, s.Carry.Rate), format.Setting(s.Carry.Rate)+" "+c.Unit+" asked for"
	}
}

// tell puts what the chart shows into words, those of the summary.
func (c *scalingChart) tell(s *result.Scaling) {
	c.Answers = scalingSentences(s, c.Unit)
	if s.Note != "" && s.Law != nil { // without a law the sentences have it
		c.Notes = append(c.Notes, s.Note)
	}
	told := make([]string, len(c.Rows))
	for i, row := range c.Rows {
		told[i] = row.Size + ": " + row.Capacity
	}
	c.Desc = "Capacity in " + c.Unit + " by " + c.XName + ". " + strings.Join(told, "; ") + "."
}
