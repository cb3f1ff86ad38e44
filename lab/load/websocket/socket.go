package websocket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// chunkSize is how much is read from the kernel at once, in bytes.
const chunkSize = 16 << 10

// socket is a TCP connection that no loop reads: whose reads hold no buffer while there is nothing
// to read, and whose writes never wait. Reads belong to one goroutine at a time;
// writes may come from any.
type socket struct {
	net.Conn // and not the TCPConn that it is, whose other methods would go past Read and Write

	raw   syscall.RawConn
	count *counters
	pool  *sync.Pool // of *chunk

	// Reading.
	chunk   *chunk // nil if all that was read has been handed on
	rest    []byte // of chunk
	tryRead func(fd uintptr) bool
	readErr error
	pace    *pace // nil if it reads as fast as it can

	// Writing.
	mu       sync.Mutex
	tryWrite func(fd uintptr) bool
	pending  []byte // what tryWrite is to write, and then what it could not
	writeErr error
	// backlog is what the kernel has not taken. While flushing there is a
	// goroutine that writes it, and all writes go to the backlog.
	backlog  []byte
	flushing atomic.Bool
	// start starts that goroutine; flushed is called by it at its end.
	start   func(func())
	flushed func()
}

// chunk is a read buffer.
type chunk [chunkSize]byte

// newSocket wraps a new connection.
func (g *Group) newSocket(conn *net.TCPConn, slow bool) (*socket, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{
		Conn: conn, raw: raw, count: &g.count, pool: &g.chunks,
		start: g.work.Go, flushed: func() {},
	}
	s.tryRead, s.tryWrite = s.readOnce, s.writeOnce
	if slow {
		s.pace = newPace(g.config.SlowRate)
	}
	return s, nil
}

// Read hands on what has been read from the kernel, or waits for more.
func (s *socket) Read(p []byte) (int, error) {
	if s.pace != nil {
		return s.readSlowly(p)
	}
	if len(s.rest) == 0 {
		if err := s.raw.Read(s.tryRead); err != nil && s.readErr == nil {
			s.readErr = err
		}
		if s.readErr != nil {
			return 0, s.readErr
		}
		s.count.receivedBytes.Add(uint64(len(s.rest)))
	}
	n := copy(p, s.rest)
	if s.rest = s.rest[n:]; len(s.rest) == 0 {
		s.pool.Put(s.chunk)
		s.chunk = nil
	}
	return n, nil
}

// readOnce reads without waiting. It is false if there was nothing to read.
func (s *socket) readOnce(fd uintptr) bool {
	c := s.pool.Get().(*chunk) // the pool has nothing else
	for {
		n, err := syscall.Read(int(fd), c[:])
		switch {
		case n > 0:
			s.chunk, s.rest = c, c[:n]
			return true
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			s.pool.Put(c)
			return false
		case err != nil:
			s.readErr = os.NewSyscallError("read", err)
		default:
			s.readErr = io.EOF
		}
		s.pool.Put(c)
		return true
	}
}

// readSlowly reads as much as the pace allows.
func (s *socket) readSlowly(p []byte) (int, error) {
	if s.readErr != nil {
		return 0, s.readErr
	}
	n, err := s.Conn.Read(p[:s.pace.wait(len(p))])
	s.pace.took(n)
	if err != nil {
		s.readErr = err
		return n, err
	}
	s.count.receivedBytes.Add(uint64(n))
	return n, nil
}

// SetWriteDeadline does nothing: writes do not wait.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline bounds the reads: writes do not wait.
func (s *socket) SetDeadline(t time.Time) error { return s.SetReadDeadline(t) }

// Write writes p, or leaves to a goroutine what the kernel does not take at
// once. Callers bound how much that can be: one message and control frames.
func (s *socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writeErr != nil {
		return 0, s.writeErr
	}
	s.count.sentBytes.Add(uint64(len(p)))
	if s.flushing.Load() {
		s.backlog = append(s.backlog, p...)
		return len(p), nil
	}
	s.pending = p
	if err := s.raw.Write(s.tryWrite); err != nil && s.writeErr == nil {
		s.writeErr = err
	}
	rest := s.pending
	s.pending = nil
	if s.writeErr != nil {
		return 0, s.writeErr
	}
	if len(rest) > 0 {
		s.backlog = append(s.backlog, rest...)
		s.flushing.Store(true)
		s.start(s.flush)
	}
	return len(p), nil
}

// onFlushed has f called at the end of each flush from now on.
func (s *socket) onFlushed(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushed = f
}

// writeOnce writes pending without waiting, as far as that goes.
func (s *socket) writeOnce(fd uintptr) bool {
	for len(s.pending) > 0 {
		n, err := syscall.Write(int(fd), s.pending)
		switch {
		case n > 0:
			s.pending = s.pending[n:]
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return true
		default:
			s.writeErr = os.NewSyscallError("write", err)
			return true
		}
	}
	return true
}

// flush writes the backlog until there is none or the connection is closed,
// which is what bounds it.
func (s *socket) flush() {
	for {
		s.mu.Lock()
		b := s.backlog
		s.backlog = nil
		if len(b) == 0 || s.writeErr != nil {
			s.flushing.Store(false)
			flushed := s.flushed
			s.mu.Unlock()
			flushed()
			return
		}
		s.mu.Unlock()
		if _, err := s.Conn.Write(b); err != nil {
			s.mu.Lock()
			s.writeErr = err
			s.mu.Unlock()
		}
	}
}

// Close closes the connection, and ends a read, a pause and a flush.
func (s *socket) Close() error {
	if s.pace != nil {
		s.pace.end()
	}
	return s.Conn.Close()
}

// slowBuffer is the receive buffer of a slow client, in bytes: small, so that
// what it has not read stays at the server soon.
const slowBuffer = 4 << 10

// pace holds a reader to a number of bytes per second.
type pace struct {
	rate  float64
	next  time.Time // when more may be read
	ended chan struct{}
	end   func()
}

func newPace(rate float64) *pace {
	p := &pace{rate: rate, ended: make(chan struct{})}
	p.end = sync.OnceFunc(func() { close(p.ended) })
	return p
}

// wait returns when something may be read, and how much of n: at most what is
// read in 50 ms, so that reading looks like a trickle, but one byte at least.
func (p *pace) wait(n int) int {
	const portion = 20 // per second
	if d := time.Until(p.next); d > 0 {
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-p.ended:
			timer.Stop()
		}
	}
	return min(n, max(1, int(p.rate/portion)))
}

// took puts off the next read by what n bytes take.
func (p *pace) took(n int) {
	if now := time.Now(); p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
}
