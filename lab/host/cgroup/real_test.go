package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary is also the programs that the tests run in groups: its first
// argument says which.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "test-exec":
			err := JoinAndExec(os.Args[2:], os.Environ())
			fmt.Fprintln(os.Stderr, err)
			os.Exit(126)
		case "test-exec-elsewhere":
			execElsewhere()
		case "test-sleep":
			fmt.Println("up")
			time.Sleep(time.Hour)
		case "test-parent":
			parentOfAShim(os.Args[2])
		case "test-spin":
			fmt.Println("up")
			for {
				_ = time.Now()
			}
		case "test-fill":
			fillMemory()
		case "test-child":
			parentAndChild()
		}
	}
	os.Exit(m.Run())
}

// execElsewhere calls the shim from a thread that is not the process's first.
func execElsewhere() {
	runtime.LockOSThread()
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		failed <- JoinAndExec(os.Args[2:], os.Environ())
	}()
	fmt.Fprintln(os.Stderr, <-failed)
	os.Exit(126)
}

// parentOfAShim starts a process through the shim, with a plain directory for
// a group, prints its pid and waits to be killed.
func parentOfAShim(dir string) {
	runtime.LockOSThread()
	g := &Group{paths: Paths{1, dir, dir, dir}}
	cmd := exec.CommandContext(context.Background(), os.Args[0], "test-sleep")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := g.enterByShim(cmd, []string{os.Args[0], "test-exec-elsewhere"}); err != nil {
		panic(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	_, _ = bufio.NewReader(out).ReadString('\n')
	fmt.Println(cmd.Process.Pid)
	time.Sleep(time.Hour)
}

func fillMemory() {
	held := make([][]byte, 0, 256)
	for range 256 {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		held = append(held, b)
	}
	fmt.Println(len(held))
	os.Exit(0)
}

// parentAndChild starts a child in a session of its own, where no signal to
// the process group reaches it, and prints its pid.
func parentAndChild() {
	cmd := exec.CommandContext(context.Background(), os.Args[0], "test-spin")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(cmd.Process.Pid)
	_ = cmd.Wait()
	os.Exit(0)
}

// realTree is this machine's tree. Without one the test is skipped, but not in
// CI: there a missing right would hide that limits do not work.
func realTree(t *testing.T) *Tree {
	t.Helper()
	tree, err := Detect("/proc", "/")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI must be able to set limits: %v", err)
		}
		t.Skipf("this machine sets no limits: %v", err)
	}
	return tree
}

func realGroup(t *testing.T, limits Limits) *Group {
	t.Helper()
	tree := realTree(t)
	run := "loadstone-test-" + strconv.Itoa(os.Getpid()) + "-" + strings.ReplaceAll(t.Name(), "/", "-")
	g, err := tree.Create(run+"/one", limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Close(), Destroy(context.Background(), tree.Paths(run))); err != nil {
			t.Error(err)
		}
	})
	return g
}

// start runs the test binary as a program in the group and returns after its
// first line, which it also returns.
func start(t *testing.T, g *Group, args ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), os.Args[0], args...)
	cmd.Stderr = os.Stderr
	if err := g.Enter(cmd, []string{os.Args[0], "test-exec"}); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil && !strings.Contains(strings.Join(args, " "), "fill") {
		t.Fatalf("no first line from %q: %v", args, err)
	}
	return cmd, strings.TrimSpace(line)
}

func TestCPULimitHolds(t *testing.T) {
	g := realGroup(t, Limits{CPU: Cores(0.25)})
	cmd, _ := start(t, g, "test-spin")
	before, after := wantUse(t, g, 0.25)
	if after.Throttled < before.Throttled || after.Memory == 0 || after.MemoryPeak < after.Memory || after.User == 0 {
		t.Errorf("implausible figures: %+v", after)
	}
	if err := g.SetCPU(*Cores(0.5)); err != nil {
		t.Fatal(err)
	}
	wantUse(t, g, 0.5)
	if err := g.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

// wantUse checks that a busy loop in the group uses its share of a CPU within
// 20 % over a second. More it never may. It may have less while others have the
// machine, but not for being throttled, which it is with its quota used up. The
// host may stand still for many periods, all of which count as throttled then: the
// group gets some more seconds.
func wantUse(t *testing.T, g *Group, cores float64) (before, after Stat) {
	t.Helper()
	read := func(s *Stat) {
		t.Helper()
		if err := g.Read(s); err != nil {
			t.Fatal(err)
		}
	}
	quota := cores * DefaultPeriod.Seconds()
	for round := 1; ; round++ {
		var first, last Stat // so that the CPU time is of no less than the periods, or of no more
		begin := time.Now()  // before the first reading, so that the share is never above the truth
		read(&first)
		read(&before)
		<-time.After(time.Second)
		read(&after)
		share := (after.CPU - before.CPU).Seconds() / time.Since(begin).Seconds()
		read(&last)
		periods, throttled := after.Periods-first.Periods, after.ThrottledPeriods-first.ThrottledPeriods
		t.Logf("used %.3f cores of %v; %d of %d periods throttled", share, cores, throttled, periods)
		if share > 1.2*cores {
			t.Errorf("got %.3f cores, want %v within 20 %%", share, cores)
		}
		if most := float64(periods+1) * quota; (after.CPU-before.CPU).Seconds() > 0.96*most && (2*throttled < periods || periods == 0) {
			t.Errorf("throttled in %d periods of %d, want most of them", throttled, periods)
		}
		if throttled = after.ThrottledPeriods - before.ThrottledPeriods; (last.CPU - before.CPU).Seconds() >= 0.8*float64(throttled)*quota {
			return before, after
		}
		if round == 5 {
			t.Errorf("got %v of CPU time with %d periods throttled, want %v cores within 20 %%", last.CPU-before.CPU, throttled, cores)
			return before, after
		}
	}
}

func TestMemoryLimitKills(t *testing.T) {
	g := realGroup(t, Limits{Memory: new(uint64(32 << 20))})
	cmd, line := start(t, g, "test-fill")
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("got %v with output %q, want a SIGKILL", err, line)
	}
	var s Stat
	if err := g.Read(&s); err != nil {
		t.Fatal(err)
	}
	if s.OOMKills != 1 || s.MemoryPeak > 33<<20 || s.MemoryPeak < 16<<20 {
		t.Errorf("got %d kills and a peak of %d bytes, want 1 and about 32 MiB", s.OOMKills, s.MemoryPeak)
	}
}

func TestKillReachesGrandchildrenInOtherSessions(t *testing.T) {
	g := realGroup(t, Limits{})
	cmd, line := start(t, g, "test-child")
	grandchild, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	pids, err := g.Procs()
	if err != nil || !slices.Contains(pids, cmd.Process.Pid) || !slices.Contains(pids, grandchild) {
		t.Fatalf("got %v, %v, want both %d and %d", pids, err, cmd.Process.Pid, grandchild)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	if err := g.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	if pids, err := g.Procs(); err != nil || len(pids) > 0 {
		t.Errorf("after Kill: got %v, %v, want none", pids, err)
	}
	if err := Destroy(t.Context(), g.Paths()); err != nil {
		t.Fatal(err)
	}
	for _, dir := range g.Paths().Dirs() {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
	if err := Destroy(t.Context(), g.Paths()); err != nil {
		t.Errorf("second time: %v", err)
	}
}

func TestTreeNamesTheGroup(t *testing.T) {
	g := realGroup(t, Limits{})
	names, err := realTree(t).Names()
	if err != nil {
		t.Fatal(err)
	}
	if run := filepath.Base(filepath.Dir(g.Paths().CPU)); !slices.Contains(names, run) {
		t.Errorf("got %q, want %q among them", names, run)
	}
}

func TestShimBecomesAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	g := realGroup(t, Limits{})
	cmd := exec.CommandContext(t.Context(), "/usr/bin/id")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65533, Groups: []uint32{65532}}}
	if err := g.enterByShim(cmd, []string{os.Args[0], "test-exec"}); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"uid=65534", "gid=65533", "65532"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("got %q, want %q in it", out, want)
		}
	}
}

func TestTheShimKeepsTheDeathSignal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "cgroup.procs"), "")
	parent := exec.CommandContext(context.Background(), os.Args[0], "test-parent", dir)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	child, errPID := strconv.Atoi(strings.TrimSpace(line))
	_ = parent.Process.Kill()
	_ = parent.Wait()
	if err != nil || errPID != nil {
		t.Fatalf("got %q, %v from the parent", line, err)
	}
	if got := content(t, filepath.Join(dir, "cgroup.procs")); got != "0" {
		t.Errorf("got %q in cgroup.procs, want 0", got)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; <-time.After(time.Millisecond) {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(child), "stat"))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			_ = syscall.Kill(child, syscall.SIGKILL)
			t.Fatal("the child has outlived its parent")
		}
	}
}

// The kernel's own way in, on whatever version 2 hierarchy there is: it works
// without controllers too.
func TestV2StartsInTheGroupAndKills(t *testing.T) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	point := ""
	for _, m := range parseMountinfo(string(text)) {
		if m.unified && !m.readOnly && writable(m.point) && isRootGroup(m.point) {
			point = m.point
		}
	}
	if point == "" || !kernelAtLeast(5, 7) {
		t.Skip("no writable version 2 hierarchy here")
	}
	dir := filepath.Join(point, "loadstone-test-v2-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	g := &Group{paths: Paths{2, dir, dir, dir}}
	t.Cleanup(func() { _ = Destroy(context.Background(), g.paths) })
	cmd, line := start(t, g, "test-child")
	grandchild, _ := strconv.Atoi(line)
	pids, err := g.Procs()
	if err != nil || !slices.Contains(pids, cmd.Process.Pid) || !slices.Contains(pids, grandchild) {
		t.Fatalf("got %v, %v, want both %d and %d", pids, err, cmd.Process.Pid, grandchild)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	if err := g.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	if err := Destroy(t.Context(), g.Paths()); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkRead is what one look at one group costs the probe.
func BenchmarkRead(b *testing.B) {
	tree, err := Detect("/proc", "/")
	if err != nil {
		b.Skip(err)
	}
	g, err := tree.Create("loadstone-bench-"+strconv.Itoa(os.Getpid()), Limits{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = errors.Join(g.Close(), Destroy(context.Background(), g.Paths())) }()
	b.ReportAllocs()
	var s Stat
	for b.Loop() {
		if err := g.Read(&s); err != nil {
			b.Fatal(err)
		}
	}
}
