package chart

import "cmp"

// The room around lanes, in pixels.
const (
	axisNameRoom = 30 // for the name above a lane with an axis
	laneNameRoom = 18 // for the name above a lane without one
	laneGap      = 8
)

// drawing is a chart as the template writes it: finished texts and lengths.
type drawing struct {
	*Chart

	Height int
	Shades []rect
	Ticks  []placed
	Lines  []line // across all lanes
	Lanes  []drawnLane
	Rules  bool // vertical ones at the ticks
	Labels bool // of the ticks
}

type drawnLane struct {
	Lane

	Top, Bottom, NameY int
	Over               bool // text has an edge, since lines cross it
	Ticks              []placed
	Bars               []rect
	Lines              []line
	Whiskers           []line
	Marks              []mark
}

type (
	placed struct{ At, Label string }
	rect   struct{ Class, X, Y, Width, Height, Name string }
	line   struct {
		Class, X1, X2, Y1, Y2, Label string
		Shift                        int
	}
	mark struct {
		Shape, Class, X, Y string
		Shift              int
	}
)

func (c *Chart) draw() *drawing {
	d := &drawing{Chart: c, Rules: c.Layout == Lanes || c.Layout == Row, Labels: c.Layout != Row}
	for i := range c.Lanes {
		d.Lanes = append(d.Lanes, d.lane(&c.Lanes[i]))
	}
	if c.Layout == Ticks {
		d.Height = 1 // without any, it would not be drawn
	}
	bottom := pixels(float64(d.Height))
	for _, s := range c.Shades {
		d.Shades = append(d.Shades, rect{Class: s.Class, X: c.X.Percent(s.From), Y: "0", Width: Percent(max(c.X.At(s.To)-c.X.At(s.From), 0.002)), Height: bottom, Name: s.Name})
	}
	for _, t := range c.X.Ticks {
		d.Ticks = append(d.Ticks, placed{c.X.Percent(t.Value), t.Label})
	}
	for _, v := range c.Verticals {
		if !isFinite(v.At) {
			continue
		}
		at := c.X.Percent(v.At)
		d.Lines = append(d.Lines, line{Class: v.Class, X1: at, X2: at, Y1: "0", Y2: bottom})
	}
	return d
}

// lane places a lane below those that are there.
func (d *drawing) lane(l *Lane) drawnLane {
	room, above := 0, 5
	switch {
	case l.Name == "":
	case d.Layout == Axes:
		room, above = axisNameRoom, 9
	default:
		room = laneNameRoom
	}
	if d.Height > 0 && d.Layout == Lanes {
		room += laneGap
	}
	out := drawnLane{Lane: *l, Top: d.Height + room, Bottom: d.Height + room + l.Height, NameY: d.Height + room - above, Over: d.Layout == Lanes}
	d.Height = out.Bottom
	x := d.X
	y := func(v float64) float64 { return float64(out.Top) + (1-l.Y.At(v))*float64(l.Height) }
	for _, t := range l.Y.Ticks {
		out.Ticks = append(out.Ticks, placed{pixels(y(t.Value)), t.Label})
	}
	for _, b := range l.Bars {
		out.Bars = append(out.Bars, rect{Class: b.Class, X: x.Percent(b.From), Width: Percent(max(x.At(b.To)-x.At(b.From), 0)),
			Y: pixels(y(b.High)), Height: pixels(max(y(b.Low)-y(b.High), 0))})
	}
	for _, limit := range l.Limits {
		if !isFinite(limit.Value) {
			continue
		}
		at := pixels(y(limit.Value))
		out.Lines = append(out.Lines, line{Class: cmp.Or(limit.Class, "limit"), X1: Percent(limit.From), X2: "100%", Y1: at, Y2: at, Label: limit.Label})
	}
	for _, p := range l.Points {
		out.add(p, x, y)
	}
	return out
}

// capped is how far the ends of a horizontal whisker go up and down.
const capped = 5

// add draws a point and its whiskers, if it has a place.
func (l *drawnLane) add(p Point, x Axis, y func(float64) float64) {
	if !isFinite(p.X) || !isFinite(p.Y) {
		return
	}
	class := cmp.Or(p.Whisker, "whisker")
	whisker := func(x1, x2 string, y1, y2 float64) {
		l.Whiskers = append(l.Whiskers, line{Class: class, X1: x1, X2: x2, Y1: pixels(y1), Y2: pixels(y2), Shift: p.Shift})
	}
	at, height := x.Percent(p.X), y(p.Y)
	if p.Left < p.Right {
		left, right := x.Percent(p.Left), x.Percent(p.Right)
		whisker(left, right, height, height)
		whisker(left, left, height-capped, height+capped)
		whisker(right, right, height-capped, height+capped)
	}
	if p.Low < p.High {
		whisker(at, at, y(p.Low), y(p.High))
	}
	if p.Shape != "" {
		l.Marks = append(l.Marks, mark{p.Shape, p.Class, at, pixels(height), p.Shift})
	}
}

func pixels(v float64) string { return Number(v, 1) }
