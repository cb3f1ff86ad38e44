package web

import (
	"fmt"
	"strings"
	"testing"

	"loadstone/block/browsertest"
)

// tab is a tab of a browser, used as a student uses one.
type tab struct {
	*browsertest.Tab
	t *testing.T
}

func open(t *testing.T, b *browsertest.Browser, s browsertest.Screen) *tab {
	t.Helper()
	return &tab{t: t, Tab: b.Open(t, s)}
}

// enter types into a field as a person would.
func (tb *tab) enter(field, text string) {
	tb.t.Helper()
	tb.Eval("document.getElementById('" + field + "').select()")
	tb.Call("Input.insertText", map[string]any{"text": text}, nil)
}

// click clicks where an element is.
func (tb *tab) click(selector string) {
	tb.t.Helper()
	at, ok := tb.Eval(`(()=>{const e=document.querySelector(` + "`" + selector + "`" + `);e.scrollIntoView({block:"center"});
		const r=e.getBoundingClientRect();return [r.x+r.width/2,r.y+r.height/2]})()`).([]any)
	if !ok || len(at) != 2 {
		tb.t.Fatalf("there is no %s", selector)
	}
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		tb.Call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1}, nil)
	}
}

// submit fills in the form and waits for what comes.
func (tb *tab) submit(id, code string) {
	tb.t.Helper()
	tb.enter("id", id)
	tb.enter("code", code)
	tb.NextPage(func() { tb.click("button") })
}

// text is what the page says.
func (tb *tab) text() string {
	tb.t.Helper()
	return fmt.Sprint(tb.Eval("document.body.innerText"))
}

// has fails unless the page says all of this.
func (tb *tab) has(wants ...string) {
	tb.t.Helper()
	text := tb.text()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			tb.t.Errorf("the browser shows %.600q, which lacks %q", text, want)
		}
	}
}
