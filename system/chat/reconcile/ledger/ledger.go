// Package ledger keeps the books of a chat: what was promised to who says something, what each
// viewer was shown, and what the log has. It says where they do not agree:
//
//	acked = stored = analysed + dead letters
//	in the log = kept for good, where a store beside the log does that
//	stored = delivered + announced as skipped, for each viewer, from where it began
//
// It is fed by who looks at the chat from outside, see package reconcile, and believes nothing
// that the server says of itself but its log. It keeps a hash of each message that was seen, and of
// a viewer only where it is.
package ledger

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sync"

	"loadstone/system/chat"
)

// Kind is what is wrong.
type Kind string

// What can be wrong.
const (
	Lost       Kind = "lost"       // acked, and not in the log
	Altered    Kind = "altered"    // acked, and the log has something else that was said, or nothing any more
	Moved      Kind = "moved"      // acked at one place, and at another in the log, or acked at two
	Doubled    Kind = "doubled"    // twice in the log, or shown twice to a viewer
	Disordered Kind = "disordered" // shown to a viewer after what was said later
	Invented   Kind = "invented"   // shown to a viewer, and not so in the log
	Withheld   Kind = "withheld"   // in the log, and neither shown to a viewer nor announced as skipped
	Holed      Kind = "holed"      // an offset that the log does not have
	Replaced   Kind = "replaced"   // the log is another one than it was
	Miscounted Kind = "miscounted" // totals of the analysis that are not all of the messages
	Unreadable Kind = "unreadable" // what a viewer was sent is not in the form of the contract
)

// Violation is one fact that is wrong, as a sentence without a full stop.
type Violation struct {
	Kind Kind
	Text string
}

// maxWrong bounds the violations that are kept; all are counted.
const maxWrong = 100

// Count is what was counted.
type Count struct {
	// Acked are messages that the server accepted, and Stored those of them that the log has.
	Acked, Stored int64
	// Due is what the log has from where each viewer began; it is Delivered and Skipped.
	Due, Delivered, Skipped int64
	// Analysed and Dead are what the analysis made of the whole logs: labels, or dead letters. Both
	// are 0 where nobody is told of one.
	Analysed, Dead int64
	// Logged are all messages of the logs, whoever said them, and Kept those of them that the store beside it has.
	// Both are 0 where it was not asked.
	Logged, Kept int64
	// Wrong is the number of violations.
	Wrong int64
}

// Balanced reports whether something was acked and something was shown to a viewer, and nothing is wrong.
func (c Count) Balanced() bool { return c.Acked > 0 && c.Delivered > 0 && c.Wrong == 0 }

// String is the one line that says it.
func (c Count) String() string {
	sign := func(equal bool) string {
		if equal {
			return "="
		}
		return "≠"
	}
	kept := ""
	if c.Logged > 0 {
		kept = fmt.Sprintf("; in the log %d %s kept %d", c.Logged, sign(c.Logged == c.Kept), c.Kept)
	}
	return fmt.Sprintf("acked %d %s stored %d%s; due to viewers %d %s delivered %d + skipped %d; analysed %d, dead letters %d; %d violations",
		c.Acked, sign(c.Acked == c.Stored), c.Stored, kept, c.Due, sign(c.Due == c.Delivered+c.Skipped), c.Delivered, c.Skipped, c.Analysed, c.Dead, c.Wrong)
}

// Ledger has the books of all rooms. It is safe for concurrent use.
type Ledger struct {
	seed  maphash.Seed
	turns bool // see MayTurn

	mu    sync.Mutex
	rooms map[int64]*room
	epoch string
	count Count
	wrong []Violation
}

// room is what is known of a room.
type room struct {
	id      int64
	acked   map[promise]kept
	seen    map[place]sums  // of messages
	shown   map[uint64]bool // of those, whose they are, by its hash
	awaited map[uint64]bool // whose was promised without a place and is not shown yet
	viewers []*Viewer
	totals  *Totals // nil until somebody is told some
}

// place is where a message is: offsets of different epochs cannot be compared.
type place struct {
	epoch  string
	offset uint64
}

// promise is a message as its sender knows it.
type promise struct{ sender, id string }

// kept is where a promised message is, and a hash of its text, 0 where it was deleted.
type kept struct{ offset, text uint64 }

func (l *Ledger) keep(m *chat.Message) kept {
	k := kept{offset: m.Offset}
	if !m.Deleted {
		k.text = maphash.String(l.seed, m.Text)
	}
	return k
}

// MayTurn allows that another epoch begins, as where another Redis takes over: what was acked has to be in the log
// that there is in the end, and who comes back in another epoch begins there anew. It is called first.
func (l *Ledger) MayTurn() { l.turns = true }

// New returns empty books.
func New() *Ledger { return &Ledger{seed: maphash.MakeSeed(), rooms: map[int64]*room{}} }

func (l *Ledger) room(id int64) *room {
	r := l.rooms[id]
	if r == nil {
		r = &room{id: id, acked: map[promise]kept{}, seen: map[place]sums{}, shown: map[uint64]bool{}, awaited: map[uint64]bool{}}
		l.rooms[id] = r
	}
	return r
}

func (l *Ledger) violatef(kind Kind, format string, args ...any) {
	l.count.Wrong++
	if len(l.wrong) < maxWrong {
		l.wrong = append(l.wrong, Violation{kind, fmt.Sprintf(format, args...)})
	}
}

// Acked notes that the server has promised to keep a message: its Offset, Sender, ID and Text.
func (l *Ledger) Acked(stream int64, m *chat.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	acked, p := l.room(stream).acked, promise{m.Sender, m.ID}
	if first, ok := acked[p]; ok {
		if first.offset != m.Offset && first.offset != unplaced {
			l.violatef(Moved, "message %q of %s in stream %d was acked as %d, and then as %d", m.ID, m.Sender, stream, first.offset, m.Offset)
		}
		return
	}
	acked[p] = l.keep(m)
	l.count.Acked++
}

// unplaced is the offset of what was promised without one.
const unplaced = math.MaxUint64

// Accepted notes that the server has promised to keep a message, and not where: its Sender, ID and Text.
func (l *Ledger) Accepted(stream int64, m *chat.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	acked, p := l.room(stream).acked, promise{m.Sender, m.ID}
	if _, ok := acked[p]; ok {
		return
	}
	k := l.keep(m)
	k.offset = unplaced
	acked[p] = k
	l.count.Acked++
	if r, whose := l.room(stream), maphash.Comparable(l.seed, p); !r.shown[whose] {
		r.awaited[whose] = true
	}
}

// Awaited is how many messages were promised without a place, and seen by nobody yet: they are on their way to it.
func (l *Ledger) Awaited() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.rooms {
		n += len(r.awaited)
	}
	return n
}

// saw notes a message that is seen for the first time.
func (r *room) saw(at place, sum sums) {
	r.seen[at] = sum
	r.shown[sum.whose] = true
	delete(r.awaited, sum.whose)
}

// Count is what was counted so far. Stored and Due are known once rooms were checked.
func (l *Ledger) Count() Count {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// Wrong are the first violations.
func (l *Ledger) Wrong() []Violation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.wrong)
}

// Unreadable notes what somebody was sent that cannot be read, as a sentence.
func (l *Ledger) Unreadable(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violatef(Unreadable, "%.300s", text)
}

// Epoch is the log's, as somebody saw it last.
func (l *Ledger) Epoch() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

// inEpoch notes which log somebody has seen.
func (l *Ledger) inEpoch(epoch string) {
	if l.epoch != "" && l.epoch != epoch && !l.turns {
		l.violatef(Replaced, "the log was %s, and is %s: what was acked before is not in it", l.epoch, epoch)
	}
	l.epoch = epoch
}

// sums are hashes of a message: of who said it, and of all of it, 0 where it was deleted.
type sums struct{ whose, all uint64 }

func (l *Ledger) sum(m *chat.Message) sums {
	s := sums{whose: maphash.Comparable(l.seed, promise{m.Sender, m.ID})}
	if !m.Deleted {
		s.all = maphash.Bytes(l.seed, m.Append(nil))
	}
	return s
}

// agree reports whether both can be of one message that two viewers saw: it may be deleted meanwhile.
func (s sums) agree(o sums) bool {
	return s.whose == o.whose && (s.all == o.all || s.all == 0 || o.all == 0)
}

// became reports whether what was seen can be what the log has: what was deleted stays so.
func (s sums) became(logged sums) bool {
	return s.whose == logged.whose && (s.all == logged.all || logged.all == 0)
}
