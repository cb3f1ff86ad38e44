package ui

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"loadstone/block/browsertest"
	"loadstone/lab/archive"
	"loadstone/lab/probe"
)

// browser is one tab of a browser, in which the pages are looked at.
type browser struct {
	*browsertest.Tab
	t *testing.T
}

// visit opens an address on a screen of that width and waits until it is there.
func (b *browser) visit(url string, width int, dark bool) {
	b.t.Helper()
	b.Look(browsertest.Screen{Width: width, Height: 800, Dark: dark})
	b.Visit(url)
}

// said returns what consoles said since the last call.
func (b *browser) said() []string {
	b.t.Helper()
	var all []string
	for _, e := range b.Events() {
		if e.IsComplaint() {
			all = append(all, e.String())
		}
	}
	return all
}

// Every page in a real browser: on a desk and on a phone, in light and dark,
// nothing is wider than the screen and no console complains. Then the page of a
// run under way changes by itself, and gives way to the report.
func TestInABrowser(t *testing.T) {
	t.Parallel()
	b := &browser{t: t, Tab: browsertest.Start(t).Open(t, browsertest.Screen{Width: 1280, Height: 800})}
	b.Hear("Runtime", "Log", "Page")
	runs := t.TempDir()
	first, second := plant(t, runs, "checkout", began, 1), plant(t, runs, "checkout", began.Add(time.Hour), 0.75)
	writeResult(t, filepath.Join(runs, first))
	d, trials := begin(t, runs)
	name := filepath.Base(d.Path())
	dir, err := d.TrialDir(trials[0])
	if err != nil {
		t.Fatal(err)
	}
	windows := filepath.Join(dir, archive.WindowsFile)
	for i := range 5 {
		appendTo(t, windows, windowLine(t, i, i == 0, uint64(100+i), 5))
		appendTo(t, filepath.Join(dir, probe.SamplesFile), sampleLine(t, i))
	}
	server := httptest.NewServer(newSite(t, runs).handler)
	defer server.Close()
	defer server.CloseClientConnections() // live pages
	pages := []string{
		"/", "/?q=nothing", "/compare?" + url.Values{"run": {first, second}}.Encode(), "/compare?run=" + first, "/compare",
		"/runs/" + first + "/", "/runs/" + name + "/", "/files/" + first,
	}
	for _, width := range []int{1280, 360} {
		for _, page := range pages {
			dark := width == 360
			b.visit(server.URL+page, width, dark)
			if b.Eval("document.documentElement.scrollWidth > document.documentElement.clientWidth") != false {
				t.Errorf("%s at %d px is wider than the screen", page, width)
			}
			if heads := b.Eval("document.querySelectorAll('h1').length"); heads != float64(1) {
				t.Errorf("%s has %v first headings", page, heads)
			}
			for _, said := range b.said() {
				if page != "/compare" { // a page that says 400 is an entry of the log
					t.Errorf("%s at %d px: %s", page, width, said)
				}
			}
			if dark != (b.Eval("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)") {
				t.Errorf("%s does not follow the theme", page)
			}
		}
	}
	checkPicking(b, server.URL, first, second)

	b.visit(server.URL+"/runs/"+name+"/", 1280, false)
	b.Until("the page is live", "document.getElementById('connection').textContent == 'Live.'")
	appendTo(t, windows, windowLine(t, 6, false, 777, 5))
	b.Until("the page shows the new second", "document.getElementById('load').textContent.includes('777')")
	for _, p := range trials {
		if _, err := d.TrialDir(p); err != nil {
			t.Fatal(err)
		}
		if err := d.WriteTrial(archive.Trial{Planned: p, Started: began, Ended: began.Add(time.Second)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.WriteFile(filepath.Join(d.Path(), "report.html"), []byte("<title>the report</title>")); err != nil {
		t.Fatal(err)
	}
	if err := d.Complete(time.Now()); err != nil {
		t.Fatal(err)
	}
	b.Until("the report has come", "document.title == 'the report'")
	if said := b.said(); len(said) > 0 {
		t.Errorf("the consoles said %q", said)
	}
}

// checkPicking ticks two runs and compares them with the keyboard alone.
func checkPicking(b *browser, base, first, second string) {
	b.t.Helper()
	b.visit(base+"/?q=checkout", 1280, false)
	ticked := 0
	for range 40 { // presses of Tab that reach the button
		b.Press(browsertest.KeyTab)
		if b.Eval("document.activeElement.textContent") == "Compare" {
			break
		}
		if v := b.Eval("document.activeElement.type == 'checkbox' && document.activeElement.value"); v == first || v == second {
			b.Press(browsertest.KeySpace)
			ticked++
		}
	}
	if ticked != 2 {
		b.t.Fatalf("%d runs could be ticked with the keyboard, want 2", ticked)
	}
	b.NextPage(func() { b.Press(browsertest.KeyEnter) })
	b.Until("both are compared", fmt.Sprintf("document.body.textContent.includes(%q) && document.body.textContent.includes(%q)", first, second))
}
