package hub

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/block/epoll"
	"loadstone/block/websocket"
	"loadstone/system/chat"
)

// loop is one thread with connections. Nobody else touches them, so none has a lock.
//
//	mail ─► joins, what is to be told to one, rooms with something new ─► tick: flush ─► wait: sockets
//	 ▲                                                                                     │
//	 └─────────────────────────────────────────────────────────────────────────────────────┘
type loop struct {
	hub    *Hub
	index  int
	poller *epoll.Poller
	byFD   []*Conn
	tags   int32
	count  int // connections

	due     []*view       // with something new, for the next flush
	flushAt time.Duration // when that is
	flushed time.Duration // when the last flush was
	swept   time.Duration // when the last sweep was
	began   time.Time
	now     time.Duration // since began, as of the last turn
	woke    time.Duration // when the last wait ended
	again   []*Conn       // to be read on: they had more than one turn's share

	in, out []byte // what is read, and what is written to one viewer alone

	stopping atomic.Bool
	leaving  bool // all were told
	stats    stats

	mu   sync.Mutex
	mail mail
	shut bool // nothing is taken any more
	full atomic.Bool
}

// mail is what others ask of a loop. It is bounded by what they may do: by the
// connections, the rooms and the messages under way.
type mail struct {
	joins   []*Conn
	letters []letter
	dirty   []*view
	notes   []note
}

// letter is a message to one viewer, or the end of its connection.
type letter struct {
	to    *Conn
	frame []byte
	code  websocket.Code // 0 for a message
}

// view is the viewers of a room that a loop has.
type view struct {
	room    *room
	conns   []*Conn     // the loop's
	ahead   []*Conn     // those of them that joined with a cursor after sent
	sent    uint64      // the cursor of all that are not blocked
	present atomic.Bool // there are some
	dirty   atomic.Bool // the loop has a note that something is new, or is about to
	tail    []byte      // frames that go behind the next one: one write for both
}

// Sizes and times of a loop.
const (
	readBuffer = 64 << 10
	// sweepEvery is how often idle connections are looked for.
	sweepEvery = time.Second
)

func newLoop(h *Hub) (*loop, error) {
	p, err := epoll.Open()
	if err != nil {
		return nil, err
	}
	return &loop{hub: h, index: len(h.loops), poller: p, began: h.began, in: make([]byte, readBuffer)}, nil
}

func (l *loop) close() error { return errors.Join(l.end(), l.poller.Close()) }

// post leaves mail, and reports whether the loop will take it. It wakes with the lock held:
// the poller is not closed before the loop is shut.
func (l *loop) post(put func(*mail)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		return false
	}
	put(&l.mail)
	l.full.Store(true)
	l.poller.Wake()
	return true
}

// run serves until it is told to stop and the viewers have gone.
func (l *loop) run() error {
	var stopAt time.Duration
	for {
		l.now = time.Since(l.began)
		stopping := l.stopping.Load() // before the mail is taken: what was published earlier is in it
		l.takeMail()
		l.readOn()
		if stopping && !l.leaving {
			l.leaving, stopAt = true, l.now+l.hub.cfg.CloseTimeout
			l.flush() // what was said is sent before the end
			l.closeAll()
		}
		if l.leaving && (l.count == 0 || l.now >= stopAt) {
			return l.end()
		}
		if len(l.due) > 0 && l.now >= l.flushAt {
			l.flush()
		}
		if l.now >= l.swept+sweepEvery {
			l.sweep()
		}
		if err := l.wait(stopAt); err != nil {
			return err
		}
	}
}

// wait waits for sockets, mail or time, and deals with the sockets.
func (l *loop) wait(stopAt time.Duration) error {
	then := l.swept + sweepEvery
	if len(l.due) > 0 {
		then = min(then, l.flushAt)
	}
	if l.leaving {
		then = min(then, stopAt)
	}
	before := time.Since(l.began)
	l.stats.busy.Add(int64(before - l.woke))
	if len(l.again) > 0 {
		then = before
	}
	events, err := l.poller.Park(then - before)
	if err != nil {
		return err
	}
	l.now = time.Since(l.began)
	l.woke = l.now
	for i := range events {
		if fd := int(events[i].Fd); fd < len(l.byFD) && l.byFD[fd] != nil && l.byFD[fd].tag == events[i].Pad {
			l.ready(l.byFD[fd], events[i].Events)
		}
	}
	return nil
}

// ready deals with what happened on a socket.
func (l *loop) ready(c *Conn, events uint32) {
	if events&unix.EPOLLOUT != 0 && c.blocked {
		if c.closing {
			l.finish(c)
		} else {
			l.resume(c)
		}
	}
	const ended = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	if events&(unix.EPOLLIN|ended) != 0 && !c.gone {
		l.read(c, events&ended != 0)
	}
}

func (l *loop) takeMail() {
	if !l.full.Load() {
		return
	}
	l.mu.Lock()
	m := l.mail
	l.mail = mail{}
	l.full.Store(false)
	l.mu.Unlock()
	for _, c := range m.joins {
		l.join(c)
	}
	for _, t := range m.letters {
		switch {
		case t.to.gone || t.to.closing:
		case t.code != 0:
			l.bye(t.to, t.code, string(t.frame), closedKicked)
		default:
			l.tell(t.to, t.frame)
		}
	}
	for _, n := range m.notes {
		l.announce(n)
	}
	if len(l.due) == 0 && len(m.dirty) > 0 {
		l.flushAt = nextFlush(l.flushed, l.now, l.hub.cfg.Tick)
	}
	l.due = append(l.due, m.dirty...)
}

// nextFlush is when what is new now is sent: at once if the last flush is a tick ago, and else at the next whole
// number of ticks since the hub began that is half a tick or more after it. So all loops flush at
// the same times while much is said, and a frame that one of them makes is what the others send, too: each at
// times of its own, they sent the frame that another had made before, and what was new since as one more.
func nextFlush(last, now, tick time.Duration) time.Duration {
	if now >= last+tick {
		return now
	}
	next := last + tick/2 + tick - 1
	return next - next%tick
}

// join takes a new connection in.
func (l *loop) join(c *Conn) {
	for c.fd >= len(l.byFD) {
		l.byFD = append(l.byFD, nil)
	}
	l.tags++
	l.byFD[c.fd], c.tag, c.heard, c.stalled = c, l.tags, l.now, l.now
	l.count++
	v := c.view
	if len(v.conns) == 0 {
		// What is published from here on leaves a note.
		v.present.Store(true)
		v.sent = v.room.log.Next()
	}
	c.place = len(v.conns)
	v.conns = append(v.conns, c)
	if err := l.poller.Watch(c.fd, c.tag); err != nil {
		l.drop(c, closedFailed)
		return
	}
	if l.leaving {
		l.bye(c, websocket.GoingAway, goingAway, closedStopping)
		return
	}
	if l.welcome(c) {
		l.resume(c)
	}
}

// welcome puts together what comes first, and reports whether the viewer may stay.
func (l *loop) welcome(c *Conn) bool {
	if c.welcome == nil {
		return true
	}
	messages, err := c.welcome()
	c.welcome = nil
	if err != nil {
		l.bye(c, Forbidden, err.Error(), closedKicked)
		return false
	}
	for _, m := range messages {
		c.private = websocket.AppendFrame(c.private, websocket.Text, m)
	}
	return true
}

// part takes a connection out of its room.
func (l *loop) part(c *Conn) {
	v := c.view
	last := len(v.conns) - 1
	v.conns[c.place] = v.conns[last]
	v.conns[c.place].place = c.place
	v.conns[last] = nil
	if v.conns = v.conns[:last]; last == 0 {
		v.conns, v.ahead = nil, nil
		v.present.Store(false)
	}
	l.hub.leave(v.room, c.address)
}

// flush sends what is new.
func (l *loop) flush() {
	for i, v := range l.due {
		// Before it is looked at: who publishes after that leaves another note.
		v.dirty.Store(false)
		l.flushView(v)
		l.due[i] = nil
	}
	l.due, l.flushed = l.due[:0], l.now
}

// flushView sends what is new in a room to all its viewers that are not blocked. What is
// published meanwhile waits for the next flush: it has left a note.
func (l *loop) flushView(v *view) {
	tail := v.tail
	v.tail = nil
	for end := v.room.log.Next(); v.sent < end && len(v.conns) > 0; {
		f := v.room.log.Newest(v.sent)
		if f == nil {
			break
		}
		s := shot{frame: f, tail: tail}
		tail = nil
		// Backwards, because one whose connection has ended is replaced by the last.
		for _, c := range slices.Backward(v.conns) {
			if !c.blocked {
				l.send(c, &s)
			}
		}
		v.sent = f.To
		ahead := v.ahead
		v.ahead = nil
		for _, c := range ahead {
			if c.ahead = false; !c.gone && !c.closing {
				l.resume(c)
			}
		}
	}
	if len(tail) > 0 { // there was nothing new
		l.tellAll(v.conns, tail, false)
	}
}

// shot is what a flush sends to many: a frame of messages, and what goes behind it.
type shot struct {
	frame *chat.SharedFrame
	tail  []byte

	plain, deflated []byte // both together, once somebody is sent it
}

// bytes are those for viewers with whom compression was agreed, or not.
func (s *shot) bytes(deflate bool) []byte {
	made, frame := &s.plain, s.frame.Bytes
	if deflate {
		made, frame = &s.deflated, s.frame.Deflated()
	}
	if *made == nil {
		*made = frame
		if len(s.tail) > 0 {
			*made = slices.Concat(frame, s.tail)
		}
	}
	return *made
}

// Expired is the code with which a connection ends whose time is over: "unauthorized" in the
// registry of codes.
const Expired websocket.Code = 3000

// Forbidden is the code with which a connection ends whose viewer may not be in the room:
// "forbidden" in the registry of codes.
const Forbidden websocket.Code = 3003

const tooSlow = "you are too slow"

const goingAway = "the server is going away: come back"

func (l *loop) closeAll() {
	for _, c := range l.byFD {
		if c != nil && !c.closing {
			l.bye(c, websocket.GoingAway, goingAway, closedStopping)
		}
	}
}

// stuck reports whether the socket takes no more.
func (c *Conn) stuck() bool { return c.blocked && !c.ahead && !c.closing && !c.gone }

// sweep looks for connections that are idle, or take too long to close.
func (l *loop) sweep() {
	l.swept = l.now
	var blocked []*Conn
	for _, c := range l.byFD {
		if c == nil {
			continue
		}
		c.frames = 0
		silent := l.now - c.heard
		switch {
		case c.closing && silent > l.hub.cfg.CloseTimeout:
			l.drop(c, closedGone)
		case c.closing:
		case c.blocked && l.now-c.stalled > l.hub.cfg.Stalled:
			l.bye(c, websocket.Policy, tooSlow, closedSlow)
		case l.now > c.until:
			l.bye(c, Expired, "the time of this connection is over: come back with another token", closedExpired)
		case silent > l.hub.cfg.Idle:
			l.bye(c, websocket.Policy, "nothing was heard of you", closedIdle)
		case silent > l.hub.cfg.Ping && !c.asked:
			c.asked = true
			l.tell(c, pingFrame)
		}
		if c.stuck() {
			blocked = append(blocked, c)
		}
	}
	l.thin(blocked)
}

// thin ends the blocked connections beyond the loop's share of MaxBlocked.
func (l *loop) thin(blocked []*Conn) {
	if beyond := len(blocked) - l.hub.cfg.MaxBlocked/len(l.hub.loops); beyond > 0 {
		slices.SortFunc(blocked, func(a, b *Conn) int { return cmp.Compare(a.stalled, b.stalled) })
		for _, c := range blocked[:beyond] {
			l.bye(c, websocket.Policy, tooSlow, closedSlow)
		}
	}
}

// end frees the connections that are left. Nothing is taken any more.
func (l *loop) end() error {
	l.mu.Lock()
	l.shut = true
	rest := l.mail.joins
	l.mail = mail{}
	l.mu.Unlock()
	var errs []error
	for _, c := range rest {
		l.hub.leave(c.view.room, c.address)
		errs = append(errs, unix.Close(c.fd))
	}
	for _, c := range l.byFD {
		if c != nil {
			l.drop(c, closedStopping)
		}
	}
	return errors.Join(errs...)
}
