package pagetest

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// The checks judge every page, so each must be able to find a fault.
func TestChecksFindFaults(t *testing.T) {
	t.Parallel()
	within := func(all []*Element) []string { return Fetched(all, Within) }
	for name, c := range map[string]struct {
		page  string
		check func([]*Element) []string
	}{
		"a script":           {`<p><script>x</script></p>`, within},
		"a handler":          {`<p onclick="x">y</p>`, within},
		"an image":           {`<p><img src="x.png"/></p>`, within},
		"a link outside":     {`<a href="https://example.org/">x</a>`, within},
		"a link upwards":     {`<a href="../run.json">x</a>`, within},
		"a link to a script": {`<a href="javascript:alert(1)">x</a>`, within},
		"a style that loads": {`<style>p { background: url(x.png) }</style>`, within},
		"an id twice":        {`<p id="a"><b id="a">x</b></p>`, Dangling},
		"a dead link":        {`<a href="#gone">x</a>`, Dangling},
		"a nameless chart":   {`<section><h1>x</h1><svg role="img"><rect/></svg></section>`, Unnamed},
		"a nameless section": {`<section><h1>x</h1></section>`, Headless},
		"an empty heading":   {`<section aria-labelledby="a"><h2 id="a"> </h2></section>`, Headless},
		"a skipped level":    {`<p><h1>x</h1><h3>y</h3></p>`, Headless},
		"no first heading":   {`<section>x</section>`, Unnamed},
		"a NaN in text":      {`<p>NaN req/s</p>`, Misnumbered},
		"an Inf in text":     {`<p>up to +Inf</p>`, Misnumbered},
		"a NaN in a place":   {`<svg><rect x="NaN%"/></svg>`, Misnumbered},
		"no place":           {`<svg><rect x=""/></svg>`, Misnumbered},
		"a broken path":      {`<svg><path d="M0 NaN"/></svg>`, Misnumbered},
	} {
		if got := c.check(Parse(t, c.page)); len(got) == 0 {
			t.Errorf("%s was not found", name)
		}
	}
}

func TestSoundPagePassesAll(t *testing.T) {
	t.Parallel()
	all := Parse(t, `<html><link href="data:,"/><h1>x</h1><a href="#b">1.5 <i>ms</i></a><section aria-labelledby="b"><h2 id="b">y</h2><table/>
<svg role="img" aria-labelledby="c d"><title id="c">t</title><desc id="d">s</desc><rect x="1.5%"/><path d="M0 1"/></svg></section></html>`)
	for _, problem := range slices.Concat(Fetched(all, Within), Dangling(all), Unnamed(all), Headless(all), Misnumbered(all)) {
		t.Error(problem)
	}
	if got, want := strings.Join(strings.Fields(Shown(all)), " "), "x 1.5 ms y t s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Black on white is 21 to 1, and #767676 is the palest grey that passes 4.5 on it.
func TestContrast(t *testing.T) {
	t.Parallel()
	p := palette(t, ":root { --ink: #000000; --bg: #ffffff; --grey: #767676 }")
	if got := contrast(p["ink"], p["bg"]); math.Abs(got-21) > 1e-9 {
		t.Errorf("got %v, want 21", got)
	}
	if got := contrast(p["bg"], p["grey"]); got < 4.5 || got > 4.6 {
		t.Errorf("got %v, want 4.54", got)
	}
}

func TestFaintIsFoundInBothThemes(t *testing.T) {
	t.Parallel()
	css := ":root { --ink: #000000; --bg: #ffffff; --grey: #999999 } @media (prefers-color-scheme: dark) { :root { --ink: #444444; --bg: #000000; --grey: #999999 } }"
	got := Faint(t, css, map[string]float64{"ink on bg": 7, "grey on bg": 4.5})
	slices.Sort(got)
	want := []string{
		"dark: ink on bg has a contrast of 2.16, want at least 7.0",
		"light: grey on bg has a contrast of 2.85, want at least 4.5",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
