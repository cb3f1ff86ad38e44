// Package probetest starts the real programs that the probes of lab/probe are
// tested with. It is for tests only; it owns what it starts and ends it with the
// test.
package probetest

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/driver/process"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/host/procstat"
	"loadstone/lab/topology"
)

// Program is the test's own program. A package that uses it has one, made of
// os.Args and os.Environ().
type Program struct {
	Args []string
	Env  []string // NAME=VALUE
}

func (p Program) variable(name string) string {
	for _, pair := range p.Env {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// Main is what TestMain of a package calls that uses Up: the driver starts the
// test's own program again as its shim and as its guardian. It returns the exit
// status.
func (p Program) Main(m *testing.M) int {
	if len(p.Args) < 2 {
		return m.Run()
	}
	switch p.Args[1] {
	case "internal-exec":
		return status(cgroup.JoinAndExec(p.Args[2:], p.Env))
	case "internal-guardian":
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		return status(guardian.Run(context.Background(), os.Stdin, os.Stdout))
	}
	return m.Run()
}

func status(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Up starts a Compose file's services as processes and ends them with the test.
// Where a program is not installed the test is skipped, or fails if CI is true.
func (p Program) Up(t *testing.T, compose string) *process.Running {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "compose.yaml")
	if err := os.WriteFile(path, []byte(compose), 0o600); err != nil {
		t.Fatal(err)
	}
	system, err := topology.Load(t.Context(), topology.Config{ComposeFiles: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"PATH": p.variable("PATH"), "HOME": p.variable("HOME")}
	d := process.Driver{Settings: driver.DefaultSettings(), Self: p.Args[0], Shim: []string{p.Args[0], "internal-exec"}}
	d.Env, d.Guardian = env, []string{p.Args[0], "internal-guardian"}
	if err := d.Check(t.Context(), system); err != nil {
		if p.variable("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	began := time.Now()
	up, err := d.Up(t.Context(), driver.Config{System: system, LogDir: filepath.Join(dir, "logs"), VolumeDir: filepath.Join(dir, "volumes")})
	if err != nil {
		t.Fatal(err)
	}
	running := up.(*process.Running)
	t.Cleanup(func() {
		if err := running.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Logf("it was ready after %v", time.Since(began).Round(time.Second/10))
	return running
}

// Reader reads a program once, as the probe does each second.
type Reader interface {
	Read(ctx context.Context) (map[string]float64, error)
}

// Read reads until it works, for 30 s at most: a node that was just started may be
// slow, and a group's coordinator may have to be found first.
func Read(t *testing.T, r Reader) map[string]float64 {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		values, err := r.Read(ctx)
		cancel()
		if err == nil {
			return values
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}

// LogCost logs what a question costs this program and the one with the id, in
// CPU time and in time until it is answered, over a hundred after some that let
// Java compile what it does often.
func LogCost(t *testing.T, pid int, question func()) {
	t.Helper()
	const n = 100
	for range 20 {
		question()
	}
	own, theirs, began := cpu(t, os.Getpid()), cpu(t, pid), time.Now()
	for range n {
		question()
	}
	took := time.Since(began)
	t.Logf("a question takes %v, and %v of CPU here and %v in process %d",
		took/n, (cpu(t, os.Getpid())-own)/n, (cpu(t, pid)-theirs)/n, pid)
}

// cpu is the CPU time of a process, in steps of 10 ms.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	s, err := procstat.Read("/proc", pid)
	if err != nil {
		t.Fatal(err)
	}
	return s.User + s.System
}
