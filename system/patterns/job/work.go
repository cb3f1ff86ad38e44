package job

import (
	"math"
	"runtime"
	"time"
)

const (
	// seed is what the first step begins with: Marsaglia's.
	seed = 88172645463325252
	// stretch is how many steps a job takes without a look whether it was called
	// off: about 2 ms of them, beside which the look is nothing.
	stretch = 1_000_000
)

// work is a chain of steps, each of which needs the one before, so that neither
// the compiler nor the processor can do them at once or leave them out: Marsaglia's
// xorshift (2003). It is not inlined, or the compiler would leave it out where its
// result is not looked at.
//
//go:noinline
func work(x uint64, steps int) uint64 {
	for range steps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// stepsFor is how many steps take d of processor time. It is measured once, and
// then every job is the same work: a clock that is read while a job runs would cost
// more the more jobs there are.
func stepsFor(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	const trial, trials = stretch, 9
	best, sum := time.Duration(math.MaxInt64), uint64(0)
	for range trials {
		// The fastest: what made the others slower is not the work.
		best = min(best, max(cpuTime(func() { sum = work(seed, trial) }), 1))
	}
	runtime.KeepAlive(sum)
	return int(float64(d) / float64(best) * trial)
}
