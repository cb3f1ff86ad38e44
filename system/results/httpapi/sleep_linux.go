package httpapi

import (
	"syscall"
	"time"
)

// sleepUntil returns at the moment t, exactly enough for what was done before to
// leave no trace in when: Go's own timers round what is left up to milliseconds,
// which tells how much that was. So the last of it is slept by the kernel, which
// takes a thread for up to two milliseconds.
func sleepUntil(t time.Time) {
	const exact = 2 * time.Millisecond
	time.Sleep(time.Until(t) - exact)
	if left := time.Until(t); left > 0 {
		rest := syscall.NsecToTimespec(int64(left))
		_ = syscall.Nanosleep(&rest, nil) // a signal may end it early, by chance
	}
}
