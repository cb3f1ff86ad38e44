package report

import (
	"cmp"
	"fmt"
	"slices"

	"loadstone/lab/format"
	"loadstone/lab/result"
)

// The sizes of a map of the system, in pixels: of a box, of the room for what is written
// on an arrow, and between boxes above each other.
const (
	boxWidth, boxHeight = 168, 64
	arrowRoom           = 132
	boxGap              = 28
	mapMargin           = 6
)

// loadBox is the name of the box of the load, on a map.
const loadBox = "load"

// hopMaps are maps of the system by where requests wait, one for each variant that has one.
type hopMaps struct {
	Maps   []hopMap
	Unseen []string // why some have none
}

// hopMap is who asks whom: boxes in columns by how far they are from the load.
type hopMap struct {
	ID, Name, Desc string
	Width, Height  int
	Boxes          []mapBox
	Arrows         []mapArrow
}

// mapBox is who is asked. Light and Own are its own time of a visit.
type mapBox struct {
	Name, Visits, Light, Own string
	Here, Outside            bool // requests wait here; it is not in the file
	X, Y, TextX              int
	First, Second            int // where its lines of text stand
	load                     bool
}

// mapArrow is who asks whom, with what is written on it.
type mapArrow struct {
	From, To, PerRequest, Each, InFlight string
	X1, Y1, X2, Y2, TextX, TextY, Under  int
}

func newHopMaps(r *result.Result) *hopMaps {
	m := &hopMaps{}
	for i := range r.Variants {
		v := &r.Variants[i]
		if v.Hops == nil {
			continue
		}
		if v.Hops.Unseen != "" {
			m.Unseen = append(m.Unseen, fmt.Sprintf("Not seen of %s: %s.", v.Name, v.Hops.Unseen))
		}
		if len(v.Hops.Arrows) > 0 {
			m.Maps = append(m.Maps, newHopMap(fmt.Sprintf("hops-%d", i+1), v))
		}
	}
	if len(m.Maps)+len(m.Unseen) == 0 {
		return nil
	}
	return m
}

func newHopMap(id string, v *result.Variant) hopMap {
	m := hopMap{ID: id, Name: v.Name}
	columns := columnsOf(v.Hops)
	at := map[string]mapBox{}
	for x, names := range columns {
		for y, name := range names {
			b := newMapBox(v, name)
			b.X, b.Y = mapMargin+x*(boxWidth+arrowRoom), mapMargin+y*(boxHeight+boxGap)
			b.TextX, b.First, b.Second = b.X+10, b.Y+22, b.Y+44
			at[name] = b
			m.Boxes = append(m.Boxes, b)
			m.Height = max(m.Height, b.Y+boxHeight+mapMargin)
		}
	}
	m.Width = len(columns)*(boxWidth+arrowRoom) - arrowRoom + 2*mapMargin
	for _, a := range v.Hops.Arrows {
		from, to := at[cmp.Or(a.From, loadBox)], at[a.To]
		if from.Name == "" || to.Name == "" {
			continue
		}
		m.Arrows = append(m.Arrows, newMapArrow(&a, &from, &to))
	}
	m.Desc = fmt.Sprintf("Who asks whom in %s, how often for each request, and how long that takes.", v.Name)
	return m
}

// columnsOf are the boxes by how far they are from the load, in order of name.
func columnsOf(h *result.Hops) [][]string {
	depth := map[string]int{loadBox: 0}
	for found := true; found; {
		found = false
		for _, a := range h.Arrows {
			from, known := depth[cmp.Or(a.From, loadBox)]
			if _, has := depth[a.To]; known && !has {
				depth[a.To], found = from+1, true
			}
		}
	}
	columns := [][]string{}
	for name, d := range depth {
		for len(columns) <= d {
			columns = append(columns, nil)
		}
		columns[d] = append(columns[d], name)
	}
	for _, names := range columns {
		slices.Sort(names)
	}
	return columns
}

func newMapBox(v *result.Variant, name string) mapBox {
	b := mapBox{Name: name, load: name == loadBox}
	i := slices.IndexFunc(v.Hops.Boxes, func(h result.HopBox) bool { return h.Name == name })
	if i < 0 {
		return b
	}
	h := &v.Hops.Boxes[i]
	b.Outside, b.Own, b.Light = h.Outside, format.Latency(h.MS), format.Missing
	b.Visits = format.Measured(h.Visits)
	if h.LightMS != nil {
		b.Light = format.Latency(*h.LightMS)
	}
	b.Here = v.Verdict.Located != nil && v.Verdict.Located.Component == name
	return b
}

func newMapArrow(a *result.HopArrow, from, to *mapBox) mapArrow {
	out := mapArrow{
		From: from.Name, To: to.Name, PerRequest: format.Measured(a.PerRequest), Each: format.Latency(a.MS), InFlight: format.Measured(a.InFlight),
		X1: from.X + boxWidth, Y1: from.Y + boxHeight/2, X2: to.X, Y2: to.Y + boxHeight/2,
	}
	if to.X <= from.X { // back, or to one's own kind
		out.X1, out.X2 = from.X, to.X+boxWidth
	}
	// What is written stands beside who is asked, where no two arrows meet from one side.
	out.TextX, out.TextY = out.X2-arrowRoom/2, out.Y2-18
	if out.Y1 < out.Y2 {
		out.TextY = out.Y2 + 16
	}
	out.Under = out.TextY + 14
	return out
}

// Text is the box's own time, in a line.
func (b mapBox) Text() string {
	if b.load {
		return ""
	}
	return "own " + b.Light + " → " + b.Own
}

// Shown is the box's name, cut to its width.
func (b mapBox) Shown() string {
	const most = 22
	if name := []rune(b.Name); len(name) > most {
		return string(name[:most-1]) + "…"
	}
	return b.Name
}
