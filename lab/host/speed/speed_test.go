package speed

import (
	"testing"
	"time"
)

// TestTheWorkIsAlwaysTheSame: it takes CPU time, and comes to the same.
func TestTheWorkIsAlwaysTheSame(t *testing.T) {
	t.Parallel()
	a, b := Read(), Read()
	if a.Work == "" || a.Work != b.Work {
		t.Errorf("it came to %q and %q", a.Work, b.Work)
	}
	for _, r := range []Reading{a, b} {
		if r.Computing <= 0 || r.Memory <= 0 || r.CPU < repetitions*(r.Computing+r.Memory) || r.Wall <= 0 {
			t.Errorf("%+v, want CPU time for each part, in all at least %d times the least", r, repetitions)
		}
	}
}

// TestTheFastestRepetitionCounts, whatever disturbed the others, and all of them tell how long
// the work waited.
func TestTheFastestRepetitionCounts(t *testing.T) {
	t.Parallel()
	var cpu, wall time.Duration
	now := clock{cpu: func() time.Duration { return cpu }, wall: func() time.Duration { return wall }}
	var r Reading
	var least time.Duration
	for _, took := range [][2]time.Duration{{3, 3}, {2, 9}, {5, 5}} {
		least = r.least(least, now, func() { cpu, wall = cpu+took[0], wall+took[1] })
	}
	if least != 2 || r.CPU != 10 || r.Wall != 17 {
		t.Errorf("the least is %d, of %d in %d; want 2, of 10 in 17", least, r.CPU, r.Wall)
	}
}

// TestTheWayIsOneCircle: a shorter one would stay in a nearer cache.
func TestTheWayIsOneCircle(t *testing.T) {
	t.Parallel()
	way := newWay()
	seen := make([]bool, lines)
	for at := uint32(0); !seen[at]; at = way[at].next {
		seen[at] = true
	}
	for i, ok := range seen {
		if !ok {
			t.Fatalf("the way never comes by line %d", i)
		}
	}
	if at := walk(way, lines); at != 0 {
		t.Errorf("once round ends at line %d, want 0", at)
	}
}

// BenchmarkRead shows how much readings differ by chance, of which the limits were derived:
//
//	go test -run - -bench Read -benchtime 1x -count 60 ./lab/host/speed
func BenchmarkRead(b *testing.B) {
	var r Reading
	for b.Loop() {
		r = Read()
	}
	b.ReportMetric(1000*r.Computing.Seconds(), "computing-ms")
	b.ReportMetric(1000*r.Memory.Seconds(), "memory-ms")
	b.ReportMetric(1000*r.CPU.Seconds(), "cpu-ms")
	b.ReportMetric(1000*r.Wall.Seconds(), "wall-ms")
}
