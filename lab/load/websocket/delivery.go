package websocket

import (
	"errors"
	"time"

	"loadstone/lab/load/failure"
)

// errLost and errCutOff are what became of deliveries, in words.
var (
	errLost   = errors.New("the message did not arrive within the timeout")
	errCutOff = errors.New("still under way at the end of the time of graceful stop")
)

// cutOff gives up all deliveries that are still due.
func (g *Group) cutOff() {
	now := g.config.Now()
	for i := range g.talkers {
		if t := g.talkers[i].Load(); t != nil {
			g.settle(t, never, now, true)
		}
	}
}

// settle gives up what a talker sent at before or earlier: as lost, when the
// timeout was over, or as cut off now.
func (g *Group) settle(t *talker, before, now time.Duration, cut bool) {
	if !g.tracked {
		return
	}
	t.ledger.settle(before, func(e *entry, client int) {
		if client < 0 {
			client = t.client.index
		}
		out := Outcome{
			Step: StepMessage, Client: client, Intended: e.intended, Sent: e.sent, Waited: e.waited,
			Done: e.sent + g.config.Timeout, Failed: failure.Lost, Err: errLost,
		}
		counter := &g.count.lost
		if cut && now < out.Done {
			out.Done, out.Failed, out.Err = now, failure.CutOff, errCutOff
			counter = &g.count.cutOff
		}
		counter.Add(1)
		g.count.inFlight.Add(-1)
		g.config.Record(out)
	})
}

// deliver takes down that a message came to c. It is false if no message of this
// run has that id.
func (g *Group) deliver(c *client, sender, seq uint64, now time.Duration) bool {
	if !g.tracked || sender >= uint64(len(g.talkers)) {
		return false
	}
	t := g.talkers[sender].Load()
	if t == nil {
		return false
	}
	v, s := t.ledger.arrive(seq, c.index, t.client == c, now, g.config.Timeout)
	switch v {
	case unknown:
		return false
	case duplicate:
		g.count.duplicates.Add(1)
	case late:
		g.count.late.Add(1)
	case unexpected:
		g.count.unexpected.Add(1)
	case fresh:
		g.count.delivered.Add(1)
		g.count.inFlight.Add(-1)
		g.config.Record(Outcome{
			Step: StepMessage, Client: c.index,
			Intended: s.intended, Sent: s.sent, Done: now, Waited: s.waited,
		})
	}
	return true
}

// errDropped is what became of messages that were never sent.
var errDropped = errors.New("never sent: the connection was gone or took nothing")

// drop records a message that is given up unsent.
func (g *Group) drop(client int, intended, now time.Duration) {
	g.count.dropped.Add(1)
	g.config.Record(Outcome{
		Step: StepMessage, Client: client, Intended: intended, Sent: now, Done: now,
		Dropped: true, Err: errDropped,
	})
}
