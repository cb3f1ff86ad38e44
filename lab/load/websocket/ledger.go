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

	used    bool     // there was such a message
	settled bool     // what is missing has been given up
	ackDue  bool     // its ack has not come
	missing int      // deliveries that are due
	due     *members // where it is due; nil: at the sender alone, or nowhere
	arrived []uint64 // a bit for each place where it has arrived; one bit if due is nil
}

// stamp is what of a message goes into the outcomes of its deliveries.
type stamp struct {
	intended, sent time.Duration
	waited         bool
}

// dues is what is due of a message.
type dues struct {
	at  *roster // its delivery at the members
	own bool    // its delivery at the sender
	ack bool
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

// put enters a message that is due, at the members as they are now. It returns the
// message's number, and adds what is due to inFlight before any can arrive. It is
// false if most messages of this sender are under way.
//
// The members are read under the lock: whoever takes it after a client has quit
// sees every message that is due at that client.
func (l *ledger) put(s stamp, d dues, most int, inFlight *atomic.Int64) (uint64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head-l.tail == uint64(len(l.ring)) && !l.grow(most) {
		return 0, false
	}
	e := &l.ring[l.head&uint64(len(l.ring)-1)]
	words := 1
	next := entry{stamp: s, used: true, ackDue: d.ack}
	switch {
	case d.at != nil:
		next.due = d.at.now.Load()
		words, next.missing = len(next.due.bits), next.due.count
	case d.own:
		next.missing = 1
	}
	inFlight.Add(int64(next.waiting()))
	if next.arrived = e.arrived; len(next.arrived) != words {
		next.arrived = make([]uint64, words)
	}
	clear(next.arrived)
	*e = next
	l.head++
	l.advance()
	return l.head - 1, true
}

// waiting is how much is due of the message.
func (e *entry) waiting() int {
	if e.ackDue {
		return e.missing + 1
	}
	return e.missing
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

// retract takes back the message that was put last, and returns how much is no longer due.
// It is false if the message has been given up meanwhile, which is in the books.
func (l *ledger) retract() (gone int, taken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.at(l.head - 1)
	if e.settled {
		return 0, false
	}
	gone = e.waiting()
	e.missing, e.ackDue, e.settled = 0, false, true
	l.advance()
	return gone, true
}

// entryOf returns the entry of a message; nil, and what its arrival is, if there is none.
func (l *ledger) entryOf(seq uint64) (*entry, verdict) {
	switch {
	case seq >= l.head:
		return nil, unknown
	case l.head-seq > uint64(len(l.ring)):
		return nil, late
	}
	if e := l.at(seq); e.used {
		return e, fresh
	}
	return nil, late // its entry was used again before the ring grew
}

// arrive takes down that message seq came to who has a seat, at time now. If it is
// fresh, the message's stamp is returned too. own says that it is the sender.
func (l *ledger) arrive(seq uint64, at *seat, own bool, now, timeout time.Duration) (verdict, stamp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, v := l.entryOf(seq)
	if e == nil {
		return v, stamp{}
	}
	word, bit := 0, uint64(1)
	if e.due != nil {
		word, bit, own = e.due.has(at)
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

// answer takes down that the sender was told whether message seq was accepted. One that was not
// is due nowhere any more. gone is how much is no longer due.
func (l *ledger) answer(seq uint64, accepted bool, now, timeout time.Duration) (v verdict, s stamp, gone int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, v := l.entryOf(seq)
	switch {
	case e == nil:
		return v, stamp{}, 0
	case e.settled || e.ackDue && now-e.sent > timeout:
		return late, stamp{}, 0
	case !e.ackDue:
		return duplicate, stamp{}, 0
	}
	gone = 1
	if !accepted {
		gone, e.missing, e.settled = e.waiting(), 0, true
	}
	e.ackDue = false
	if seq == l.tail {
		l.advance()
	}
	return fresh, e.stamp, gone
}

// unanswered are the messages that wait for an ack, in the order in which they were sent.
func (l *ledger) unanswered() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []uint64
	for seq := l.tail; seq != l.head; seq++ {
		if l.at(seq).ackDue {
			all = append(all, seq)
		}
	}
	return all
}

// ofSender and ofAck are in place of a client in what is given up.
const (
	ofSender = -1
	ofAck    = -2
)

// settle gives up what was sent at before or earlier, and calls lost for all that is
// missing then: with the client, ofSender or ofAck.
func (l *ledger) settle(before time.Duration, lost func(e *entry, client int)) {
	if time.Duration(l.oldest.Load()) > before {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.tail != l.head && l.at(l.tail).sent <= before {
		e := l.at(l.tail)
		e.giveUp(lost)
		e.missing, e.ackDue, e.settled = 0, false, true
		l.advance()
	}
}

// giveUp calls lost for all that is missing.
func (e *entry) giveUp(lost func(e *entry, client int)) {
	if e.ackDue {
		lost(e, ofAck)
	}
	switch {
	case e.missing == 0:
		return
	case e.due == nil:
		lost(e, ofSender)
		return
	}
	for i, word := range e.due.bits {
		for word &^= e.arrived[i]; word != 0; word &= word - 1 {
			lost(e, int(e.due.clients[i*64+bits.TrailingZeros64(word)]))
		}
	}
}

// advance moves the tail past what is settled or came everywhere.
func (l *ledger) advance() {
	for l.tail != l.head && l.at(l.tail).waiting() == 0 {
		l.tail++
	}
	oldest := never
	if l.tail != l.head {
		oldest = l.at(l.tail).sent
	}
	l.oldest.Store(int64(oldest))
}

func (l *ledger) at(seq uint64) *entry { return &l.ring[seq&uint64(len(l.ring)-1)] }
