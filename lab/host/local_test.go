package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"loadstone/lab/host/cgroup"
	"loadstone/lab/host/cgroup/cgrouptest"
	"loadstone/lab/host/procstat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWatchFailsOnWhatItCannotRead(t *testing.T) {
	t.Parallel()
	l := NewLocal(func() []Target { return []Target{{Name: "gone-1", PID: 1 << 30}} })
	err := l.Watch(t.Context(), time.Millisecond, func(*Sample) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "gone-1") {
		t.Errorf("got %v, want an error that names gone-1", err)
	}
}

// TestAProcessThatIsStartedAgainKeepsWhatItUsed reads a process, nothing, and
// another process, as the one and the same instance.
func TestAProcessThatIsStartedAgainKeepsWhatItUsed(t *testing.T) {
	t.Parallel()
	var r reader
	at := func(pid int) Target { return Target{Name: "a-1", PID: pid} }
	all := func() []Target { return []Target{at(0)} } // it is ended by then
	var first Instance
	for deadline := time.Now().Add(time.Minute); first.CPU == 0; { // counted in hundredths of a second, of which this may not have used one
		var err error
		if first, err = r.read(at(os.Getpid()), all); err != nil || time.Now().After(deadline) {
			t.Fatalf("got %+v, %v", first, err)
		}
	}
	down, err := r.read(at(0), all)
	if err != nil || down.CPU != first.CPU || down.Memory != 0 || down.Name != "a-1" {
		t.Errorf("while it is ended: got %+v, %v; want the CPU time of %+v", down, err, first)
	}
	again, err := r.read(at(os.Getpid()), all)
	if err != nil || again.CPU < 2*first.CPU || again.Memory == 0 {
		t.Errorf("started again: got %+v, %v; want what both used", again, err)
	}
	// It ends between the question for its pid and the look at it.
	if got, err := r.read(at(1<<30), all); err != nil || got.CPU != again.CPU {
		t.Errorf("just ended: got %+v, %v", got, err)
	}
}

// grouped is a process that is busy, in a control group with limits.
func grouped(t *testing.T, tree *cgroup.Tree, name string, limits cgroup.Limits) (*cgroup.Group, int) {
	t.Helper()
	g, err := tree.Create(name, limits)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "/bin/sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = g.Close()
		if err := cgroup.Destroy(context.Background(), g.Paths()); err != nil {
			t.Error(err)
		}
	})
	for _, dir := range g.Paths().Dirs() {
		if err := os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return g, cmd.Process.Pid
}

// TestAGroupThatWasMadeAgainCountsOn reads a control group, none, and a new one at
// the same path, which is what Docker makes of a container that is started again.
func TestAGroupThatWasMadeAgainCountsOn(t *testing.T) {
	tree := cgrouptest.Tree(t)
	name := "loadstone-test-" + strconv.Itoa(os.Getpid())
	var r reader
	none := func() []Target { return nil }
	read := func(target Target) Instance {
		t.Helper()
		in, err := r.read(target, none)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	var first Instance
	t.Run("first", func(t *testing.T) {
		g, pid := grouped(t, tree, name, cgroup.Limits{CPU: cgroup.Cores(0.05)}) // which it gets, and more, on a busy machine
		target := Target{Name: "a-1", PID: pid, Cgroup: g.Paths()}
		for deadline := time.Now().Add(2 * time.Minute); (first.CPU == 0 || first.Throttled == 0) && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			first = read(target)
		}
	})
	if first.CPU == 0 || first.Throttled == 0 {
		t.Fatalf("got %+v, want CPU time and throttled periods", first)
	}
	if down := read(Target{Name: "a-1"}); down.CPU != first.CPU || down.Throttled != first.Throttled || down.Memory != 0 {
		t.Errorf("while it is ended: got %+v, want the counters of %+v", down, first)
	}
	g, pid := grouped(t, tree, name, cgroup.Limits{})
	var stat cgroup.Stat
	if again := read(Target{Name: "a-1", PID: pid, Cgroup: g.Paths()}); again.CPU < first.CPU {
		t.Errorf("started again: got %+v, want at least %+v", again, first)
	}
	before := first
	for deadline := time.Now().Add(2 * time.Minute); before.CPU <= first.CPU && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		before = read(Target{Name: "a-1", PID: pid, Cgroup: g.Paths()})
	}
	if err := g.Read(&stat); err != nil || before.CPU > first.CPU+stat.CPU || before.CPU <= first.CPU {
		t.Errorf("got %v, %v; want %v and what the new one used, at most %v", before.CPU, err, first.CPU, stat.CPU)
	}
	// The process is another one in a group that lives on.
	same := read(Target{Name: "a-1", PID: os.Getpid(), Cgroup: g.Paths()})
	if err := g.Read(&stat); err != nil || same.CPU > first.CPU+stat.CPU {
		t.Errorf("another process in the same group: got %v after %v, %v: what the group had counted was added again", same.CPU, before.CPU, err)
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
}

// An instance that is started again may have a control group of its own with a pid that the one before had.
func TestAnotherGroupWithTheSamePID(t *testing.T) {
	var r reader
	read := func(seconds int) Instance {
		t.Helper()
		dir := t.TempDir()
		for file, text := range map[string]string{
			"cpu.stat": fmt.Sprintf("usage_usec %d\nuser_usec 0\nsystem_usec 0\n", 1_000_000*seconds), "memory.current": "1\n", "memory.events": "oom_kill 0\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		in, err := r.read(Target{Name: "a-1", PID: 7, Cgroup: cgroup.Paths{Version: 2, CPU: dir, CPUAcct: dir, Memory: dir}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	if first, again := read(5), read(1); first.CPU != 5*time.Second || again.CPU != 6*time.Second {
		t.Errorf("got %v and %v, want 5 s and 1 s more", first.CPU, again.CPU)
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
}

func TestLimitsAreChangedAndRestored(t *testing.T) {
	tree := cgrouptest.Tree(t)
	period := 50 * time.Millisecond // not the one that new groups get
	name := "loadstone-test-limits-" + strconv.Itoa(os.Getpid())
	limited, pid := grouped(t, tree, name, cgroup.Limits{CPU: &cgroup.CPU{Cores: 0.5, Period: period}})
	free, other := grouped(t, tree, name+"-free", cgroup.Limits{})
	l := NewLocal(func() []Target {
		return []Target{{Name: "a-1", PID: pid, Cgroup: limited.Paths()}, {Name: "b-1", PID: other, Cgroup: free.Paths()}, {Name: "c-1", PID: other}}
	})
	for _, factor := range []float64{1, 0.8, 1.25, 1} {
		if err := l.Limit(t.Context(), "a-1", factor); err != nil {
			t.Fatal(err)
		}
		if share, err := limited.CPU(); err != nil || share.Cores != 0.5*factor || share.Period != period {
			t.Errorf("%g: got %+v, %v", factor, share, err)
		}
	}
	for _, name := range []string{"c-1", "nobody"} {
		if err := l.Limit(t.Context(), name, 1); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: got %v, want ErrUnsupported", name, err)
		}
	}
	if err := l.Limit(t.Context(), "b-1", 1.2); err == nil {
		t.Error("what has no limit was made faster")
	}
	if err := errors.Join(l.Limit(t.Context(), "b-1", 0.5), l.Limit(t.Context(), "a-1", 0.5)); err != nil {
		t.Fatal(err)
	}
	stopped := func() bool {
		s, err := procstat.Read("/proc", other)
		return err == nil && s.Stopped()
	}
	seen := false
	for deadline := time.Now().Add(2 * time.Minute); !seen && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		seen = stopped()
	}
	if !seen {
		t.Error("what has no limit never stood still")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if share, err := limited.CPU(); err != nil || share.Cores != 0.5 || stopped() {
		t.Errorf("after Close: got %+v, %v, stopped %v", share, err, stopped())
	}
}

// What has groups below its own is slowed down whole.
func TestWhatIsInGroupsBelowIsSlowedDown(t *testing.T) {
	group := cgrouptest.Group(t, cgroup.Limits{})
	below := filepath.Join(group.Paths().CPU, "below")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "1h")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if err := os.WriteFile(filepath.Join(below, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	l := NewLocal(func() []Target { return []Target{{Name: "a-1", PID: cmd.Process.Pid, Cgroup: group.Paths()}} })
	if err := l.Limit(t.Context(), "a-1", 0.5); err != nil {
		t.Fatal(err)
	}
	stopped := func() bool {
		s, err := procstat.Read("/proc", cmd.Process.Pid)
		return err == nil && s.Stopped()
	}
	for deadline := time.Now().Add(2 * time.Minute); !stopped(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never stood still")
		}
	}
	if err := l.Close(); err != nil || stopped() {
		t.Errorf("after Close: %v, stopped %v", err, stopped())
	}
}
