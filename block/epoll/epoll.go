// Package epoll waits for sockets and for time in one place: the heart of an event loop that
// has many connections on one thread.
//
// The runtime's own poller will not do for that: its timers end in a wait whose unit is a
// millisecond, and a goroutine for each connection costs a switch for each message.
package epoll

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Event is what happened on a socket that is watched: Fd is its descriptor, Pad its tag and
// Events the EPOLL bits.
type Event = unix.EpollEvent

// Poller waits for sockets and for time. One goroutine uses it at a time; only Wake is for all.
type Poller struct {
	epoll  int
	wakeFD int // an eventfd, which Wake makes readable
	events [256]Event
	coarse bool // the kernel has no epoll_pwait2: waits are in milliseconds
	thread int  // whose timers are exact

	// asleep says that a Wake has to go through the kernel.
	asleep atomic.Bool
	woken  atomic.Bool

	parking *parking // nil until Park
}

// interest is what every socket is watched for: once, when it is opened. Edge
// triggered, so that a busy connection needs no further call to watch it.
const interest = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

// Open opens a poller. Close it.
func Open() (*Poller, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open an event queue: %w", err)
	}
	p := &Poller{epoll: epoll}
	if p.wakeFD, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return nil, errors.Join(fmt.Errorf("open an event counter: %w", err), unix.Close(epoll))
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(p.wakeFD)}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, p.wakeFD, &event); err != nil {
		return nil, errors.Join(fmt.Errorf("watch an event counter: %w", err), p.Close())
	}
	return p, nil
}

// Close frees the poller.
func (p *Poller) Close() error {
	return errors.Join(p.parking.close(), unix.Close(p.wakeFD), unix.Close(p.epoll))
}

// Watch adds a socket. tag comes back with its events and tells them from
// those of an earlier socket of the same number.
func (p *Poller) Watch(fd int, tag int32) error {
	event := unix.EpollEvent{Events: interest, Fd: int32(fd), Pad: tag}
	return unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &event)
}

// Wake ends the wait that is going on, or the next. Any goroutine may call it.
func (p *Poller) Wake() {
	p.woken.Store(true)
	if p.asleep.Load() {
		one := [8]byte{1}
		// It can only fail because the counter is full, and then it is readable.
		_, _ = unix.Write(p.wakeFD, one[:])
	}
}

// Wait returns the events there are, after d at the latest; for d of nought it
// only looks. The result is valid until the next call.
func (p *Poller) Wait(d time.Duration) ([]Event, error) {
	var n int
	var errno syscall.Errno
	if d <= 0 {
		n, errno = p.poll()
	} else {
		p.asleep.Store(true)
		if p.woken.Load() { // asked before: a Wake after this line writes to wakeFD
			n, errno = p.poll()
		} else {
			n, errno = p.sleep(d)
		}
		p.asleep.Store(false)
	}
	return p.woke(n, errno)
}

// woke is the end of a wait that found n events.
func (p *Poller) woke(n int, errno syscall.Errno) ([]Event, error) {
	p.woken.Store(false)
	switch errno {
	case 0:
		return p.withoutWake(n), nil
	case syscall.EINTR:
		return nil, nil
	default:
		return nil, fmt.Errorf("wait for events: %w", errno)
	}
}

// poll polls without telling the scheduler: a call that cannot block needs
// neither its preparations nor its watch.
func (p *Poller) poll() (int, syscall.Errno) {
	const atOnce, noMask = 0, 0
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.epoll), uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), atOnce, noMask, 0) //nolint:gosec // as documented for RawSyscall6
	return int(n), errno
}

// sleep blocks for d at most.
func (p *Poller) sleep(d time.Duration) (int, syscall.Errno) {
	const noMask, maskSize = 0, 8
	p.exactTimers()
	if !p.coarse {
		spec := unix.NsecToTimespec(int64(d))
		n, _, errno := syscall.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.epoll), uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), uintptr(unsafe.Pointer(&spec)), noMask, maskSize) //nolint:gosec // as documented for Syscall6
		if errno != syscall.ENOSYS {
			return int(n), errno
		}
		p.coarse = true // Linux before 5.11
	}
	// Rounded down, so that the last fraction of a millisecond is spent looking.
	n, _, errno := syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.epoll), uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), uintptr(d/time.Millisecond), noMask, maskSize) //nolint:gosec // as documented for Syscall6
	return int(n), errno
}

// withoutWake empties wakeFD if it is among the first n events, and returns
// the others.
func (p *Poller) withoutWake(n int) []Event {
	for i := range n {
		if int(p.events[i].Fd) != p.wakeFD {
			continue
		}
		var count [8]byte
		_, _ = unix.Read(p.wakeFD, count[:]) // it was readable, and only this reads it
		p.events[i] = p.events[n-1]
		n--
		break
	}
	return p.events[:n]
}

// exactTimers asks for this thread's sleeps to end on time: by default the
// kernel may add 50 µs, to wake several sleepers at once. The goroutine is not
// locked to its thread, which would cost two switches at every preemption; so
// it looks whether it is still on the one it was.
func (p *Poller) exactTimers() {
	const oneNanosecond = 1
	if thread := unix.Gettid(); thread != p.thread {
		p.thread = thread
		// Where it is refused, sleeps end 50 µs later, and lateness shows it.
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, oneNanosecond, 0, 0, 0)
	}
}
