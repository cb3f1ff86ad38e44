// Package browsertest starts a real Chromium without a window for a test and
// drives it: it opens tabs with a screen's size and theme, visits pages, presses
// keys, asks what only a browser knows, and hears what pages complain of.
//
// It speaks the browser's DevTools protocol over two pipes: messages in JSON, each
// ended by a zero byte. That needs no library and no port, and unlike the command
// line's --dump-dom and --screenshot it can set the size of a phone's screen, type,
// click and ask what has been laid out.
//
// It judges nothing: tests do, perhaps by Layout. The test owns the browser; both end together, also
// when the test's process dies, because the browser ends when its pipe does.
package browsertest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is where Debian's package chromium puts the browser.
const binary = "/usr/bin/chromium"

// Bounds, generous for a machine that does other things: the slowest step, the
// browser's start, takes about two seconds on an idle one.
const (
	callTimeout = 60 * time.Second
	quitTimeout = 10 * time.Second
)

// Browser is a headless Chromium that belongs to one test. It reaches 127.0.0.1
// and files, and resolves no names. It is for several goroutines, its tabs are
// each for one.
type Browser struct {
	to io.Writer

	mu      sync.Mutex // guards what follows, and the events of tabs
	next    int
	waiting map[int]chan message // nil when the browser has ended
	tabs    map[string]*Tab      // by session
	ended   error

	stderr bytes.Buffer // read after the process has ended
}

type message struct {
	ID      int             `json:"id"`
	Session string          `json:"sessionId"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Start starts a browser, with further arguments for it as on its command line.
// Without the program the test is skipped, or fails if the environment has
// CI=true. The browser ends with the test.
func Start(tb testing.TB, args ...string) *Browser {
	tb.Helper()
	if _, err := os.Stat(binary); err != nil {
		if os.Getenv("CI") == "true" { //nolint:forbidigo // only tests call this
			tb.Fatalf("there is no browser: install chromium and fonts-dejavu-core: %v", err)
		}
		tb.Skipf("there is no browser, install chromium to run this: %v", err)
	}
	fromUs, to := pipe(tb)
	from, fromIt := pipe(tb)
	b := &Browser{to: to, waiting: map[int]chan message{}, tabs: map[string]*Tab{}}
	args = append([]string{
		"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--disable-background-networking", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
		"--user-data-dir=" + tb.TempDir(), "--remote-debugging-pipe",
	}, args...)
	cmd := exec.Command(binary, append(args, "about:blank")...) //nolint:noctx // its pipe and quitTimeout end it
	cmd.ExtraFiles = []*os.File{fromUs, fromIt}                 // descriptors 3 and 4
	cmd.Stderr = &b.stderr
	// A group of its own: the browser starts further processes, and all must end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := cmd.Start()
	_, _ = fromUs.Close(), fromIt.Close() // the browser has its own
	if err != nil {
		_, _ = to.Close(), from.Close()
		tb.Fatalf("start %s: %v", binary, err)
	}
	read := make(chan struct{})
	go func() { defer close(read); b.read(from) }()
	tb.Cleanup(func() {
		// The browser ends when its pipe does. Wait also waits for stderr, which the
		// processes that it started hold: the group is ended if they do not go.
		_ = to.Close()
		timer := time.AfterFunc(quitTimeout, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		_ = cmd.Wait() // however it ended, it has
		timer.Stop()
		<-read
		_ = from.Close()
		if tb.Failed() {
			tb.Logf("the browser said: %.2000s", b.stderr.String())
		}
	})
	return b
}

func pipe(tb testing.TB) (r, w *os.File) {
	tb.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		tb.Fatalf("a pipe for the browser: %v", err)
	}
	return r, w
}

// read hands answers to those who wait, and events to their tabs, until the
// browser ends.
func (b *Browser) read(from io.Reader) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		raw, err := in.ReadBytes(0)
		if err != nil {
			b.end(err)
			return
		}
		var m message
		if json.Unmarshal(raw[:len(raw)-1], &m) != nil {
			continue // the caller's deadline notices
		}
		b.deliver(m)
	}
}

func (b *Browser) deliver(m message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.waiting[m.ID]; ok {
		c <- m // has room for one, and gets one
		delete(b.waiting, m.ID)
	} else if tab, ok := b.tabs[m.Session]; ok && m.ID == 0 {
		tab.keep(Event{Method: m.Method, Params: m.Params})
	}
}

func (b *Browser) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = fmt.Errorf("the browser has ended: %w", err)
	for _, c := range b.waiting {
		close(c)
	}
	b.waiting = nil
}

// expect prepares for an answer to the command with the id that it returns.
func (b *Browser) expect() (int, chan message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended != nil {
		return 0, nil, b.ended
	}
	b.next++
	answer := make(chan message, 1)
	b.waiting[b.next] = answer
	return b.next, answer, nil
}

func (b *Browser) forget(id int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, id)
}

// call sends a command, to the browser itself or to one of its tabs, and decodes
// the answer into result unless that is nil.
func (b *Browser) call(session, method string, params map[string]any, result any) error {
	id, answer, err := b.expect()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer b.forget(id)
	command := map[string]any{"id": id, "method": method, "params": params}
	if session != "" {
		command["sessionId"] = session
	}
	raw, err := json.Marshal(command)
	if err == nil {
		_, err = b.to.Write(append(raw, 0)) // whole: a file's writers take turns
	}
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
			if err := json.Unmarshal(m.Result, result); err != nil {
				return fmt.Errorf("%s: the answer: %w", method, err)
			}
		}
		return nil
	case <-timeout.C:
		return fmt.Errorf("%s: no answer in %v", method, callTimeout)
	}
}

// Renderers are the processes in which the browser's pages run, for a test that stops them. Which one is a
// tab's the browser does not say: who wants to stop one tab alone starts a browser for it.
func (b *Browser) Renderers(tb testing.TB) (pids []int) {
	tb.Helper()
	var got struct {
		ProcessInfo []struct {
			Type string
			ID   int
		}
	}
	if err := b.call("", "SystemInfo.getProcessInfo", nil, &got); err != nil {
		tb.Fatal(err)
	}
	for _, p := range got.ProcessInfo {
		if p.Type == "renderer" {
			pids = append(pids, p.ID)
		}
	}
	if len(pids) == 0 {
		tb.Fatal("the browser has no renderers")
	}
	return pids
}
