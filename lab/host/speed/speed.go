// Package speed times a small fixed amount of work, so that a run knows how fast its
// machine was. The cores of a virtual machine become slower and faster by themselves: with
// their clock frequency, and with what neighbours do on the same core and in the same cache.
// What a request costs follows, and looks like a change of the code.
//
// The work has two parts. Computing is integer arithmetic and branches that nobody predicts,
// in registers: it follows the frequency, and a neighbour on the same core. Memory is a walk
// through four MiB in random order, each step of which waits for the one before: it follows
// what others leave of a cache that is shared. Each part is done several times for a
// millisecond or two on one thread, and the repetition that took least CPU time counts, for
// what disturbs one does not disturb all. How long all of them took by the clock, beside their
// CPU time, says whether the thread had to wait for a core: another process had it, a quota
// was used up, or the hypervisor had given it away, where the kernel is told of that. Where it
// is not, time that was given away is CPU time, which the least of several mostly leaves out.
//
// It says nothing of the kernel, disks and networks, of bandwidth to memory, of several cores
// at once, and of any time but those few milliseconds: a trial between two readings alike may
// have had slow minutes. So figures are not corrected by it; it is a reason to doubt a
// comparison. What compiles the work differently makes it other work: compare readings of the
// same version of Go only.
package speed

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// From such shares more CPU time is a slower machine and not chance: of the slowest of a run's
// trials beside its fastest, and of two runs' medians. They are from 126 readings by 42
// processes within five minutes, in a virtual machine with two cores of an AMD EPYC that was
// otherwise up to 35 % busy. Where a trial is the lesser of two of them, the slowest of 36 took
// up to 7.1 % more than the fastest in computing, and over 10 % in one set of 1,000; in memory
// over 100 % in 38. Medians of three trials differed by up to 5.3 and 26 %, of six by up to 2.9
// and 15 %, in 99 of 100 pairs. Beside two busy cores, 114 readings were within 8 % in
// computing; others had the cache, and memory took up to ten times as long.
const (
	ClearComputing    = 0.10
	ClearMemory       = 1.00
	ClearMemoryOfRuns = 0.50
)

// Reading is how fast this machine was at one moment. More time is slower.
type Reading struct {
	At time.Time `json:"t"`
	// Work is the checksum of what was computed: readings of the same amount of work agree in it.
	Work string `json:"work"`
	// Computing and Memory are the CPU time of the fastest repetition of each part.
	Computing time.Duration `json:"computing"`
	Memory    time.Duration `json:"memory"`
	// CPU and Wall are the time that all repetitions took, by the thread's clock and by the
	// machine's.
	CPU  time.Duration `json:"cpu"`
	Wall time.Duration `json:"wall"`
}

// The amounts of work. Changing one changes the checksum, and with it what can be compared.
const (
	repetitions = 8
	rounds      = 600_000 // of arithmetic
	lines       = 1 << 16 // of memory
	steps       = 100_000 // through it
	seed        = 88172645463325252
)

// Read does the work, on a thread of its own.
func Read() Reading {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := Reading{At: time.Now()}
	way := newWay()
	var sum uint64
	now := clock{cpu: threadTime, wall: func() time.Duration { return time.Since(r.At) }}
	for range repetitions {
		r.Computing = r.least(r.Computing, now, func() { sum += compute(rounds) })
		r.Memory = r.least(r.Memory, now, func() { sum += uint64(walk(way, steps)) })
	}
	r.Work = fmt.Sprintf("%016x", sum)
	return r
}

// clock is what the work is timed by.
type clock struct{ cpu, wall func() time.Duration }

// least does a part once more, and returns what it took if that is less than before.
func (r *Reading) least(before time.Duration, now clock, part func()) time.Duration {
	wall, cpu := now.wall(), now.cpu()
	part()
	cpu = now.cpu() - cpu
	r.CPU += cpu
	r.Wall += now.wall() - wall
	if before > 0 {
		return min(before, cpu)
	}
	return cpu
}

// compute is arithmetic whose steps wait for each other: Marsaglia's xorshift (2003), with a
// division or a multiplication as its bits have it.
//
//go:noinline
func compute(n int) (sum uint64) {
	x := uint64(seed)
	for range n {
		x = next(x)
		if x&3 == 0 {
			sum += x / (x>>40 | 1)
		} else if x&4 == 0 {
			sum ^= x * 0x9e3779b97f4a7c15
		}
	}
	return sum
}

func next(x uint64) uint64 {
	x ^= x << 13
	x ^= x >> 7
	return x ^ x<<17
}

// line is as much memory as a cache fetches at once. It says which comes next.
type line struct {
	next uint32
	_    [60]byte
}

// newWay is one circle through all lines, in an order that no prefetcher guesses.
func newWay() []line {
	order := make([]uint32, lines)
	x := uint64(seed)
	for i := range order { // Fisher and Yates's shuffle, from the inside out
		x = next(x)
		j := x % uint64(i+1)
		order[i], order[j] = order[j], uint32(i)
	}
	way := make([]line, lines)
	for i, at := range order {
		way[at].next = order[(i+1)%lines]
	}
	return way
}

//go:noinline
func walk(way []line, n int) (at uint32) {
	for range n {
		at = way[at].next
	}
	return at
}

// threadTime is the CPU time that this thread has used. It cannot fail for the calling
// thread's own clock.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(fmt.Sprintf("speed: read the thread's clock: %v", err))
	}
	return time.Duration(t.Nano())
}
