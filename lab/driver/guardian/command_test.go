package guardian

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTheEndOfThePipeRunsRemovals(t *testing.T) {
	g, log := startGuardian(t)
	file := filepath.Join(t.TempDir(), "removed")
	if err := g.Remove(Command{Argv: []string{"/bin/sh", "-c", `echo "$WHAT" >` + file}, Env: []string{"WHAT=containers"}}); err != nil {
		t.Fatal(err)
	}
	if err := g.Leave(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "containers\n" {
		t.Errorf("got %q, %v, want what the command writes", text, err)
	}
	if _, err := os.Stat(log); !os.IsNotExist(err) {
		t.Errorf("the guardian had something to say: %v", err)
	}
}

// TestARemovalIsRunAgain has a command fail until a file is there, which is after the lab has gone on.
func TestARemovalIsRunAgain(t *testing.T) {
	t.Parallel()
	g, _ := startGuardian(t)
	dir := t.TempDir()
	c := Command{Argv: []string{"/bin/sh", "-c", "cd " + dir + " || exit 2; echo >>tries; [ -e there ] && echo >removed"}, Again: time.Minute}
	if err := g.Remove(c); err != nil {
		t.Fatal(err)
	}
	if err := g.end(time.Millisecond); !errors.Is(err, ErrGoesOn) {
		t.Fatalf("got %v, want that it goes on", err)
	}
	within(t, "a second try", func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "tries"))
		return err == nil && len(text) > 1
	})
	if err := os.WriteFile(filepath.Join(dir, "there"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	within(t, "the removal, and its end", func() bool {
		_, err := os.Stat(filepath.Join(dir, "removed"))
		return err == nil && g.cmd.Process.Signal(syscall.Signal(0)) != nil
	})
}

// TestARemovalInVainIsRunOnce: it says so by its exit status.
func TestARemovalInVainIsRunOnce(t *testing.T) {
	t.Parallel()
	tries := filepath.Join(t.TempDir(), "tries")
	left := Left{Removals: []Command{{Argv: []string{"/bin/sh", "-c", "echo >>" + tries + "; echo not yours >&2; exit 2"}, Again: time.Minute}}, ProcRoot: "/proc"}
	if err := left.Clean(t.Context()); err == nil || !strings.Contains(err.Error(), "not yours") {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(tries); err != nil || len(text) != 1 {
		t.Errorf("it was run %d times, %v", len(text), err)
	}
}

// TestTheGuardianHoldsNothingOfTheCallers: not what this process has from its own, such as a lock that is held by who has it.
func TestTheGuardianHoldsNothingOfTheCallers(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETFD, 0); err != nil { // as if it were inherited
		t.Fatal(err)
	}
	g, _ := startGuardian(t)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end: the guardian holds the other end", err)
	}
	if err := g.Done(); err != nil {
		t.Error(err)
	}
}

func within(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// TestARemovalThatIsRunAgainEnds: the time for it is over in the end, and why it failed is said.
func TestARemovalThatIsRunAgainEnds(t *testing.T) {
	t.Parallel()
	left := Left{Removals: []Command{{Argv: []string{"/bin/false"}, Again: time.Millisecond}}, ProcRoot: "/proc"}
	if err := left.Clean(t.Context()); err == nil {
		t.Error("a removal that always fails is none of an error")
	}
	if left.again() <= removeWithin {
		t.Errorf("removals have %v", left.again())
	}
}

func TestDoneRunsNoRemovals(t *testing.T) {
	g, _ := startGuardian(t)
	file := filepath.Join(t.TempDir(), "removed")
	if err := g.Remove(Command{Argv: []string{"/bin/sh", "-c", "echo >" + file}}); err != nil {
		t.Fatal(err)
	}
	if err := g.Done(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a removal ran although all was done: %v", err)
	}
}

func TestARemovalThatFailsIsReported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"/bin/sh", "-c", "echo it is stuck >&2; exit 1"}, "it is stuck"},
		{[]string{"sh"}, "names no program"},
		{nil, "names no program"},
	} {
		left := Left{Removals: []Command{{Argv: c.argv}}, ProcRoot: "/proc"}
		if err := left.Clean(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.argv, err, c.want)
		}
	}
}
