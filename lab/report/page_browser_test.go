package report

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const chromium = "/usr/bin/chromium"

// Bounds, generous for a machine that does other things: the browser's start,
// the slowest step, takes about two seconds.
const (
	callTimeout = 60 * time.Second
	quitTimeout = 10 * time.Second
)

// browser is a headless Chromium with one tab, driven by its DevTools protocol
// over two pipes: messages in JSON, each ended by a zero byte.
type browser struct {
	t       *testing.T
	to      io.WriteCloser
	session string
	answers chan message // closed when the browser has ended

	next   int
	stderr bytes.Buffer // read after the process has ended

	mu     sync.Mutex
	events []message
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

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
	b := &browser{t: t, to: to, answers: make(chan message, 1)}
	cmd := exec.Command(chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--disable-background-networking", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{fromUs, fromIt} // descriptors 3 and 4
	cmd.Stderr = &b.stderr
	// A group of its own: the browser starts further processes, and all must end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", chromium, err)
	}
	fromUs.Close()
	fromIt.Close()
	read := make(chan struct{})
	go func() { defer close(read); b.read(from) }()
	t.Cleanup(func() {
		to.Close() // the browser ends when its pipe does
		timer := time.AfterFunc(quitTimeout, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		_ = cmd.Wait()
		timer.Stop()
		<-read
		from.Close()
		if t.Failed() {
			t.Logf("the browser said: %.2000s", b.stderr.String())
		}
	})
	b.attach()
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

// read keeps events and hands on answers until the browser ends.
func (b *browser) read(from io.Reader) {
	defer close(b.answers)
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		raw, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(raw[:len(raw)-1], &m) != nil {
			continue
		}
		if m.ID == 0 {
			b.mu.Lock()
			b.events = append(b.events, m)
			b.mu.Unlock()
			continue
		}
		select {
		case b.answers <- m:
		case <-b.t.Context().Done(): // nobody waits any more
		}
	}
}

// attach opens the tab and asks it to tell what goes wrong.
func (b *browser) attach() {
	var target struct{ TargetID string }
	var attached struct{ SessionID string }
	b.must("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.must("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.must(domain+".enable", map[string]any{}, nil)
	}
}

// call sends a command and waits for its answer. One at a time: the test has
// one goroutine.
func (b *browser) call(method string, params map[string]any, result any) error {
	b.next++
	command := map[string]any{"id": b.next, "method": method, "params": params}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	raw, err := json.Marshal(command)
	if err != nil {
		return err
	}
	if _, err := b.to.Write(append(raw, 0)); err != nil {
		return fmt.Errorf("send %s: %w", method, err)
	}
	timeout := time.NewTimer(callTimeout)
	defer timeout.Stop()
	for {
		select {
		case m, ok := <-b.answers:
			switch {
			case !ok:
				return errors.New(method + ": the browser ended before it answered")
			case m.ID != b.next:
				continue
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
}

func (b *browser) must(method string, params map[string]any, result any) {
	b.t.Helper()
	if err := b.call(method, params, result); err != nil {
		b.t.Fatal(err)
	}
}

// look sets the size of the screen, in CSS pixels, and the theme.
func (b *browser) look(width int, theme string) {
	b.t.Helper()
	b.must("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600,
	}, nil)
	b.must("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": theme}},
	}, nil)
}

// visit opens a file and waits until it is there.
func (b *browser) visit(path string) {
	b.t.Helper()
	var nav struct{ ErrorText string }
	b.must("Page.navigate", map[string]any{"url": (&url.URL{Scheme: "file", Path: path}).String()}, &nav)
	if nav.ErrorText != "" {
		b.t.Fatalf("visit %s: %s", path, nav.ErrorText)
	}
	deadline := time.Now().Add(callTimeout)
	for {
		var got struct{ Result struct{ Value any } }
		err := b.call("Runtime.evaluate", map[string]any{"expression": "location.protocol == 'file:' && document.readyState == 'complete'", "returnByValue": true}, &got)
		if err == nil && got.Result.Value == true {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("no page within %v: %v", callTimeout, err)
		}
	}
}

// eval decodes the value of an expression in the page into result.
func (b *browser) eval(expression string, result any) {
	b.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails any
	}
	b.must("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &got)
	if got.ExceptionDetails != nil {
		b.t.Fatalf("%.200s: %v", expression, got.ExceptionDetails)
	}
	if err := json.Unmarshal(got.Result.Value, result); err != nil {
		b.t.Fatalf("%.200s: %v", expression, err)
	}
}

// complaints are what the browser had to say since the last time, and the
// requests that did not go to the page itself.
func (b *browser) complaints(page string) []string {
	b.mu.Lock()
	events := b.events
	b.events = nil
	b.mu.Unlock()
	var found []string
	for _, e := range events {
		switch e.Method {
		case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Network.loadingFailed":
			found = append(found, fmt.Sprintf("%s: %.300s", e.Method, e.Params))
		case "Network.requestWillBeSent":
			var sent struct {
				Request struct {
					URL string `json:"url"`
				} `json:"request"`
			}
			if err := json.Unmarshal(e.Params, &sent); err != nil {
				found = append(found, err.Error())
			} else if u := sent.Request.URL; !strings.HasSuffix(u, page) && !strings.HasPrefix(u, "data:") && u != "about:blank" {
				found = append(found, "a request to "+u)
			}
		}
	}
	return found
}

// keepPicture writes what the tab shows, or prints, if the test is to keep pages.
func (b *browser) keepPicture(name, method string, params map[string]any) {
	b.t.Helper()
	if *keep == "" {
		return
	}
	var picture struct{ Data string }
	b.must(method, params, &picture)
	raw, err := base64.StdEncoding.DecodeString(picture.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(*keep, name), raw, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
