package chart

import (
	"math"
	"strings"
	"testing"
)

func drawn(t *testing.T, c *Chart) string {
	t.Helper()
	text, err := c.HTML()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestChartIsDrawn(t *testing.T) {
	t.Parallel()
	x := Axis{Scale: Scale{High: 10}, Name: "seconds"}
	x.Ticks = x.Scale.Ticks([]float64{0, 5, 10, 15}, func(v float64) string { return Number(v, 0) + " s" })
	y := Axis{Scale: Scale{High: 4}}
	y.Ticks = y.Scale.Ticks([]float64{0, 4}, func(v float64) string { return Number(v, 0) })
	lane := Lane{
		Name: "<b>hostile</b>", Height: 100, Y: y,
		Bars:   []Bar{{Class: "fill", From: 2, To: 4, High: 1}},
		Series: []Series{{Class: "line", Path: StepLine([]Step{{0, 10, 2}}, x.Scale, y.Scale)}},
		Limits: []Limit{{Value: 3, Label: "p95<3"}, {Value: math.NaN(), Label: "not there"}},
		Points: []Point{{Shape: "disc", Class: "trial", X: 5, Y: 2, Low: 1, High: 3}, {Shape: "diamond", X: math.Inf(1), Y: 1}},
	}
	got := drawn(t, &Chart{
		ID: "a", Title: "A", Desc: "B", Layout: Axes, X: x, Lanes: []Lane{lane, {Name: "second", Height: 40, Y: y}},
		Shades: []Shade{{Class: "warm", From: 0, To: 2}}, Verticals: []Vertical{{Class: "capline", At: 7.5}},
	})
	for _, want := range []string{
		`<svg width="100%" height="200"`, `<title id="a-t">A</title>`, `&lt;b&gt;hostile&lt;/b&gt;`, `<path class="line" d="M0 500H1000"/>`,
		`<rect class="warm" x="0%" y="0" width="20%" height="200"/>`, `<rect class="fill" x="20%" y="105" width="20%" height="25"/>`,
		`<line class="capline" x1="75%" x2="75%" y1="0" y2="200"/>`, `y1="55" y2="55"/><text class="limit-label" x="4" y="55" dy="-5">p95&lt;3</text>`,
		`<line class="whisker" x1="50%" x2="50%" y1="105" y2="55"/>`, `<use href="#disc" class="trial" x="50%" y="80"/>`, `>5 s</text>`, `>seconds</text>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
	for _, none := range []string{"diamond", "not there", "NaN", "Inf", "15 s"} {
		if strings.Contains(got, none) {
			t.Errorf("%s is in\n%s", none, got)
		}
	}
}

// An SVG without a height is not drawn, and neither are the numbers below it.
func TestTicksHaveAHeight(t *testing.T) {
	t.Parallel()
	got := drawn(t, &Chart{Layout: Ticks, X: Axis{Scale: Scale{High: 1}, Ticks: []Tick{{1, "1 ms"}}}})
	if !strings.Contains(got, `height="1" aria-hidden="true"`) || !strings.Contains(got, ">1 ms</text>") || strings.Contains(got, "<title") {
		t.Errorf("got %s", got)
	}
}

func TestPathsLeaveGaps(t *testing.T) {
	t.Parallel()
	x, y := Scale{High: 4}, Scale{High: 10}
	nan := math.NaN()
	for name, c := range map[string]struct{ got, want string }{
		"steps":  {StepLine([]Step{{0, 1, 5}, {1, 2, nan}, {2, 3, 5}, {3, 4, 10}}, x, y), "M0 500H250M500 500H750V0H1000"},
		"area":   {StepArea([]Step{{0, 1, 5}, {1, 2, 5}, {2, 3, nan}, {3, 4, 10}}, x, y), "M0 1000V500H250H500V1000ZM750 1000V0H1000V1000Z"},
		"slopes": {Area([][2]float64{{0, 5}, {1, 10}, {2, nan}, {3, 5}, {4, 0}}, x, y), "M0 1000V500L250 0V1000ZM750 1000V500L1000 1000V1000Z"},
		"line":   {Line([][2]float64{{0, 5}, {nan, 1}, {4, 10}}, x, y), "M0 500L1000 0"},
		"none":   {StepArea([]Step{{0, 1, nan}}, x, y) + Area(nil, x, y) + Line(nil, x, y) + StepLine(nil, x, y), ""},
		"log":    {StepLine([]Step{{0, 1, 0}, {1, 2, 10}}, x, Scale{Low: 1, High: 100, Log: true}), "M250 500H500"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %s, want %s", name, c.got, c.want)
		}
	}
}
