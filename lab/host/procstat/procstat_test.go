package procstat

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// goesOn is the argument by which this binary is a process whose first thread ends, and another one does not.
const goesOn = "goes-on"

func init() { //nolint:gochecknoinits // the first thread calls nothing else of a test
	if len(os.Args) > 1 && os.Args[1] == goesOn {
		go func() { time.Sleep(time.Hour) }()
		_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0) // of this thread
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := Parse("42 (a) b) (c) T 7 77 42 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 8 0 1234 9999 10 18446744073709551615\n")
	want := Stat{
		PID: 42, Name: "a) b) (c", State: 'T', Parent: 7, Group: 77, Start: 1234, Resident: 10,
		User: 1500 * time.Millisecond, System: 500 * time.Millisecond, Ended: 500 * time.Millisecond,
	}
	if err != nil || got != want || !got.Stopped() || got.Over() {
		t.Errorf("got %+v, %v, want %+v, stopped", got, err, want)
	}
	if got, err := Parse("9 (kswapd0) Z 2 0 0 0 -1 2361408 0 0 0 0 0 10 0 0 20 0 1 0 30 0 0 0"); err != nil || !got.Kernel || !got.Over() {
		t.Errorf("got %+v, %v, want a thread of the kernel that is over", got, err)
	}
	for _, bad := range []string{"", "42 (a", "42 )a(", "42 (a) S 1 2", "x (a) S 1 42 42 0 -1 4194560 1 2 3 4 1 50 0 0 20 0 8 0 100 9999 10", "42 (a) S 1 42 42 0 -1 4194560 1 2 3 4 x 50 0 0 20 0 8 0 100 9999 10"} {
		if got, err := Parse(bad); err == nil {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	if got, err := Read("/proc", os.Getpid()); err != nil || got.PID != os.Getpid() || got.Parent != os.Getppid() || got.Start == 0 || got.Resident == 0 {
		t.Errorf("this process: got %+v, %v", got, err)
	}
	if _, err := Read("/proc", 1<<30); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such process: got %v, want fs.ErrNotExist", err)
	}
}

// A program is not over with its first thread, and stops with the others.
func TestReadWhatGoesOn(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], goesOn)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	wait := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("it is not %s", what)
			}
		}
	}
	file := fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid)
	wait("without its first thread", func() bool {
		text, err := os.ReadFile(file)
		s, errParse := Parse(string(text))
		return err == nil && errParse == nil && s.State == 'Z'
	})
	if s, err := Read("/proc", cmd.Process.Pid); err != nil || s.Over() || s.Stopped() || s.PID != cmd.Process.Pid {
		t.Errorf("got %+v, %v", s, err)
	}
	if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	wait("stopped", func() bool {
		s, err := Read("/proc", cmd.Process.Pid)
		return err == nil && s.Stopped()
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	wait("over", func() bool {
		s, err := Read("/proc", cmd.Process.Pid)
		return err == nil && s.Over()
	})
}

func FuzzParse(f *testing.F) {
	f.Add("1234 (a) b) (c) S 1 1234 1234 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 98765 1000 1")
	f.Add("1 () Z")
	f.Add("x (y) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := Parse(text); err == nil && s.State == 0 {
			t.Errorf("%q: no state", text)
		}
	})
}
