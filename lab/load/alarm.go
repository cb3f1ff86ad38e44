package load

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// alarm wakes a goroutine at a time, to within tens of microseconds. The
// runtime's own timers end in epoll_wait, whose unit is a millisecond, so an
// idle process wakes up to one late: at 1,000 requests a second that is as long
// as the gap between two. A timerfd is a file that becomes readable at a time,
// which the same epoll reports at once; no thread is blocked and none spins.
// One system call arms it, and none is needed to read it, because arming it
// again takes the readability back.
type alarm struct {
	file  *os.File
	raw   syscall.RawConn
	fire  func(fd uintptr) bool
	after time.Duration
	armed bool
	spec  unix.ItimerSpec
	err   error
	rung  atomic.Bool

	mu     sync.Mutex // between ring and close
	closed bool
}

// newAlarm opens an alarm. Close it.
func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create a timer: %w", err)
	}
	a := &alarm{file: os.NewFile(uintptr(fd), "timerfd")}
	if a.raw, err = a.file.SyscallConn(); err != nil {
		_ = a.file.Close()
		return nil, fmt.Errorf("watch a timer: %w", err)
	}
	a.fire = a.arm
	return a, nil
}

// sleep waits for d, or less if ring is called or was called before. One
// goroutine at a time may sleep.
func (a *alarm) sleep(d time.Duration) error {
	a.after, a.armed = d, false
	if err := a.raw.Read(a.fire); err != nil {
		return fmt.Errorf("wait for a timer: %w", err)
	}
	return a.err
}

// arm sets the timer when it is called first and asks to be called again when
// it has fired; then it is done.
func (a *alarm) arm(fd uintptr) bool {
	if a.armed {
		return true
	}
	a.armed = true
	a.err = setTimer(fd, &a.spec, a.after)
	// Looked at after the timer is set: a ring before that moment is seen here,
	// one after it sets the timer again.
	return a.err != nil || a.rung.Load()
}

// ring ends the sleep that is going on and all later ones. It may be called at
// any time, also when the alarm is closed.
func (a *alarm) ring() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.rung.Store(true)
	var failed error
	err := a.raw.Control(func(fd uintptr) {
		var spec unix.ItimerSpec
		failed = setTimer(fd, &spec, 0)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("ring a timer: %w", err)
	}
	return nil
}

// close frees the alarm. Nobody may be asleep.
func (a *alarm) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if err := a.file.Close(); err != nil {
		return fmt.Errorf("close a timer: %w", err)
	}
	return nil
}

// setTimer makes the timer fire after d, but at least a nanosecond: nought
// would disarm it. Like transfer, it goes past the scheduler.
func setTimer(fd uintptr, spec *unix.ItimerSpec, d time.Duration) error {
	spec.Value = unix.NsecToTimespec(int64(max(d, 1)))
	const relative, nothingBack = 0, 0
	_, _, errno := syscall.RawSyscall6(unix.SYS_TIMERFD_SETTIME, fd, relative, uintptr(unsafe.Pointer(spec)), nothingBack, 0, 0) //nolint:gosec // as documented for RawSyscall6
	if errno != 0 {
		return fmt.Errorf("set a timer: %w", errno)
	}
	return nil
}
