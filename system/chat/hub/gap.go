package hub

import (
	"context"
	"maps"
	"slices"
	"time"

	"loadstone/block/pause"
	"loadstone/block/websocket"
)

// What is here is for a hub of several, which hears of messages from elsewhere and may miss some.

// Next is the offset of the message that a room has next, if somebody is in it and it is open.
func (h *Hub) Next(id int64) (next uint64, open bool) {
	r := h.room(id)
	if r == nil {
		return 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log == nil {
		return 0, false
	}
	return r.log.Next(), true
}

// Skip leaves out the messages of a room before an offset that nobody has any more. Viewers are told with the
// next Publish how many they missed.
func (h *Hub) Skip(id int64, next uint64) {
	r := h.room(id)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log != nil {
		r.log.Skip(next)
	}
}

// Rooms are those in which somebody is.
func (h *Hub) Rooms() []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.rooms))
}

// emptyPause is between two looks whether somebody is left, or has come meanwhile.
const emptyPause = 100 * time.Millisecond

// Empty ends all connections, with a code and a reason, and returns when there are none: then no room has anything
// of its log. It is false if ctx ended before. Who lets viewers in keeps them out meanwhile.
func (h *Hub) Empty(ctx context.Context, code websocket.Code, reason string) bool {
	for {
		h.VisitAll(func(c *Conn) { c.Close(code, reason) })
		h.mu.Lock()
		conns := h.conns
		h.mu.Unlock()
		if conns == 0 {
			return true
		}
		if !pause.For(ctx, emptyPause) {
			return false
		}
	}
}
