package websocket

import (
	"container/heap"
	"slices"
	"sync"
	"time"
)

// sweepEvery is how often the sweeper looks, and so how much later than
// its time something may be called lost. Timeouts are seconds, and a look at
// ten thousand senders with nothing overdue takes well under a millisecond.
const sweepEvery = 20 * time.Millisecond

// sweeper does what is due by time alone: it gives up deliveries and messages,
// lets clients join, and lets those go that have waited for their last delivery.
type sweeper struct {
	group *Group

	mu      sync.Mutex
	joining agenda // of those that are to become members
	parting agenda // of those whose stay ends
	leaving []*client
	ending  []*link // whose close frame has been sent
}

// agenda is what is to happen with connections, a heap by time.
type agenda []appointment

// appointment is for a client, as long as it has this connection.
type appointment struct {
	at     time.Duration
	client *client
	link   *link
}

func (a *agenda) Len() int           { return len(*a) }
func (a *agenda) Less(i, j int) bool { return (*a)[i].at < (*a)[j].at }
func (a *agenda) Swap(i, j int)      { (*a)[i], (*a)[j] = (*a)[j], (*a)[i] }

// Push is heap.Interface's.
func (a *agenda) Push(x any) { *a = append(*a, x.(appointment)) } // the heap has nothing else

// Pop is heap.Interface's.
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	(*a)[last] = appointment{}
	*a = (*a)[:last]
	return x
}

// joinAt makes a client a member at a time.
func (s *sweeper) joinAt(at time.Duration, c *client, l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	heap.Push(&s.joining, appointment{at, c, l})
}

// leaveAt ends a client's stay at a time.
func (s *sweeper) leaveAt(at time.Duration, c *client, l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	heap.Push(&s.parting, appointment{at, c, l})
}

// end closes a connection at the end of its patience.
func (s *sweeper) end(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = append(s.ending, l)
}

// run sweeps until stop is closed.
func (s *sweeper) run(stop <-chan struct{}) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			s.sweep(s.group.config.Now())
		}
	}
}

func (s *sweeper) sweep(now time.Duration) {
	for _, j := range s.due(&s.joining, now) {
		j.client.overdue(j.link, now)
	}
	for _, p := range s.due(&s.parting, now) {
		p.client.endStay(p.link, now)
	}
	g := s.group
	g.each(func(t *talker) {
		g.settle(t, now-g.config.Timeout, now, false)
		t.expire(now)
	})
	s.letGo(now)
	s.cut(now)
}

// due takes out of an agenda what has come.
func (s *sweeper) due(a *agenda, now time.Duration) []appointment {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []appointment
	for len(*a) > 0 && (*a)[0].at <= now {
		due = append(due, heap.Pop(a).(appointment)) // the heap has nothing else
	}
	return due
}

// cut closes the connections whose server has not answered a close frame in time.
func (s *sweeper) cut(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = slices.DeleteFunc(s.ending, func(l *link) bool {
		over := int64(now) >= l.until.Load()
		if over {
			_ = l.wire.Close() // or it has ended already
		}
		return over
	})
}

// watch lets a lingering client go when nothing is due at it any more.
func (s *sweeper) watch(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = append(s.leaving, c)
}

// letGo closes the connections of those who have waited long enough.
func (s *sweeper) letGo(now time.Duration) {
	s.mu.Lock()
	leaving := s.leaving
	s.leaving = nil
	s.mu.Unlock()
	if len(leaving) == 0 {
		return
	}
	oldest := s.oldest() // looked up after they have quit
	var stay []*client
	for _, c := range leaving {
		if !c.goneBy(now, oldest) {
			stay = append(stay, c)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = append(stay, s.leaving...)
}

// oldest is when the oldest message was sent that is still due at any member.
func (s *sweeper) oldest() time.Duration {
	oldest := never
	if !s.group.fansOut() {
		return oldest
	}
	s.group.each(func(t *talker) {
		if !t.ping {
			oldest = min(oldest, t.ledger.since())
		}
	})
	return oldest
}

// goneBy closes the connection of a lingering client at which nothing is due.
// It is false if the client has to linger on.
func (c *client) goneBy(now, oldest time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != lingering {
		return true
	}
	g := c.group
	settled := oldest > c.leftAt
	for _, t := range c.talkers() {
		settled = settled && t.quiet() && (g.fansOut() && !t.ping || t.ledger.since() == never)
	}
	if !settled && now < c.leftAt+g.config.Timeout {
		return false
	}
	c.state = closing
	c.link.Load().farewell(now)
	return true
}
