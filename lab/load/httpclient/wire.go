package httpclient

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// closeGrace bounds saying goodbye: TLS writes a last record, which a server
// that has stopped reading does not take.
const closeGrace = 250 * time.Millisecond

// wire is the connection as the protocol's messages see it: above TLS, below
// HTTP. See the package's comment. As with any net.Conn one goroutine reads at a
// time and one writes.
type wire struct {
	net.Conn // the messages: a *tls.Conn, or the socket itself

	socket net.Conn    // what lies at the bottom
	watch  *frameWatch // over HTTP/2

	// received and sent are bytes that no answer has accounted for yet.
	received, sent atomic.Int64
	// written is all that was ever sent.
	written atomic.Int64

	first atomic.Pointer[error]
	// ending: the end came together with the last bytes.
	ending atomic.Bool
	once   sync.Once
	ended  chan struct{} // closed by Close
}

// Read counts, and remembers the first error. It never gives bytes and an error
// at once, as TLS does at a connection's end: that an error was noted is to mean
// that somebody wanted more than had come. The next Read has the error again.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 && err != nil {
		w.ending.Store(true)
		err = nil
	}
	w.received.Add(int64(n))
	if w.watch != nil {
		w.watch.read(p[:n])
	}
	w.note(err)
	return n, err
}

// Write counts before it writes: an answer must not be faster than its request's
// bytes are counted, and what was tried counts as sent, because it may have been.
func (w *wire) Write(p []byte) (int, error) {
	w.written.Add(int64(len(p)))
	w.sent.Add(int64(len(p)))
	n, err := w.Conn.Write(p)
	if w.watch != nil {
		w.watch.wrote(p[:n])
	}
	w.note(err)
	return n, err
}

// note keeps the first error, unless it only says that Close was first.
func (w *wire) note(err error) {
	if err != nil && !errors.Is(err, net.ErrClosed) {
		w.first.CompareAndSwap(nil, &err)
	}
}

// failed returns the first error of the socket: nil if there was none but that
// this side closed it.
func (w *wire) failed() error {
	if err := w.first.Load(); err != nil {
		return *err
	}
	return nil
}

// take returns the bytes received and sent since it was last called.
func (w *wire) take() (received, sent int64) {
	return w.received.Swap(0), w.sent.Swap(0)
}

// goneAway says whether the server has sent GOAWAY.
func (w *wire) goneAway() bool { return w.watch != nil && w.watch.goAway.Load() }

// Close ends the connection within closeGrace.
func (w *wire) Close() error {
	var err error
	w.once.Do(func() {
		force := time.AfterFunc(closeGrace, func() {
			// If this fails the socket is closed, which is what is wanted.
			_ = w.socket.Close()
		})
		err = w.Conn.Close()
		force.Stop()
		close(w.ended)
	})
	return err
}

// The parts of HTTP/2's framing that are looked at (RFC 9113, 4.1 and 6).
const (
	frameHeader   = 9
	typeSettings  = 4
	typeGoAway    = 7
	flagAck       = 1
	goAwayLeast   = 8 // last stream and error code
	startOfHTTP1  = "HTTP/1."
	goAwayErrorAt = frameHeader + 4
)

// frameWatch follows the frames of an HTTP/2 connection in passing. It judges
// nothing, net/http does: bytes that are no frames lead it astray and no further.
type frameWatch struct {
	settled chan struct{} // closed when the server's first SETTINGS are in force

	// The reader's: head has the first bytes of the answer or frame, have of them.
	head  [frameHeader + goAwayLeast]byte
	have  int
	skip  int // bytes of the frame that need not be looked at
	start []byte

	// The writer's.
	acked bool

	goAway     atomic.Bool
	goAwayCode atomic.Uint32
	http1      atomic.Bool
}

// read takes the next bytes that came.
func (f *frameWatch) read(p []byte) {
	if len(f.start) < len(startOfHTTP1) {
		f.start = append(f.start, p[:min(len(p), len(startOfHTTP1)-len(f.start))]...)
		f.http1.Store(bytes.Equal(f.start, []byte(startOfHTTP1)))
	}
	for len(p) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(p))
			f.skip -= n
			p = p[n:]
			continue
		}
		n := copy(f.head[f.have:f.need()], p)
		f.have += n
		p = p[n:]
		if f.have == f.need() {
			f.frame()
		}
	}
}

// need is how many of the frame's first bytes are to be looked at.
func (f *frameWatch) need() int {
	if f.have >= frameHeader && f.head[3] == typeGoAway && f.length() >= goAwayLeast {
		return len(f.head)
	}
	return frameHeader
}

// length is that of the frame's payload.
func (f *frameWatch) length() int {
	return int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
}

// frame looks at the head of a frame, all of which is there.
func (f *frameWatch) frame() {
	f.skip = f.length() - (f.have - frameHeader)
	f.have = 0
	if f.head[3] == typeGoAway {
		f.goAwayCode.Store(binary.BigEndian.Uint32(f.head[goAwayErrorAt:]))
		f.goAway.Store(true)
	}
}

// wrote takes what was just written: net/http acknowledges SETTINGS in a write
// of their own when it has applied them, and no request goes out before.
func (f *frameWatch) wrote(p []byte) {
	if !f.acked && len(p) >= frameHeader && p[3] == typeSettings && p[4]&flagAck != 0 {
		f.acked = true
		close(f.settled)
	}
}

// looksHTTP1 says whether what came first is an HTTP/1 answer.
func (f *frameWatch) looksHTTP1() bool { return f.http1.Load() }
