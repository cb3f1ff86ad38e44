// Package cputime measures what pieces of work cost in CPU time. Wall time does not say that:
// a process whose share of a processor is used up waits in the middle of its work.
package cputime

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Of does something and returns the CPU time that it took, of the calling goroutine alone:
// what it starts in other goroutines is not in it, and what the collector has it do is. The
// goroutine keeps its thread meanwhile. Reading the clock twice takes a microsecond, and
// several in some virtual machines; half of that is in what is returned.
func Of(do func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := ofThread()
	do()
	return ofThread() - began
}

// ofThread is the CPU time that the calling thread has had.
func ofThread() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic("cputime: there is no clock of the thread: " + err.Error()) // Linux has it since 2.6.12
	}
	return time.Duration(t.Nano())
}

// Sampler adds up the CPU time of many pieces of work by measuring one in Every: the clock
// would cost more than a short piece does. They are drawn at random, so that work that comes
// in turns is not measured by one kind of it.
type Sampler struct {
	add  func(seconds float64)
	owed atomic.Int64 // nanoseconds by which pieces were shorter than the clock's own time, 0 or less
}

// Every is how many pieces one stands for that is measured.
const Every = 16

// NewSampler returns a sampler that calls add, from any goroutine, with CPU seconds to be
// added to a counter.
func NewSampler(add func(seconds float64)) *Sampler { return &Sampler{add: add} }

// Do does a piece of work. It is safe for concurrent use.
func (s *Sampler) Do(do func()) {
	if rand.N(Every) > 0 {
		do()
		return
	}
	s.count(Of(do) - ofClock())
}

// count adds what a piece took, less what pieces before it took less than nothing: counters
// only grow, and to cut each of them off at 0 would make short ones dear.
func (s *Sampler) count(took time.Duration) {
	took += time.Duration(s.owed.Swap(0))
	if took < 0 {
		s.owed.Add(int64(took))
		took = 0
	}
	s.add(Every * took.Seconds())
}

// ofClock is what Of returns of nothing: the median of many.
var ofClock = sync.OnceValue(func() time.Duration {
	all := make([]time.Duration, 101)
	for i := range all {
		all[i] = Of(func() {})
	}
	slices.Sort(all)
	return all[len(all)/2]
})
