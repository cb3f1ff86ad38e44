package cluster

import (
	"context"
	"fmt"
	"slices"

	"loadstone/system/chat"
	"loadstone/system/chat/broadcast"
)

// hearing has the viewers told what is said. It is the only one that publishes, in one goroutine.
type hearing struct {
	*Log

	viewers Viewers
	// behind are the rooms of which something was missed and could not be read yet: it is tried again.
	behind map[int64]bool
}

// listen has the viewers told what is said, until ctx ends.
func (l *Log) listen(ctx context.Context, viewers Viewers) {
	defer l.hears.Store(false)
	h := &hearing{l, viewers, map[int64]bool{}}
	l.broadcast.Listen(ctx, broadcast.Listener{
		Began: func() {
			for _, room := range viewers.Rooms() {
				h.behind[room] = true
			}
			h.catchUp(ctx)
			l.hears.Store(true)
		},
		Lost: func(err error) {
			l.hears.Store(false)
			l.metrics.lost.Inc()
			l.cfg.Failed(fmt.Errorf("hear what is said: %w", err))
		},
		Heard: func(t broadcast.Told) { h.heard(ctx, t) },
		Again: func() { h.catchUp(ctx) },
	})
}

// heard publishes a message, after those that were missed before it. The epoch is the same until it is published: a
// place in one is none in another.
func (h *hearing) heard(ctx context.Context, t broadcast.Told) {
	h.turn.Lock()
	defer h.turn.Unlock()
	if t.Epoch != h.Epoch() {
		// Of one that is over, of which messages may still wait here: what it had is in the history as far as it is
		// known. Or of one that look finds soon: then it is in the history that is read when the room is opened again.
		return
	}
	next, open := h.viewers.Next(t.Stream)
	if open && t.Offset > next && !h.fill(ctx, h.viewers, t.Stream, next, t.Offset) {
		h.behind[t.Stream] = true // it is read with the others
		return
	}
	h.viewers.Publish(t.Stream, t.Offset, t.Message)
}

// catchUp reads what was missed of the rooms that are behind. The first that cannot be read ends it: who waits for one
// waits for all.
func (h *hearing) catchUp(ctx context.Context) {
	for room := range h.behind {
		if !h.catchUpWith(ctx, room) {
			return
		}
		delete(h.behind, room)
	}
}

// catchUpWith reports whether a room is not behind any more. The epoch is the same meanwhile.
func (h *hearing) catchUpWith(ctx context.Context, room int64) bool {
	h.turn.Lock()
	defer h.turn.Unlock()
	next, open := h.viewers.Next(room)
	return !open || h.fill(ctx, h.viewers, room, next, chat.MaxStream)
}

// fillMost is how many messages are read at once.
const fillMost = 200

// fill publishes the messages of a room from one offset to before another, as far as they are in the
// history, and has the others left out. It reports whether there is nothing before to that could be. It is called with
// l.turn held.
func (l *Log) fill(ctx context.Context, viewers Viewers, room int64, from, to uint64) bool {
	for from < to {
		h, err := l.broadcast.History(ctx, room, broadcast.Range{From: from, To: to, Most: fillMost})
		if err != nil || h.Epoch != l.Epoch() {
			if err != nil && ctx.Err() == nil {
				l.cfg.Failed(err)
			}
			return false
		}
		if len(h.Messages) == 0 { // they are gone, or the end is reached
			viewers.Skip(room, min(to, h.Next))
			return true
		}
		if first := h.Messages[0].Offset; first > from {
			l.metrics.gone.Add(float64(first - from))
			viewers.Skip(room, first)
		}
		for _, m := range h.Messages {
			viewers.Publish(room, m.Offset, m.Bytes)
		}
		l.metrics.filled.Add(float64(len(h.Messages)))
		from = h.Messages[len(h.Messages)-1].Offset + 1
	}
	return true
}

// Before returns the last messages before an offset that are kept, the oldest first, and the offset of the
// next message of the room.
func (l *Log) Before(id int64, offset uint64, limit chat.Limit) (found []chat.Encoded, next uint64, err error) {
	if _, err := l.Stream(id); err != nil {
		return nil, 0, err
	}
	return l.newest(id, offset, limit)
}

// newest reads fillMost messages at a time, the newest first: Redis may keep far more than the limit has bytes for. All
// together take no longer than one call may: who waits is a viewer that joins, and all that join the room after it.
func (l *Log) newest(id int64, offset uint64, limit chat.Limit) (found []chat.Encoded, next uint64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.cfg.Broadcast.Timeout)
	defer cancel()
	for size := 0; ; {
		h, err := l.read(ctx, id, broadcast.Range{To: offset, Most: min(fillMost, limit.Messages-len(found)), Newest: true})
		if err != nil {
			return nil, 0, err
		}
		if found == nil {
			next = h.Next
		}
		first := len(h.Messages)
		for first > 0 && (size+len(h.Messages[first-1].Bytes) <= limit.Bytes || size == 0) {
			first--
			size += len(h.Messages[first].Bytes)
		}
		found = slices.Concat(h.Messages[first:], found)
		if first > 0 || len(h.Messages) == 0 || len(found) >= limit.Messages {
			return found, next, nil
		}
		offset = h.Messages[0].Offset
	}
}

// Read returns messages from an offset on that are kept.
func (l *Log) Read(id int64, from uint64, most int) ([]chat.Encoded, error) {
	h, err := l.read(context.Background(), id, broadcast.Range{From: from, To: chat.MaxStream, Most: most})
	return h.Messages, err
}

// read reads the history of the epoch that viewers have. It has a timeout of its own besides that of ctx.
func (l *Log) read(ctx context.Context, id int64, which broadcast.Range) (broadcast.History, error) {
	h, err := l.broadcast.History(ctx, id, which)
	if err == nil && (h.Epoch != l.Epoch() || l.turning.Load()) {
		err = errTurning
	}
	if err != nil {
		return broadcast.History{}, fmt.Errorf("%w: %w", chat.ErrUnavailable, err)
	}
	return h, nil
}
