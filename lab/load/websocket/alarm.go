package websocket

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// alarm wakes one goroutine at a time that others may change, to within tens of
// microseconds: the runtime's own timers end in epoll_wait, whose unit is a
// millisecond, while a timerfd is a file that the same epoll reports at once.
// Whoever sets it holds the lock, so that the last to set it knew the earliest time.
type alarm struct {
	file *os.File
	fd   int

	mu      sync.Mutex // also of what it is for
	stopped bool
}

// newAlarm opens an alarm that is not set. Close its file.
func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create a timer: %w", err)
	}
	return &alarm{file: os.NewFile(uintptr(fd), "timerfd"), fd: fd}, nil
}

// set makes wait return after d, or at once if that has passed.
func (a *alarm) set(d time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}
	if err := unix.TimerfdSettime(a.fd, 0, &spec, nil); err != nil {
		return fmt.Errorf("set a timer: %w", err)
	}
	return nil
}

// wait returns when the alarm has gone off.
func (a *alarm) wait() error {
	var times [8]byte
	if _, err := a.file.Read(times[:]); err != nil {
		return fmt.Errorf("wait for a timer: %w", err)
	}
	return nil
}

func (a *alarm) isStopped() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopped
}

// stop ends what it is for.
func (a *alarm) stop() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	return a.set(0)
}
