package httpserver

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Descriptor returns a descriptor of its own for the socket of a hijacked connection, which
// does not block. Who has it closes it: the connection may be closed, as far as this server is
// concerned, and lives on. What the client has sent before its request was answered may be
// lost.
func Descriptor(c net.Conn) (int, error) {
	if hijacked, ok := c.(interface{ UnsafeConn() net.Conn }); ok {
		c = hijacked.UnsafeConn()
	}
	plain, ok := c.(syscall.Conn)
	if !ok {
		return -1, fmt.Errorf("a %T has no descriptor", c)
	}
	raw, err := plain.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("find a connection's descriptor: %w", err)
	}
	fd := -1
	var failed error
	err = raw.Control(func(own uintptr) {
		fd, failed = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err = errors.Join(err, failed); err != nil {
		return -1, fmt.Errorf("duplicate a connection's descriptor: %w", err)
	}
	return fd, nil
}
