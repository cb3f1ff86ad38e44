package packets

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Stall is the least time for which Linux delays an acknowledgement (TCP_DELACK_MIN).
const Stall = 40 * time.Millisecond

// Stalls are pauses of about that time, rounded up to a tick, and late by what wakes it.
const (
	leastStall = Stall - time.Millisecond
	mostStall  = 48 * time.Millisecond
	// aside is how far on either side of these a pause is near.
	aside = mostStall - leastStall
)

// mostConnections bounds what is followed at a time. Connections beyond it are not seen.
const mostConnections = 1 << 16

// key is a connection whichever way a segment goes: the lower endpoint first.
type key struct{ low, high endpoint }

func keyOf(p *packet) (k key, fromLow bool) {
	if p.from.ip < p.to.ip || p.from.ip == p.to.ip && p.from.port < p.to.port {
		return key{p.from, p.to}, true
	}
	return key{p.to, p.from}, false
}

// phase is what a connection is doing.
type phase byte

const (
	unknown   phase = iota // nothing was seen of it yet
	idle                   // it was opened, or the last request was given up
	asking                 // a request is under way
	answering              // the last request was answered, at least in part
)

// connection is one that is followed, with what was seen of it in the slice.
type connection struct {
	Hop

	client, server endpoint
	lowAsks        bool // the lower endpoint is the client
	// opened is never until both sides agreed on it, of one whose begin was seen, and closed until
	// either is seen to close it.
	opened, closed int64
	begins         bool // the server has sent nothing since that
	phase          phase
	// last is when the side that sends sent its last byte: of the request while asking,
	// and of the answer while answering.
	last int64
}

// never is later than any packet.
const never = math.MaxInt64

// hopKey tells hops apart.
type hopKey struct {
	client  string
	unnamed bool
	server  endpoint
}

// tracker follows connections through a stretch of time. It reads no clock: packets and
// cuts say what time it is. Those of a slice may come before the cut that began it is made,
// because the kernel hands on packets by the block; such wait for it.
type tracker struct {
	who         *owners
	connections map[key]*connection
	ended       []*connection // in the slice
	spare       []*connection // that are over, to be used again: many are opened in a glimpse
	from        int64         // of the slice
	packets     uint64
	early       []packet // after the cut that is next
	next        int64    // the cut
	unnamed     bool     // some connection is not told apart as yet
	// glimpse is whether there is but one slice, in which requests that are not answered yet
	// count for the time that they have been under way.
	glimpse bool
}

func newTracker(who *owners) *tracker {
	return &tracker{who: who, connections: make(map[key]*connection)}
}

// begin forgets what was followed, and begins a stretch, whose first slice ends then, or a glimpse.
func (t *tracker) begin(at, next time.Time, glimpse bool) {
	for _, c := range t.connections {
		t.spare = append(t.spare, c)
	}
	clear(t.connections)
	t.spare, t.ended, t.early = append(t.spare, t.ended...), t.ended[:0], t.early[:0]
	t.from, t.next, t.packets, t.unnamed, t.glimpse = at.UnixNano(), next.UnixNano(), 0, false, glimpse
}

// add takes the next packet.
func (t *tracker) add(p packet) {
	switch {
	case p.at < t.from: // from before the stretch
	case p.at >= t.next:
		t.early = append(t.early, p)
	default:
		t.see(p)
	}
}

func (t *tracker) see(p packet) {
	t.packets++
	k, fromLow := keyOf(&p)
	c := t.connections[k]
	if p.flags&flagSYN != 0 && (c == nil || !c.agreed(&p, fromLow)) {
		t.end(k, p.at) // another connection of these endpoints
		c = nil
	}
	if c == nil {
		if p.flags&(flagFIN|flagRST) != 0 || len(t.connections) >= mostConnections {
			return
		}
		if c = t.open(k, fromLow, &p); c == nil {
			return
		}
		t.connections[k] = c
	}
	if p.payload > 0 {
		if fromLow == c.lowAsks {
			c.ask(p.at)
		} else {
			c.answer(p.at, t.from)
		}
	}
	if p.flags&(flagRST|flagFIN) != 0 {
		c.closed = min(c.closed, p.at) // of one that is closed in part the tables do not tell either
	}
	if p.flags&flagRST != 0 || p.flags&flagFIN != 0 && fromLow != c.lowAsks {
		t.leave(c, p.at)
		t.end(k, p.at)
	}
}

// agreed says whether a segment is the answer to the one that began the connection, which may be sent again.
func (c *connection) agreed(p *packet, fromLow bool) bool {
	if !c.begins || p.flags&flagACK == 0 || fromLow == c.lowAsks {
		return false
	}
	c.opened = p.at
	return true
}

// lose is told that packets are missing up to now: what was under way may have been answered,
// and a connection may be gone. What is seen of one next is a new request.
func (t *tracker) lose() {
	for _, c := range t.connections {
		c.phase = idle
	}
}

// end keeps what was seen of a connection that is over, if it is followed.
func (t *tracker) end(k key, at int64) {
	if c := t.connections[k]; c != nil {
		c.closed = min(c.closed, at)
		t.ended = append(t.ended, c)
		delete(t.connections, k)
	}
}

// open begins to follow a connection: it is nil if nobody can tell who of the two asks.
func (t *tracker) open(k key, fromLow bool, p *packet) *connection {
	lowAsks, first := fromLow == (p.flags&flagACK == 0), idle
	if p.flags&flagSYN == 0 {
		highServes, known := t.who.serves(k.high, k.low)
		if !known {
			return nil
		}
		lowAsks, first = highServes, unknown
	}
	c := t.fresh()
	*c = connection{Hop: Hop{Unnamed: true}, client: k.low, server: k.high, opened: p.at, closed: never, lowAsks: lowAsks, phase: first}
	if !lowAsks {
		c.client, c.server = c.server, c.client
	}
	c.Server = c.server.address()
	if p.flags&flagSYN != 0 {
		t.who.anew(c.client, c.server, p.at)
		c.begins = true
		if p.flags&flagACK == 0 { // tables have it from the answer on
			c.opened = never
		}
	}
	t.unnamed = true
	return c
}

func (t *tracker) fresh() *connection {
	n := len(t.spare) - 1
	if n < 0 {
		return new(connection)
	}
	c := t.spare[n]
	t.spare = t.spare[:n]
	return c
}

// ask takes a part of a request.
func (c *connection) ask(at int64) {
	if c.phase == asking {
		c.Asking += time.Duration(at - c.last)
		c.stalled(at)
	}
	c.phase, c.last = asking, at
}

// answer takes a part of an answer, in a slice that began at from.
func (c *connection) answer(at, from int64) {
	switch c.phase {
	case asking:
		c.InFlight += time.Duration(at - c.last)
		c.Exchanges++
	case unknown: // it was under way when the stretch began, as far as can be seen
		c.InFlight += time.Duration(at - from)
		c.Exchanges++
	case answering:
		c.Answering += time.Duration(at - c.last)
		c.stalled(at)
	case idle: // a server that speaks first
	}
	c.phase, c.last, c.begins = answering, at, false
}

func (c *connection) stalled(at int64) {
	switch gap := time.Duration(at - c.last); {
	case gap < leastStall-aside || gap > mostStall+aside:
	case gap < leastStall || gap > mostStall:
		c.Near++
	default:
		c.Stalls++
	}
}

// count adds what was seen of a connection until then to its hop, and begins anew.
func (t *tracker) count(c *connection, until int64, hops map[hopKey]*Hop) {
	if c.Unnamed {
		name, known := t.who.of(c.client, c.server, c.opened, min(c.closed, until))
		c.Client, c.Unnamed = name, !known
		t.unnamed = t.unnamed || !known && c.closed == never // tables have no other
	}
	empty := Hop{Client: c.Client, Unnamed: c.Unnamed, Server: c.Server}
	if c.Hop == empty {
		return
	}
	k := hopKey{c.Client, c.Unnamed, c.server}
	if hops[k] == nil {
		hops[k] = new(empty)
	}
	hops[k].add(&c.Hop)
	c.Hop = empty
}

// doubt orders hops that differ by whether their client is known.
func (h *Hop) doubt() int {
	if h.Unnamed {
		return 1
	}
	return 0
}

func (h *Hop) add(o *Hop) {
	h.Exchanges += o.Exchanges
	h.InFlight += o.InFlight
	h.Asking += o.Asking
	h.Answering += o.Answering
	h.Stalls += o.Stalls
	h.Near += o.Near
}

// leave is told of a request that has no answer at the end of a slice, or never gets one. In a
// stretch it counts once it is answered: whoever has given it up, such as the load at the end of
// a try, need not have told those behind it, and what waits for nobody waits for as long as anything.
func (t *tracker) leave(c *connection, at int64) {
	if t.glimpse && c.phase == asking {
		c.InFlight += time.Duration(at - c.last)
	}
}

// cut ends a slice and begins the next.
func (t *tracker) cut(at time.Time) *Slice {
	if t.unnamed && !t.glimpse {
		t.who.refresh()
		t.unnamed = false
	}
	end := at.UnixNano()
	s := &Slice{At: time.Unix(0, t.from), Seconds: time.Duration(end - t.from).Seconds(), Packets: t.packets}
	hops := make(map[hopKey]*Hop)
	for _, c := range t.ended {
		t.count(c, end, hops)
	}
	for _, c := range t.connections {
		t.leave(c, end)
		t.count(c, end, hops)
	}
	t.spare, t.ended = append(t.spare, t.ended...), t.ended[:0]
	for _, h := range hops {
		s.Hops = append(s.Hops, *h)
	}
	slices.SortFunc(s.Hops, func(a, b Hop) int {
		return cmp.Or(cmp.Compare(a.Client, b.Client), a.Server.Compare(b.Server), cmp.Compare(a.doubt(), b.doubt()))
	})
	t.from, t.next, t.packets = end, end+int64(sliceTime), 0
	early := t.early
	t.early = nil
	for _, p := range early {
		t.add(p)
	}
	return s
}
