package guardian

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstone/lab/host/cgroup"
)

// The test binary is also a guardian and a process to be guarded.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "guardian":
			if err := Run(context.Background(), os.Stdin, os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, err)
				syscall.Exit(1) // not os.Exit, in which the race detector waits for a second
			}
			syscall.Exit(0)
		case "sleep":
			fmt.Println("sleeping")
			time.Sleep(time.Hour)
		}
	}
	os.Exit(m.Run())
}

func startGuardian(t *testing.T) (*Guardian, string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "guardian.log")
	g, err := Start(t.Context(), Config{Argv: []string{os.Args[0], "guardian"}, LogFile: log})
	if err != nil {
		t.Fatal(err)
	}
	return g, log
}

// sleeper starts a process in a group of its own. Its end is sent on the
// channel.
func sleeper(t *testing.T, mark string) (Process, <-chan error) {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), os.Args[0], "sleep")
	cmd.Env = []string{MarkVariable + "=" + mark}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it runs its own program now
		t.Fatal(err)
	}
	p, err := Identify("/proc", cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return p, ended
}

func wantKilled(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("got %v, want a SIGKILL", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("it was not killed")
	}
}

func TestDoneLeavesProcessesAlone(t *testing.T) {
	g, log := startGuardian(t)
	p, _ := sleeper(t, "run-done")
	if err := errors.Join(g.Group(p), g.Mark("run-done"), g.Done()); err != nil {
		t.Fatal(err)
	}
	if !p.Alive("/proc") {
		t.Error("the guardian killed a process although all was done")
	}
	if _, err := os.Stat(log); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty log is still there: %v", err)
	}
	if err := g.Group(p); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Done: got %v, want os.ErrClosed", err)
	}
	if err := g.Leave(); err != nil {
		t.Errorf("Leave after Done: %v", err)
	}
}

func TestTheEndOfThePipeKillsTheGroup(t *testing.T) {
	g, _ := startGuardian(t)
	p, ended := sleeper(t, "other")
	if err := g.Group(p); err != nil {
		t.Fatal(err)
	}
	if err := g.Leave(); err != nil {
		t.Fatal(err)
	}
	wantKilled(t, ended)
}

func TestTheEndOfThePipeKillsWhatIsMarked(t *testing.T) {
	g, _ := startGuardian(t)
	_, ended := sleeper(t, "run-7")
	other, _ := sleeper(t, "run-77")
	if err := errors.Join(g.Mark("run-7"), g.Leave()); err != nil {
		t.Fatal(err)
	}
	wantKilled(t, ended)
	if !other.Alive("/proc") {
		t.Error("a process with a mark that only begins the same was killed")
	}
}

func TestAPidInUseAgainIsSpared(t *testing.T) {
	p, _ := sleeper(t, "other")
	earlier := Process{PID: p.PID, Start: p.Start - 1}
	left := Left{Groups: []Process{earlier, {}, {PID: 1}}, ProcRoot: "/proc"}
	if err := left.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !p.Alive("/proc") {
		t.Error("a process was killed for one that had its pid before")
	}
}

func TestCleanRemovesGroupsAndReportsWhatItCannot(t *testing.T) {
	dir := t.TempDir()
	paths := cgroup.Paths{Version: 2, CPU: dir + "/a", CPUAcct: dir + "/a", Memory: dir + "/a"}
	if err := os.MkdirAll(dir+"/a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	left := Left{Cgroups: []cgroup.Paths{paths, paths}, ProcRoot: "/proc"}
	if err := left.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the group is still there: %v", err)
	}
	left = Left{Cgroups: []cgroup.Paths{{Version: 2, CPU: "x", CPUAcct: "x", Memory: "x"}}, ProcRoot: "/proc"}
	if err := left.Clean(t.Context()); err == nil {
		t.Error("a path that is not absolute: got no error")
	}
}

func TestOnlyDirectoriesOfRunsAreRemoved(t *testing.T) {
	g, _ := startGuardian(t)
	dir := t.TempDir()
	own, other := filepath.Join(dir, "loadstone-1-2-3-4"), filepath.Join(dir, "precious")
	for _, d := range []string{own, other} {
		if err := os.MkdirAll(filepath.Join(d, "below"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := g.Dir(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(g.Dir("loadstone-relative"), g.Dir(own+"/../precious"), g.Leave()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(own); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the run's directory is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(other, "below")); err != nil {
		t.Errorf("another directory was removed: %v", err)
	}
	left := Left{Dirs: []string{other}, ProcRoot: "/proc"}
	if err := left.Clean(t.Context()); err == nil {
		t.Error("a directory that is no run's: got no error")
	}
}

func TestStartSaysWhyItFailed(t *testing.T) {
	for _, argv := range [][]string{nil, {"/no/such/program"}, {"/bin/sh", "-c", "echo it is broken >&2; exit 1"}} {
		log := filepath.Join(t.TempDir(), "guardian.log")
		_, err := Start(t.Context(), Config{Argv: argv, LogFile: log})
		if err == nil || !strings.HasPrefix(err.Error(), "start the guardian: ") {
			t.Errorf("%q: got %v", argv, err)
		}
		if len(argv) > 1 && !strings.Contains(err.Error(), "it is broken") {
			t.Errorf("%q: got %v, want what it said", argv, err)
		}
	}
}

func TestADeadGuardianIsNoticed(t *testing.T) {
	g, _ := startGuardian(t)
	if err := g.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for g.Mark("x") == nil && time.Now().Before(deadline) {
		<-time.After(time.Millisecond)
	}
	if err := g.Mark("x"); err == nil || !strings.Contains(err.Error(), "has ended or is stuck") {
		t.Errorf("got %v", err)
	}
	if err := g.Done(); err == nil {
		t.Error("Done: got no error")
	}
}

func TestRunIgnoresTheEndOfItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, pipe := io.Pipe()
	done := make(chan error, 1)
	var out bytes.Buffer
	go func() { done <- Run(ctx, in, &out) }()
	_, ended := sleeper(t, "run-late")
	if _, err := io.WriteString(pipe, `{"mark":"run-late"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	_ = pipe.Close()
	if err := <-done; err != nil || out.String() != readyLine {
		t.Errorf("got %v and %q", err, out.String())
	}
	wantKilled(t, ended)
}

// An environment is as long as it is.
func TestALongCommandIsRead(t *testing.T) {
	long := `{"remove":{"argv":["/bin/true"],"env":["A=` + strings.Repeat("x", 1<<20) + `"]}}` + "\n"
	var l Left
	if done, err := l.read(strings.NewReader(long + `{"mark":"m"}` + "\n" + `{"done":true}` + "\n")); !done || err != nil || len(l.Removals) != 1 || l.Mark != "m" {
		t.Errorf("got %t, %v, %d removals and mark %q", done, err, len(l.Removals), l.Mark)
	}
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"group":{"pid":12,"start":34}}` + "\n" + `{"mark":"m"}` + "\n"))
	f.Add([]byte(`{"cgroup":{"version":1,"cpu":"/a","cpuacct":"/b","memory":"/c"}}` + "\n" + `{"done":true}`))
	f.Add([]byte("{\"group\":{\"pid\":-1}}\n{\"group\":{\"pid\":0}}\nnot json\n{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var l Left
		_, _ = l.read(bytes.NewReader(text))
		if i := slices.IndexFunc(l.Groups, func(p Process) bool { return p.PID <= 1 }); i >= 0 {
			t.Errorf("process group %d would be killed", l.Groups[i].PID)
		}
	})
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	if _, err := Identify("/proc", 1<<30); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such process: got %v, want fs.ErrNotExist", err)
	}
	self, err := Identify("/proc", os.Getpid())
	if err != nil || self.PID != os.Getpid() || self.Start == 0 {
		t.Errorf("this process: got %+v, %v", self, err)
	}
}
