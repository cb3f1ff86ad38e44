package hub

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/block/websocket"
)

// Conn is a viewer's connection. All but Session is its loop's.
//
// One that is not blocked has been sent everything before its view's sent, and has nothing
// waiting.
type Conn struct {
	// Session is the caller's, see Viewer.
	Session any

	loop    *loop
	view    *view
	address netip.Addr
	cursor  uint64 // the offset of the next message to send
	pending []byte // the rest of what the socket has taken in part: of a frame that is shared, or its own
	private []byte // for this viewer alone, after pending
	partial []byte // the beginning of a frame
	parser  websocket.Parser
	welcome func() ([][]byte, error) // until the loop has it
	until   time.Duration            // when it ends, as l.now
	heard   time.Duration            // when something came last, or the close frame was sent
	stalled time.Duration            // since when it is blocked and has taken nothing
	fd      int
	place   int // in the view's conns
	tag     int32
	frames  int32 // since the last sweep
	blocked bool  // the socket has taken no more, or the cursor is not the view's
	ahead   bool  // it is in the view's ahead
	asked   bool  // there was a ping since something came
	closing bool  // a close frame was sent, and nothing more will be
	gone    bool
	onAgain bool // it is in the loop's again
}

// Room is the room that the viewer is in.
func (c *Conn) Room() int64 { return c.view.room.id }

// Tell sends a message to this viewer alone. Any goroutine may call it, and Receive too.
func (c *Conn) Tell(message []byte) {
	frame := websocket.AppendFrame(make([]byte, 0, websocket.MaxHeader+len(message)), websocket.Text, message)
	c.loop.post(func(m *mail) { m.letters = append(m.letters, letter{to: c, frame: frame}) })
}

// Close ends the connection with a reason of 123 bytes at most. Any goroutine may call it.
func (c *Conn) Close(code websocket.Code, reason string) {
	c.loop.post(func(m *mail) { m.letters = append(m.letters, letter{to: c, frame: []byte(reason), code: code}) })
}

var pingFrame = websocket.AppendFrame(nil, websocket.Ping, nil)

// send writes a frame that is shared to a viewer that is not blocked.
func (l *loop) send(c *Conn, s *shot) {
	frame := s.bytes(c.parser.Deflate)
	n, ok := l.write(c, frame)
	if !ok {
		return
	}
	if n == 0 {
		c.blocked = true // it is sent from the cursor on later, perhaps with more
		return
	}
	if n < len(frame) {
		c.blocked, c.pending = true, frame[n:]
	}
	c.cursor = s.frame.To
	l.stats.deliver(&s.frame.Frame, len(frame)-len(s.tail))
}

// tell sends a frame to one viewer alone.
func (l *loop) tell(c *Conn, frame []byte) {
	if c.blocked {
		if len(c.private)+len(frame) > l.hub.cfg.MaxPrivate {
			l.bye(c, websocket.Policy, tooSlow, closedSlow)
			return
		}
		c.private = append(c.private, frame...)
		return
	}
	if n, ok := l.write(c, frame); ok && n < len(frame) {
		c.blocked, c.pending = true, bytes.Clone(frame[n:])
	}
}

// resume sends a viewer what waits for it, as far as its socket takes it: to the end, where
// it is no longer blocked.
func (l *loop) resume(c *Conn) {
	if len(c.pending) > 0 {
		n, ok := l.write(c, c.pending)
		if !ok {
			return
		}
		if c.pending = c.pending[n:]; len(c.pending) > 0 {
			return
		}
		c.pending = nil
	}
	for {
		f := c.view.room.log.Read(append(l.out[:0], c.private...), c.cursor, c.view.sent)
		l.out = f.Bytes[:0]
		n, ok := l.write(c, f.Bytes)
		if !ok || n == 0 && len(f.Bytes) > 0 {
			return
		}
		if f.To > f.From {
			l.stats.deliver(&f, len(f.Bytes))
		}
		c.cursor, c.private = f.To, nil
		if n < len(f.Bytes) {
			c.pending = bytes.Clone(f.Bytes[n:])
			return
		}
		switch v := c.view; {
		case c.cursor == v.sent:
			c.blocked = false
			return
		case c.cursor > v.sent: // the next flush, which is due, sends what follows
			if !c.ahead {
				c.ahead = true
				v.ahead = append(v.ahead, c)
			}
			return
		}
	}
}

// write writes as much as the socket takes. If the connection is broken, it is over, and the
// result false.
func (l *loop) write(c *Conn, b []byte) (n int, ok bool) {
	for n < len(b) {
		m, errno := writeSocket(c.fd, b[n:])
		switch errno {
		case 0:
			n += m
		case unix.EAGAIN:
			l.stats.blocked.Add(1)
			if n > 0 || !c.blocked {
				c.stalled = l.now
			}
			return n, true
		default:
			l.drop(c, closedBroken)
			return n, false
		}
	}
	return n, true
}

// turns bounds how often one connection is read before the others have their turn.
const turns = 4

// read reads what there is. ended says that there may be an end to find.
func (l *loop) read(c *Conn, ended bool) {
	for range turns {
		n, errno := readSocket(c.fd, l.in)
		switch {
		case errno == unix.EAGAIN:
			return
		case errno != 0:
			l.drop(c, closedBroken)
			return
		case n == 0:
			l.drop(c, closedGone)
			return
		}
		if !c.closing {
			c.heard, c.asked = l.now, false
			l.take(c, l.in[:n])
		}
		if c.gone || n < len(l.in) && !ended {
			return
		}
	}
	if !c.onAgain {
		c.onAgain = true
		l.again = append(l.again, c)
	}
}

// readOn has those read on that had more than their share.
func (l *loop) readOn() {
	all := l.again
	l.again = nil
	for _, c := range all {
		if c.onAgain = false; !c.gone {
			l.read(c, true)
		}
	}
}

// take takes bytes of a viewer's stream.
func (l *loop) take(c *Conn, data []byte) {
	if len(c.partial) > 0 {
		data = append(c.partial, data...)
		c.partial = nil
	}
	for {
		m, n, err := c.parser.Next(data, l.hub.cfg.MaxRequest)
		if err != nil {
			wrong, _ := errors.AsType[*websocket.Error](err)
			l.bye(c, wrong.Code, wrong.Text, closedProtocol)
			return
		}
		if n == 0 {
			break
		}
		if c.frames++; int(c.frames) > l.hub.cfg.MaxFrames {
			l.bye(c, websocket.Policy, "you send too much at once", closedFlood)
			return
		}
		if l.handle(c, m); c.gone || c.closing {
			return
		}
		data = data[n:]
	}
	if len(data) > 0 {
		c.partial = bytes.Clone(data)
	}
}

// handle deals with a whole message or control frame.
func (l *loop) handle(c *Conn, m websocket.Message) {
	switch m.Op {
	case websocket.Text:
		l.stats.received.Add(1)
		l.hub.cfg.Receive(c, m.Payload)
	case websocket.Binary:
		l.bye(c, websocket.Unsupported, "send text", closedProtocol)
	case websocket.Ping:
		l.tell(c, websocket.AppendFrame(nil, websocket.Pong, m.Payload))
	case websocket.Close:
		code := websocket.Normal
		if len(m.Payload) > 0 {
			code = websocket.Code(binary.BigEndian.Uint16(m.Payload))
		}
		l.bye(c, code, "", closedByViewer)
	case websocket.Continuation, websocket.Pong: // a part of a message, or an answer to a ping: it was heard
	}
}

// bye sends a close frame, after the rest of a frame that the socket has taken in part, and
// waits for the viewer to close too.
func (l *loop) bye(c *Conn, code websocket.Code, reason string, why reason) {
	c.closing, c.heard = true, l.now
	c.pending = websocket.AppendClose(bytes.Clone(c.pending), code, reason) // what it was may be shared
	c.private, c.partial = nil, nil
	l.stats.closed[why].Add(1)
	l.part(c)
	l.finish(c)
}

// finish writes what is left of a connection that is closing.
func (l *loop) finish(c *Conn) {
	n, ok := l.write(c, c.pending)
	if !ok {
		return
	}
	if c.pending = c.pending[n:]; len(c.pending) > 0 {
		c.blocked = true
		return
	}
	c.pending, c.blocked = nil, false
	if unix.Shutdown(c.fd, unix.SHUT_WR) != nil {
		l.drop(c, closedGone)
	}
}

// drop ends a connection now. One that was closing has been counted before.
func (l *loop) drop(c *Conn, why reason) {
	if c.gone {
		return
	}
	c.gone = true
	l.byFD[c.fd] = nil
	l.count--
	_ = unix.Close(c.fd) // it is over either way
	c.pending, c.private, c.partial = nil, nil, nil
	if !c.closing {
		l.stats.closed[why].Add(1)
		l.part(c)
	}
}
