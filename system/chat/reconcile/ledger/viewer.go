package ledger

import (
	"fmt"

	"loadstone/system/chat"
)

// Viewer is what one viewer of a room was told, over all of its connections. Its methods are
// for one goroutine at a time.
type Viewer struct {
	ledger *Ledger
	room   *room
	name   string
	joined bool
	epoch  string // in which it was last
	first  uint64 // where it began
	next   uint64 // the offset of the next message
	gaps   []span // before next, and neither shown nor announced
}

// span is the offsets from one to before another.
type span struct{ from, to uint64 }

func (s span) String() string {
	if s.to == s.from+1 {
		return fmt.Sprint("message ", s.from)
	}
	return fmt.Sprintf("messages %d to %d", s.from, s.to-1)
}

// Viewer returns a new viewer of a stream. The name is for messages.
func (l *Ledger) Viewer(stream int64, name string) *Viewer {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := &Viewer{ledger: l, room: l.room(stream), name: name}
	v.room.viewers = append(v.room.viewers, v)
	return v
}

// Place is what a viewer that comes back asks for: known is false before it has joined in the epoch that there is.
func (v *Viewer) Place() (next uint64, known bool) {
	v.ledger.mu.Lock()
	defer v.ledger.mu.Unlock()
	return v.next, v.joined && v.epoch == v.ledger.epoch
}

// Joined notes how a connection begins: in which log, and at which message. recovered is what
// the server says of the Place that it was asked for.
func (v *Viewer) Joined(epoch string, next uint64, recovered bool) {
	v.ledger.mu.Lock()
	defer v.ledger.mu.Unlock()
	v.ledger.inEpoch(epoch)
	if v.joined && v.epoch != epoch && v.ledger.turns {
		// What was due to it before is what it saw: what it did not, it is shown anew, or was said before it came.
		v.ledger.count.Due += int64(v.next) - int64(v.first) - missing(v.gaps)
		v.joined, v.gaps = false, nil
	}
	v.epoch = epoch
	switch {
	case !v.joined:
		v.joined, v.first, v.next = true, next, next
	case !recovered || next != v.next:
		v.violatef(Withheld, "came back for message %d, and the server goes on at %d", v.next, next)
		v.next = next
	}
}

// Saw notes that a message was shown.
func (v *Viewer) Saw(m *chat.Message) {
	v.ledger.mu.Lock()
	defer v.ledger.mu.Unlock()
	if m.Offset < v.next {
		v.sawOld(m)
		return
	}
	if m.Offset > v.next {
		v.gaps = append(v.gaps, span{v.next, m.Offset})
	}
	v.next = m.Offset + 1
	v.take(m)
}

func (v *Viewer) take(m *chat.Message) {
	v.ledger.count.Delivered++
	sum := v.ledger.sum(m)
	at := place{v.epoch, m.Offset}
	first, ok := v.room.seen[at]
	switch {
	case !ok:
		v.room.saw(at, sum)
	case !first.agree(sum):
		v.violatef(Invented, "saw another message %d than others did", m.Offset)
	}
}

// sawOld notes a message that comes after later ones.
func (v *Viewer) sawOld(m *chat.Message) {
	for i, g := range v.gaps {
		if g.from <= m.Offset && m.Offset < g.to {
			v.violatef(Disordered, "saw message %d after message %d", m.Offset, g.to)
			v.gaps = append(v.gaps[:i:i], append([]span{{g.from, m.Offset}, {m.Offset + 1, g.to}}, v.gaps[i+1:]...)...)
			v.take(m)
			return
		}
	}
	v.violatef(Doubled, "saw message %d again", m.Offset)
}

// Skipped notes that so many messages were announced as skipped.
func (v *Viewer) Skipped(count uint64) {
	v.ledger.mu.Lock()
	defer v.ledger.mu.Unlock()
	v.next += count
	v.ledger.count.Skipped += int64(count)
}

func (v *Viewer) violatef(kind Kind, format string, args ...any) {
	v.ledger.violatef(kind, "%s of stream %d %s", v.name, v.room.id, fmt.Sprintf(format, args...))
}

// missing is how many messages gaps are of.
func missing(gaps []span) (n int64) {
	for _, g := range gaps {
		n += int64(g.to - g.from)
	}
	return n
}

// close compares the viewer with what was due to it and with the length of the log.
func (v *Viewer) close(due, end uint64) {
	if !v.joined {
		v.violatef(Withheld, "has never joined")
		return
	}
	if v.epoch != v.ledger.epoch && v.ledger.turns {
		v.violatef(Withheld, "has not come back since another epoch began")
		return
	}
	v.ledger.count.Due += int64(max(due, v.next)) - int64(v.first)
	for _, g := range v.gaps {
		if g.from < g.to {
			v.violatef(Withheld, "was neither shown %v nor told that it was skipped", g)
		}
	}
	if v.next < due {
		v.violatef(Withheld, "was neither shown %v nor told that it was skipped", span{v.next, due})
	}
	if v.next > end {
		v.violatef(Invented, "was told of messages up to %d, and the log has %d", v.next, end)
	}
}
