package host

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestGrowthKeepsWhatHasEnded(t *testing.T) {
	t.Parallel()
	var g growth
	for i, step := range []struct {
		now  map[int]uint64
		want uint64
	}{
		{map[int]uint64{1: 10, 2: 5}, 15},
		{map[int]uint64{1: 12}, 17},       // 2 ended
		{map[int]uint64{1: 12, 3: 4}, 21}, // 3 came
		{map[int]uint64{1: 3, 3: 4}, 24},  // 1 is another thread now
	} {
		if got := g.see(step.now); got != step.want {
			t.Errorf("step %d: got %d, want %d", i, got, step.want)
		}
	}
}

func TestKernelTextsAreRead(t *testing.T) {
	t.Parallel()
	if ran, waited, ok := schedTimes("129310 2599112 3\n"); !ok || ran != 129310 || waited != 2599112 {
		t.Errorf("schedstat: got %d, %d, %v", ran, waited, ok)
	}
	if _, _, ok := schedTimes(""); ok {
		t.Error("an ended thread has a run-queue delay")
	}
	if got := pressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=1500\nfull avg10=0.00 total=9\n"); got != 1500*time.Microsecond {
		t.Errorf("pressure: got %v", got)
	}
	netstat := "TcpExt: SyncookiesSent ListenOverflows\nTcpExt: 1 7\nIpExt: X\nIpExt: 3\n"
	if got := column(netstat, "TcpExt:", "ListenOverflows"); got != 7 {
		t.Errorf("listen overflows: got %d, want 7", got)
	}
	dev := "Inter-| x\n    lo: 11 1 0 0 0 0 0 0 22 1 0 0\n  eth0: 5 1 0 0 0 0 0 0 6\n"
	if received, sent, ok := traffic(dev, "lo"); received != 11 || sent != 22 || !ok {
		t.Errorf("loopback: got %d, %d, %v, want 11, 22", received, sent, ok)
	}
	if _, _, ok := traffic(dev, "eth1"); ok {
		t.Error("traffic of a link that there is not")
	}
	if got := field("pgfault 3\npgmajfault 4\n", "pgmajfault"); got != 4 {
		t.Errorf("major faults: got %d, want 4", got)
	}
}

func TestSlowReadsThisProcess(t *testing.T) {
	t.Parallel()
	var r slowReader
	self := Target{Name: "self-1", PID: os.Getpid()}
	if !strings.Contains(text("/proc/self/schedstat"), " ") {
		t.Skip("this kernel has no schedstat")
	}
	first := r.look(self)
	again := r.look(self)
	if first.RunDelay <= 0 || again.RunDelay < first.RunDelay || first.Partial {
		t.Errorf("got %+v, then %+v; want a run-queue delay that grows", first, again)
	}
	if gone := r.look(Target{Name: "self-1", PID: 1 << 30}); gone.RunDelay < again.RunDelay {
		t.Errorf("ended: got %v, want no less than %v", gone.RunDelay, again.RunDelay)
	}
}

// The busiest thread is that of each look, and not the one that ran longest in its life.
func TestTheBusiestThread(t *testing.T) {
	t.Parallel()
	var g growth
	for i, step := range []struct {
		now  map[int]uint64
		want uint64
	}{
		{map[int]uint64{1: 9000, 2: 5}, 0}, // whatever they did before
		{map[int]uint64{1: 9010, 2: 45}, 40},
		{map[int]uint64{1: 9090, 2: 45, 3: 7}, 80},
		{map[int]uint64{1: 3, 2: 45, 3: 7, 4: 60}, 60}, // 1 is another thread now, 4 came
	} {
		if got := g.most(step.now); got != step.want {
			t.Errorf("step %d: got %d, want %d", i, got, step.want)
		}
		g.see(step.now)
	}
}

// A process that works in one thread shows it: what its threads ran is nearly all the
// busiest one's.
func TestSlowSeesOneBusyThread(t *testing.T) {
	t.Parallel()
	if !strings.Contains(text("/proc/self/schedstat"), " ") {
		t.Fatal("this kernel has no schedstat: build it with CONFIG_SCHED_INFO")
	}
	var r slowReader
	self := Target{Name: "self-1", PID: os.Getpid()}
	first := r.look(self)
	again := first
	for again.Busiest-first.Busiest < 50*time.Millisecond { // until some thread ran for long
		for i := range 1_000_000 {
			_ = i * i
		}
		again = r.look(self)
	}
	if ran := again.Ran - first.Ran; ran < again.Busiest-first.Busiest {
		t.Errorf("all threads ran for %v, the busiest for %v of it", ran, again.Busiest-first.Busiest)
	}
}

// BenchmarkSlow is what one look at this process's threads costs; it is made
// once a second for each instance.
func BenchmarkSlow(b *testing.B) {
	targets := []Target{{Name: "self-1", PID: os.Getpid()}}
	w := watcher{readers: map[string]*reader{"self-1": {}}}
	for b.Loop() {
		w.slow(targets)
	}
}
