package ui

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

const chromium = "/usr/bin/chromium"

// devtools is a headless Chromium with one tab, driven by its DevTools protocol
// over two pipes: messages in JSON, each ended by a zero byte. That needs no
// library and no port.
type devtools struct {
	t       *testing.T
	to      io.Writer
	session string

	mu       sync.Mutex
	next     int
	answers  map[int]chan devtoolsMessage
	troubles []string // what the pages' consoles said
}

type devtoolsMessage struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *devtoolsError  `json:"error"`
}

type devtoolsError struct {
	Message string `json:"message"`
}

// answerTimeout is generous for a machine that does other things: the slowest
// step, the browser's start, takes two seconds.
const answerTimeout = 60 * time.Second

// startBrowser starts a browser that ends with the test. On CI it must be there.
func startBrowser(t *testing.T) *devtools {
	t.Helper()
	if _, err := os.Stat(chromium); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("there is no browser: install chromium and fonts-dejavu-core: %v", err)
		}
		t.Skipf("there is no browser, install chromium to run this: %v", err)
	}
	fromUs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, fromIt, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--disable-background-networking", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{fromUs, fromIt} // descriptors 3 and 4
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", chromium, err)
	}
	fromUs.Close()
	fromIt.Close()
	b := &devtools{t: t, to: to, answers: map[int]chan devtoolsMessage{}}
	read := make(chan struct{})
	go func() { defer close(read); b.read(from) }()
	t.Cleanup(func() {
		to.Close() // the browser ends when its pipe does, or else with its group
		timer := time.AfterFunc(10*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		_ = cmd.Wait()
		timer.Stop()
		<-read
		from.Close()
	})
	var target struct{ TargetID string }
	var attached struct{ SessionID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Runtime.enable", "Log.enable", "Page.enable"} {
		b.call(domain, nil, nil)
	}
	return b
}

// read hands answers to those who wait and keeps what consoles say.
func (b *devtools) read(from io.Reader) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		raw, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m devtoolsMessage
		if json.Unmarshal(raw[:len(raw)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		if slices.Contains([]string{"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}, m.Method) {
			b.troubles = append(b.troubles, fmt.Sprintf("%s: %.400s", m.Method, m.Params))
		}
		if c, ok := b.answers[m.ID]; ok && m.ID != 0 {
			c <- m // has room for one, and gets one
			delete(b.answers, m.ID)
		}
		b.mu.Unlock()
	}
}

// said returns what consoles said since the last call.
func (b *devtools) said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.troubles
	b.troubles = nil
	return out
}

func (b *devtools) call(method string, params map[string]any, result any) {
	b.t.Helper()
	answer := make(chan devtoolsMessage, 1)
	b.mu.Lock()
	b.next++
	b.answers[b.next] = answer
	command := map[string]any{"id": b.next, "method": method, "params": params}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	raw, err := json.Marshal(command)
	if err == nil {
		_, err = b.to.Write(append(raw, 0))
	}
	b.mu.Unlock()
	if err != nil {
		b.t.Fatalf("send %s: %v", method, err)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(answerTimeout):
		b.t.Fatalf("%s: no answer in %v", method, answerTimeout)
	}
}

// eval returns the value of an expression in the page.
func (b *devtools) eval(expression string) any {
	b.t.Helper()
	var got struct{ Result struct{ Value any } }
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &got)
	return got.Result.Value
}

// visit opens an address on a screen of that width and waits until it is there.
func (b *devtools) visit(url string, width int, dark bool) {
	b.t.Helper()
	theme := "light"
	if dark {
		theme = "dark"
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": theme}}}, nil)
	var nav struct{ ErrorText string }
	b.eval("window.old = true")
	b.call("Page.navigate", map[string]any{"url": url}, &nav)
	if nav.ErrorText != "" {
		b.t.Fatalf("visit %s: %s", url, nav.ErrorText)
	}
	b.until(url+" is there", "!window.old && document.readyState == 'complete'")
}

// until polls the page until an expression is true.
func (b *devtools) until(what, expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(answerTimeout); b.eval(expression) != true; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("not within %v: %s", answerTimeout, what)
		}
	}
}
