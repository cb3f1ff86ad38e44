package desk

import (
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"loadstone/system/chat"
	"loadstone/system/chat/moderation"
)

// line is how much of a room's log viewers see.
type line struct {
	mu      sync.Mutex
	holding atomic.Bool // changed with mu held
	shown   uint64      // while holding: viewers see what is before
	told    uint64      // and hosts what is before
}

// Said is told of each message that is durable, in the order of the offsets, by one goroutine.
func (d *Desk) Said(r *Room, offset uint64, message []byte) {
	if !r.line.holding.Load() && r.Delay() == 0 { // nobody else begins to hold
		d.cfg.Viewers.Publish(r.id, offset, message)
		return
	}
	r.line.mu.Lock()
	defer r.line.mu.Unlock()
	switch {
	case r.line.holding.Load(): // it is shown from the log
	case r.Delay() == 0: // no longer
		d.cfg.Viewers.Publish(r.id, offset, message)
	default:
		d.hold(r, offset)
	}
}

// hold holds back what comes from an offset on. It is called with the line's mu held.
func (d *Desk) hold(r *Room, from uint64) {
	r.line.shown, r.line.told = from, from
	r.line.holding.Store(true)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held[r.id] = r
}

func (d *Desk) holding() []*Room {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.held))
}

// Shown is before which offset viewers see messages.
func (r *Room) Shown() uint64 {
	r.line.mu.Lock()
	defer r.line.mu.Unlock()
	if r.line.holding.Load() {
		return r.line.shown
	}
	return math.MaxInt64
}

// TellHeld has hosts and moderators told again what is held back, for one who has just joined.
func (r *Room) TellHeld() {
	r.line.mu.Lock()
	defer r.line.mu.Unlock()
	r.line.told = r.line.shown
}

// Bounds of one look at a room.
const (
	lookMessages = 100
	lookRounds   = 50
)

// show shows viewers what is old enough, and hosts what is new. What the log does not tell now, it is
// asked for the next time.
func (d *Desk) show(r *Room) {
	r.line.mu.Lock()
	defer r.line.mu.Unlock()
	for range lookRounds {
		found, err := d.cfg.Log.After(r.id, r.line.shown, lookMessages)
		if err != nil {
			return
		}
		some := false
		for _, e := range found {
			if d.young(r, e.Bytes) {
				break
			}
			some = true
			// First: who opens the room meanwhile reads the message, or is sent it.
			r.line.shown = e.Offset + 1
			d.cfg.Viewers.Publish(r.id, e.Offset, e.Bytes)
		}
		if len(found) == 0 && r.Delay() == 0 {
			r.line.holding.Store(false)
			d.mu.Lock()
			delete(d.held, r.id)
			d.mu.Unlock()
			return
		}
		if !some {
			break
		}
	}
	d.tellHosts(r)
}

// young reports whether a message is still held back.
func (d *Desk) young(r *Room, message []byte) bool {
	m, err := chat.ParseMessage(message)
	return err == nil && moderation.Held(m.At, r.Delay(), d.cfg.Log.Time(r.id))
}

func (d *Desk) tellHosts(r *Room) {
	r.line.told = max(r.line.told, r.line.shown)
	for range lookRounds {
		found, err := d.cfg.Log.After(r.id, r.line.told, lookMessages)
		if err != nil || len(found) == 0 {
			return
		}
		messages := make([][]byte, len(found))
		for i, e := range found {
			messages[i] = e.Bytes
		}
		d.cfg.Viewers.Tell(r.id, moderation.AppendHeld(nil, messages), func(user string, own moderation.Role) bool {
			return r.Role(user, own) != moderation.Viewer
		})
		r.line.told = found[len(found)-1].Offset + 1
	}
}

// resume finds what was held back when the process ended.
func (d *Desk) resume(r *Room) error {
	if r.Delay() == 0 {
		return nil
	}
	from, held := uint64(math.MaxInt64), false
	for more := true; more; {
		found, err := d.cfg.Log.Before(r.id, from, lookMessages)
		if err != nil {
			return err
		}
		more = false
		for _, e := range slices.Backward(found) {
			if !d.young(r, e.Bytes) {
				more = false
				break
			}
			from, held, more = e.Offset, true, true
		}
	}
	if held {
		r.line.mu.Lock()
		defer r.line.mu.Unlock()
		d.hold(r, from)
	}
	return nil
}
