package websocket

import (
	"bytes"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"loadstone/lab/load/failure"
	"loadstone/lab/load/seed"
)

// state is what a client is doing.
type state uint8

const (
	away      state = iota // it has no connection and asks for none
	queued                 // it has asked the pacer for one
	dialling               // it is connecting
	connected              // it is connected and wanted
	lingering              // it leaves, and waits for what was due when it decided to
	closing                // it has sent its close frame
)

// client is one client: at most one connection at a time.
type client struct {
	group  *Group
	index  int
	talker *talker // nil if it only listens
	pinger *talker // nil if it sends no pings
	link   atomic.Pointer[link]
	seat   atomic.Pointer[seat]   // where deliveries to all are due at it; nil if they are at nobody
	values atomic.Pointer[values] // of its stay
	joins  atomic.Bool            // it waits to be told that it has joined
	seen   [][]byte               // by name of the group's recovery; its reader's, and between two connections who connects'

	mu       sync.Mutex
	state    state
	wanted   bool
	before   bool   // it has been connected in this stay
	told     bool   // on this connection that it has joined
	shut     bool   // it has not been told in time, which has been counted as closed
	stay     uint64 // how many have ended
	pauses   uint   // in a row, before reconnecting
	drawn    uint64
	openedAt time.Duration
	leftAt   time.Duration
}

// talkers are what sends on the client's connection.
func (c *client) talkers() []*talker {
	var all []*talker
	for _, t := range []*talker{c.talker, c.pinger} {
		if t != nil {
			all = append(all, t)
		}
	}
	return all
}

// want has the client connect, or stay.
func (c *client) want(now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = true
	switch c.state {
	case away:
		c.ask(now, now)
	case lingering:
		c.enter(now)
	default: // it is on its way, or its reader asks when the last connection has ended
	}
}

// leave has the client go for good once nothing is due at it.
func (c *client) leave(now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = false
	c.endTalk(now)
	c.part()
}

// part has the client leave once nothing is due at it. It is locked.
func (c *client) part() {
	c.seat.Load().set(false)
	if c.state == connected {
		c.state = lingering
		c.leftAt = c.group.config.Now() // later than all that is due here was sent
		c.group.sweeper.watch(c)
	}
}

// endStay has a client leave that joins again, if it has not been lost since.
func (c *client) endStay(l *link, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == connected && c.link.Load() == l {
		c.endTalk(now)
		c.part()
	}
}

// endTalk has it send no more. It is locked.
func (c *client) endTalk(now time.Duration) {
	for _, t := range c.talkers() {
		t.end(now)
	}
}

// ask asks the pacer for a connection. The client is locked.
func (c *client) ask(at, now time.Duration) {
	c.state = queued
	c.group.check(c.group.pacer.ask(c, at, now))
}

// startDial says whether the client still wants the connection it asked for.
func (c *client) startDial() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.wanted || c.group.isStopping() {
		c.state = away
		return false
	}
	c.state = dialling
	return true
}

// setAway takes back startDial.
func (c *client) setAway() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = away
}

// dial logs in where that is asked for, connects and records both. intended is when the
// schedule wanted it, waited says that other connects were why it began later.
func (c *client) dial(intended time.Duration, waited bool) {
	g := c.group
	intended, ok := c.prepare(intended, waited)
	if !ok {
		c.notConnected(g.config.Now())
		return
	}
	out := Outcome{Step: StepConnect, Client: c.index, Intended: intended, Sent: g.config.Now(), Waited: waited}
	l, start, err := g.connect(c, &out)
	out.Done, out.Err = g.config.Now(), err
	if err == nil {
		g.count.connects.Add(1)
	}
	g.config.Record(out)
	if err != nil {
		c.notConnected(out.Done)
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	g.count.open.Add(1)
	c.joins.Store(len(g.script.joined) > 0)
	if g.hello != nil {
		l.say(c.values.Load().text(g.hello, nil))
	}
	if c.before {
		g.count.reconnects.Add(1)
		c.sayAgain(l)
	}
	c.before, c.openedAt = true, out.Done
	c.link.Store(l)
	g.work.Add(1)
	if c.wanted && !g.isStopping() {
		c.enter(out.Done)
	} else {
		c.state = closing
		l.farewell(out.Done)
	}
	start()
}

// sayAgain sends what went over earlier connections and has no answer. The lane does not know the
// link yet: nothing new comes before it, or is among it.
func (c *client) sayAgain(l *link) {
	g := c.group
	if c.talker == nil || !g.config.Resend || !g.config.answered() {
		return
	}
	for _, seq := range c.talker.ledger.unanswered() {
		l.say(g.script.fill(nil, c.values.Load(), c.index, seq))
	}
}

// notConnected is the end of a dial that led to nothing.
func (c *client) notConnected(now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = away
	if c.wanted && !c.group.isStopping() {
		// It was to be there: what is said is due at it, and what it was to say is not said.
		c.seat.Load().set(true)
		if c.talker != nil {
			c.group.check(c.talker.resume(now, true))
		}
	}
	c.retry(now)
}

// sit gives the client its place in its room. own says whether its login's values are known.
func (c *client) sit(v *values, own bool) {
	g := c.group
	unknown := func(p piece) bool { return p.then == ofLogin }
	if g.fansOut() && (own || !slices.ContainsFunc(g.room, unknown)) {
		c.seat.Store(g.rooms.of(string(v.text(g.room, nil))).seat(c.index))
	}
}

// prepare settles what a client's stay needs before it connects: the values, the room and
// the login. It returns when the connect is wanted, and false if there is to be none.
func (c *client) prepare(intended time.Duration, waited bool) (time.Duration, bool) {
	g := c.group
	c.mu.Lock()
	stay, v := c.stay, c.values.Load()
	c.mu.Unlock()
	if v != nil && v.at.Own == stay {
		c.values.Store(v.recovered(c.seen)) // it comes back
		return intended, true
	}
	var login map[string]string
	if v != nil {
		login = v.login
	}
	v = g.valuesOf(c.index, stay, login)
	if g.login != nil && login == nil {
		out := Outcome{Step: StepLogin, Client: c.index, Intended: intended, Sent: g.config.Now(), Waited: waited}
		v.login = g.login.do(g.dialling, c.index, v, &out)
		out.Done = g.config.Now()
		g.config.Record(out)
		if v.login == nil {
			c.sit(v, false)
			return 0, false
		}
		intended = out.Done
	}
	if g.recovery != nil {
		c.seen = make([][]byte, len(g.recovery.names))
	}
	c.values.Store(v)
	c.sit(v, true)
	return intended, true
}

// enter makes the client one that is connected and wanted. It is locked.
func (c *client) enter(now time.Duration) {
	c.state = connected
	g := c.group
	after := g.config.JoinAfter
	if c.joins.Load() {
		after = g.config.Timeout // who is never told is not let in, and what is sent then is lost
	}
	g.join(c, now, after)
	if life := g.config.Lifetime; life[1] > 0 {
		key := seed.Derive(g.config.Seed, "websocket", "lifetime", strconv.Itoa(c.index))
		drawn := time.Duration(seed.Unit(seed.At(key, c.stay)) * float64(life[1]-life[0]))
		g.sweeper.leaveAt(now+life[0]+drawn, c, c.link.Load())
	}
	for _, t := range c.talkers() {
		g.check(t.resume(now, true))
	}
}

// retry asks for another connection after a pause, if one is to be had; else
// the client stays away. It is locked.
//
// Who is wanted and stays away because it may not reconnect keeps its schedule:
// its messages are due and nobody sends them, so they are dropped one by one. To
// forget them would be to ask less of a server that throws its clients out. For the same
// reason it stays a member: what is sent meanwhile is due at it, and lost.
func (c *client) retry(now time.Duration) {
	g := c.group
	switch {
	case c.wanted && g.config.Reconnect && !g.isStopping():
		c.ask(now+c.pause(), now)
	case !c.wanted || g.isStopping():
		c.endTalk(now)
	}
}

// pause is how long to wait before the next connect: it doubles from one to the
// next and is shortened by up to a half, as the seed draws it, so that clients
// that were cut off together do not come back together.
func (c *client) pause() time.Duration {
	g := &c.group.config
	pause := g.ReconnectMost
	if c.pauses < 62 && g.ReconnectAfter <= g.ReconnectMost>>c.pauses {
		pause = g.ReconnectAfter << c.pauses
	}
	c.pauses++
	key := seed.Derive(g.Seed, "websocket", "reconnect", strconv.Itoa(c.index))
	c.drawn++
	return time.Duration(float64(pause) * (1 - seed.Unit(seed.At(key, c.drawn-1))/2))
}

// ended is called once by a link's reader, when its connection is closed: why says how it
// ended.
func (c *client) ended(why error) {
	g, now := c.group, c.group.config.Now()
	defer g.work.Done()
	g.count.open.Add(-1)

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told {
		c.told = false
		g.count.joined.Add(-1)
	}
	planned := c.state == closing || c.state == lingering
	c.state = away
	c.link.Store(nil)
	if planned {
		c.before = false // whoever is asked back is no reconnect
		c.stay++
		if c.wanted && !g.isStopping() {
			c.ask(now, now)
		}
		c.shut = false
		return
	}
	if !c.shut {
		c.closed(now, why)
	}
	c.shut = false
	if c.pinger != nil {
		c.pinger.end(now) // there is nobody to ask
	}
	c.seat.Load().set(c.wanted) // also if it had not joined yet: it was to be there
	if now-c.openedAt > g.config.ReconnectMost {
		c.pauses = 0 // it lasted: this is not a server that closes what it accepts
	}
	c.retry(now)
}

// closed takes down that the client's connection came to no good. It is locked.
func (c *client) closed(now time.Duration, why error) {
	c.group.count.closed.Add(1)
	c.group.config.Record(Outcome{
		Step: StepSession, Client: c.index, Intended: c.openedAt, Sent: c.openedAt, Done: now,
		Failed: failure.Closed, Err: why,
	})
}

// overdue has a client be a member that has been connected for long enough. Who was not told
// that it has joined in all that time is not let in.
func (c *client) overdue(l *link, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != connected || c.link.Load() != l {
		return
	}
	c.seat.Load().set(true)
	if c.joins.Load() && !c.shut {
		c.shut = true
		c.closed(now, errNotJoined)
	}
}

// arrived takes down the ids in a message that came at time now.
func (c *client) arrived(l *link, message []byte, now time.Duration) {
	g := c.group
	if c.joins.Load() && has(message, g.script.joined) {
		c.joined(l)
	}
	if g.recovery != nil {
		g.recovery.see(c.seen, message)
	}
	if n := g.script.announced(message); n > 0 {
		g.announce(c.index, n, now)
	}
	var lastSender, lastSeq uint64
	known, looked, whole := false, false, message
	for {
		sender, seq, rest, found := g.script.next(message)
		if !found {
			break
		}
		if !looked && sender == uint64(c.index) {
			looked = true // only senders are told: nobody else need look
			if c.answered(whole, now) {
				return
			}
		}
		message = rest
		if known && sender == lastSender && seq == lastSeq {
			continue // the same id again, as in a message that holds it twice
		}
		if g.deliver(c, sender, seq, now) {
			known, lastSender, lastSeq = true, sender, seq
		}
	}
	if !known {
		g.add(&g.count.other, now)
	}
}

// answered takes down what a server says of the client's own messages, and reports whether a
// text is that and no delivery. It may be about several.
func (c *client) answered(message []byte, now time.Duration) bool {
	s := c.group.script
	acks, refusals := has(message, s.ack), has(message, s.refused)
	if !acks && !refusals {
		return false
	}
	t, text := c.group.talker(uint64(c.index)), message
	first := message[:max(0, bytes.Index(message, s.prefix))]
	leads := has(first, s.ack) || has(first, s.refused)
	for t != nil {
		sender, seq, rest, found := s.next(message)
		if !found {
			break
		}
		if sender == uint64(c.index) {
			c.group.answered(t, seq, now, acks && (!refusals || s.accepts(text[:len(text)-len(rest)], rest, leads)))
		}
		message = rest
	}
	return true
}

// joined takes down that the server has told the client that it has joined.
func (c *client) joined(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.joins.Swap(false) || c.link.Load() != l {
		return
	}
	c.told = true
	c.group.count.joined.Add(1)
	if c.state == connected {
		c.seat.Load().set(true)
	}
}
