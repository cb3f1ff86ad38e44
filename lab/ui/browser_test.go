package ui

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"loadstone/lab/probe"
	"loadstone/lab/run"
)

// Every page in a real browser: on a desk and on a phone, in light and dark,
// nothing is wider than the screen and no console complains. Then the page of a
// run under way changes by itself, and gives way to the report.
func TestInABrowser(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	runs := t.TempDir()
	first, second := plant(t, runs, "checkout", began, 1), plant(t, runs, "checkout", began.Add(time.Hour), 0.75)
	writeResult(t, filepath.Join(runs, first))
	d, trials := begin(t, runs)
	name := filepath.Base(d.Path())
	dir, err := d.TrialDir(trials[0])
	if err != nil {
		t.Fatal(err)
	}
	windows := filepath.Join(dir, run.WindowsFile)
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
			if b.eval("document.documentElement.scrollWidth > document.documentElement.clientWidth") != false {
				t.Errorf("%s at %d px is wider than the screen", page, width)
			}
			if heads := b.eval("document.querySelectorAll('h1').length"); heads != float64(1) {
				t.Errorf("%s has %v first headings", page, heads)
			}
			for _, said := range b.said() {
				if page != "/compare" { // a page that says 400 is an entry of the log
					t.Errorf("%s at %d px: %s", page, width, said)
				}
			}
			if dark != (b.eval("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)") {
				t.Errorf("%s does not follow the theme", page)
			}
		}
	}
	checkPicking(b, server.URL, first, second)

	b.visit(server.URL+"/runs/"+name+"/", 1280, false)
	b.until("the page is live", "document.getElementById('connection').textContent == 'Live.'")
	appendTo(t, windows, windowLine(t, 6, false, 777, 5))
	b.until("the page shows the new second", "document.getElementById('load').textContent.includes('777')")
	for _, p := range trials {
		if _, err := d.TrialDir(p); err != nil {
			t.Fatal(err)
		}
		if err := d.WriteTrial(run.Trial{Planned: p, Started: began, Ended: began.Add(time.Second)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.WriteFile(filepath.Join(d.Path(), "report.html"), []byte("<title>the report</title>")); err != nil {
		t.Fatal(err)
	}
	if err := d.Complete(time.Now()); err != nil {
		t.Fatal(err)
	}
	b.until("the report has come", "document.title == 'the report'")
	if said := b.said(); len(said) > 0 {
		t.Errorf("the consoles said %q", said)
	}
}

// checkPicking ticks two runs and compares them with the keyboard alone.
func checkPicking(b *devtools, base, first, second string) {
	b.t.Helper()
	b.visit(base+"/?q=checkout", 1280, false)
	key := func(key, code string, number int, text string) {
		b.t.Helper()
		down := map[string]any{"type": "keyDown", "key": key, "code": code, "windowsVirtualKeyCode": number}
		if text != "" {
			down["text"] = text
		}
		b.call("Input.dispatchKeyEvent", down, nil)
		b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": code, "windowsVirtualKeyCode": number}, nil)
	}
	ticked := 0
	for range 40 { // presses of Tab that reach the button
		key("Tab", "Tab", 9, "")
		if b.eval("document.activeElement.textContent") == "Compare" {
			break
		}
		if v := b.eval("document.activeElement.type == 'checkbox' && document.activeElement.value"); v == first || v == second {
			key(" ", "Space", 32, " ")
			ticked++
		}
	}
	if ticked != 2 {
		b.t.Fatalf("%d runs could be ticked with the keyboard, want 2", ticked)
	}
	b.eval("window.old = true")
	key("Enter", "Enter", 13, "\r")
	b.until("the comparison is there", "!window.old && document.readyState == 'complete'")
	b.until("both are compared", fmt.Sprintf("document.body.textContent.includes(%q) && document.body.textContent.includes(%q)", first, second))
}
