package websocket

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"loadstone/lab/load/seed"
)

// closeWait is how long a server has to answer a close frame before the
// connection is closed all the same: the answer tells nothing that is measured.
const closeWait = time.Second

// state is what a client is doing.
type state uint8

const (
	away      state = iota // it has no connection and asks for none
	queued                 // it has asked the pacer for one
	dialling               // it is connecting
	connected              // it is connected and wanted
	lingering              // no longer wanted; it waits for what was due when it was
	closing                // it has sent its close frame
)

// client is one client: at most one connection at a time.
type client struct {
	group  *Group
	index  int
	talker *talker              // nil if it only listens
	link   atomic.Pointer[link] // while it is connected, lingering or closing

	mu       sync.Mutex
	state    state
	wanted   bool
	before   bool // it has been connected since it was wanted
	pauses   uint // in a row, before reconnecting
	drawn    uint64
	openedAt time.Duration
	leftAt   time.Duration
}

// link is one open connection.
type link struct {
	ws     *websocket.Conn
	sock   *socket
	broken atomic.Bool            // a write has failed
	owed   atomic.Pointer[string] // the ping that is to be answered after a flush
}

// writable says whether a message can be sent now without being queued.
func (l *link) writable() bool {
	return l != nil && !l.broken.Load() && !l.sock.flushing.Load()
}

// farewell sends a close frame and bounds the wait for the answer. The reader
// then ends by itself.
func (l *link) farewell() {
	// What fails here has ended the connection already.
	_ = l.ws.SetReadDeadline(time.Now().Add(closeWait))
	frame := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = l.ws.WriteControl(websocket.CloseMessage, frame, time.Now().Add(closeWait))
}

// answer answers a ping. While the server takes nothing only the last ping is
// kept, as RFC 6455, 5.5.3 allows: a backlog of answers would have no bound.
func (l *link) answer(ping string) error {
	l.owed.Store(&ping)
	if !l.sock.flushing.Load() {
		l.payPong()
	}
	return nil
}

// payPong answers the ping that is owed, if there is one.
func (l *link) payPong() {
	if ping := l.owed.Swap(nil); ping != nil {
		// An error means that the connection is broken, as its reader finds too.
		_ = l.ws.WriteControl(websocket.PongMessage, []byte(*ping), time.Now().Add(closeWait))
	}
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

// leave has the client go once nothing is due at it.
func (c *client) leave(now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = false
	if c.talker != nil {
		c.talker.end(now)
	}
	if c.state == connected {
		c.state = lingering
		c.group.quit(c)
		c.leftAt = c.group.config.Now() // later than all that is due here was sent
		c.group.sweeper.watch(c)
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

// dial connects and records it. intended is when the schedule wanted it.
func (c *client) dial(intended time.Duration) {
	g := c.group
	out := Outcome{Step: StepConnect, Client: c.index, Intended: intended, Sent: g.config.Now()}
	l, err := g.connect(c, &out)
	out.Done, out.Err = g.config.Now(), err
	if err == nil {
		g.count.connects.Add(1)
	}
	g.config.Record(out)

	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.state = away
		c.retry(out.Done)
		return
	}
	if c.before {
		g.count.reconnects.Add(1)
	}
	c.before, c.openedAt = true, out.Done
	g.count.open.Add(1)
	c.link.Store(l)
	if c.wanted && !g.isStopping() {
		c.enter(out.Done)
	} else {
		c.state = closing
		l.farewell()
	}
	g.work.Go(func() { c.read(l) })
}

// enter makes the client one that is connected and wanted. It is locked.
func (c *client) enter(now time.Duration) {
	c.state = connected
	c.group.join(c, now)
	if c.talker != nil {
		c.group.check(c.talker.resume(now, true))
	}
}

// retry asks for another connection after a pause, if one is to be had; else
// the client stays away. It is locked.
//
// Who is wanted and stays away because it may not reconnect keeps its schedule:
// its messages are due and nobody sends them, so they are dropped one by one. To
// forget them would be to ask less of a server that throws its clients out.
func (c *client) retry(now time.Duration) {
	g := c.group
	switch {
	case c.wanted && g.config.Reconnect && !g.isStopping():
		c.ask(now+c.pause(), now)
	case c.talker != nil && (!c.wanted || g.isStopping()):
		c.talker.end(now)
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

// read takes what comes over one connection, until it ends.
func (c *client) read(l *link) {
	c.receive(l)
	_ = l.ws.Close() // nothing is left to lose
	g, now := c.group, c.group.config.Now()
	g.count.open.Add(-1)

	c.mu.Lock()
	defer c.mu.Unlock()
	byUs := c.state == closing
	c.state = away
	c.link.Store(nil)
	g.quit(c)
	if byUs {
		c.before = false // whoever is asked back is no reconnect
		if c.wanted && !g.isStopping() {
			c.ask(now, now)
		}
		return
	}
	g.count.closed.Add(1)
	if now-c.openedAt > g.config.ReconnectMost {
		c.pauses = 0 // it lasted: this is not a server that closes what it accepts
	}
	c.retry(now)
}

// mostKept is the largest buffer that is kept for the next message, in bytes.
const mostKept = 64 << 10

// receive reads messages until the connection ends.
func (c *client) receive(l *link) {
	g := c.group
	for {
		_, r, err := l.ws.NextReader()
		if err != nil {
			return
		}
		buf := g.messages.Get().(*[]byte) // the pool has nothing else
		n, err := readMessage(r, buf)
		if err == nil {
			c.arrived((*buf)[:n], g.config.Now())
		}
		if len(*buf) <= mostKept {
			g.messages.Put(buf)
		}
		if err != nil {
			return
		}
	}
}

// arrived takes down the ids in a message that came at time now.
func (c *client) arrived(message []byte, now time.Duration) {
	g := c.group
	var lastSender, lastSeq uint64
	known := false
	for {
		sender, seq, rest, found := g.script.next(message)
		if !found {
			break
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
		g.count.other.Add(1)
	}
}
