package websocket

import "sync/atomic"

// Stats is how things stand. All but Open, Joined and InFlight only grow. Messages are those
// intended at Config.From or later.
type Stats struct {
	Open     int64 // connections that are open
	Joined   int64 // of them, those that have been told that they have joined; all where servers do not say so
	InFlight int64 // deliveries, acks and pongs that are due and have neither come nor been given up

	Connects   uint64 // connections opened, reconnects included
	Reconnects uint64 // of them
	Closed     uint64 // connections that the server or a failure ended, or that were not told in time that they have joined

	Sent      uint64 // messages
	Dropped   uint64 // messages that were never sent
	Delivered uint64 // deliveries that came in time
	Lost      uint64 // deliveries that did not
	CutOff    uint64 // deliveries that were under way when all ended
	Skipped   uint64 // deliveries that did not come, and of which the server said so
	Acked     uint64 // messages that were accepted in time
	Refused   uint64 // messages that were not accepted

	Duplicates uint64 // deliveries that came again
	Late       uint64 // that came after they were lost
	Unexpected uint64 // that came to a client where they were not due
	Other      uint64 // messages received that have no id of ours

	SentBytes     uint64 // the handshake included, TLS not
	ReceivedBytes uint64
}

// counters is Stats while it is counted.
type counters struct {
	open, joined, inFlight                 atomic.Int64
	connects, reconnects, closed           atomic.Uint64
	sent, dropped, delivered, lost, cutOff atomic.Uint64
	skipped, acked, refused                atomic.Uint64
	duplicates, late, unexpected, other    atomic.Uint64
	sentBytes, receivedBytes               atomic.Uint64
}

// Stats returns the counters. They are read one after the other, not at once.
func (g *Group) Stats() Stats {
	n := &g.count
	open := n.open.Load()
	joined := open
	if len(g.script.joined) > 0 {
		joined = n.joined.Load()
	}
	return Stats{
		Open: open, Joined: joined, InFlight: n.inFlight.Load(),
		Connects: n.connects.Load(), Reconnects: n.reconnects.Load(), Closed: n.closed.Load(),
		Sent: n.sent.Load(), Dropped: n.dropped.Load(), Delivered: n.delivered.Load(),
		Lost: n.lost.Load(), CutOff: n.cutOff.Load(), Skipped: n.skipped.Load(),
		Acked: n.acked.Load(), Refused: n.refused.Load(),
		Duplicates: n.duplicates.Load(), Late: n.late.Load(),
		Unexpected: n.unexpected.Load(), Other: n.other.Load(),
		SentBytes: n.sentBytes.Load(), ReceivedBytes: n.receivedBytes.Load(),
	}
}
