package host

import (
	"context"
	"os/exec"
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	got, ok := parseStat("42 (a) b) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 8 0 1234 9999 10 18446744073709551615")
	want := process{name: "a) b", parent: 7, started: 1234, cpu: 2 * time.Second, ended: 500 * time.Millisecond}
	if !ok || got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, ok := parseStat("9 (kswapd0) S 2 0 0 0 -1 2361408 0 0 0 0 0 10 0 0 20 0 1 0 30 0 0 0"); !ok || !got.kernel {
		t.Errorf("got %+v, want a thread of the kernel", got)
	}
	for _, bad := range []string{"", "42 (a", "42 )a(", "42 (a) S 1 2", "42 (a) S 1 42 42 0 -1 4194560 1 2 3 4 x 50 0 0 20 0 8 0 100"} {
		if got, ok := parseStat(bad); ok {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
}

func TestOutsiders(t *testing.T) {
	t.Parallel()
	const second = time.Second
	before := map[int]process{
		1:  {name: "init", cpu: 500 * second},
		10: {name: "loadstone", parent: 1, cpu: second},
		20: {name: "make", parent: 1, cpu: second, ended: 100 * second},
		21: {name: "cc", parent: 20, cpu: 30 * second},
		30: {name: "was another", parent: 1, started: 3, cpu: 80 * second},
		40: {name: "idle", parent: 1, cpu: 7 * second},
		60: {name: "api", parent: 1},
	}
	after := map[int]process{
		1:  {name: "init", cpu: 500 * second, ended: 80 * second}, // that of the other 30
		2:  {name: "kthreadd", kernel: true},
		3:  {name: "kswapd0", parent: 2, kernel: true, cpu: second, started: 4},
		10: {name: "loadstone", parent: 1, cpu: 9 * second},
		11: {name: "generator", parent: 10, cpu: 9 * second, started: 4},
		12: {name: "its child", parent: 11, cpu: 9 * second, started: 4},
		20: {name: "make", parent: 1, cpu: second, ended: 140 * second}, // 30 s of its 40 s were used before
		30: {name: "stress", parent: 1, started: 9, cpu: 5 * second},
		40: {name: "idle", parent: 1, cpu: 7 * second},
		60: {name: "api", parent: 1, cpu: 9 * second},
	}
	want := []Process{{20, "make", 1, false}, {30, "stress", 0.5, false}, {3, "kswapd0", 0.1, true}}
	if got := outsiders(before, after, map[int]bool{10: true, 60: true}, 10*second); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// Ids that were used again may seem to have started each other.
	circle := map[int]process{5: {name: "a", parent: 6, cpu: second}, 6: {name: "b", parent: 5}}
	if got := outsiders(nil, circle, nil, second); !reflect.DeepEqual(got, []Process{{5, "a", 1, false}}) {
		t.Errorf("a circle: got %+v", got)
	}
}

// A busy process is seen, and is no outsider where this program has started it.
func TestABusyProcessIsSeen(t *testing.T) {
	t.Parallel()
	since := NewLocal(func() []Target { return []Target{{Name: "ended-1"}} }).Outsiders()
	before, began := processes(), time.Now()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "/bin/sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	seen := func(all []Process) bool {
		return slices.ContainsFunc(all, func(p Process) bool { return p.PID == cmd.Process.Pid })
	}
	most := func() []Process { return outsiders(before, processes(), nil, time.Since(began)) }
	for deadline := time.Now().Add(time.Minute); !seen(most()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("got %+v, want process %d", most(), cmd.Process.Pid)
		}
	}
	if got := since(); seen(got) {
		t.Errorf("got %+v with process %d, which this program has started", got, cmd.Process.Pid)
	}
}

// BenchmarkProcesses is what a look at all processes costs; two are made for each trial.
func BenchmarkProcesses(b *testing.B) {
	n := 0
	for b.Loop() {
		n = len(processes())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/process")
}
