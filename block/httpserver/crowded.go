package httpserver

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// hearing is how long one who is refused gets to say what he wants, and then to
	// take the answer: a long round trip each, as handshake.
	hearing = 300 * time.Millisecond
	// telling bounds the answer, which fits into the socket's buffer and waits for
	// nobody, unless the kernel is short of memory: so it is only not to be shorter than
	// this process may stand still.
	telling = 10 * hearing
	// heard is how many are so at one time. The others are answered at once.
	heard = 64
)

// crowded refuses the connections that are too many.
//
// An answer that comes before the request is no answer to many clients, and a
// connection that is closed with something unread is reset, which may take the
// answer with it. So who is refused is heard first, and answered then.
type crowded struct {
	most    int            // connections that may be open
	read    int            // bytes of a request that are heard at most
	answer  func(net.Conn) // says that there is no room
	refused atomic.Uint64

	places  chan struct{}
	leaving sync.WaitGroup // those who are heard
}

func newCrowded(cfg *Config) *crowded {
	return &crowded{most: cfg.MaxConns, read: cfg.ReadBufferBytes, places: make(chan struct{}, heard)}
}

// refuse answers a connection and closes it, soon. Only the goroutine that accepts
// calls it.
func (w *crowded) refuse(c net.Conn) {
	w.refused.Add(1)
	select {
	case w.places <- struct{}{}:
		w.leaving.Go(func() {
			defer func() { <-w.places }()
			bound(c, telling)
			w.hear(c)
			bound(c, telling)
			w.answer(c)
			if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
				bound(c, telling)                             // closed with something unread, the answer might be lost
				_, _ = io.CopyN(io.Discard, c, int64(w.read)) // until the other side has closed
			}
			_ = c.Close()
		})
	default: // nobody else is accepted meanwhile
		bound(c, hearing)
		w.answer(c)
		_ = c.Close()
	}
}

// bound gives a connection the time for its next step: to read, and to write. One without deadlines is none
// of the network's.
func bound(c net.Conn, write time.Duration) {
	now := time.Now()
	_, _ = c.SetReadDeadline(now.Add(hearing)), c.SetWriteDeadline(now.Add(write))
}

// hear reads the head of a request, or what there is of one.
func (w *crowded) hear(c net.Conn) {
	said, n := make([]byte, w.read), 0
	for n < len(said) && !bytes.Contains(said[:n], []byte("\r\n\r\n")) {
		more, err := c.Read(said[n:])
		n += more
		if err != nil {
			return
		}
	}
}
