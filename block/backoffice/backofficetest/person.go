package backofficetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/block/backoffice"
	"loadstone/block/browsertest"
)

// Person uses an office in a real browser, without script.
type Person struct {
	*browsertest.Tab

	tb       testing.TB
	url      string // of the server
	name     string
	pictures int
}

// NewPerson opens a tab. With VIEWS naming a directory, a picture of each page that is seen is
// written there, under the name, for people to look at.
func NewPerson(tb testing.TB, b *browsertest.Browser, screen browsertest.Screen, url, name string) *Person {
	tb.Helper()
	p := &Person{Tab: b.Open(tb, screen), tb: tb, url: url, name: name}
	p.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	p.Hear("Log")
	return p
}

// Goes visits a page of the office.
func (p *Person) Goes(path string) {
	p.tb.Helper()
	p.Visit(p.url + backoffice.Path + path)
}

// Sees wants texts, in their order, and a page that is laid out well.
func (p *Person) Sees(texts ...string) {
	p.tb.Helper()
	shown, from := fmt.Sprint(p.Eval("document.body.innerText")), 0
	for _, text := range texts {
		at := strings.Index(shown[from:], text)
		if at < 0 {
			p.tb.Fatalf("the browser shows %q, which lacks %q at its place", shown, text)
		}
		from += at
	}
	if wrong := fmt.Sprint(p.Eval(browsertest.Layout)); wrong != "[]" {
		p.tb.Errorf("%v: %s", p.Eval("location.pathname"), wrong)
	}
	if views := os.Getenv("VIEWS"); views != "" { //nolint:forbidigo // only tests call this
		p.pictures++
		picture := p.File("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true})
		if err := os.WriteFile(filepath.Join(views, fmt.Sprintf("%s-%02d.png", p.name, p.pictures)), picture, 0o600); err != nil {
			p.tb.Fatal(err)
		}
	}
}

// Types puts a text into the field with the id.
func (p *Person) Types(id, text string) {
	p.tb.Helper()
	p.Eval(fmt.Sprintf("document.getElementById(%q).select()", id))
	p.Call("Input.insertText", map[string]any{"text": text}, nil)
}

// Presses follows the link or presses the button with the name, the first of those.
func (p *Person) Presses(name string) {
	p.tb.Helper()
	p.NextPage(func() {
		p.tb.Helper()
		p.Eval(fmt.Sprintf(`[...document.querySelectorAll("a,button")].find(e => (e.ariaLabel || e.textContent) == %q).click()`, name))
	})
}

// Complains fails for what the browser complained of, but for statuses.
func (p *Person) Complains() {
	p.tb.Helper()
	for _, e := range p.Events() {
		if e.IsComplaint() && !strings.Contains(e.String(), "the server responded with a status") {
			p.tb.Errorf("the browser complains: %v", e)
		}
	}
}
