package websocket

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"loadstone/lab/load/failure"
)

// What became of what was due, in words.
var (
	errLost      = errors.New("the message did not arrive within the timeout")
	errNoAck     = errors.New("the message was not acknowledged within the timeout")
	errNoPong    = errors.New("the ping was not answered within the timeout")
	errCutOff    = errors.New("still under way at the end of the time of graceful stop")
	errRefused   = errors.New("the server did not accept the message")
	errDropped   = errors.New("never sent: the connection was gone or took nothing")
	errNotJoined = errors.New("the server did not say within the timeout that the client has joined")
	errUnpinged  = errors.New("the ping was never sent: the connection took nothing")
)

// cutOff gives up all that is still due.
func (g *Group) cutOff() {
	now := g.config.Now()
	g.each(func(t *talker) { g.settle(t, never, now, true) })
}

// each calls do for all that talk.
func (g *Group) each(do func(*talker)) {
	for _, all := range [][]atomic.Pointer[talker]{g.talkers, g.pingers} {
		for i := range all {
			if t := all[i].Load(); t != nil {
				do(t)
			}
		}
	}
}

// settle gives up what a talker sent at before or earlier: as lost, when the
// timeout was over, or as cut off now.
func (g *Group) settle(t *talker, before, now time.Duration, cut bool) {
	t.ledger.settle(before, func(e *entry, client int) {
		g.count.inFlight.Add(-1)
		step, err := StepMessage, errLost
		switch {
		case t.ping:
			step, err = StepPing, errNoPong
		case client == ofAck:
			step, err = StepAck, errNoAck
		}
		if client < 0 {
			client = t.client.index
		}
		out := Outcome{
			Step: step, Client: client, Intended: e.intended, Sent: e.sent, Waited: e.waited,
			Done: e.sent + g.config.Timeout, Failed: failure.Lost, Err: err,
		}
		counter := &g.count.lost
		if cut && now < out.Done {
			out.Done, out.Failed, out.Err = now, failure.CutOff, errCutOff
			counter = &g.count.cutOff
		}
		if step == StepMessage && g.skipped(client, e.sent) {
			g.add(&g.count.skipped, e.intended)
			return
		}
		if step == StepMessage {
			g.add(counter, e.intended)
		}
		g.config.Record(out)
	})
}

// add counts something that was intended in the measured part.
func (g *Group) add(counter *atomic.Uint64, intended time.Duration) {
	if intended >= g.config.From {
		counter.Add(1)
	}
}

// deliver takes down that a message came to c. It is false if no message of this
// run has that id.
func (g *Group) deliver(c *client, sender, seq uint64, now time.Duration) bool {
	t := g.talker(sender)
	if t == nil || !g.tracked {
		return false
	}
	v, s := t.ledger.arrive(seq, c.seat.Load(), t.client == c, now, g.config.Timeout)
	switch v {
	case unknown:
		return false
	case duplicate:
		g.add(&g.count.duplicates, now)
	case late:
		g.add(&g.count.late, now)
	case unexpected:
		g.add(&g.count.unexpected, now)
	case fresh:
		g.add(&g.count.delivered, s.intended)
		g.count.inFlight.Add(-1)
		g.config.Record(Outcome{
			Step: StepMessage, Client: c.index,
			Intended: s.intended, Sent: s.sent, Done: now, Waited: s.waited,
		})
	}
	return true
}

// talker returns who sent a message; nil for nobody.
func (g *Group) talker(sender uint64) *talker {
	if sender >= uint64(len(g.talkers)) {
		return nil
	}
	return g.talkers[sender].Load()
}

// answered takes down that the sender of a message was told what became of it.
func (g *Group) answered(t *talker, seq uint64, now time.Duration, accepted bool) {
	v, s, gone := t.ledger.answer(seq, accepted, now, g.config.Timeout)
	if v != fresh {
		return
	}
	g.count.inFlight.Add(int64(-gone))
	out := Outcome{
		Step: StepAck, Client: t.client.index,
		Intended: s.intended, Sent: s.sent, Done: now, Waited: s.waited,
	}
	if accepted {
		g.add(&g.count.acked, s.intended)
	} else {
		g.add(&g.count.refused, s.intended)
		out.Step, out.Failed, out.Err = StepRefused, failure.NotAccepted, errRefused
	}
	g.config.Record(out)
}

// ponged takes down the answer to a ping.
func (c *client) ponged(payload []byte, now time.Duration) {
	seq, err := strconv.ParseUint(string(payload), 10, 64)
	if err != nil || c.pinger == nil {
		return // nobody asked: RFC 6455 allows it
	}
	g := c.group
	if v, s := c.pinger.ledger.arrive(seq, nil, true, now, g.config.Timeout); v == fresh {
		g.count.inFlight.Add(-1)
		g.config.Record(Outcome{
			Step: StepPing, Client: c.index,
			Intended: s.intended, Sent: s.sent, Done: now, Waited: s.waited,
		})
	}
}

// notice is what a server has told one client that it left out, and when it did so last.
type notice struct {
	left atomic.Int64 // of them, those that have not been missed yet
	at   atomic.Int64
}

// skipped reports whether a delivery that was missed was announced: the server has told the
// client since it was sent that it left out so many.
func (g *Group) skipped(client int, sent time.Duration) bool {
	if g.notices == nil {
		return false
	}
	n := &g.notices[client]
	if int64(sent) > n.at.Load() || n.left.Load() <= 0 {
		return false
	}
	n.left.Add(-1)
	return true
}

// announce takes down that a server told a client how many messages it left out.
func (g *Group) announce(client int, count uint64, now time.Duration) {
	n := &g.notices[client]
	n.at.Store(int64(now))
	n.left.Add(int64(count))
}

// drop records a message that is given up unsent, or a ping.
func (g *Group) drop(t *talker, intended, now time.Duration) {
	out := Outcome{
		Step: StepMessage, Client: t.client.index, Intended: intended, Sent: now, Done: now,
		Dropped: true, Err: errDropped,
	}
	if t.ping && now-intended < g.config.Timeout {
		return // the client leaves, and nobody asks any more
	}
	if t.ping {
		out.Step, out.Dropped, out.Failed, out.Err = StepPing, false, failure.Lost, errUnpinged
	} else {
		g.add(&g.count.dropped, intended)
	}
	g.config.Record(out)
}
