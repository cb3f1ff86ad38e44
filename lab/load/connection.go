package load

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// The read buffer starts small, because most answers are, and doubles when an
// answer fills it, up to the size that a header may have.
const (
	firstBuffer = 4 << 10
	mostBuffer  = maxHeaderBytes
)

// idleCheck is how long a connection has to lie idle before it is looked at
// again before use. A busy connection has no time to be closed unnoticed, and
// the look costs one system call.
const idleCheck = time.Millisecond

// The values of connection.due that are not a time.
const (
	dueNever  = 0  // nothing is under way
	dueMissed = -1 // the fleet closed the connection: the request is overdue
	dueCut    = -2 // the fleet closed the connection: the time to stop is over
)

// connection is a virtual user's one connection to its target: opened when it
// is needed, used for one request at a time, closed by the first failure.
//
// # One write and one read
//
// What a request costs here is system calls. net.Conn would make three of each
// pair: write, a read that finds nothing, and, once the poller has woken the
// goroutine, a read that finds the answer. RawConn.Read runs a function that
// may do what it likes with the socket and is run again once the socket is
// readable, and it forgets old readiness before it begins. So the request is
// written inside that function, which then asks to be woken: the read that
// finds nothing never happens. Readiness is edge-triggered and was reset before
// the write, so an answer cannot come unnoticed. Only what does not go to plan
// (a write that the socket does not take whole, an answer in pieces) takes the
// ordinary path, in which a read always comes before a wait.
//
// # Deadlines
//
// A deadline on the socket costs a timer for each request. Instead each
// connection shows in due when its request is overdue, and the fleet looks at
// all of them fifty times a second and closes those that are. The swap of due
// decides who was first, the answer or the fleet.
type connection struct {
	address string
	dialer  net.Dialer

	// due is an offset on the run's clock in nanoseconds, or one of the above.
	due atomic.Int64

	// mu guards the change of socket against the fleet, which closes it.
	mu     sync.Mutex
	socket net.Conn // nil when there is none

	raw    syscall.RawConn
	first  func(fd uintptr) bool // step, as a value made once
	again  func(fd uintptr) bool // readOnce, likewise
	next   step
	out    []byte // the request
	sent   int    // of it, so far
	err    error  // of the last system call
	in     []byte // the read buffer
	begin  int    // of what has not been parsed
	end    int    // of what has been read
	answer answer
	got    int64 // bytes of the answer
}

// step is what connection.step does next.
type step uint8

const (
	stepLook  step = iota // is the connection still fit for use?
	stepWrite             // the request
	stepRead              // the answer
)

// errStale reports a connection that turned out to be closed, or to hold bytes
// that nobody asked for, before anything was written to it.
var errStale = errors.New("the server closed the idle connection")

// newConnection returns a connection to address (host:port), not yet opened.
func newConnection(address string) *connection {
	c := &connection{address: address, in: make([]byte, firstBuffer)}
	// No keep-alive probes: a load test's connections are never idle for hours.
	c.dialer.KeepAlive = -1
	c.first, c.again = c.step, c.readOnce
	return c
}

// open connects, unless it is connected. within bounds the time it takes.
func (c *connection) open(ctx context.Context, within time.Duration) error {
	if c.socket != nil {
		return nil
	}
	if within <= 0 {
		return context.DeadlineExceeded
	}
	c.dialer.Timeout = within
	socket, err := c.dialer.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return err
	}
	raw, err := socket.(*net.TCPConn).SyscallConn()
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	c.mu.Lock()
	c.socket, c.raw = socket, raw
	c.mu.Unlock()
	return nil
}

// close ends the connection, if there is one.
func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.socket != nil {
		// Closing can only fail if the fleet was faster, and then it is closed.
		_ = c.socket.Close()
		c.socket, c.raw = nil, nil
	}
}

// expire closes the connection under a request that is due by then, and marks
// why. It does nothing if that request has ended. The fleet calls it.
func (c *connection) expire(due, mark int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due.CompareAndSwap(due, mark) && c.socket != nil {
		_ = c.socket.Close() // wakes the virtual user with an error
	}
}

// roundTrip sends request and reads its answer, and returns the status.
// idle is how long the connection has been unused. An error leaves the
// connection unfit; errStale means that nothing was sent.
func (c *connection) roundTrip(request []byte, head bool, idle time.Duration) (int, error) {
	c.answer.reset(head)
	c.out, c.sent, c.err, c.got = request, 0, nil, 0
	c.begin, c.end = 0, 0
	c.next = stepWrite
	if idle > idleCheck {
		c.next = stepLook
	}
	if err := c.raw.Read(c.first); err != nil {
		return 0, err
	}
	if c.err == nil && c.sent < len(c.out) {
		_, c.err = c.socket.Write(c.out[c.sent:])
		if c.err == nil {
			c.err = c.read()
		}
	}
	if errors.Is(c.err, io.EOF) {
		return 0, truncated{}
	}
	if c.err != nil {
		return 0, c.err
	}
	return c.readAnswer()
}

// readAnswer parses what has been read, and reads on until the answer is whole.
func (c *connection) readAnswer() (int, error) {
	for {
		n, err := c.answer.advance(c.in[c.begin:c.end])
		c.begin += n
		if err != nil {
			return 0, err
		}
		if c.answer.done() {
			break
		}
		if err := c.makeRoom(); err != nil {
			return 0, err
		}
		err = c.read()
		if errors.Is(err, io.EOF) {
			if !c.answer.eof() {
				return 0, truncated{got: c.got}
			}
			break
		}
		if err != nil {
			return 0, err
		}
	}
	if c.begin < c.end {
		return 0, badHTTPError("bytes after the end of the answer")
	}
	return c.answer.status, nil
}

// makeRoom moves what has not been parsed, the beginning of a line, to the
// front of the buffer, and enlarges a buffer that proved too small.
func (c *connection) makeRoom() error {
	full := c.end == len(c.in)
	c.end = copy(c.in, c.in[c.begin:c.end])
	c.begin = 0
	switch {
	case !full:
	case len(c.in) < mostBuffer:
		c.in = append(make([]byte, 0, 2*len(c.in)), c.in[:c.end]...)
		c.in = c.in[:cap(c.in)]
	case c.end == len(c.in):
		return badHTTPError("a line longer than the limit of its header")
	}
	return nil
}

// read waits for bytes and takes what there is.
func (c *connection) read() error {
	if err := c.raw.Read(c.again); err != nil {
		return err
	}
	return c.err
}

// step does the next step, and says whether to stop waiting for readability.
func (c *connection) step(fd uintptr) bool {
	if c.next == stepLook {
		// Any outcome but "nothing there yet" means that the connection ended,
		// or that bytes came which answer nothing (some servers send a 408
		// before they close).
		if _, err := readSocket(fd, c.in); !errors.Is(err, syscall.EAGAIN) {
			c.err = errStale
			return true
		}
		c.next = stepWrite
	}
	if c.next == stepWrite {
		n, err := writeSocket(fd, c.out)
		if err != nil && !errors.Is(err, syscall.EAGAIN) {
			c.err = err
			return true
		}
		c.sent = max(n, 0)
		c.next = stepRead
		return c.sent < len(c.out) // the rest goes the ordinary way
	}
	return c.readOnce(fd)
}

// readOnce reads into the buffer, and says whether there was something to be
// had: bytes, the end, or an error.
func (c *connection) readOnce(fd uintptr) bool {
	n, err := readSocket(fd, c.in[c.end:])
	switch {
	case err == nil && n == 0:
		c.err = io.EOF
	case err == nil:
		c.end += n
		c.got += int64(n)
	case errors.Is(err, syscall.EAGAIN):
		return false
	default:
		c.err = err
	}
	return true
}

// readSocket is read(2) on a non-blocking socket.
func readSocket(fd uintptr, p []byte) (int, error) { return transfer(syscall.SYS_READ, fd, p) }

// writeSocket is write(2) on a non-blocking socket.
func writeSocket(fd uintptr, p []byte) (int, error) { return transfer(syscall.SYS_WRITE, fd, p) }

// transfer makes the call without telling the scheduler, which otherwise gets
// ready to give the processor away and, in a process that sleeps between
// requests, wakes a thread to watch over it. Calls that cannot block need
// neither: it was a quarter of the generator's CPU time.
func transfer(call, fd uintptr, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))) //nolint:gosec // as documented for RawSyscall
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
