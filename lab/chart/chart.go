package chart

import (
	"embed"
	"fmt"
	"html/template"
	"strings"
	"sync"
)

// Style is the style sheet of every page with charts: variables for both colour
// schemes, text, tables, charts, phones and print. A page adds what only it has.
//
//go:embed style.css
var Style string

//go:embed chart.gohtml
var source embed.FS

var chartTemplate = sync.OnceValues(func() (*template.Template, error) {
	return template.ParseFS(source, "chart.gohtml")
})

// Layout is how a chart is labelled.
type Layout string

// The layouts.
const (
	// Axes have the numbers of each lane's axis on its left.
	Axes Layout = "axes"
	// Lanes have a name and a note above each lane in place of an axis.
	Lanes Layout = "lanes"
	// Row is one lane without any text, for a list of rows over one axis.
	Row Layout = "row"
	// Ticks is the axis of such rows: its numbers and nothing else.
	Ticks Layout = "ticks"
	// Slots is bars with a label below some of them.
	Slots Layout = "slots"
)

// Chart is lanes below each other over one horizontal axis. It is drawn as SVG
// whose horizontal lengths are percentages and whose vertical ones are pixels:
// it stretches to the reader's screen, and its text keeps its size.
type Chart struct {
	ID, Title, Desc string
	Layout          Layout
	X               Axis
	Lanes           []Lane
	Shades          []Shade
	Verticals       []Vertical
}

// Axis is a scale with its ticks.
type Axis struct {
	Scale

	Ticks []Tick
	Name  string
}

// Tick is a labelled place on an axis.
type Tick struct {
	Value float64
	Label string
}

// Ticks labels those values that lie on the scale.
func (a Scale) Ticks(values []float64, label func(float64) string) []Tick {
	var ticks []Tick
	slack := (a.High - a.Low) * 1e-9
	for _, v := range values {
		if v >= a.Low-slack && v <= a.High+slack {
			ticks = append(ticks, Tick{v, label(v)})
		}
	}
	return ticks
}

// Lane is a drawing of its own height with a vertical axis of its own. What is
// drawn later lies over what is drawn earlier: bars, series, limits, points.
type Lane struct {
	Name, Note string
	Height     int // in pixels
	Y          Axis
	Bars       []Bar
	Series     []Series
	Limits     []Limit
	Points     []Point
	Bare       bool // without a line on its floor
}

// Bar is a rectangle.
type Bar struct {
	Class     string
	From, To  float64
	Low, High float64
}

// Series is a curve; Class is that of the style sheet.
type Series struct {
	Class string
	Path  string // of Area, Steps or Line
}

// Limit is a horizontal line, from the left or from a share of the width on.
type Limit struct {
	Class string // "limit" unless it says otherwise
	Value float64
	Label string
	From  float64
}

// Point is a mark with whiskers, as far as these have a length.
type Point struct {
	Shape, Class string
	X, Y         float64
	Left, Right  float64 // ends of the horizontal whisker
	Low, High    float64 // and of the vertical one
	Whisker      string  // class of both; "whisker" unless it says otherwise
	Shift        int     // to the right, in pixels, from what lies at the same place
}

// Shade is a stretch of the horizontal axis, behind everything.
type Shade struct {
	Class    string
	From, To float64
	Name     string // above it
}

// Vertical is a line across all lanes.
type Vertical struct {
	Class string
	At    float64
}

// HTML draws the chart.
func (c *Chart) HTML() (template.HTML, error) {
	t, err := chartTemplate()
	if err != nil {
		return "", fmt.Errorf("read the template of charts: %w", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, c.draw()); err != nil {
		return "", fmt.Errorf("draw the chart %s: %w", c.ID, err)
	}
	return template.HTML(b.String()), nil //nolint:gosec // escaped by the template
}

// Shapes are what points are drawn with; a page whose charts have points has
// them once, before the first.
const Shapes template.HTML = `<svg class="defs" width="0" height="0" aria-hidden="true" focusable="false"><defs>
<circle id="m50" r="3"/><path id="m95" d="M0-4.4L4.4 0L0 4.4L-4.4 0Z"/><path id="m99" d="M0-4.2L4 3H-4Z"/>
<circle id="dot" r="3.5"/><circle id="disc" r="5"/><path id="diamond" d="M0-6L6 0L0 6L-6 0Z"/><path id="more" d="M4 0H15M10-5L15 0L10 5"/>
</defs></svg>`
