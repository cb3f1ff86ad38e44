package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/lab/result"
)

// mostBytes is the bound on report.html.
const mostBytes = 1_500_000

// laidOut asks a page what only a browser knows: what is wider than the screen,
// which sections cannot be seen or have no heading in sight, which text stands
// out too little from what is behind it (WCAG 2.2, 1.4.3), what scrolls and
// cannot be reached by keyboard, and which links are too low to be touched.
const laidOut = `(() => {
  const problems = [], width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) {
    problems.push('the page is ' + document.documentElement.scrollWidth + ' px wide on a screen of ' + width);
    for (const e of document.body.querySelectorAll('*'))
      if (!e.closest('.scroll, pre, svg, .skip') && e.getBoundingClientRect().right > width + 1) problems.push('<' + e.tagName + ' class=' + e.className + '> sticks out');
  }
  for (const s of document.querySelectorAll('section')) {
    const h = s.querySelector('h2');
    if (!h || h.getBoundingClientRect().height < 10 || h.textContent.trim() === '') problems.push('section ' + s.id + ' shows no heading');
  }
  for (const e of document.querySelectorAll('.scroll, pre'))
    if (e.scrollWidth > e.clientWidth + 1 && !(e.tabIndex >= 0 && e.getAttribute('role') === 'region')) problems.push('what scrolls cannot be focused: ' + e.className);
  const rgb = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length > 3 && m[3] === 0 ? null : m; };
  const shine = c => { const [r, g, b] = c.slice(0, 3).map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
  const back = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c) return c; } return [255, 255, 255]; };
  const seen = new Set();
  for (const e of document.body.querySelectorAll('*')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim() !== '')) continue;
    if (e.closest('title, desc, .skip, .unseen') || !e.checkVisibility()) continue;
    const style = getComputedStyle(e), front = rgb(e.closest('svg') ? style.fill : style.color), behind = back(e);
    const a = shine(front), b = shine(behind), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const what = '<' + e.tagName + ' class="' + (e.getAttribute('class') || '') + '"> has a contrast of ' + ratio.toFixed(2);
    if (ratio < 4.5 && !seen.has(what)) { seen.add(what); problems.push(what + ': ' + e.textContent.slice(0, 30)); }
  }
  return problems;
})()`

// One browser looks at each kind of page on a phone and a desk, and at the one
// with everything in both themes and on a tablet too.
func TestPagesInABrowser(t *testing.T) {
	b := startBrowser(t)
	dir := t.TempDir()
	for name, r := range map[string]*result.Result{"full": fullResult(), "long": longNamesResult(), "load": loadResult(), "twelve": twelveResult(), "faults": textCases()["faults"].result} {
		page := render(t, "browser-"+name, r)
		if len(page) > mostBytes {
			t.Errorf("%s: got %d bytes, want at most %d", name, len(page), mostBytes)
		}
		path := filepath.Join(dir, name+".html")
		if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		b.visit(path)
		for _, width := range []int{360, 768, 1280} {
			for _, theme := range []string{"light", "dark"} {
				if name != "full" && (width == 768 || theme == "dark") {
					continue // what differs between pages does not show there
				}
				b.look(width, theme)
				b.check(fmt.Sprintf("%s at %d px, %s", name, width, theme), path)
				b.keepPicture(fmt.Sprintf("%s-%d-%s.png", name, width, theme), "Page.captureScreenshot", map[string]any{"captureBeyondViewport": true, "format": "png"})
			}
		}
		b.keepPicture(name+".pdf", "Page.printToPDF", map[string]any{"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": true})
	}
}

// check looks at the page with everything that can be opened closed, and open.
func (b *browser) check(what, path string) {
	b.t.Helper()
	for _, open := range []string{"false", "true"} {
		var problems []string
		b.Decode(`document.querySelectorAll('details').forEach(d => d.open = `+open+`), true`, new(bool))
		b.Decode(laidOut, &problems)
		for _, p := range problems {
			b.t.Errorf("%s, details open %s: %s", what, open, p)
		}
	}
	b.Decode(`document.querySelectorAll('details').forEach(d => d.open = false), true`, new(bool))
	for _, c := range b.complaints(filepath.Base(path)) {
		b.t.Errorf("%s: %s", what, c)
	}
}

// What judges pages must find a page that is bad.
func TestBrowserFindsFaults(t *testing.T) {
	b := startBrowser(t)
	path := filepath.Join(t.TempDir(), "bad.html")
	page := `<!DOCTYPE html><meta name="viewport" content="width=device-width"><title>x</title><body><section id="a"><p style="color: #999">pale</p><div style="width: 900px">wide</div></section>
<div class="scroll" style="overflow: auto; width: 50px"><div style="width: 300px">x</div></div>
<img src="http://example.invalid/x.png"><script>console.error("bad"); throw new Error("worse")</script>`
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	b.look(360, "light")
	b.visit(path)
	var problems []string
	b.Decode(laidOut, &problems)
	all := fmt.Sprint(problems, b.complaints("bad.html"))
	for _, want := range []string{"px wide on a screen of 360", "sticks out", "shows no heading", "cannot be focused", "contrast of 2.8", "a request to http://example.invalid/x.png", "consoleAPICalled", "exceptionThrown"} {
		if !strings.Contains(all, want) {
			t.Errorf("not found: %s\nin %s", want, all)
		}
	}
}
