package websocket

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

// ledger is what one sender has sent and where it is still due. Entries are a
// ring by message number, which grows up to its bound. They stay, settled, until
// their place is used again, so that what comes twice is known as such.
type ledger struct {
	// oldest is when the oldest message that is not settled was sent, or never.
	// It changes under mu and is read without.
	oldest atomic.Int64

	mu         sync.Mutex
	ring       []entry // as long as a power of two, or none
	tail, head uint64  // numbers in [tail, head) may be due
}

// entry is one message.
type entry struct {
	stamp

	settled bool     // what is missing has been given up
	missing int      // deliveries that are due
	due     *members // where it is due; nil: at the sender alone
	arrived []uint64 // a bit for each client where it has arrived; one bit if due is nil
}

// stamp is what of a message goes into the outcomes of its deliveries.
type stamp struct {
	intended, sent time.Duration
	waited         bool
}

// verdict is what an arrival is.
type verdict int

const (
	unknown    verdict = iota // no message of this run
	fresh                     // the delivery that was due
	duplicate                 // it has been delivered here before
	late                      // it has been given up, or was settled so long ago that it has no entry
	unexpected                // it was not due here
)

// shortest is how many entries a ring begins with.
const shortest = 4

// put enters a message that is due at the members of r as they are now, or at
// its sender if r is nil. It returns the message's number, and adds
// the deliveries that are due to inFlight before any can arrive. It is
// false if most messages of this sender are under way.
//
// The members are read under the lock: whoever takes it after a client has quit
// sees every message that is due at that client.
func (l *ledger) put(s stamp, r *roster, most int, inFlight *atomic.Int64) (uint64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head-l.tail == uint64(len(l.ring)) && !l.grow(most) {
		return 0, false
	}
	e := &l.ring[l.head&uint64(len(l.ring)-1)]
	words, missing := 1, 1
	var due *members
	if r != nil {
		due = r.now.Load()
		words, missing = len(due.bits), due.count
	}
	inFlight.Add(int64(missing))
	if len(e.arrived) != words {
		e.arrived = make([]uint64, words)
	}
	clear(e.arrived)
	*e = entry{stamp: s, missing: missing, due: due, arrived: e.arrived}
	l.head++
	l.advance()
	return l.head - 1, true
}

// since returns when the oldest message that is not settled was sent, or never.
func (l *ledger) since() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.oldest.Load())
}

// grow doubles the ring, to most and what makes it a power of two.
func (l *ledger) grow(most int) bool {
	if len(l.ring) >= most {
		return false
	}
	bigger := make([]entry, max(shortest, 2*len(l.ring)))
	for seq := l.head - uint64(len(l.ring)); seq != l.head; seq++ {
		bigger[seq&uint64(len(bigger)-1)] = l.ring[seq&uint64(len(l.ring)-1)]
	}
	l.ring = bigger
	return true
}

// retract takes back the message that was put last, and returns how many
// deliveries are no longer due.
func (l *ledger) retract() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.at(l.head - 1)
	gone := e.missing
	e.missing, e.settled = 0, true
	l.advance()
	return gone
}

// arrive takes down that message seq came to a client at time now. If it is
// fresh, the message's stamp is returned too. own says that the client is the
// sender.
func (l *ledger) arrive(seq uint64, client int, own bool, now, timeout time.Duration) (verdict, stamp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq >= l.head {
		return unknown, stamp{}
	}
	if l.head-seq > uint64(len(l.ring)) {
		return late, stamp{}
	}
	e := l.at(seq)
	if len(e.arrived) == 0 {
		return late, stamp{} // its entry was used again before the ring grew
	}
	word, bit := 0, uint64(1)
	if e.due != nil {
		word, bit = client/64, uint64(1)<<(client%64)
		own = e.due.bits[word]&bit != 0
	}
	switch {
	case !own:
		return unexpected, stamp{}
	case e.arrived[word]&bit != 0:
		return duplicate, stamp{}
	case e.settled || now-e.sent > timeout:
		return late, stamp{}
	}
	e.arrived[word] |= bit
	e.missing--
	if seq == l.tail {
		l.advance()
	}
	return fresh, e.stamp
}

// settle gives up what was sent at before or earlier, and calls lost for each
// delivery that is missing then: with the client, or less than 0 for the sender.
func (l *ledger) settle(before time.Duration, lost func(e *entry, client int)) {
	if time.Duration(l.oldest.Load()) > before {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.tail != l.head && l.at(l.tail).sent <= before {
		e := l.at(l.tail)
		e.giveUp(lost)
		e.missing, e.settled = 0, true
		l.advance()
	}
}

// giveUp calls lost for each delivery that is missing.
func (e *entry) giveUp(lost func(e *entry, client int)) {
	if e.missing == 0 {
		return
	}
	if e.due == nil {
		lost(e, -1)
		return
	}
	for i, word := range e.due.bits {
		for word &^= e.arrived[i]; word != 0; word &= word - 1 {
			lost(e, i*64+bits.TrailingZeros64(word))
		}
	}
}

// advance moves the tail past what is settled or delivered everywhere.
func (l *ledger) advance() {
	for l.tail != l.head && l.at(l.tail).missing == 0 {
		l.tail++
	}
	oldest := never
	if l.tail != l.head {
		oldest = l.at(l.tail).sent
	}
	l.oldest.Store(int64(oldest))
}

func (l *ledger) at(seq uint64) *entry { return &l.ring[seq&uint64(len(l.ring)-1)] }

// members is the clients that messages sent now are due at. It never changes:
// roster makes another one, and all messages between two changes share it.
type members struct {
	bits  []uint64
	count int
}

// roster is who is a member.
type roster struct {
	mu  sync.Mutex
	now atomic.Pointer[members]
}

func newRoster(clients int) *roster {
	r := &roster{}
	r.now.Store(&members{bits: make([]uint64, (clients+63)/64)})
	return r
}

// set makes a client a member or not.
func (r *roster) set(client int, member bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.now.Load()
	word, bit := client/64, uint64(1)<<(client%64)
	if before.bits[word]&bit != 0 == member {
		return
	}
	after := &members{bits: append([]uint64(nil), before.bits...), count: before.count + 1}
	if !member {
		after.count = before.count - 1
	}
	after.bits[word] ^= bit
	r.now.Store(after)
}
