package hub

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readSocket reads a socket that does not block, without telling the scheduler.
func readSocket(fd int, b []byte) (int, syscall.Errno) { return call(syscall.SYS_READ, fd, b) }

// writeSocket is readSocket for writing.
func writeSocket(fd int, b []byte) (int, syscall.Errno) { return call(syscall.SYS_WRITE, fd, b) }

func call(number uintptr, fd int, b []byte) (int, syscall.Errno) {
	for {
		//nolint:gosec // the pointer is converted in the call, as package unsafe wants it
		n, _, errno := syscall.RawSyscall(number, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		if errno != syscall.EINTR {
			return int(n), errno
		}
	}
}

// prepare makes a socket fit for a loop.
func prepare(fd, sendBuffer int) error {
	if err := unix.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("prepare a socket: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer); err != nil {
		return fmt.Errorf("bound a socket's buffer: %w", err)
	}
	return nil
}
