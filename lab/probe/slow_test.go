package probe

import (
	"math"
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
	if n, ok := schedDelay("129310 2599112 3\n"); !ok || n != 2599112 {
		t.Errorf("schedstat: got %d, %v", n, ok)
	}
	if _, ok := schedDelay(""); ok {
		t.Error("an ended thread has a run-queue delay")
	}
	if got := pressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=1500\nfull avg10=0.00 total=9\n"); got != 1500*time.Microsecond {
		t.Errorf("pressure: got %v", got)
	}
	netstat := "TcpExt: SyncookiesSent ListenOverflows\nTcpExt: 1 7\nIpExt: X\nIpExt: 3\n"
	if got := column(netstat, "TcpExt:", "ListenOverflows"); got != 7 {
		t.Errorf("listen overflows: got %d, want 7", got)
	}
	if got := loopback("Inter-| x\n    lo: 11 1 0 0 0 0 0 0 22 1 0 0\n  eth0: 5 1 0 0 0 0 0 0 6\n"); got != 22 {
		t.Errorf("loopback: got %d, want 22", got)
	}
	if got := field("pgfault 3\npgmajfault 4\n", "pgmajfault"); got != 4 {
		t.Errorf("major faults: got %d, want 4", got)
	}
}

func TestSlowReadsThisProcess(t *testing.T) {
	t.Parallel()
	r := slowReader{target: Target{Name: "self-1", PID: os.Getpid}}
	if !strings.Contains(text("/proc/self/schedstat"), " ") {
		t.Skip("this kernel has no schedstat")
	}
	first := r.take()
	again := r.take()
	if first.RunDelay <= 0 || again.RunDelay < first.RunDelay || first.Partial {
		t.Errorf("got %+v, then %+v; want a run-queue delay that grows", first, again)
	}
	r.target.PID = func() int { return 1 << 30 }
	if gone := r.take(); gone.RunDelay < again.RunDelay {
		t.Errorf("ended: got %v, want no less than %v", gone.RunDelay, again.RunDelay)
	}
}

func TestSlowFiguresCoverTheSpan(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var samples []Sample
	for i := range 41 {
		s := Sample{At: began.Add(time.Duration(i) * 100 * time.Millisecond), Instances: []Instance{{Name: "a-1"}}}
		if i%10 == 0 {
			n := uint64(i / 10)
			s.Slow = &Slow{
				Instances:       []SlowInstance{{RunDelay: time.Duration(n) * 300 * time.Millisecond, MajorFaults: 10 * n, DiskRead: 100 * n}},
				ListenOverflows: 5 * n,
			}
		}
		samples = append(samples, s)
	}
	span, ok := Over(samples, began.Add(1200*time.Millisecond), began.Add(3200*time.Millisecond))
	u := span.Instances["a-1"]
	if !ok || u.RunDelay.Round(time.Millisecond) != 600*time.Millisecond || math.Abs(u.MajorFaults-20) > 1e-9 ||
		math.Abs(u.DiskRead-200) > 1e-9 || math.Abs(span.ListenOverflows-5) > 1e-9 {
		t.Errorf("got %+v, %v overflows/s; want 600 ms, 20 faults, 200 bytes and 5", u, span.ListenOverflows)
	}
	for i := range samples {
		samples[i].Slow = nil // a run of an earlier version
	}
	if span, ok := Over(samples, began.Add(time.Second), began.Add(3*time.Second)); !ok || span.Instances["a-1"].RunDelay != 0 {
		t.Errorf("without: got %+v, %v", span, ok)
	}
}

// BenchmarkSlow is what one look at this process's threads costs; it is made
// once a second for each instance.
func BenchmarkSlow(b *testing.B) {
	readers := []slowReader{{target: Target{Name: "self-1", PID: os.Getpid}}}
	for b.Loop() {
		takeSlow(readers)
	}
}
