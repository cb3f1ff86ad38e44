package websocket

import (
	"errors"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/block/epoll"
)

// loop is one thread that reads many connections: what they bring is taken down in place,
// without a goroutine or a buffer for each.
type loop struct {
	group  *Group
	poller *epoll.Poller
	byFD   []*stream // the loop's own, by descriptor
	tags   int32
	again  []*stream // to be read on: they had more than one turn's share
	buf    []byte

	workedNs atomic.Int64 // time not spent waiting

	ended chan struct{}

	mu       sync.Mutex
	starting []*stream
	stopped  bool
}

// Sizes of a loop's reads, in bytes.
const (
	readAtOnce = 64 << 10
	turnShare  = 4 // reads of one connection before the others have their turn
)

// stream is a connection that a loop reads.
type stream struct {
	loop *loop
	link *link
	fd   int
	tag  int32
	read []byte // with the handshake's answer, before the loop had it

	mu       sync.Mutex
	closed   bool // fd is no longer its own
	writeErr error
	backlog  []byte // what the kernel has not taken; all writes go there meanwhile
	flushing atomic.Bool
}

func newLoop(g *Group) (*loop, error) {
	p, err := epoll.Open()
	if err != nil {
		return nil, err
	}
	return &loop{group: g, poller: p, buf: make([]byte, readAtOnce), ended: make(chan struct{})}, nil
}

// start hands a stream to the loop.
func (l *loop) start(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		l.group.work.Go(func() { s.shut(errGone) })
		return
	}
	l.starting = append(l.starting, s)
	l.poller.Wake()
}

// stop ends the loop, whose streams have all ended.
func (l *loop) stop() {
	l.mu.Lock()
	l.stopped = true
	l.poller.Wake()
	l.mu.Unlock()
	<-l.ended
}

// run reads until the loop is stopped, or the machine refuses to wait.
func (l *loop) run() error {
	defer close(l.ended)
	err := l.serve()
	if err == nil {
		return nil
	}
	l.mu.Lock()
	l.stopped = true // whoever starts from now on is closed at once
	l.mu.Unlock()
	starting, _ := l.mail()
	for _, s := range append(starting, l.byFD...) {
		if s != nil {
			l.end(s, err)
		}
	}
	return err
}

func (l *loop) serve() error {
	const long = time.Second
	now := l.group.config.Now
	for began := now(); ; {
		starting, stopped := l.mail()
		for _, s := range starting {
			l.begin(s)
		}
		if stopped {
			return nil
		}
		wait := long
		if len(l.again) > 0 {
			wait = 0
		}
		l.workedNs.Add(int64(now() - began))
		events, err := l.poller.Wait(wait)
		began = now()
		if err != nil {
			return err
		}
		again := l.again
		l.again = nil
		for i := range events {
			if s := l.at(int(events[i].Fd)); s != nil && s.tag == events[i].Pad {
				l.ready(s, events[i].Events)
			}
		}
		for _, s := range again {
			if l.at(s.fd) == s {
				l.receive(s, true)
			}
		}
	}
}

// ready does what a stream is ready for.
func (l *loop) ready(s *stream, events uint32) {
	if events&unix.EPOLLOUT != 0 && s.unwritten() {
		s.flush()
	}
	const over = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	if events&(unix.EPOLLIN|over) != 0 {
		l.receive(s, events&over != 0)
	}
}

func (l *loop) mail() ([]*stream, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	starting := l.starting
	l.starting = nil
	return starting, l.stopped
}

func (l *loop) at(fd int) *stream {
	if fd >= len(l.byFD) {
		return nil
	}
	return l.byFD[fd]
}

// begin watches a stream.
func (l *loop) begin(s *stream) {
	l.tags = (l.tags + 1) & math.MaxInt32
	s.tag = l.tags
	for s.fd >= len(l.byFD) {
		l.byFD = append(l.byFD, nil)
	}
	l.byFD[s.fd] = s
	err := l.poller.Watch(s.fd, s.tag)
	if err == nil && len(s.read) > 0 {
		err = s.link.take(s.read, l.group.config.Now())
		s.read = nil
	}
	if err != nil {
		l.end(s, err)
		return
	}
	if s.flushing.Load() {
		s.flush()
	}
}

// receive reads what a stream has. It is watched by edges: what comes later is another event,
// so it is read until the buffer is not filled, or to the end if that has come (over), or
// until its turn is over.
func (l *loop) receive(s *stream, over bool) {
	for range turnShare {
		n, err := unix.Read(s.fd, l.buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil:
			l.end(s, os.NewSyscallError("read", err))
			return
		case n == 0:
			l.end(s, io.EOF)
			return
		}
		l.group.count.receivedBytes.Add(uint64(n))
		if err := s.link.take(l.buf[:n], l.group.config.Now()); err != nil {
			l.end(s, err)
			return
		}
		if n < len(l.buf) && !over {
			return
		}
	}
	l.again = append(l.again, s)
}

// end closes a stream.
func (l *loop) end(s *stream, why error) {
	if s.fd < len(l.byFD) {
		l.byFD[s.fd] = nil
	}
	s.shut(why)
}

// shut frees what a stream has, and says that it has ended.
func (s *stream) shut(why error) {
	s.mu.Lock()
	s.closed, s.backlog = true, nil
	_ = unix.Close(s.fd) // nothing is left to lose
	s.mu.Unlock()
	s.link.client.ended(why)
}

// errGone is a write to what is closed.
var errGone = errors.New("the connection is closed")

// Write writes p, or keeps what the kernel does not take until it does.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return 0, errGone
	case s.writeErr != nil:
		return 0, s.writeErr
	}
	s.loop.group.count.sentBytes.Add(uint64(len(p)))
	if len(s.backlog) > 0 {
		s.backlog = append(s.backlog, p...)
		return len(p), nil
	}
	rest := s.push(p)
	if s.writeErr != nil {
		return 0, s.writeErr
	}
	if len(rest) > 0 {
		s.backlog = append(s.backlog, rest...)
		s.flushing.Store(true)
	}
	return len(p), nil
}

// push writes without waiting, and returns what was not taken. It is locked.
func (s *stream) push(p []byte) []byte {
	for len(p) > 0 {
		n, err := unix.Write(s.fd, p)
		switch {
		case n > 0:
			p = p[n:]
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return p
		default:
			s.writeErr = os.NewSyscallError("write", err)
			return nil
		}
	}
	return nil
}

// flush writes what was kept, as far as that goes. The loop calls it when there is room.
func (s *stream) flush() {
	s.mu.Lock()
	rest := s.push(s.backlog)
	s.backlog = append(s.backlog[:0], rest...)
	done := len(s.backlog) == 0
	if done {
		s.backlog = nil
		s.flushing.Store(false)
	}
	s.mu.Unlock()
	if done {
		s.link.flushed()
	}
}

// unwritten reports whether something was kept. It waits for a write that is under way: there
// was no room a moment ago, now there is, and that is told only once.
func (s *stream) unwritten() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.backlog) > 0
}

func (s *stream) busy() bool { return s.flushing.Load() }

// Close has the loop read the end.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	return unix.Shutdown(s.fd, unix.SHUT_RDWR)
}
