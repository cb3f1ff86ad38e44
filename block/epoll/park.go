package epoll

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// parking is what Park needs, made when it is first called.
type parking struct {
	file  *os.File // the same event queue, known to the runtime's poller
	raw   syscall.RawConn
	look  func(fd uintptr) bool
	n     int
	errno syscall.Errno
}

// Park is Wait for a server: it waits as goroutines wait for sockets, in the runtime's poller,
// and may end a millisecond late.
//
// Wait holds its thread in the kernel, and the runtime's monitor thread goes on looking for
// the first 10 ms whether it should give the processor to somebody else: every 20 us at first,
// some 60 times, whenever a wait follows a little work (ADR 015). For a generator of load,
// whose waits are short and have to end on time, that does not matter.
func (p *Poller) Park(d time.Duration) ([]Event, error) {
	if d <= 0 {
		return p.Wait(d)
	}
	if p.parking == nil {
		var err error
		if p.parking, err = p.newParking(); err != nil {
			return nil, err
		}
	}
	k := p.parking
	k.n, k.errno = 0, 0
	p.asleep.Store(true)
	err := k.file.SetReadDeadline(time.Now().Add(d))
	if err == nil {
		err = k.raw.Read(k.look)
	}
	p.asleep.Store(false)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("wait for events: %w", err)
	}
	return p.woke(k.n, k.errno)
}

func (p *Poller) newParking() (*parking, error) {
	fd, err := unix.FcntlInt(uintptr(p.epoll), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate an event queue: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // which makes it known to the runtime's poller
		return nil, errors.Join(fmt.Errorf("prepare an event queue: %w", err), unix.Close(fd))
	}
	k := &parking{file: os.NewFile(uintptr(fd), "epoll")}
	if k.raw, err = k.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, k.file.Close())
	}
	k.look = func(uintptr) bool {
		k.n, k.errno = p.poll()
		return k.n > 0 || k.errno != 0 || p.woken.Load()
	}
	return k, nil
}

// close frees it; nil is nothing.
func (k *parking) close() error {
	if k == nil {
		return nil
	}
	return k.file.Close()
}
