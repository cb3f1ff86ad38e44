package hub

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"loadstone/block/websocket"
	"loadstone/system/chat"
)

// note is for all viewers that a loop has, of a room or of all.
type note struct {
	view  *view // of all rooms if it is nil
	frame []byte
	// must says that it waits for those who are blocked.
	must  bool
	visit func(*Conn)     // in place of the frame
	done  chan<- struct{} // if it is there, it has room for each loop
}

// maxNotes bounds the notes of a loop that may be left out.
const maxNotes = 1024

// Announce sends a message to all who are in a room now. Viewers who are blocked have it later
// if they must; else they go without, and so do all of an event loop that is far behind, and it may wait for the next messages:
// one write for both.
func (h *Hub) Announce(id int64, message []byte, must bool) {
	h.note(id, note{frame: websocket.AppendFrame(nil, websocket.Text, message), must: must})
}

// Visit calls a function with the connection of each who is in a room now. The event loops
// call it, several at a time: it must not block, and do no more than call the connection's methods.
func (h *Hub) Visit(id int64, do func(*Conn)) { h.note(id, note{visit: do, must: true}) }

// VisitAll is Visit for all rooms.
func (h *Hub) VisitAll(do func(*Conn)) {
	for _, l := range h.loops {
		l.post(func(m *mail) { m.notes = append(m.notes, note{visit: do}) })
	}
}

// Each is a Visit that returns when all were looked at, or with the end of ctx; then do may still
// be called. Where a loop is far behind nobody is looked at, and the error wraps chat.ErrTooMany:
// who asks may have given up long before it is done.
func (h *Hub) Each(ctx context.Context, id int64, do func(*Conn)) error {
	if slices.ContainsFunc(h.loops, (*loop).behind) {
		return fmt.Errorf("look at the viewers of room %d: %w", id, chat.ErrTooMany)
	}
	done := make(chan struct{}, len(h.loops))
	for range h.note(id, note{visit: do, must: true, done: done}) {
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("look at the viewers of room %d: %w", id, ctx.Err())
		}
	}
	return nil
}

// note leaves a note for all loops, and returns how many of them take it.
func (h *Hub) note(id int64, n note) (taken int) {
	r := h.room(id)
	if r == nil {
		return 0
	}
	for i := range r.views {
		if h.loops[i].post(func(m *mail) {
			if n.view = &r.views[i]; n.must || len(m.notes) < maxNotes {
				m.notes = append(m.notes, n)
			}
		}) {
			taken++
		}
	}
	return taken
}

// behind reports whether as many notes wait as may.
func (l *loop) behind() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mail.notes) >= maxNotes
}

// maxTail bounds what waits for the next messages, in bytes.
const maxTail = 16 << 10

// announce does what a note is for.
func (l *loop) announce(n note) {
	conns := l.byFD
	if n.view != nil {
		conns = n.view.conns
	}
	switch v := n.view; {
	case n.visit != nil:
		for _, c := range slices.Backward(conns) {
			if c != nil {
				n.visit(c)
			}
		}
	case v != nil && !n.must && v.dirty.Load() && len(v.tail)+len(n.frame) <= maxTail: // a flush is due
		v.tail = append(v.tail, n.frame...)
	default:
		l.tellAll(conns, n.frame, n.must)
	}
	if n.done != nil {
		n.done <- struct{}{}
	}
}

// tellAll sends a frame to all that are not blocked; if they must have it, to those too.
func (l *loop) tellAll(conns []*Conn, frame []byte, must bool) {
	// Backwards, because one whose connection has ended is replaced by the last.
	for _, c := range slices.Backward(conns) {
		if c != nil && (must || !c.blocked) {
			l.tell(c, frame)
		}
	}
}

// Redact puts another text in the place of a message that is no longer than it, for all who
// read it from now on.
func (h *Hub) Redact(id int64, offset uint64, message []byte) {
	r := h.room(id)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := missed{offset, bytes.Clone(message), true}
	switch {
	case r.log != nil:
		r.put(m)
	case r.missed != nil && len(r.missed) < maxMissed:
		r.missed = append(r.missed, m)
	}
}

// put redacts a message: one that is durable and not published yet, when it is. It is called with r.mu held.
func (r *room) put(m missed) {
	if !r.log.Redact(m.offset, m.message) && m.offset >= r.log.Next() && len(r.early) < maxMissed {
		r.early = append(r.early, m)
	}
}
