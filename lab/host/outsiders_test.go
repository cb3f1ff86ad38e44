package host

import (
	"context"
	"os/exec"
	"reflect"
	"slices"
	"testing"
	"time"

	"loadstone/lab/host/procstat"
)

func TestOutsiders(t *testing.T) {
	t.Parallel()
	const second = time.Second
	before := map[int]procstat.Stat{
		1:  {Name: "init", User: 500 * second},
		10: {Name: "loadstone", Parent: 1, User: second},
		20: {Name: "make", Parent: 1, User: second, Ended: 100 * second},
		21: {Name: "cc", Parent: 20, User: 30 * second},
		30: {Name: "was another", Parent: 1, Start: 3, User: 80 * second},
		40: {Name: "idle", Parent: 1, User: 7 * second},
		60: {Name: "api", Parent: 1},
	}
	after := map[int]procstat.Stat{
		1:  {Name: "init", User: 500 * second, Ended: 80 * second}, // that of the other 30
		2:  {Name: "kthreadd", Kernel: true},
		3:  {Name: "kswapd0", Parent: 2, Kernel: true, User: second, Start: 4},
		10: {Name: "loadstone", Parent: 1, User: 9 * second},
		11: {Name: "generator", Parent: 10, User: 9 * second, Start: 4},
		12: {Name: "its child", Parent: 11, User: 9 * second, Start: 4},
		20: {Name: "make", Parent: 1, User: second, Ended: 140 * second}, // 30 s of its 40 s were used before
		30: {Name: "stress", Parent: 1, Start: 9, User: 5 * second},
		40: {Name: "idle", Parent: 1, User: 7 * second},
		60: {Name: "api", Parent: 1, User: 9 * second},
	}
	want := []Process{{20, "make", 1, false}, {30, "stress", 0.5, false}, {3, "kswapd0", 0.1, true}}
	if got := outsiders(before, after, map[int]bool{10: true, 60: true}, 10*second); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// Ids that were used again may seem to have started each other.
	circle := map[int]procstat.Stat{5: {Name: "a", Parent: 6, User: second}, 6: {Name: "b", Parent: 5}}
	if got := outsiders(nil, circle, nil, second); !reflect.DeepEqual(got, []Process{{5, "a", 1, false}}) {
		t.Errorf("a circle: got %+v", got)
	}
}

// A busy process is seen, and is no outsider where this program has started it.
func TestABusyProcessIsSeen(t *testing.T) {
	t.Parallel()
	since := NewLocal(func() []Target { return []Target{{Name: "ended-1"}} }).Outsiders()
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
	// Others may have used more, and this one next to nothing at first: so it is looked at alone, and anew.
	most := func() []Process {
		before, began := processes(), time.Now()
		time.Sleep(100 * time.Millisecond)
		after := processes()
		return outsiders(before, map[int]procstat.Stat{cmd.Process.Pid: after[cmd.Process.Pid]}, nil, time.Since(began))
	}
	got := most()
	for deadline := time.Now().Add(time.Minute); !seen(got); got = most() {
		if time.Now().After(deadline) {
			t.Fatalf("got %+v, want process %d", got, cmd.Process.Pid)
		}
	}
	if got = since(); seen(got) {
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
