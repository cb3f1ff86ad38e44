package servertest

import (
	"net"
	"strconv"
	"syscall"
	"testing"
)

// Bound returns a TCP socket that has a port of 127.0.0.1 and does not listen, and its address,
// until the test ends: whoever connects is refused, and nobody else gets the port.
func Bound(tb testing.TB) (fd int, address string) {
	tb.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		tb.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		tb.Fatal(err)
	}
	return fd, net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
}
