package report

import (
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
	*chart.Chart

	Unit              string
	Fitted, Predicted bool
	Takeover, Asked   string // what the lines mean; empty without
	Answers           []string
	Notes             []string
	Rows              []scalingRow
}

type scalingRow struct {
	Size, Variant, Capacity, Interval, Predicted, Limit string
}

func newScalingChart(r *result.Result) *scalingChart {
	s := r.Scaling
	if s == nil || len(s.Points) == 0 {
		return nil
	}
	name := strings.TrimSpace(s.Service + " " + s.Setting)
	c := &scalingChart{Unit: r.RateUnit(), Chart: &chart.Chart{ID: "scaling-chart", Title: "Capacity by " + name, Layout: chart.Axes}}
	x, y, ok := scalingAxes(s)
	if !ok {
		return nil
	}
	x.Name = name
	c.X = x
	lane := chart.Lane{Height: scalingHeight, Y: y}
	point := func(size float64, i result.Estimate) chart.Point {
		p := chart.Point{Shape: "disc", Class: "trial", X: size, Y: i.Value}
		if i.HasRange() {
			p.Low, p.High = i.Low, i.High
		}
		return p
	}
	for _, p := range s.Points {
		lane.Points = append(lane.Points, point(p.Size, p.Capacity))
		row := scalingRow{Size: format.Setting(p.Size), Variant: p.Variant, Capacity: p.Capacity.Bounded(), Interval: p.Capacity.Range(), Predicted: format.Missing, Limit: sizeLimitedBy(&p)}
		if s.HeldOut != nil && s.HeldOut.Size == p.Size {
			row.Predicted = s.HeldOut.Predicted.Bounded() + " " + s.HeldOut.Predicted.Range()
		}
		c.Rows = append(c.Rows, row)
	}
	if s.HeldOut != nil {
		p := point(s.HeldOut.Size, s.HeldOut.Predicted)
		p.Shape, p.Class, p.Whisker, p.Shift = "diamond", "predicted", "limit", 12
		lane.Points, c.Predicted = append(lane.Points, p), true
	}
	if s.Law != nil {
		path := chart.Line(s.Law.Curve, x.Scale, y.Scale)
		lane.Series, c.Fitted = []chart.Series{{Class: "line fit", Path: path}}, path != ""
		c.Notes = append(c.Notes, s.Law.Warnings...)
	}
	c.addLines(s, &lane)
	c.Lanes = []chart.Lane{lane}
	c.describe(s)
	return c
}

// scalingAxes cover everything that is drawn; capacity starts at zero.
func scalingAxes(s *result.Scaling) (x, y chart.Axis, ok bool) {
	var sizes, rates chart.Extent
	see := func(i result.Estimate) { rates.See(i.Value, i.High) }
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
	var values []float64
	x.Scale, _ = chart.Linear(sizes, 6, true)
	for _, p := range s.Points { // sizes are few, and no others were measured
		values = append(values, p.Size)
	}
	x.Ticks = x.Scale.Ticks(values, format.Setting)
	y.Scale, values = chart.Linear(rates, 5, true)
	y.Ticks = y.Scale.Ticks(values, format.Setting)
	return x, y, true
}

// addLines draws where another component takes over, and the rate asked for.
func (c *scalingChart) addLines(s *result.Scaling, lane *chart.Lane) {
	if t := s.Takeover; t != nil && t.At >= c.X.Low && t.At <= c.X.High {
		c.Verticals, c.Takeover = []chart.Vertical{{Class: "limit", At: t.At}}, t.Next+" becomes the bottleneck"
		if t.Bound > 0 && t.Bound <= lane.Y.High {
			lane.Limits = append(lane.Limits, chart.Limit{Value: t.Bound, From: c.X.At(t.At)})
		}
	}
	if s.Carry != nil && format.Finite(s.Carry.Rate) && s.Carry.Rate > 0 {
		c.Asked = format.Setting(s.Carry.Rate) + " " + c.Unit + " asked for"
		lane.Limits = append(lane.Limits, chart.Limit{Value: s.Carry.Rate, Label: c.Asked})
	}
}

// describe puts what the chart shows into words, those of the summary.
func (c *scalingChart) describe(s *result.Scaling) {
	c.Answers = scalingSentences(s, c.Unit)
	if s.Note != "" && s.Law != nil { // without a law the sentences have it
		c.Notes = append(c.Notes, s.Note)
	}
	told := make([]string, len(c.Rows))
	for i, row := range c.Rows {
		told[i] = row.Size + ": " + row.Capacity
	}
	c.Desc = "Capacity in " + c.Unit + " by " + c.X.Name + ". " + strings.Join(told, "; ") + "."
}
