package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/lab/host/procstat"
)

// sleeping is a process in the groups of some directories.
func sleeping(t *testing.T, dirs ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "1h")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for _, dir := range dirs {
		put(t, filepath.Join(dir, "cgroup.procs"), strconv.Itoa(cmd.Process.Pid))
	}
	return cmd
}

// wantStopped waits until a process stands still, or goes on.
func wantStopped(t *testing.T, cmd *exec.Cmd, want bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		s, err := procstat.Read("/proc", cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if s.Stopped() == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is in state %c", s.PID, s.State)
		}
	}
}

// fakeGroup is a group that is a plain directory, which names what a test has it name.
func fakeGroup(t *testing.T) *Group {
	t.Helper()
	dir := t.TempDir()
	return &Group{paths: Paths{2, dir, dir, dir}}
}

// What was in the group when it was listed, and is not when the signal is sent, gets none: its pid
// may be that of anybody by then.
func TestWhoHasLeftGetsNoSignal(t *testing.T) {
	t.Parallel()
	g := fakeGroup(t)
	left, stays := sleeping(t), sleeping(t, g.paths.CPU)
	m, err := g.members([]int{0, 1, left.Process.Pid, stays.Process.Pid, os.Getpid(), 1 << 22})
	if err != nil || len(m) != 1 || m[0].pid != stays.Process.Pid {
		t.Fatalf("got %+v, %v, want process %d alone", m, err, stays.Process.Pid)
	}
	if err := m.Signal(unix.SIGSTOP); err != nil {
		t.Error(err)
	}
	wantStopped(t, stays, true)
	wantStopped(t, left, false)
	if err := stays.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = stays.Wait()
	if err := m.Signal(unix.SIGKILL); err != nil { // whoever has its pid now
		t.Errorf("it has ended: got %v", err)
	}
	m.Close()
}

// The same of those that are killed where the kernel does not kill a whole group.
func TestWhoHasLeftIsNotKilled(t *testing.T) {
	t.Parallel()
	dir, left := t.TempDir(), sleeping(t)
	listed, after := filepath.Join(dir, "cgroup.procs"), filepath.Join(dir, "after")
	put(t, after, "")
	if err := unix.Mkfifo(listed, 0o600); err != nil {
		t.Fatal(err)
	}
	was := make(chan error)
	go func() {
		first, err := os.OpenFile(listed, os.O_WRONLY, 0) // waits for who lists
		if err == nil {
			err = os.Rename(after, listed) // for the next
		}
		if err == nil {
			_, err = fmt.Fprintln(first, left.Process.Pid)
		}
		was <- errors.Join(err, first.Close())
	}()
	n, err := signalAll(dir)
	if err := errors.Join(err, <-was); err != nil || n != 1 {
		t.Fatalf("got %d, %v", n, err)
	}
	if err := left.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	wantStopped(t, left, true)
}

func TestSignalsReachTheGroupsBelow(t *testing.T) {
	t.Parallel()
	g := fakeGroup(t)
	below := filepath.Join(g.paths.CPU, "below")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	own, other := sleeping(t, g.paths.CPU), sleeping(t, below)
	if pids, err := g.AllProcs(); err != nil || len(pids) != 2 || !slices.IsSorted(pids) {
		t.Errorf("got %v, %v, want two processes", pids, err)
	}
	wantSignalled := func(s unix.Signal, want Signalled) {
		t.Helper()
		if got, err := g.Signal(s); err != nil || got != want {
			t.Errorf("%v: got %+v, %v, want %+v", s, got, err, want)
		}
	}
	wantSignalled(unix.SIGSTOP, Signalled{2, 2})
	wantStopped(t, own, true)
	wantStopped(t, other, true)
	wantSignalled(unix.SIGSTOP, Signalled{})
	wantSignalled(unix.SIGCONT, Signalled{2, 0})
	wantStopped(t, own, false)
	wantStopped(t, other, false)
}

const goesOn = "test-goes-on"

func init() { //nolint:gochecknoinits // the first thread calls nothing else of a test
	if len(os.Args) > 1 && os.Args[1] == goesOn {
		go func() { time.Sleep(time.Hour) }()
		_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0) // of this thread
	}
}

// A process whose first thread has ended goes on with the others, and hears of signals like any other.
func TestSignalsReachWhatGoesOnWithoutItsFirstThread(t *testing.T) {
	t.Parallel()
	g := fakeGroup(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], goesOn)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	put(t, filepath.Join(g.paths.CPU, "cgroup.procs"), strconv.Itoa(cmd.Process.Pid))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("its first thread does not end: %q, %v", text, err)
		}
		if strings.Contains(string(text), ") Z ") {
			break
		}
	}
	if got, err := g.Signal(unix.SIGSTOP); err != nil || got != (Signalled{1, 1}) {
		t.Errorf("got %+v, %v", got, err)
	}
	wantStopped(t, cmd, true)
	if got, err := g.Signal(unix.SIGKILL); err != nil || got != (Signalled{1, 0}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Errorf("it ended with %v", err)
	}
}

// A container may have more processes than this one may have files open.
func TestSignalsToMoreProcessesThanAreHeldAtATime(t *testing.T) {
	t.Parallel()
	g := fakeGroup(t)
	one := sleeping(t)
	var text strings.Builder
	for pid := range 4 * mostOpen { // nearly none of which is there
		fmt.Fprintln(&text, 1<<22+pid)
	}
	put(t, filepath.Join(g.paths.CPU, "cgroup.procs"), text.String()+strconv.Itoa(one.Process.Pid)+"\n")
	if got, err := g.Signal(unix.SIGSTOP); err != nil || got != (Signalled{1, 1}) {
		t.Errorf("got %+v, %v", got, err)
	}
	wantStopped(t, one, true)
}
