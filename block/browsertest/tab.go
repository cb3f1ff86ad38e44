package browsertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"
)

// Screen is what a page is looked at on.
type Screen struct {
	Width, Height int // in CSS pixels; below 600 wide it is a phone's
	Dark          bool
}

// Tab is one tab of a browser. Its methods end the test when they fail. They are
// for one goroutine at a time.
type Tab struct {
	tb      testing.TB
	browser *Browser
	session string
	events  []Event // guarded by the browser's mu
}

// Open opens an empty tab, which is closed with the test.
func (b *Browser) Open(tb testing.TB, s Screen) *Tab {
	tb.Helper()
	t := &Tab{tb: tb, browser: b}
	var target struct{ TargetID string }
	var attached struct{ SessionID string }
	t.Call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	t.Call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	t.session = attached.SessionID
	b.mu.Lock()
	b.tabs[t.session] = t
	b.mu.Unlock()
	tb.Cleanup(func() {
		if err := b.call("", "Target.closeTarget", map[string]any{"targetId": target.TargetID}, nil); err != nil {
			tb.Errorf("close a tab: %v", err)
		}
		b.mu.Lock()
		delete(b.tabs, t.session)
		b.mu.Unlock()
	})
	t.Look(s)
	return t
}

// Look gives the tab another screen.
func (t *Tab) Look(s Screen) {
	t.tb.Helper()
	t.Call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": s.Width, "height": s.Height, "deviceScaleFactor": 1, "mobile": s.Width < 600,
	}, nil)
	theme := "light"
	if s.Dark {
		theme = "dark"
	}
	t.Call("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": theme}},
	}, nil)
}

// Call sends a command of the DevTools protocol and decodes the answer into result
// unless that is nil.
func (t *Tab) Call(method string, params map[string]any, result any) {
	t.tb.Helper()
	if err := t.browser.call(t.session, method, params, result); err != nil {
		t.tb.Fatal(err)
	}
}

// evaluate returns the JSON of an expression's value in the page, nothing of what
// is undefined.
func (t *Tab) evaluate(expression string) (json.RawMessage, error) {
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails any
	}
	err := t.browser.call(t.session, "Runtime.evaluate", map[string]any{
		"expression": expression, "returnByValue": true, "awaitPromise": true,
	}, &got)
	if err != nil {
		return nil, fmt.Errorf("%.200s: %w", expression, err)
	}
	if got.ExceptionDetails != nil {
		return nil, fmt.Errorf("%.200s: %v", expression, got.ExceptionDetails)
	}
	return got.Result.Value, nil
}

// Eval returns the value of an expression in the page, nil of what is undefined.
// The page's own policy does not bind it.
func (t *Tab) Eval(expression string) any {
	t.tb.Helper()
	raw, err := t.evaluate(expression)
	if err != nil {
		t.tb.Fatal(err)
	}
	if len(raw) == 0 {
		return nil
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.tb.Fatalf("%.200s: %v", expression, err)
	}
	return value
}

// Decode decodes the value of an expression in the page into result.
func (t *Tab) Decode(expression string, result any) {
	t.tb.Helper()
	raw, err := t.evaluate(expression)
	if err != nil {
		t.tb.Fatal(err)
	}
	if err := json.Unmarshal(raw, result); err != nil {
		t.tb.Fatalf("%.200s: %v", expression, err)
	}
}

// Until asks the page until an expression is true.
func (t *Tab) Until(what, expression string) {
	t.tb.Helper()
	for deadline := time.Now().Add(callTimeout); ; time.Sleep(10 * time.Millisecond) {
		// Between two pages there is none to ask, and what is not there yet cannot be
		// asked about: errors are to be expected.
		raw, err := t.evaluate(expression)
		if err == nil && string(raw) == "true" {
			return
		}
		if time.Now().After(deadline) {
			t.tb.Fatalf("not within %v: %s: got %s and %v", callTimeout, what, raw, err)
		}
	}
}

// Visit opens an address and waits until the page is there.
func (t *Tab) Visit(url string) {
	t.tb.Helper()
	t.NextPage(func() {
		t.tb.Helper()
		var nav struct{ ErrorText string }
		t.Call("Page.navigate", map[string]any{"url": url}, &nav)
		if nav.ErrorText != "" {
			t.tb.Fatalf("visit %s: %s", url, nav.ErrorText)
		}
	})
}

// NextPage calls a function that leads to another page, or waits for the page to
// go there by itself if the function does nothing. It returns when the other page
// is there.
func (t *Tab) NextPage(leave func()) {
	t.tb.Helper()
	t.Eval("window.browsertestOld = true")
	leave()
	t.Until("another page is there", "!window.browsertestOld && document.readyState == 'complete'")
}

// Key is a key by its DevTools names. Text is what it types, if anything.
type Key struct {
	Name, Code string
	Number     int
	Text       string
}

// The keys with which pages are walked through.
var (
	KeyTab   = Key{Name: "Tab", Code: "Tab", Number: 9}
	KeySpace = Key{Name: " ", Code: "Space", Number: 32, Text: " "}
	KeyEnter = Key{Name: "Enter", Code: "Enter", Number: 13, Text: "\r"}
)

// Press presses a key and lets it go.
func (t *Tab) Press(k Key) {
	t.tb.Helper()
	key := map[string]any{"type": "keyDown", "key": k.Name, "code": k.Code, "windowsVirtualKeyCode": k.Number}
	if k.Text != "" {
		key["text"] = k.Text
	}
	t.Call("Input.dispatchKeyEvent", key, nil)
	key["type"] = "keyUp"
	delete(key, "text")
	t.Call("Input.dispatchKeyEvent", key, nil)
}

// File returns the file that a command makes: a picture or a print.
func (t *Tab) File(method string, params map[string]any) []byte {
	t.tb.Helper()
	var got struct{ Data []byte }
	t.Call(method, params, &got)
	return got.Data
}

// Event is what a tab told of itself.
type Event struct {
	Method string
	Params json.RawMessage
}

// String is the event's name and the beginning of its details.
func (e Event) String() string { return fmt.Sprintf("%s: %.400s", e.Method, e.Params) }

// IsComplaint reports whether one of the page's scripts failed or wrote to the
// console, or the browser logged a warning or an error. What it logs for
// information depends on the moment: that a field which a person already types
// into keeps the focus, say.
func (e Event) IsComplaint() bool {
	if e.Method != "Log.entryAdded" {
		return e.Method == "Runtime.exceptionThrown" || e.Method == "Runtime.consoleAPICalled"
	}
	var told struct {
		Entry struct {
			Level string `json:"level"`
		} `json:"entry"`
	}
	err := json.Unmarshal(e.Params, &told)
	return err != nil || !slices.Contains([]string{"verbose", "info"}, told.Entry.Level)
}

// mostEvents bounds what a tab keeps between two looks; Events fails beyond it.
const mostEvents = 10_000

func (t *Tab) keep(e Event) {
	if len(t.events) <= mostEvents {
		t.events = append(t.events, e)
	}
}

// Hear lets the tab keep the events of domains of the protocol: Runtime and Log
// have complaints, Network has requests.
func (t *Tab) Hear(domains ...string) {
	t.tb.Helper()
	for _, domain := range domains {
		t.Call(domain+".enable", nil, nil)
	}
}

// Events are those since the last time.
func (t *Tab) Events() []Event {
	t.tb.Helper()
	t.browser.mu.Lock()
	events := t.events
	t.events = nil
	t.browser.mu.Unlock()
	if len(events) > mostEvents {
		t.tb.Fatalf("the tab had more than %d events, some of which are lost", mostEvents)
	}
	return events
}
