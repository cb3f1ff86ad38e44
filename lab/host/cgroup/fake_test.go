package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeTree is a tree over a plain directory. Its mkdir puts in the files that
// the kernel would.
func fakeTree(t *testing.T, version int) *Tree {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"cgroup.controllers": "cpu memory\n", "cgroup.subtree_control": "", "cgroup.procs": "",
		"cpu.max": "max 100000\n", "cpu.stat": cpuStatV2, "memory.max": "max\n", "memory.swap.max": "max\n",
		"memory.current": "4096\n", "memory.peak": "8192\n", "memory.events": memoryEvents,
	}
	base := Paths{2, root, root, root}
	if version == 1 {
		files = map[string]string{
			"cgroup.procs": "", "cpu.cfs_period_us": "100000\n", "cpu.cfs_quota_us": "-1\n", "cpu.stat": cpuStatV1,
			"cpuacct.usage": "123456789\n", "memory.limit_in_bytes": "9223372036854771712\n",
			"memory.usage_in_bytes": "4096\n", "memory.oom_control": oomControl,
		}
		base = Paths{1, root + "/cpu", root + "/cpu", root + "/memory"}
	}
	mkdir := func(dir string) error {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		for name, text := range files {
			put(t, filepath.Join(dir, name), text)
		}
		return nil
	}
	for _, dir := range base.Dirs() {
		if dir != root {
			if err := mkdir(dir); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for name, text := range files {
			put(t, filepath.Join(dir, name), text)
		}
	}
	return &Tree{base: base, mkdir: mkdir}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCreateWritesWhatTheKernelWants(t *testing.T) {
	t.Parallel()
	f := func(version int, file, want string) {
		t.Helper()
		tree := fakeTree(t, version)
		g, err := tree.Create("run/api-1", Limits{CPU: Cores(0.25), Memory: new(uint64(64 << 20))})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		path := filepath.Join(filepath.Dir(tree.base.Dirs()[0]), file)
		if version == 2 {
			path = filepath.Join(tree.base.CPU, file)
		}
		if got := content(t, path); got != want {
			t.Errorf("v%d %s: got %q, want %q", version, file, got, want)
		}
	}
	f(2, "run/api-1/cpu.max", "5000 20000")
	f(2, "run/api-1/memory.max", "67108864")
	f(2, "run/api-1/memory.swap.max", "0")
	f(2, "cgroup.subtree_control", "+cpu +memory")
	f(2, "run/cgroup.subtree_control", "+cpu +memory")
	f(2, "run/api-1/cgroup.subtree_control", "") // it will hold processes
	f(1, "cpu/run/api-1/cpu.cfs_period_us", "20000")
	f(1, "cpu/run/api-1/cpu.cfs_quota_us", "5000")
	f(1, "memory/run/api-1/memory.limit_in_bytes", "67108864")
}

func TestCreateWithoutLimitsLeavesTheKernelsOwn(t *testing.T) {
	t.Parallel()
	tree := fakeTree(t, 2)
	g, err := tree.Create("run/api-1", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if got, want := content(t, filepath.Join(g.Paths().CPU, "cpu.max")), "max 100000\n"; got != want {
		t.Errorf("got cpu.max %q, want %q", got, want)
	}
	if err := g.SetCPU(*Cores(1.5)); err != nil {
		t.Fatal(err)
	}
	if got, want := content(t, filepath.Join(g.Paths().CPU, "cpu.max")), "30000 20000"; got != want {
		t.Errorf("after SetCPU: got cpu.max %q, want %q", got, want)
	}
}

func TestCreateRefusesBadNamesAndSecondGroups(t *testing.T) {
	t.Parallel()
	tree := fakeTree(t, 2)
	for _, name := range []string{"", ".", "/abs", "../out", "a/../../b"} {
		if _, err := tree.Create(name, Limits{}); err == nil {
			t.Errorf("%q: got no error", name)
		}
	}
	g, err := tree.Create("run/api-1", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if _, err := tree.Create("run/api-1", Limits{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second group of a name: got %v, want fs.ErrExist", err)
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	f := func(cpu CPU, quota, period int64) {
		t.Helper()
		q, p, err := cpu.quota()
		if err != nil || q != quota || p != period {
			t.Errorf("%+v: got %d %d %v, want %d %d", cpu, q, p, err, quota, period)
		}
	}
	f(*Cores(0.25), 5_000, 20_000)
	f(*Cores(2), 40_000, 20_000)
	f(*Cores(0.05), 1_000, 20_000)
	f(*Cores(0.01), 1_000, 100_000) // a longer period keeps the share
	f(*Cores(0.001), 1_000, 1_000_000)
	f(CPU{Cores: 1, Period: 100 * time.Millisecond}, 100_000, 100_000)
	for _, bad := range []float64{0, -1, 0.0001} {
		if _, _, err := Cores(bad).quota(); err == nil {
			t.Errorf("%v cores: got no error", bad)
		}
	}
}

func TestReadOverAFakeTree(t *testing.T) { // not parallel: it counts allocations
	f := func(version int, want Stat) {
		t.Helper()
		tree := fakeTree(t, version)
		g, err := tree.Create("g", Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var got Stat
		if err := g.Read(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("v%d: got %+v, want %+v", version, got, want)
		}
		// The values of now, through the file that is open already.
		memory := map[int]string{1: "memory.usage_in_bytes", 2: "memory.current"}[version]
		put(t, filepath.Join(g.Paths().Memory, memory), "16384\n")
		if err := g.Read(&got); err != nil || got.Memory != 16384 || got.MemoryPeak != 16384 {
			t.Errorf("v%d: second read: got %+v, %v, want a memory and a peak of 16384", version, got, err)
		}
		if n := testing.AllocsPerRun(10, func() { _ = g.Read(&got) }); n > 0 {
			t.Errorf("v%d: Read allocates %v times", version, n)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		if err := g.Read(&got); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("v%d: read after close: got %v, want fs.ErrClosed", version, err)
		}
	}
	f(2, Stat{
		CPU: 2500 * time.Millisecond, User: 2 * time.Second, System: 500 * time.Millisecond,
		Periods: 100, ThrottledPeriods: 40, Throttled: 1250 * time.Millisecond,
		Memory: 4096, MemoryPeak: 8192, OOMKills: 2,
	})
	f(1, Stat{
		CPU: 123456789, Periods: 50, ThrottledPeriods: 20, Throttled: 987654321,
		Memory: 4096, MemoryPeak: 4096, OOMKills: 3,
	})
}

func TestEnterOnV2AsksTheKernel(t *testing.T) {
	t.Parallel()
	if !kernelAtLeast(5, 7) {
		t.Skip("this kernel cannot start a process in a group")
	}
	tree := fakeTree(t, 2)
	g, err := tree.Create("g", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	cmd := exec.CommandContext(t.Context(), "/bin/true")
	if err := g.Enter(cmd, nil); err != nil {
		t.Fatal(err)
	}
	if !cmd.SysProcAttr.UseCgroupFD || !slices.Equal(cmd.Args, []string{"/bin/true"}) {
		t.Errorf("got %+v with args %q, want a group descriptor and the args as they were", cmd.SysProcAttr, cmd.Args)
	}
}

func TestEnterOnV1NeedsAShim(t *testing.T) {
	t.Parallel()
	tree := fakeTree(t, 1)
	g, err := tree.Create("g", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	cmd := exec.CommandContext(t.Context(), "/bin/echo", "hello")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := g.Enter(cmd, nil); err == nil {
		t.Error("without a shim: got no error")
	}
	if err := g.Enter(cmd, []string{"/bin/sh", "shim"}); err != nil {
		t.Fatal(err)
	}
	want := []string{"/bin/sh", "shim", "2", tree.base.CPU + "/g", tree.base.Memory + "/g", "", "9", strconv.Itoa(os.Getpid()), "/bin/echo", "/bin/echo", "hello"}
	if !slices.Equal(cmd.Args, want) {
		t.Errorf("got args %q, want %q", cmd.Args, want)
	}
}

func TestJoinAndExecRefusesBadArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		nil, {"x"}, {"3", "/a"}, {"-1"}, {"0"}, {"0", "", "0", "1", "/bin/true"}, {"0", "1:2", "0", "1", "/bin/true", "true"},
		{"0", "1:x:", "0", "1", "/bin/true", "true"}, {"0", "", "x", "1", "/bin/true", "true"},
		{"1", "/nonexistent/group", "", "0", "1", "/bin/true", "true"},
	} {
		if err := JoinAndExec(args, nil); err == nil {
			t.Errorf("%q: got no error", args)
		}
	}
}

func TestCredentialSurvivesTheTrip(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "1000:1000:", "0:4294967295:4,24,27"} {
		c, err := parseCredential(s)
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if got := credential(c); got != s {
			t.Errorf("got %q, want %q", got, s)
		}
	}
}

func TestReleaseAtLeast(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]bool{
		"6.18.44-fc": true, "5.7.0": true, "5.10.0-30-amd64": true, "5.4.0-190-generic": false, "4.19": false, "": false, "junk": false,
	} {
		if got := releaseAtLeast(release, 5, 7); got != want {
			t.Errorf("%q at least 5.7: got %v, want %v", release, got, want)
		}
	}
}

func TestDestroyRefusesRelativePaths(t *testing.T) {
	t.Parallel()
	err := Destroy(context.Background(), Paths{2, "a", "a", "a"})
	if err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Errorf("got %v, want an error about an absolute path", err)
	}
}
