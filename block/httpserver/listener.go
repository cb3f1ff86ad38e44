package httpserver

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/socket"
)

// listener hands out connections that know whether they wait for a request,
// and knows which of them are open.
type listener struct {
	inner    net.Listener
	draining *atomic.Bool
	epoch    time.Time // conn.waiting counts from here
	retries  atomic.Uint64

	crowd *crowded // who comes when there is no room

	// How late deadlines may be, see deadline.
	readSlack, writeSlack time.Duration

	closing sync.Once
	closed  chan struct{}
	err     error // of closing

	perClient *PerClient // or nil

	mu      sync.Mutex
	open    map[*conn]struct{}
	clients map[uint64]int // how many of each client are open, with perClient
}

func newListener(inner net.Listener, cfg *Config, draining *atomic.Bool) *listener {
	const part = 8 // of a timeout, by which it may be late
	return &listener{
		inner: inner, draining: draining, crowd: newCrowded(cfg),
		readSlack:  min(cfg.ReadTimeout, cfg.IdleTimeout) / part,
		writeSlack: cfg.WriteTimeout / part,
		// waiting == 0 means busy, so no instant may be 0.
		epoch:  time.Now().Add(-time.Second),
		closed: make(chan struct{}),
		open:   make(map[*conn]struct{}), perClient: cfg.PerClient, clients: make(map[uint64]int),
	}
}

// Accept waits for a connection, and turns away those that are too many. A lack of file descriptors or of memory passes
// as soon as other connections end, while fasthttp takes any error for the end
// of the listener: so Accept waits and tries again.
func (l *listener) Accept() (net.Conn, error) {
	const firstPause, maxPause = 5 * time.Millisecond, time.Second
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		c, err := l.inner.Accept()
		if err == nil {
			if added := l.add(c); added != nil {
				return added, nil
			}
			l.crowd.refuse(c)
			pause = firstPause
			continue
		}
		if !passing(err) {
			return nil, err // fasthttp recognises the closed listener by this error
		}
		l.retries.Add(1)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-l.closed:
			timer.Stop()
			return nil, net.ErrClosed
		}
	}
}

func passing(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (l *listener) Addr() net.Addr { return l.inner.Addr() }

// Close may be called more than once; every call returns the first's result.
func (l *listener) Close() error {
	l.closing.Do(func() {
		close(l.closed)
		l.err = l.inner.Close()
	})
	return l.err
}

// add returns nil if as many connections as may be are open, in all or of this client.
func (l *listener) add(inner net.Conn) *conn {
	c := &conn{Conn: socket.Direct(inner), listener: l, fresh: true}
	c.waiting.Store(l.now())
	if tcp, ok := inner.RemoteAddr().(*net.TCPAddr); ok && l.perClient != nil {
		name, others := l.perClient.Client(tcp.AddrPort().Addr().Unmap())
		c.client, c.counted = name, !others
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.crowd.most || c.counted && l.clients[c.client] >= l.perClient.MaxConns {
		return nil
	}
	l.open[c] = struct{}{}
	if c.counted {
		l.clients[c.client]++
	}
	return c
}

// remove reports whether the connection was open.
func (l *listener) remove(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, open := l.open[c]; !open {
		return false
	}
	delete(l.open, c)
	if c.counted {
		if l.clients[c.client]--; l.clients[c.client] == 0 {
			delete(l.clients, c.client)
		}
	}
	return true
}

// now is the time since the epoch in nanoseconds, never 0.
func (l *listener) now() int64 { return int64(time.Since(l.epoch)) }

func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// connections returns those that are open now.
func (l *listener) connections() []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*conn, 0, len(l.open))
	for c := range l.open {
		all = append(all, c)
	}
	return all
}

// conn is an accepted connection. The goroutine that serves it writes its state;
// the one that stops the server reads it.
type conn struct {
	net.Conn
	listener    *listener
	read, write deadline // only the serving goroutine uses them

	// waiting is since when (listener.now) the connection has been waiting for
	// the first byte of a request; 0 while a request is read or answered.
	// Outside of draining the instant of becoming idle is not needed, and
	// time is not asked for it: idleSome stands for it.
	waiting atomic.Int64

	// fresh is true until the first byte has been read. Only the serving
	// goroutine uses it. It is needed because fasthttp calls a new connection
	// active before anything has come from it.
	fresh bool

	hungUp bool // only the stopping goroutine uses it

	client  uint64 // see PerClient
	counted bool   // as one of that client's
}

// idleSome is an instant before every start of draining.
const idleSome = 1

// Read reads under the deadline and marks the start of the connection's first
// request.
func (c *conn) Read(b []byte) (int, error) {
	if c.read.due(c.listener.readSlack) {
		if err := c.Conn.SetReadDeadline(c.read.armed); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(b)
	if c.fresh && n > 0 {
		c.fresh = false
		c.waiting.Store(0)
	}
	return n, err
}

// Write writes under the deadline.
func (c *conn) Write(b []byte) (int, error) {
	if c.write.due(c.listener.writeSlack) {
		if err := c.Conn.SetWriteDeadline(c.write.armed); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(b)
}

// SetReadDeadline takes effect with the next Read.
func (c *conn) SetReadDeadline(t time.Time) error { c.read.wanted = t; return nil }

// SetWriteDeadline takes effect with the next Write.
func (c *conn) SetWriteDeadline(t time.Time) error { c.write.wanted = t; return nil }

// SetDeadline is both.
func (c *conn) SetDeadline(t time.Time) error {
	c.read.wanted, c.write.wanted = t, t
	return nil
}

// deadline is a connection's deadline for one direction.
//
// fasthttp sets three for each request: two for reading, before a request and
// within one, and one for writing. Each would move a timer of the runtime, for
// nothing in most cases: a request that comes in one piece is never read under
// its second deadline, and the next one pushes the others out by milliseconds.
// Measured on one busy core with 64 connections, CPU time of a request, medians
// of 20 interleaved runs: 7.4 microseconds with them, 6.7 as below, and 6.2 for
// a fasthttp server without any timeout.
//
// So a deadline is armed only when the connection is about to block on it, and
// armed a little later than wanted (slack), so that those that follow soon need
// not move it. It never fires early, and late by slack at most.
type deadline struct{ wanted, armed time.Time }

// due reports whether armed has changed and must be set on the connection.
func (d *deadline) due(slack time.Duration) bool {
	if d.wanted.IsZero() {
		due := !d.armed.IsZero()
		d.armed = time.Time{}
		return due
	}
	if late := d.armed.Sub(d.wanted); late >= 0 && late <= slack {
		return false
	}
	d.armed = d.wanted.Add(slack)
	return true
}

// Close may be called more than once, by the serving goroutine and by the stop.
func (c *conn) Close() error {
	if !c.listener.remove(c) {
		return nil
	}
	return c.Conn.Close()
}

// SyscallConn is for Descriptor.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	raw, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("a %T has no descriptor", c.Conn)
	}
	return raw.SyscallConn()
}

// hangUp ends the reading side: the server still reads what has arrived, then
// sees the end of the stream and closes the connection itself.
func (c *conn) hangUp() error {
	half, ok := c.Conn.(interface{ CloseRead() error })
	if !ok {
		return fmt.Errorf("a %T cannot be closed for reading only", c.Conn)
	}
	return half.CloseRead()
}

// observe is the server's ConnState hook. It runs twice for each request.
func observe(nc net.Conn, state fasthttp.ConnState) {
	c, ok := nc.(*conn)
	if !ok {
		return
	}
	switch {
	case state == fasthttp.StateActive && !c.fresh:
		c.waiting.Store(0)
	case state == fasthttp.StateIdle && c.listener.draining.Load():
		c.waiting.Store(c.listener.now())
	case state == fasthttp.StateIdle:
		c.waiting.Store(idleSome)
	}
}
