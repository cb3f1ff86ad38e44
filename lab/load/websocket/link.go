package websocket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"loadstone/block/websocket"
)

// wire is what an open connection is written to.
type wire interface {
	// Write writes a frame, or leaves to somebody else what the kernel does not take at
	// once. Callers bound how much that can be: one message, what is sent again, and control frames.
	Write(p []byte) (int, error)
	// busy says that an earlier frame is still being written.
	busy() bool
	// Close has its reader end.
	Close() error
}

// link is one open connection. Frames are taken by one goroutine at a time, its reader.
type link struct {
	client *client
	wire   wire
	parser websocket.Parser
	rest   []byte // of a frame that is not whole yet

	broken atomic.Bool            // a write has failed
	owed   atomic.Pointer[string] // the ping that is to be answered after a flush
	// until is when the connection is closed although the server has not answered the
	// close frame; 0 for not at all.
	until atomic.Int64
}

// closedError is a connection that the server has closed with a close frame.
type closedError struct {
	code   websocket.Code // 0 for none
	reason string
}

func (e *closedError) Error() string {
	switch {
	case e.code == 0:
		return "the server closed the connection without a code"
	case e.reason == "":
		return fmt.Sprintf("the server closed the connection with code %d", e.code)
	}
	return fmt.Sprintf("the server closed the connection with code %d: %s", e.code, e.reason)
}

// take takes what was read at a time. data is the caller's again afterwards. An error ends the
// connection.
func (l *link) take(data []byte, now time.Duration) error {
	if len(l.rest) > 0 {
		l.rest = append(l.rest, data...)
		data = l.rest
	}
	for len(data) > 0 {
		m, n, err := l.parser.Next(data, MessageLimit)
		if err != nil {
			l.refuse(err)
			return fmt.Errorf("the server broke the protocol: %w", err)
		}
		if n == 0 {
			break
		}
		if err := l.frame(m, now); err != nil {
			return err
		}
		data = data[n:]
	}
	l.keep(data)
	return nil
}

// keep keeps the beginning of a frame for when the rest has come.
func (l *link) keep(data []byte) {
	const mostKept = 4 << 10 // of an idle connection
	switch {
	case len(data) > 0:
		l.rest = append(l.rest[:0], data...) // which may be the end of itself
	case cap(l.rest) > mostKept:
		l.rest = nil
	default:
		l.rest = l.rest[:0]
	}
}

// frame deals with one message or control frame.
func (l *link) frame(m websocket.Message, now time.Duration) error {
	switch m.Op {
	case websocket.Text, websocket.Binary:
		l.client.arrived(l, m.Payload, now)
	case websocket.Ping:
		l.answer(string(m.Payload))
	case websocket.Pong:
		l.client.ponged(m.Payload, now)
	case websocket.Close:
		l.send(websocket.Close, m.Payload[:min(len(m.Payload), 2)]) // the server may close now (RFC 6455, 5.5.1)
		e := &closedError{}
		if len(m.Payload) > 1 {
			e.code, e.reason = websocket.Code(binary.BigEndian.Uint16(m.Payload)), string(m.Payload[2:])
		}
		return e
	case websocket.Continuation: // of a message that has not ended
	}
	return nil
}

// send writes a control frame. What fails here has ended the connection already, which its
// reader finds too.
func (l *link) send(op websocket.Op, payload []byte) {
	_, _ = l.wire.Write(websocket.AppendMasked(nil, op, payload, mask()))
}

// mask is that of one frame. It need not be hard to guess: no page chose what is sent.
func mask() (m [4]byte) {
	binary.LittleEndian.PutUint32(m[:], rand.Uint32())
	return m
}

// refuse tells a server what is wrong with what it sent.
func (l *link) refuse(err error) {
	code := websocket.Protocol
	if e, ok := errors.AsType[*websocket.Error](err); ok {
		code = e.Code
	}
	l.send(websocket.Close, binary.BigEndian.AppendUint16(nil, uint16(code)))
}

// writable says whether a message can be sent now without being queued.
func (l *link) writable() bool { return l != nil && !l.broken.Load() && !l.wire.busy() }

// closeWait is how long a server has to answer a close frame before the
// connection is closed all the same: the answer tells nothing that is measured.
const closeWait = time.Second

// farewell sends a close frame and bounds the wait for the answer. The reader
// then ends by itself, or the sweeper ends it.
func (l *link) farewell(now time.Duration) {
	l.until.Store(int64(now + closeWait))
	l.send(websocket.Close, binary.BigEndian.AppendUint16(nil, uint16(websocket.Normal)))
	l.client.group.sweeper.end(l)
}

// answer answers a ping. While the server takes nothing only the last ping is
// kept, as RFC 6455, 5.5.3 allows: a backlog of answers would have no bound.
func (l *link) answer(ping string) {
	l.owed.Store(&ping)
	if !l.wire.busy() {
		l.payPong()
	}
}

// payPong answers the ping that is owed, if there is one.
func (l *link) payPong() {
	if ping := l.owed.Swap(nil); ping != nil {
		l.send(websocket.Pong, []byte(*ping))
	}
}

// flushed is called when what was left to somebody else has been written.
func (l *link) flushed() {
	l.payPong()
	g, c := l.client.group, l.client
	for _, t := range c.talkers() {
		g.check(t.resume(g.config.Now(), false))
	}
}
