package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const chromium = "/usr/bin/chromium"

// browser is a headless Chromium, driven by its DevTools protocol over two
// pipes: messages in JSON, each ended by a zero byte. That needs no library and
// no port, and unlike the command line's --dump-dom and --screenshot it can set
// the size of a phone's screen, type, click and ask what has been laid out.
type browser struct {
	to io.WriteCloser

	mu      sync.Mutex
	next    int
	waiting map[int]chan message
	ended   error

	stderr bytes.Buffer // read after the process has ended
}

type message struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Bounds, generous for a machine that does other things: the slowest step, the
// browser's start, takes two seconds here.
const (
	callTimeout = 60 * time.Second
	quitTimeout = 10 * time.Second
)

// startBrowser starts a browser that ends with the test. On CI it must be there.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	if _, err := os.Stat(chromium); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("there is no browser: install chromium and fonts-dejavu-core: %v", err)
		}
		t.Skipf("there is no browser, install chromium to run this: %v", err)
	}
	fromUs, to := pipe(t)
	from, fromIt := pipe(t)
	b := &browser{to: to, waiting: map[int]chan message{}}
	cmd := exec.Command(chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--disable-background-networking", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{fromUs, fromIt} // descriptors 3 and 4
	cmd.Stderr = &b.stderr
	// A group of its own: the browser starts further processes, and all of them
	// must end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", chromium, err)
	}
	fromUs.Close()
	fromIt.Close()
	read := make(chan struct{})
	go func() { defer close(read); b.read(from) }()
	t.Cleanup(func() {
		// The browser ends when its pipe does. Wait also waits for stderr, which the
		// processes that it started hold: the group is ended if they do not go.
		to.Close()
		timer := time.AfterFunc(quitTimeout, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		_ = cmd.Wait()
		timer.Stop()
		<-read
		from.Close()
		if t.Failed() {
			t.Logf("the browser said: %.2000s", b.stderr.String())
		}
	})
	return b
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// read hands answers to those who wait until the browser ends. Events, which
// have no id, are not needed here.
func (b *browser) read(from io.Reader) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		raw, err := in.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			b.ended = fmt.Errorf("the browser has ended: %w", err)
			for _, c := range b.waiting {
				close(c)
			}
			b.waiting = nil
			b.mu.Unlock()
			return
		}
		var m message
		if json.Unmarshal(raw[:len(raw)-1], &m) != nil || m.ID == 0 {
			continue
		}
		b.mu.Lock()
		if c, ok := b.waiting[m.ID]; ok {
			c <- m // has room for one, and gets one
			delete(b.waiting, m.ID)
		}
		b.mu.Unlock()
	}
}

// call sends a command, to the browser itself or to one of its tabs, and decodes
// the answer into result unless that is nil.
func (b *browser) call(session, method string, params map[string]any, result any) error {
	answer := make(chan message, 1)
	b.mu.Lock()
	if b.ended != nil {
		b.mu.Unlock()
		return b.ended
	}
	b.next++
	command := map[string]any{"id": b.next, "method": method, "params": params}
	if session != "" {
		command["sessionId"] = session
	}
	raw, err := json.Marshal(command)
	if err == nil {
		b.waiting[b.next] = answer
		_, err = b.to.Write(append(raw, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("send %s: %w", method, err)
	}
	timeout := time.NewTimer(callTimeout)
	defer timeout.Stop()
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return errors.New(method + ": the browser ended before it answered")
		case m.Error != nil:
			return errors.New(method + ": " + m.Error.Message)
		case result != nil:
			return json.Unmarshal(m.Result, result)
		}
		return nil
	case <-timeout.C:
		return fmt.Errorf("%s: no answer in %v", method, callTimeout)
	}
}

// tab is one tab, with its own size and theme.
type tab struct {
	t       *testing.T
	b       *browser
	session string
}

type screen struct {
	width, height int // in CSS pixels
	dark          bool
}

func (b *browser) open(t *testing.T, s screen) *tab {
	t.Helper()
	var target struct{ TargetID string }
	var attached struct{ SessionID string }
	tb := &tab{t: t, b: b}
	tb.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	tb.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	tb.session = attached.SessionID
	t.Cleanup(func() {
		if err := b.call("", "Target.closeTarget", map[string]any{"targetId": target.TargetID}, nil); err != nil {
			t.Error(err)
		}
	})
	tb.call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": s.width, "height": s.height, "deviceScaleFactor": 1, "mobile": s.width < 600,
	}, nil)
	theme := "light"
	if s.dark {
		theme = "dark"
	}
	tb.call("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": theme}},
	}, nil)
	return tb
}

func (tb *tab) call(method string, params map[string]any, result any) {
	tb.t.Helper()
	if err := tb.b.call(tb.session, method, params, result); err != nil {
		tb.t.Fatal(err)
	}
}

// eval returns the value of an expression in the page. The page's own policy
// does not bind it.
func (tb *tab) eval(expression string) any {
	tb.t.Helper()
	var got struct {
		Result           struct{ Value any }
		ExceptionDetails any
	}
	tb.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &got)
	if got.ExceptionDetails != nil {
		tb.t.Fatalf("%.200s: %v", expression, got.ExceptionDetails)
	}
	return got.Result.Value
}

// visit opens an address and waits until the page is there.
func (tb *tab) visit(url string) {
	tb.t.Helper()
	var nav struct{ ErrorText string }
	tb.eval("window.old = true")
	tb.call("Page.navigate", map[string]any{"url": url}, &nav)
	if nav.ErrorText != "" {
		tb.t.Fatalf("visit %s: %s", url, nav.ErrorText)
	}
	tb.loaded()
}

// loaded waits until another page has come in place of the one in which
// window.old was set.
func (tb *tab) loaded() {
	tb.t.Helper()
	deadline := time.Now().Add(callTimeout)
	for {
		var got struct{ Result struct{ Value any } }
		// Between two pages there is none to ask: errors are to be expected.
		err := tb.b.call(tb.session, "Runtime.evaluate", map[string]any{
			"expression": "!window.old && document.readyState == 'complete'", "returnByValue": true,
		}, &got)
		if err == nil && got.Result.Value == true {
			return
		}
		if time.Now().After(deadline) {
			tb.t.Fatalf("no page within %v: %v", callTimeout, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// enter types into a field as a person would.
func (tb *tab) enter(field, text string) {
	tb.t.Helper()
	tb.eval("document.getElementById('" + field + "').select()")
	tb.call("Input.insertText", map[string]any{"text": text}, nil)
}

// press clicks where an element is.
func (tb *tab) press(selector string) {
	tb.t.Helper()
	at, ok := tb.eval(`(()=>{const e=document.querySelector(` + "`" + selector + "`" + `);e.scrollIntoView({block:"center"});
		const r=e.getBoundingClientRect();return [r.x+r.width/2,r.y+r.height/2]})()`).([]any)
	if !ok || len(at) != 2 {
		tb.t.Fatalf("there is no %s", selector)
	}
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		tb.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1}, nil)
	}
}

// submit fills in the form and waits for what comes.
func (tb *tab) submit(id, code string) {
	tb.t.Helper()
	tb.enter("id", id)
	tb.enter("code", code)
	tb.eval("window.old = true")
	tb.press("button")
	tb.loaded()
}

// text is what the page says.
func (tb *tab) text() string {
	tb.t.Helper()
	return fmt.Sprint(tb.eval("document.body.innerText"))
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

// file returns the file that a command makes.
func (tb *tab) file(method string, params map[string]any) []byte {
	tb.t.Helper()
	var got struct{ Data []byte }
	tb.call(method, params, &got)
	return got.Data
}
