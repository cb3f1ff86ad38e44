package engine

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"loadstone/lab/load/failure"
)

// connection is one HTTP/1.1 connection to a target without TLS: opened when
// it is needed, used for one request at a time, closed by the first failure.
// It belongs to one event loop, and so does everything that it calls.
//
// # One write and one read
//
// What a request costs here is system calls: one write and one read. Sockets
// are watched edge-triggered from the moment they are opened, so no call says
// what to wait for. A read that does not fill the loop's buffer has emptied the
// socket, so no second one looks for more, unless the peer has hung up: then it
// is read to its end, because no further event will come. A server that sends
// faster than its answers are read gets a few reads a turn (readsAtOnce), so
// that it cannot keep the loop from everybody else.
//
// # Deadlines
//
// All requests of a plan have the same timeout, so they are due in the order in
// which they were sent: a linked list, and the loop looks at its head.
type connection struct {
	loop  *loop
	to    *target
	index int // of the user, or of the slot: decides among the target's addresses

	fd     int // noSocket if there is none
	tag    int32
	state  connectionState
	user   *user                     // whose request is under way
	opened func(failure.Kind, error) // what to do once connected; nil if a request follows

	unsent []byte // of the request: what the socket did not take
	again  bool   // it is in the loop's list of those to be read on
	answer answer
	rest   []byte // of the answer: the beginning of a line
	got    int64  // bytes of the answer
	hungUp bool   // the peer has ended its side

	due        time.Duration
	prev, next *connection // in the loop's list by due; nil outside it
}

type connectionState uint8

const (
	closedState connectionState = iota
	connectingState
	idleState
	busyState
)

const noSocket = -1

// newConnection returns a connection that is not yet opened.
func newConnection(l *loop, to *target, index int) *connection {
	return &connection{loop: l, to: to, index: index, fd: noSocket}
}

// target is the index of the target that it leads to.
func (c *connection) target() int { return c.to.index }

// ahead opens the connection before it is needed, if it is not open, and calls
// done, perhaps at once.
func (c *connection) ahead(done func(failure.Kind, error)) {
	if c.state != closedState {
		done(failure.None, nil)
		return
	}
	c.opened = done
	c.connect(c.loop.clock.now())
}

// send has one round trip for u, connecting first if need be. It ends in
// u.answered.
func (c *connection) send(u *user) {
	c.user = u
	if c.state == closedState {
		c.connect(u.sent)
		return
	}
	c.loop.overdue.add(c, u.sent+c.loop.timeout)
	c.write()
}

// connect begins to connect. What it ends as is told by fail or connected.
func (c *connection) connect(now time.Duration) {
	c.loop.overdue.add(c, now+c.loop.timeout)
	c.state, c.hungUp = connectingState, false
	err := c.dial(c.to.addresses[c.index%len(c.to.addresses)])
	if err != nil {
		c.fail(failure.OfDial(err), fmt.Errorf("connect to %s: %w", c.to.address, err))
	}
}

// dial opens a socket that connects.
func (c *connection) dial(to netip.AddrPort) error {
	family, address := sockaddr(to)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	c.fd = fd
	c.tag = c.loop.enter(c)
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	if from := c.loop.run.plan.LocalIP(c.index); from.IsValid() {
		if err := bind(fd, from); err != nil {
			return err
		}
	}
	if err := unix.Connect(fd, address); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return err
	}
	return c.loop.poller.Watch(fd, c.tag)
}

// bind has the socket connect from an address. The port is chosen when it connects:
// chosen now, it would have to be free for all destinations.
func bind(fd int, from netip.Addr) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
		return err
	}
	_, address := sockaddr(netip.AddrPortFrom(from, 0))
	return unix.Bind(fd, address)
}

// sockaddr returns an address as connect(2) takes it.
func sockaddr(to netip.AddrPort) (family int, address unix.Sockaddr) {
	if ip := to.Addr().Unmap(); ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: ip.As4()}
	}
	a := &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	return unix.AF_INET6, a
}

// ready deals with events on the socket.
func (c *connection) ready(events uint32) {
	c.hungUp = c.hungUp || events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
	switch c.state {
	case connectingState:
		c.connected(events)
	case busyState:
		// Read first: an answer that comes before the whole request was taken
		// says more than the reset that sending on would meet.
		u := c.user
		if events&incoming != 0 {
			c.read()
		}
		if c.user == u && c.state == busyState && len(c.unsent) > 0 && events&unix.EPOLLOUT != 0 {
			c.flush()
		}
	case idleState:
		// The server ended the idle connection, or sent what nobody asked for
		// (some send a 408 first). The next request opens another.
		if events&^unix.EPOLLOUT != 0 {
			c.close()
		}
	case closedState:
	}
}

// connected deals with the end of connecting.
func (c *connection) connected(events uint32) {
	if events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) == 0 {
		return
	}
	code, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = syscall.Errno(code)
	}
	if err != nil {
		c.fail(failure.OfDial(err), fmt.Errorf("connect to %s: %w", c.to.address, err))
		return
	}
	c.state = idleState
	if u := c.user; u != nil {
		c.write() // it is due since the connecting began
		// What came with the connection will not be told again.
		if c.user == u && c.state == busyState && events&incoming != 0 {
			c.read()
		}
		return
	}
	if events&incoming != 0 {
		c.close() // nobody has asked for anything
	}
	c.loop.overdue.remove(c)
	done := c.opened
	c.opened = nil
	done(failure.None, nil)
}

// write sends the user's request.
func (c *connection) write() {
	u := c.user
	c.state, c.got = busyState, 0
	c.rest = c.rest[:0]
	request := u.wire()
	c.answer.reset(u.step().method == http.MethodHead, u.step().capture, u.captured)
	n, err := transfer(syscall.SYS_WRITE, c.fd, request)
	if err != nil && !errors.Is(err, syscall.EAGAIN) {
		c.fail(failure.Reset, fmt.Errorf("send the request: %w", err))
		return
	}
	if n = max(n, 0); n < len(request) {
		c.unsent = append(c.unsent[:0], request[n:]...)
	}
}

// flush writes what the socket did not take before.
func (c *connection) flush() {
	n, err := transfer(syscall.SYS_WRITE, c.fd, c.unsent)
	if err != nil && !errors.Is(err, syscall.EAGAIN) {
		c.fail(failure.Reset, fmt.Errorf("send the request: %w", err))
		return
	}
	c.unsent = trim(c.unsent[:copy(c.unsent, c.unsent[max(n, 0):])])
}

// trim gives up the memory of an empty buffer that has grown large: a virtual
// user is to stay small between large requests.
func trim(p []byte) []byte {
	const large = 16 << 10
	if len(p) == 0 && cap(p) > large {
		return nil
	}
	return p
}

// read takes what has come and parses it.
func (c *connection) read() {
	buffer := c.loop.buffer
	for range readsAtOnce {
		n, err := transfer(syscall.SYS_READ, c.fd, buffer)
		switch {
		case errors.Is(err, syscall.EAGAIN):
			return
		case err != nil:
			c.fail(failure.Reset, fmt.Errorf("read the answer: %w", err))
			return
		case n == 0:
			c.ended()
			return
		}
		c.got += int64(n)
		whole, err := c.parse(buffer[:n])
		if err != nil {
			c.fail(failure.BadHTTP, err)
			return
		}
		if whole {
			c.succeed()
			return
		}
		if n < len(buffer) && !c.hungUp {
			return
		}
	}
	c.loop.readAgain(c)
}

// readsAtOnce is how many times the loop's buffer is filled from one connection
// before the others have their turn: a megabyte.
const readsAtOnce = 16

// incoming are the events after which there is something to be read.
const incoming = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR

// ended deals with the end of what the server sends.
func (c *connection) ended() {
	if c.answer.eof() {
		c.succeed()
		return
	}
	kind := failure.EOF
	if c.answer.inBody() {
		kind = failure.ShortBody
	}
	c.fail(kind, truncated{got: c.got})
}

// parse reads on in the answer, and says whether it is whole.
func (c *connection) parse(p []byte) (whole bool, err error) {
	if len(c.rest) > 0 {
		c.rest = append(c.rest, p...)
		p = c.rest
	}
	n, err := c.answer.advance(p)
	if err != nil {
		return false, err
	}
	if c.answer.done() {
		if n < len(p) {
			return false, badHTTPError("bytes after the end of the answer")
		}
		return true, nil
	}
	if len(p)-n > maxHeaderBytes {
		return false, badHTTPError("a line longer than the limit of its header")
	}
	c.rest = append(c.rest[:0], p[n:]...) // the two may be one: it moves to the front
	return false, nil
}

// succeed ends the request with an answer.
func (c *connection) succeed() {
	if !c.answer.keepAlive || c.hungUp || len(c.unsent) > 0 {
		c.close()
	} else {
		c.state = idleState
	}
	c.finish(c.answer.status, failure.None, nil)
}

// fail ends the request, or connecting ahead, without one.
func (c *connection) fail(kind failure.Kind, err error) {
	c.close()
	if done := c.opened; done != nil {
		c.opened = nil
		c.loop.overdue.remove(c)
		done(kind, err)
		return
	}
	c.finish(0, kind, err)
}

// finish tells the user.
func (c *connection) finish(status int, kind failure.Kind, err error) {
	c.loop.overdue.remove(c)
	u := c.user
	c.user = nil
	u.got, u.done = c.got, c.loop.clock.now()
	u.answered(status, kind, err)
}

// abort ends what is under way, if anything is: too late, or cut off.
func (c *connection) abort(kind failure.Kind, err error) {
	if c.user != nil || c.opened != nil {
		c.fail(kind, err)
	}
}

// close ends the connection, if there is one.
func (c *connection) close() {
	c.state, c.unsent, c.rest = closedState, trim(c.unsent[:0]), trim(c.rest[:0])
	if c.fd != noSocket {
		c.loop.leave(c)
		_ = unix.Close(c.fd) // nothing is lost that anybody waits for
		c.fd = noSocket
	}
}

// transfer is read(2) or write(2) on a socket that does not block, without
// telling the scheduler, which otherwise gets ready to give the processor away.
func transfer(call uintptr, fd int, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))) //nolint:gosec // as documented for RawSyscall
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

// overdueList has the connections with something under way, by when it is due.
type overdueList struct{ first, last *connection }

// add appends c, which is due no earlier than those before it.
func (l *overdueList) add(c *connection, due time.Duration) {
	c.due, c.prev, c.next = due, l.last, nil
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
}

// remove takes c out, if it is in.
func (l *overdueList) remove(c *connection) {
	if c.prev == nil && c.next == nil && l.first != c {
		return
	}
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
}

// truncated is an answer that ended too early. It is an io.ErrUnexpectedEOF.
type truncated struct{ got int64 }

func (t truncated) Error() string {
	if t.got == 0 {
		return "the server closed the connection without an answer"
	}
	return fmt.Sprintf("the server closed the connection %d bytes into its answer", t.got)
}

func (t truncated) Is(target error) bool { return target == io.ErrUnexpectedEOF }

// badHTTPError is an answer that breaks the protocol.
type badHTTPError string

func (b badHTTPError) Error() string { return "not an HTTP/1.x answer: " + string(b) }
