package plant

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// worker is CPU time that at most so many requests use at once; the others wait
// in order. Without that bound every request that has arrived would be a
// runnable thread, and switching between them would cost more than was planted.
type worker chan struct{}

func newWorker(n int) worker { return make(worker, n) }

// spin uses d of CPU time.
func (w worker) spin(d time.Duration) {
	if d <= 0 {
		return
	}
	w <- struct{}{}
	defer func() { <-w }()
	spin(d)
}

// thread is a thread of its own that uses CPU time for one request after the other.
type thread chan threadWork

type threadWork struct {
	d    time.Duration
	done chan<- struct{}
}

// spin uses d of the thread's CPU time.
func (t thread) spin(d time.Duration) {
	done := make(chan struct{})
	t <- threadWork{d, done}
	<-done
}

// work works until ctx ends.
func (t thread) work(ctx context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case w := <-t:
			spin(w.d)
			close(w.done)
		case <-ctx.Done():
			return
		}
	}
}

// spin uses d of this thread's CPU time. It reads the thread's own clock, so
// that a slow machine, a busy one and one that throttles this process all plant
// the same demand. It uses up to some ten microseconds more than d.
func spin(d time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var x uint64 = 88172645463325252
	for end := threadTime() + d; threadTime() < end; {
		x = burn(x)
	}
	runtime.KeepAlive(x)
}

// burn is a few microseconds of work: Marsaglia's xorshift (2003), whose steps
// wait for each other, so no compiler and no core does them at once.
//
//go:noinline
func burn(x uint64) uint64 {
	for range 2000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// threadTime is the CPU time that this thread has used. The call takes a few
// hundred nanoseconds, which is part of what spin uses. It cannot fail for the
// calling thread's own clock.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(fmt.Sprintf("plant: read the thread's clock: %v", err))
	}
	return time.Duration(t.Nano())
}
