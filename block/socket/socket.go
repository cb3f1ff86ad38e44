// Package socket reads and writes TCP sockets without telling the scheduler of Go's
// runtime.
//
// A system call on a socket that does not block takes a microsecond or a few, and net
// announces each to the scheduler, as one that might take long. Where the process has
// been idle since the last, the announcement wakes the runtime's monitor thread, which
// then looks around every 20 microseconds until the process is idle again: context
// switches that can cost more than the request. Waiting for a socket stays the
// runtime's business, with its deadlines.
//
// Measured behind NGINX with a fifth of a core (ADR 015): an answer from memory costs
// 15 us of CPU time in place of 28.
//
// The price: while nothing else makes the scheduler look, it does not take turns between
// goroutines that compute for longer than 10 ms and others. Handlers of requests do not.
package socket

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// Dial is a function that dials, such as net.Dialer's DialContext.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Dialing returns a function that dials as dial does and returns Direct's connection.
func Dialing(dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return Direct(c), nil
	}
}

// Direct returns the connection with Read and Write that make their system calls
// directly; one that is no TCP socket as it is.
func Direct(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	fd, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	d := &direct{TCPConn: tcp, fd: fd}
	// Made once: made for each call, they would be allocated for each.
	d.readSome = func(fd uintptr) bool { return d.in.call(syscall.SYS_READ, fd) }
	d.writeAll = func(fd uintptr) bool {
		for d.out.call(syscall.SYS_WRITE, fd) {
			if d.out.errno != 0 || len(d.out.left) == 0 {
				return true
			}
		}
		return false
	}
	return d
}

type direct struct {
	*net.TCPConn
	fd       syscall.RawConn
	in, out  transfer
	readSome func(fd uintptr) bool
	writeAll func(fd uintptr) bool
}

// transfer is a Read or Write under way. Who makes it holds mu.
type transfer struct {
	mu    sync.Mutex
	left  []byte
	n     int
	errno syscall.Errno
}

// call makes one system call for what is left, and again if a signal came in between.
// It returns false if the socket is not ready.
func (t *transfer) call(number, fd uintptr) bool {
	for {
		//nolint:gosec // the pointer is converted in the call, as package unsafe wants it
		n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(t.left))), uintptr(len(t.left)))
		switch errno {
		case 0:
			t.n += int(n)
			t.left = t.left[n:]
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			t.errno = errno
			return true
		}
	}
}

// end returns what came of it; err is that of waiting.
func (t *transfer) end(name string, c *net.TCPConn, err error) (int, error) {
	n, errno := t.n, t.errno
	t.left, t.n, t.errno = nil, 0, 0
	if err == nil && errno != 0 {
		err = &net.OpError{Op: name, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(name, errno)}
	}
	return n, err
}

// Read implements net.Conn.
func (d *direct) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	d.in.left = b
	n, err := d.in.end("read", d.TCPConn, d.fd.Read(d.readSome))
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// Write implements net.Conn.
func (d *direct) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	d.out.mu.Lock()
	defer d.out.mu.Unlock()
	d.out.left = b
	return d.out.end("write", d.TCPConn, d.fd.Write(d.writeAll))
}
