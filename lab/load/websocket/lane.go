package websocket

import (
	"container/heap"
	"strconv"
	"sync/atomic"
	"time"

	"loadstone/block/websocket"
)

// lane sends the messages of its share of the clients, each at its time.
type lane struct {
	*alarm

	group *Group
	text  []byte // the message being sent; the lane's goroutine's own
	frame []byte // it, framed
	due   queue  // under the alarm's lock
}

// talker is the sending half of a client, or what sends its pings.
type talker struct {
	client *client
	lane   *lane
	ping   bool // it sends pings
	ledger ledger
	number uint64 // of the next message, if there is no ledger; the lane's goroutine's own

	// parked: there is a schedule, and no way to send just now. It changes
	// under the lane's lock.
	parked atomic.Bool

	// Under the lane's lock.
	schedule schedule
	offering bool          // the schedule has begun
	freeAt   time.Duration // since when messages can be sent
	place    int           // in the queue, or less than 0
	busy     bool          // the lane has its turn under way
}

// run sends until the lane is stopped.
func (l *lane) run() error {
	for {
		t, before, err := l.next()
		if err != nil {
			return err
		}
		if t == nil {
			return nil
		}
		t.turn(before)
	}
}

// next waits for the next client whose time has come, takes it out of the queue,
// and returns its schedule as it was before it was moved on. It returns nobody
// when the lane is stopped.
func (l *lane) next() (*talker, schedule, error) {
	for {
		t, before, err := l.take()
		if t != nil || err != nil || l.isStopped() {
			return t, before, err
		}
		if err := l.wait(); err != nil {
			return nil, before, err
		}
	}
}

// take is next without waiting: it sets the alarm if nobody's time has come.
func (l *lane) take() (*talker, schedule, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || len(l.due) == 0 {
		return nil, schedule{}, nil
	}
	t := l.due[0]
	if wait := t.schedule.next - l.group.config.Now(); wait > 0 {
		return nil, schedule{}, l.set(wait)
	}
	heap.Pop(&l.due)
	before := t.schedule
	t.schedule.advance()
	t.busy = true
	return t, before, nil
}

// turn sends the message whose schedule is before, if that can be done, and
// puts the talker back into the queue or parks it.
func (t *talker) turn(before schedule) {
	l, g := t.lane, t.lane.group
	t.lane.mu.Lock()
	freeAt := t.freeAt
	t.lane.mu.Unlock()

	sent := false
	now := g.config.Now()
	if link := t.client.link.Load(); now-before.next >= g.config.Timeout {
		g.drop(t, before.next, now)
		sent = true // or rather done with
	} else if link.writable() {
		sent = t.send(link, before.next, before.next < freeAt)
	}

	after := before
	after.advance()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.busy = false
	switch {
	case sent:
	case t.offering && t.schedule == after:
		t.schedule = before // it waits
		if t.place >= 0 {
			heap.Fix(&l.due, t.place)
		}
	default:
		g.drop(t, before.next, now)
	}
	t.requeue()
}

// dues is what is due of each message.
func (t *talker) dues() dues {
	g := t.lane.group
	if t.ping {
		return dues{own: true}
	}
	d := dues{own: g.tracked, ack: g.config.answered()}
	if s := t.client.seat.Load(); s != nil {
		d.at, d.own = s.room, false
	}
	return d
}

// send sends one message. It is false if nothing was sent: the connection is
// broken, and its reader will see that too.
func (t *talker) send(l *link, intended time.Duration, waited bool) bool {
	g, d := t.lane.group, t.dues()
	s := stamp{intended: intended, sent: g.config.Now(), waited: waited}
	seq, kept := t.number, d != dues{}
	if kept {
		var ok bool
		if seq, ok = t.ledger.put(s, d, g.mostUnderWay, &g.count.inFlight); !ok {
			g.drop(t, intended, s.sent)
			return true
		}
	}
	if _, err := l.wire.Write(t.framed(seq)); err != nil {
		l.broken.Store(true)
		gone, taken := 0, true
		if kept {
			gone, taken = t.ledger.retract()
			g.count.inFlight.Add(int64(-gone))
		}
		if taken {
			return false
		}
	}
	t.number++
	if t.ping {
		return true
	}
	g.add(&g.count.sent, intended)
	if !g.tracked {
		g.config.Record(Outcome{
			Step: StepMessage, Client: t.client.index,
			Intended: intended, Sent: s.sent, Done: g.config.Now(), Waited: waited,
		})
	}
	return true
}

// framed is the message of a number, or the ping. It is valid until the next.
func (t *talker) framed(seq uint64) []byte {
	l, op := t.lane, websocket.Text
	if t.ping {
		l.text, op = strconv.AppendUint(l.text[:0], seq, 10), websocket.Ping
	} else {
		l.text = l.group.script.fill(l.text[:0], t.client.values.Load(), t.client.index, seq)
	}
	l.frame = websocket.AppendMasked(l.frame[:0], op, l.text, mask())
	return l.frame
}

// quiet says, after end, whether the last message has been sent.
func (t *talker) quiet() bool {
	t.lane.mu.Lock()
	defer t.lane.mu.Unlock()
	return !t.busy
}

// requeue puts the talker where it belongs. The lane is locked.
func (t *talker) requeue() {
	switch {
	case t.place >= 0:
	case !t.offering:
		t.parked.Store(false)
	case t.client.link.Load().writable():
		t.parked.Store(false)
		heap.Push(&t.lane.due, t)
	default:
		t.parked.Store(true)
	}
}

// resume has the talker send again, from now on: its connection is open, or
// takes messages again. It begins the schedule if it has not begun.
func (t *talker) resume(now time.Duration, begin bool) error {
	l := t.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if begin && !t.offering {
		t.offering = true
		t.schedule.begin(now)
	}
	t.freeAt = now
	t.requeue()
	if l.stopped || t.place != 0 {
		return nil
	}
	return l.set(t.schedule.next - now)
}

// end ends the schedule. What was due by now and is not sent is dropped.
func (t *talker) end(now time.Duration) {
	t.lane.mu.Lock()
	defer t.lane.mu.Unlock()
	if !t.offering {
		return
	}
	t.offering = false
	if t.place >= 0 {
		heap.Remove(&t.lane.due, t.place)
	}
	t.parked.Store(false)
	t.dropUntil(now, now)
}

// expire drops what a parked talker could not send for as long as the timeout.
func (t *talker) expire(now time.Duration) {
	if !t.parked.Load() {
		return
	}
	t.lane.mu.Lock()
	defer t.lane.mu.Unlock()
	if t.parked.Load() {
		t.dropUntil(now-t.lane.group.config.Timeout, now)
	}
}

// dropUntil drops what was due at limit or earlier. The lane is locked.
func (t *talker) dropUntil(limit, now time.Duration) {
	for t.schedule.next <= limit {
		t.lane.group.drop(t, t.schedule.next, now)
		t.schedule.advance()
	}
}

// queue is the talkers that can send, a heap by their next time.
type queue []*talker

func (q *queue) Len() int           { return len(*q) }
func (q *queue) Less(i, j int) bool { return (*q)[i].schedule.next < (*q)[j].schedule.next }

func (q *queue) Swap(i, j int) {
	s := *q
	s[i], s[j] = s[j], s[i]
	s[i].place, s[j].place = i, j
}

// Push is heap.Interface's.
func (q *queue) Push(x any) {
	t := x.(*talker) // the queue has nothing else
	t.place = len(*q)
	*q = append(*q, t)
}

// Pop is heap.Interface's.
func (q *queue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.place = -1
	return t
}
