package chart

import (
	"math"
	"strconv"
	"strings"
)

// unit is the side of a lane's coordinate system, which is stretched to it.
const unit = 1000

// touching is how far two steps may be apart, on the horizontal axis, to be one
// line: a window that ended a little late leaves no gap.
const touching = 0.1

// Step is a value that holds for a stretch of the horizontal axis. One that is
// no number, or no height on a logarithmic axis, leaves a gap.
type Step struct{ From, To, Value float64 }

func (s Step) drawn(y Scale) bool {
	return isFinite(s.From) && isFinite(s.To) && isFinite(s.Value) && (!y.Log || s.Value > 0)
}

// path writes SVG path commands.
type path struct{ strings.Builder }

// to appends a command: a letter and its numbers, which are shares of 1.
func (p *path) to(command byte, shares ...float64) {
	p.WriteByte(command)
	for i, v := range shares {
		if i > 0 {
			p.WriteByte(' ')
		}
		p.WriteString(strconv.Itoa(int(math.Round(v * unit))))
	}
}

// StepLine draws values as steps.
func StepLine(steps []Step, x, y Scale) string {
	var p path
	open, end := false, math.NaN()
	for _, s := range steps {
		if !s.drawn(y) {
			open = false
			continue
		}
		height := 1 - y.At(s.Value)
		if open && s.From <= end {
			p.to('V', height)
		} else {
			p.to('M', x.At(s.From), height)
		}
		p.to('H', x.At(s.To))
		open, end = true, s.To+touching
	}
	return p.String()
}

// StepArea draws values as steps with everything below them. Steps that touch
// are one shape: between two shapes a screen would show a seam.
func StepArea(steps []Step, x, y Scale) string {
	var p path
	open, end, last := false, 0.0, math.NaN()
	shut := func() {
		if open {
			p.to('V', 1)
			p.WriteByte('Z')
		}
		open = false
	}
	for _, s := range steps {
		if !s.drawn(y) || s.Value <= 0 {
			shut()
			continue
		}
		height := 1 - y.At(s.Value)
		if !open || s.From > end {
			shut()
			p.to('M', x.At(s.From), 1)
			last = math.NaN()
		}
		if height != last {
			p.to('V', height)
		}
		p.to('H', x.At(s.To))
		open, end, last = true, s.To+touching, height
	}
	shut()
	return p.String()
}

// Area draws a line through points with everything below it. A point that is no
// number leaves a gap.
func Area(points [][2]float64, x, y Scale) string {
	var p path
	open := false
	shut := func() {
		if open {
			p.to('V', 1)
			p.WriteByte('Z')
		}
		open = false
	}
	for _, at := range points {
		if !isFinite(at[0]) || !isFinite(at[1]) {
			shut()
			continue
		}
		place, height := x.At(at[0]), 1-y.At(at[1])
		if open {
			p.to('L', place, height)
			continue
		}
		p.to('M', place, 1)
		p.to('V', height)
		open = true
	}
	shut()
	return p.String()
}

// Line draws a line through points; those that are no numbers are left out.
func Line(points [][2]float64, x, y Scale) string {
	var p path
	for _, at := range points {
		if !isFinite(at[0]) || !isFinite(at[1]) {
			continue
		}
		command := byte('L')
		if p.Len() == 0 {
			command = 'M'
		}
		p.to(command, x.At(at[0]), 1-y.At(at[1]))
	}
	return p.String()
}
