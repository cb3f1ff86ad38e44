package job

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the processor time that f takes, by the thread's own clock: a machine
// that is busy, or throttles this process, does not make it longer.
func cpuTime(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime()
	f()
	return threadTime() - began
}

// threadTime is the processor time of this thread. The call does not fail for the
// calling thread's own clock.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}
