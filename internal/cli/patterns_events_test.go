package cli

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/patterns"
	"loadstone/system/patterns/event"
)

// part is a loadstone process of a test, which can be killed and started again.
type part struct {
	t    *testing.T
	args []string
	cmd  *exec.Cmd
	done chan struct{}
}

// start starts it and waits until it says that it listens.
func (p *part) start() {
	p.t.Helper()
	cmd := exec.Command(program, p.args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	listening, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var once sync.Once
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var line struct {
				Msg string `json:"msg"`
			}
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
				once.Do(func() { close(listening) })
			}
		}
		_ = cmd.Wait() // killed: that is no news
	}()
	p.cmd, p.done = cmd, done
	select {
	case <-listening:
	case <-done:
		p.t.Fatalf("%v ended: %s", p.args, stderr.String())
	case <-time.After(2 * time.Minute):
		p.t.Fatalf("%v did not listen within two minutes", p.args)
	}
}

// kill ends it with SIGKILL and waits for its end.
func (p *part) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	<-p.done
}

// address is a free one on loopback.
func address() string { return servertest.Host() + ":8080" }

// What is accepted is stored, though broker, log service and service are killed one
// after the other while events come.
func TestEventsSurviveKills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broker, app, log := address(), address(), address()
	events := "nats://" + broker + "?capacity=2000"
	const anyAdmin = "127.0.0.1:0"
	parts := map[string]*part{}
	for _, p := range []struct {
		name string
		args []string
	}{
		{"broker", []string{"patterns", "broker", "--listen", broker, "--dir", filepath.Join(dir, "broker")}},
		{"log", []string{"patterns", "log", "--listen", log, "--store", filepath.Join(dir, "events.db"), "--events", events}},
		{"app", []string{"patterns", "serve", "--listen", app, "--events", events}},
	} {
		parts[p.name] = &part{t: t, args: append(p.args, "--admin-listen", anyAdmin)}
		parts[p.name].start()
		t.Cleanup(parts[p.name].kill)
	}
	finished, admin := make(chan ended, 1), address()
	go func() {
		finished <- loadstone(t, dir, "patterns", "reconcile", "--app", app, "--log", log, "--for", "15s", "--rate", "200", "--settle", "2m", "--admin-listen", admin)
	}()
	eventually(t, "an event is accepted", func() bool {
		_, metrics, err := ask(t, http.MethodGet, "http://"+admin+"/metrics", "")
		return err == nil && acceptedSome.MatchString(metrics)
	})
	for _, name := range []string{"broker", "log", "app"} {
		time.Sleep(time.Second) // events are under way: that is what is tested
		parts[name].kill()
		parts[name].start()
	}
	got := <-finished
	if got.code != exitOK || !strings.Contains(got.stdout, " = stored ") || strings.Contains(got.stdout, "accepted 0 ") {
		t.Errorf("reconcile: got status %d, %q and %q, want that what was accepted is stored", got.code, got.stdout, got.stderr)
	}
}

// acceptedSome is in the metrics of a reconciliation of which an event was accepted.
var acceptedSome = regexp.MustCompile(`(?m)^reconcile_accepted [1-9]`)

// send puts n events into the queue and tells how many it took, and for how many it was full.
func send(t *testing.T, app string, n int) (accepted, full int) {
	t.Helper()
	for range n {
		id := rand.Text()
		eventually(t, "it is known whether an event was accepted", func() bool {
			status, code := sendOne(t, app, id)
			switch {
			case status == http.StatusAccepted:
				accepted++
			case code == string(patterns.Full):
				full++
			case status == http.StatusServiceUnavailable: // in time: it is sent again, with its id
				return false
			default:
				t.Fatalf("got status %d, code %q", status, code)
			}
			return true
		})
	}
	return accepted, full
}

// sendOne sends an event and returns how it was answered, with the code of an error.
func sendOne(t *testing.T, app, id string) (status int, code string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+app+"/handle", strings.NewReader(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(event.IDHeader, id)
	client := &http.Client{Timeout: 30 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer.Error.Code
}

// The bound that a service states holds though the broker is killed and comes back, and
// a second broker on the same files is refused.
func TestBrokerKeepsItsBound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address1, address2, app := address(), address(), address()
	broker := &part{t: t, args: []string{"patterns", "broker", "--listen", address1, "--dir", filepath.Join(dir, "broker"), "--admin-listen", "127.0.0.1:0"}}
	broker.start()
	t.Cleanup(func() { broker.kill() })
	serve := &part{t: t, args: []string{"patterns", "serve", "--listen", app, "--events", "nats://" + address1 + "?capacity=5", "--admin-listen", "127.0.0.1:0"}}
	serve.start()
	t.Cleanup(serve.kill)
	if accepted, full := send(t, app, 8); accepted != 5 || full != 3 {
		t.Errorf("8 events for a queue of 5: %d were accepted and %d not, want 5 and 3", accepted, full)
	}
	second := loadstone(t, dir, "patterns", "broker", "--listen", address2, "--dir", "broker", "--admin-listen", "127.0.0.1:0")
	if second.code != exitFailed || strings.Count(second.stderr, "\n") != 1 || !strings.Contains(second.stderr, "the broker's directory broker is taken") {
		t.Errorf("a second broker: got status %d and %q, want %d and one sentence", second.code, second.stderr, exitFailed)
	}
	broker.kill()
	broker.start()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get("http://" + app + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
		}
		if err == nil && resp.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the service has not found its broker again")
		}
	}
	if accepted, _ := send(t, app, 8); accepted > 0 {
		t.Errorf("8 events for a queue that was full: %d were accepted, want none", accepted)
	}
}

// A reconciliation notices that an event is lost: here the log service loses its store.
func TestReconcileFindsALoss(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	app, log, other := address(), address(), address()
	for _, args := range [][]string{
		{"patterns", "log", "--listen", log, "--store", filepath.Join(dir, "events.db")},
		{"patterns", "log", "--listen", other, "--store", filepath.Join(dir, "other.db")},
		{"patterns", "serve", "--listen", app, "--events", "http://" + log},
	} {
		p := &part{t: t, args: append(args, "--admin-listen", "127.0.0.1:0")}
		p.start()
		t.Cleanup(p.kill)
	}
	got := loadstone(t, dir, "patterns", "reconcile", "--app", app, "--log", other, "--for", "10s", "--settle", "500ms", "--admin-listen", "127.0.0.1:0")
	if got.code != exitFailed || !strings.Contains(got.stdout, "≠ stored 0 ") {
		t.Errorf("reconcile: got status %d, %q and %q, want that nothing is found", got.code, got.stdout, got.stderr)
	}
}

func TestEventsWrongUsage(t *testing.T) {
	t.Parallel()
	for text, args := range map[string][]string{
		`it is no place for events`:              {"patterns", "log", "--events", "amqp://x:1"},
		`commit "all": write each or group`:      {"patterns", "log", "--commit", "all"},
		`--flush "no": write on or off`:          {"patterns", "broker", "--flush", "no"},
		`reconcile needs the addresses`:          {"patterns", "reconcile"},
		`"broker" is not HOST:PORT`:              {"patterns", "log", "--events", "nats://broker"},
		`full=drop is no option of a queue`:      {"patterns", "log", "--events", "nats://broker:1?full=drop"},
		`the broker's address "x" is not host:p`: {"patterns", "broker", "--listen", "x"},
	} {
		got := loadstone(t, t.TempDir(), args...)
		if got.code != exitUsage || !strings.Contains(got.stderr, text) {
			t.Errorf("%v: got status %d and %q, want %d and %q", args, got.code, got.stderr, exitUsage, text)
		}
	}
}
