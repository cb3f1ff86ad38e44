package chat

import (
	"errors"
	"fmt"
	"math/bits"
	"sort"
	"sync"

	"loadstone/block/websocket"
)

// RoomConfig bounds what a room keeps and how it is read.
type RoomConfig struct {
	// Bytes bounds the messages that a room keeps: a power of two, at least 16 of the
	// longest. A quiet room takes less.
	Bytes int
	// Frame bounds the messages of one frame in bytes; there is always one.
	Frame int
	// Resume is how many messages are shown at most to who joins, or has missed so many that
	// the first of them are no longer kept.
	Resume int
}

// DefaultRoomConfig keeps 64 KiB: some 300 messages, a minute of a busy room. 10,000 busy
// rooms are 640 MB.
func DefaultRoomConfig() RoomConfig { return RoomConfig{Bytes: 64 << 10, Frame: 16 << 10, Resume: 50} }

// Validate returns every problem, joined.
func (c RoomConfig) Validate() error {
	var errs []error
	const fewest = 16 * MaxMessage
	if c.Bytes < fewest || bits.OnesCount(uint(c.Bytes)) != 1 {
		errs = append(errs, fmt.Errorf("a room keeps %d bytes: write a power of two from %d on", c.Bytes, fewest))
	}
	if c.Frame < MaxMessage || c.Frame > c.Bytes {
		errs = append(errs, fmt.Errorf("a frame has %d bytes of messages: write %d to what a room keeps, %d", c.Frame, MaxMessage, c.Bytes))
	}
	if c.Resume < 0 {
		errs = append(errs, fmt.Errorf("%d messages are shown to who joins: write 0 or more", c.Resume))
	}
	return errors.Join(errs...)
}

// Room is the newest part of a room's log, in memory, as it is on the wire. Each message is
// encoded once, when it is appended; a frame of any number of them is one copy of what lies
// between two places, and the newest frame is made once for all viewers who ask for it.
//
//	             oldest                     next
//	starts  ·  ·  [o]  [o+1]  [o+2]  ...       places: of the first byte of each message
//	data    ......{...},{...},{...},......     a ring of bytes; place p is data[p & mask]
//
// Places only grow, so that moving to a longer ring changes none. It is safe for concurrent
// use.
type Room struct {
	cfg RoomConfig

	mu     sync.Mutex
	data   []byte
	starts []uint64 // a ring as well; of message o it is starts[o & mask]
	oldest uint64
	next   uint64
	end    uint64       // the place behind the newest message
	shared *SharedFrame // the one made last by Newest
}

// Frame is what is written to viewers whose cursor is From. After it their cursor is To. Nobody changes it.
type Frame struct {
	From, To uint64
	// Skipped is how many messages after From are left out. The bytes begin with a notice of it.
	Skipped uint64
	// Bytes are whole WebSocket frames.
	Bytes []byte

	body int // where in Bytes the messages begin, behind all headers; 0 if there are none
}

// SharedFrame is a frame for many viewers, who have it as it is or compressed.
type SharedFrame struct {
	Frame

	once     sync.Once
	deflated []byte
}

// leastDeflated is the least length of messages that are compressed: a single one is hardly shorter for it.
const leastDeflated = 512

// Deflated is Bytes for viewers with whom compression was agreed. It is made once, whoever asks, and what
// is short stays as it is.
func (f *SharedFrame) Deflated() []byte {
	f.once.Do(func() {
		f.deflated = f.Bytes
		if f.body > 0 && f.Skipped == 0 && len(f.Bytes)-f.body >= leastDeflated {
			f.deflated = websocket.AppendDeflated(nil, websocket.Text, f.Bytes[f.body:])
		}
	})
	return f.deflated
}

// NewRoom returns an empty room whose next message has the offset next.
func NewRoom(cfg RoomConfig, next uint64) *Room {
	const firstBytes, firstMessages = 1 << 10, 8
	return &Room{cfg: cfg, data: make([]byte, firstBytes), starts: make([]uint64, firstMessages), oldest: next, next: next}
}

// Append adds a message, encoded, and reports whether it did: one whose offset has been
// there is left out. It panics if an offset is left out, or the message is longer than
// MaxMessage: then the log is not one.
func (r *Room) Append(offset uint64, message []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if offset < r.next {
		return false
	}
	if offset > r.next || len(message) > MaxMessage {
		panic(fmt.Sprintf("message %d of %d bytes in place of %d", offset, len(message), r.next))
	}
	r.makeRoom(len(message) + 1)
	r.starts[r.next&r.mask()] = r.end
	r.put(message)
	r.put([]byte{','})
	r.next++
	return true
}

// Skip leaves out messages: the next one that is appended has the offset next. Who has not seen those before is told
// how many they were. An offset that has been there changes nothing.
func (r *Room) Skip(next uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if next > r.next {
		r.oldest, r.next, r.shared = next, next, nil
	}
}

func (r *Room) mask() uint64 { return uint64(len(r.starts) - 1) }

// put copies bytes to the end.
func (r *Room) put(b []byte) {
	at := int(r.end & uint64(len(r.data)-1))
	n := copy(r.data[at:], b)
	copy(r.data, b[n:])
	r.end += uint64(len(b))
}

// appendRange appends the bytes between two places.
func appendRange(dst, data []byte, from, to uint64) []byte {
	mask := uint64(len(data) - 1)
	for from < to {
		at := from & mask
		n := min(to-from, uint64(len(data))-at)
		dst = append(dst, data[at:at+n]...)
		from += n
	}
	return dst
}

// place is where a message begins; of the next one, where it will.
func (r *Room) place(offset uint64) uint64 {
	if offset == r.next {
		return r.end
	}
	return r.starts[offset&r.mask()]
}

// makeRoom makes room for n bytes and a message more: by a longer ring while it may grow, and
// else by leaving out the oldest.
func (r *Room) makeRoom(n int) {
	for r.end+uint64(n)-r.place(r.oldest) > uint64(len(r.data)) {
		if len(r.data) == r.cfg.Bytes {
			r.oldest++
			continue
		}
		longer := make([]byte, 2*len(r.data))
		for p := r.place(r.oldest); p < r.end; p++ {
			longer[p&uint64(len(longer)-1)] = r.data[p&uint64(len(r.data)-1)]
		}
		r.data = longer
	}
	if r.next-r.oldest == uint64(len(r.starts)) {
		longer := make([]uint64, 2*len(r.starts))
		for o := r.oldest; o < r.next; o++ {
			longer[o&uint64(len(longer)-1)] = r.place(o)
		}
		r.starts = longer
	}
}

// Next is the offset of the next message.
func (r *Room) Next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}

// Recent is the cursor of who joins and names none: at most Resume messages before the next.
func (r *Room) Recent() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recent(r.next)
}

func (r *Room) recent(to uint64) uint64 {
	return max(r.oldest, to-min(uint64(r.cfg.Resume), to))
}

// Newest returns a frame for who has seen everything before from, or nil if there is nothing
// new. All who ask for the same one in turn get the same.
func (r *Room) Newest(from uint64) *SharedFrame {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shared != nil && r.shared.From == from {
		return r.shared
	}
	if from >= r.next {
		return nil
	}
	r.shared = &SharedFrame{Frame: r.read(nil, from, r.next)}
	return r.shared
}

// Read appends a frame for who has seen everything before from to dst, with messages before to. It has no bytes if
// from is to. What is behind the end of the log is nothing.
func (r *Room) Read(dst []byte, from, to uint64) Frame {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read(dst, from, min(to, r.next))
}

func (r *Room) read(dst []byte, from, to uint64) Frame {
	f := Frame{From: from, To: from}
	if from >= to {
		f.Bytes = dst
		return f
	}
	first := from
	if from < r.oldest {
		first = min(r.recent(to), to)
		f.Skipped = first - from
		var notice [48]byte
		dst = websocket.AppendFrame(dst, websocket.Text, appendSkipped(notice[:0], f.Skipped))
	}
	if first < to {
		begin := r.place(first)
		// The first message whose end lies too far; the one at first is always taken.
		n := sort.Search(int(to-first-1), func(i int) bool { return r.place(first+uint64(i)+2)-begin > uint64(r.cfg.Frame) })
		to = first + uint64(n) + 1
		end := r.place(to) - 1 // without the last comma
		dst = websocket.AppendHeader(dst, websocket.Text, len(messagesStart)+int(end-begin)+len(messagesEnd))
		f.body = len(dst)
		dst = append(dst, messagesStart...)
		dst = appendRange(dst, r.data, begin, end)
		dst = append(dst, messagesEnd...)
	}
	f.To, f.Bytes = to, dst
	return f
}

// Redact puts another text in the place of a message that is no longer than it, and reports
// whether the room has the message. What has been sent stays sent.
func (r *Room) Redact(offset uint64, message []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if offset < r.oldest || offset >= r.next {
		return false
	}
	begin, end := r.place(offset), r.place(offset+1)-1 // without the comma
	if uint64(len(message)) > end-begin {
		panic(fmt.Sprintf("%d bytes in place of the %d of message %d", len(message), end-begin, offset))
	}
	for p, i := begin, 0; p < end; p, i = p+1, i+1 {
		b := byte(' ') // between two messages, where JSON may have any number of them
		if i < len(message) {
			b = message[i]
		}
		r.data[p&uint64(len(r.data)-1)] = b
	}
	r.shared = nil // it may be in it
	return true
}
