package engine

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"loadstone/block/epoll"
	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

// loop is one thread of the generator. The virtual users that belong to it,
// their connections and their timers are touched by nobody else, so none of
// them has a lock.
//
//	     ┌──────────────────────────────────────────────────────────┐
//	     ▼                                                          │
//	posted ─► timers ─► overdue ─► lanes: what the scenarios want ─► wait ─► sockets
//	                                    now, until when to wait
//
// # What was tried
//
// A goroutine and a connection for each virtual user, woken by the runtime's
// poller, with a timerfd for the next arrival. Measured side by side: see
// docs/adr/007.
type loop struct {
	run     *run
	clock   *clock
	timeout time.Duration
	poller  *epoll.Poller
	spin    bool
	shard   *shard
	slots   *slots // nil if every user has a connection of its own
	lanes   []lane

	again   []*connection // to be read on
	timers  timers
	overdue overdueList
	byFD    []*connection // open sockets
	tags    int32

	buffer    []byte   // what is read
	out       []byte   // the request being written
	values    [][]byte // of its placeholders
	condition []byte   // the value that is looked at
	decoder   contentDecoder

	wokeAt   time.Duration // when the last wait ended
	active   bool          // something was done since then
	workedNs atomic.Int64  // time spent neither asleep nor only watching

	remotes sync.WaitGroup // the goroutines of remotes

	mu      sync.Mutex
	posted  []func()
	hasPost atomic.Bool
}

// lane is a scenario's share of one loop.
type lane interface {
	// links are those of all its users so far: nil for one that has none of its
	// own. Before the load begins they are made ready.
	links() []link
	// turn does what is due by now. It returns when it wants to be called
	// again at the latest, and whether everything has ended.
	turn(now time.Duration) (next time.Duration, over bool)
	// stop ends the offered load now, and what is under way after the time of
	// graceful stop, or at once.
	stop(now time.Duration, atOnce bool)
}

const readBuffer = 64 << 10

// newLoop opens a loop. Close it.
func newLoop(r *run, shard *shard) (*loop, error) {
	p, err := epoll.Open()
	if err != nil {
		return nil, err
	}
	return &loop{
		run: r, clock: r.clock, timeout: r.plan.Timeout, poller: p, spin: r.plan.Spin, shard: shard,
		buffer: make([]byte, readBuffer),
	}, nil
}

// prepare opens the connections that the load begins with. All of them together
// have as long as one request may take: a target that does not answer shows in
// the load itself, and must not keep it from beginning.
func (l *loop) prepare() error {
	var links []link
	for _, p := range l.lanes {
		links = append(links, p.links()...)
	}
	if l.slots != nil {
		links = l.slots.all[:min(len(l.slots.all), len(links))]
	}
	pending, until := 0, l.clock.now()+l.timeout
	ready := func(failure.Kind, error) { pending-- }
	for next := 0; next < len(links) || pending > 0; {
		for ; next < len(links) && pending < connectAtOnce; next++ {
			pending++
			links[next].ahead(ready)
		}
		if l.clock.now() >= until || l.run.abandoned.Load() {
			for _, link := range links[:next] {
				link.abort(failure.Timeout, errTimeout)
			}
			next = len(links)
		}
		if pending == 0 {
			continue
		}
		if err := l.wait(l.clock.now() + prepareTurn); err != nil {
			return err
		}
		l.runPosted()
	}
	return nil
}

// connectAtOnce bounds the connections that a loop opens at the same time
// before the load begins, so that a server's accept queue does not overflow.
const connectAtOnce = 16

// prepareTurn is how often preparing looks whether it is to end.
const prepareTurn = 20 * time.Millisecond

// perform runs until all parts have ended.
func (l *loop) perform() error {
	l.wokeAt, l.active = l.clock.now(), false
	for {
		l.runPosted()
		next, over := l.turn(l.clock.now())
		if over {
			return nil
		}
		if err := l.wait(next); err != nil {
			return err
		}
	}
}

// turn does what is due by now, and returns when something is due next.
func (l *loop) turn(now time.Duration) (next time.Duration, over bool) {
	if l.timers.next() <= now {
		l.active = true
		l.timers.fire(now)
	}
	for c := l.overdue.first; c != nil && c.due <= now; c = l.overdue.first {
		l.active = true
		c.abort(failure.Timeout, errTimeout)
	}
	next, over = never, true
	if l.slots != nil {
		next = l.slots.expire(now, l.timeout)
	}
	for _, p := range l.lanes {
		at, ended := p.turn(now)
		next = min(next, at)
		over = over && ended
	}
	next = min(next, l.timers.next())
	if c := l.overdue.first; c != nil {
		next = min(next, c.due)
	}
	return next, over
}

// longestWait bounds a wait, so that a clock that jumped cannot stall a loop.
const longestWait = time.Second

// wait waits until then for something to happen on a socket, and deals with
// it.
func (l *loop) wait(then time.Duration) error {
	before := l.clock.now()
	d := min(then-before, longestWait)
	if l.spin || len(l.again) > 0 {
		d = 0
	}
	events, err := l.poller.Wait(d)
	if err != nil {
		return err
	}
	after := before
	if d > 0 {
		after = l.clock.now()
	}
	l.account(before, after, len(events) > 0 || d > 0)
	for i := range events {
		fd := int(events[i].Fd)
		if fd < len(l.byFD) && l.byFD[fd] != nil && l.byFD[fd].tag == events[i].Pad {
			l.byFD[fd].ready(events[i].Events)
		}
	}
	l.readOn()
	return nil
}

// readAgain has c read on in the next turn: no event will say that it can.
func (l *loop) readAgain(c *connection) {
	if !c.again {
		c.again = true
		l.again = append(l.again, c)
	}
}

// readOn has those read on that had not come to an end in the last turn.
func (l *loop) readOn() {
	for range len(l.again) {
		c := l.again[0]
		l.again = l.again[1:]
		c.again = false
		if c.state == busyState {
			l.active = true
			c.read()
		}
	}
}

// account adds the time at work before a wait.
func (l *loop) account(before, after time.Duration, something bool) {
	if l.active {
		l.workedNs.Add(int64(before - l.wokeAt))
	}
	l.wokeAt, l.active = after, something
}

// post has f called by the loop, soon.
func (l *loop) post(f func()) {
	l.mu.Lock()
	l.posted = append(l.posted, f)
	l.mu.Unlock()
	l.hasPost.Store(true)
	l.poller.Wake()
}

// runPosted calls what was posted.
func (l *loop) runPosted() {
	if !l.hasPost.Load() {
		return
	}
	l.active = true
	l.mu.Lock()
	posted := l.posted
	l.posted = nil
	l.hasPost.Store(false)
	l.mu.Unlock()
	for _, f := range posted {
		f()
	}
}

// enter takes note of a connection's new socket, and returns its tag.
func (l *loop) enter(c *connection) int32 {
	for c.fd >= len(l.byFD) {
		l.byFD = append(l.byFD, nil)
	}
	l.byFD[c.fd] = c
	l.tags++
	return l.tags
}

// leave forgets a connection's socket.
func (l *loop) leave(c *connection) { l.byFD[c.fd] = nil }

// fill draws the values of the placeholders of u's step.
func (l *loop) fill(u *user) {
	s := u.script
	for len(l.values) < len(s.values) {
		l.values = append(l.values, nil)
	}
	for _, i := range u.step().used {
		if s.values[i].extracted {
			l.values[i] = append(l.values[i][:0], u.value(i)...)
		} else {
			l.values[i] = s.feeds.Append(l.values[i][:0], s.values[i].column, u.position())
		}
	}
}

// newLink returns a link for the user, or the slot, of that index.
func (l *loop) newLink(index int) link {
	to := &l.run.targets[index%len(l.run.targets)]
	switch {
	case len(l.run.sharedConns) > 0:
		shared := index % len(l.run.sharedConns)
		return newRemote(l, &l.run.targets[shared%len(l.run.targets)], l.run.sharedConns[shared])
	case to.base.Scheme == "https" || l.run.plan.Protocol == load.HTTP2:
		return newRemote(l, to, newSharedConn(to, l.run, index, l.run.protocol(), false))
	default:
		return newConnection(l, to, index)
	}
}

// close frees the loop. Nothing may be under way.
func (l *loop) close() error {
	for _, c := range l.byFD {
		if c != nil {
			c.close()
		}
	}
	for _, k := range l.lanes {
		for _, link := range k.links() {
			if link != nil {
				link.close()
			}
		}
	}
	if l.slots != nil {
		for _, link := range l.slots.all {
			link.close()
		}
	}
	l.remotes.Wait()
	l.decoder.close()
	return l.poller.Close()
}

var (
	errTimeout      = errors.New("no whole answer within the timeout")
	errNoConnection = errors.New("no connection came free within the timeout")
	errCutOff       = errors.New("still under way at the end of the time of graceful stop")
)
