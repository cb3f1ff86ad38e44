package cli

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/engine"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/feed"
)

// startServe starts `results serve` over a small snapshot and returns it with
// the address that it logs.
func startServe(t *testing.T, args ...string) (cmd *exec.Cmd, address string) {
	t.Helper()
	dir := t.TempDir()
	if got := loadstone(t, dir, "results", "seed", "--store", "snapshot:s.snapshot", "--students", "1000"); got.code != exitOK {
		t.Fatal(got.stderr)
	}
	all := append([]string{
		"results", "serve", "--store", "snapshot:s.snapshot", "--access", "open",
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain", "300ms",
	}, args...)
	cmd = exec.Command(program, all...)
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var line struct {
			Address string `json:"address"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Address != "" {
			go io.Copy(io.Discard, out)
			return cmd, line.Address
		}
	}
	t.Fatal("the server ended before it said its address")
	return nil, ""
}

// SIGTERM under load: whatever was accepted is answered. The only thing that a
// client may see is that no new connection is taken.
func TestSIGTERMLosesNoRequest(t *testing.T) {
	// Who waits for the next request for all of the drain time is hung up on, and a client may
	// stand still for seconds on a busy machine.
	cmd, address := startServe(t, "--drain", "5s")
	ended := make(chan error, 1)
	stop := sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		go func() { ended <- cmd.Wait() }()
	})
	// It is told to stop after a second of load, which goes on until nobody listens.
	onWindow := func(w load.Window) string {
		stop()
		if w.Failed > 0 {
			return "nobody listens"
		}
		return ""
	}
	r, err := engine.Run(t.Context(), load.Plan{
		Targets: []string{"http://" + address}, Seed: 1, Timeout: 30 * time.Second,
		Scenarios: []load.Scenario{{
			Name: "stop", Executor: load.ConstantVUs, VUs: 16, Duration: 2 * time.Minute, GracefulStop: 30 * time.Second,
			Steps: []load.Step{{Request: load.Request{Method: "GET", Path: "/student/{id}"}}},
			Feed:  map[string]feed.Feed{"id": {Uniform: &[2]int64{1, 1000}}},
		}},
	}, onWindow, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v, want exit status 0", err)
	}
	if r.Status[200] == 0 {
		t.Error("nothing was answered")
	}
	if r.Errors[failure.Refused.String()].Count == 0 {
		t.Error("the server was not stopped while load was on: nothing was tested")
	}
	for kind, e := range r.Errors {
		if kind != failure.Refused.String() {
			t.Errorf("%d × %s, such as %s", e.Count, kind, e.Example)
		}
	}
	for status, n := range r.Status {
		if status != 200 {
			t.Errorf("%d answers of status %d", n, status)
		}
	}
}
