package websocket

import (
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
	joining []joining // by time
	leaving []*client
}

// joining is a client that is to become a member.
type joining struct {
	at     time.Duration
	client *client
	link   *link
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
	for _, j := range s.joinDue(now) {
		j.client.mu.Lock()
		if j.client.state == connected && j.client.link.Load() == j.link {
			s.group.roster.set(j.client.index, true)
		}
		j.client.mu.Unlock()
	}
	for i := range s.group.talkers {
		if t := s.group.talkers[i].Load(); t != nil {
			s.group.settle(t, now-s.group.config.Timeout, now, false)
			t.expire(now)
		}
	}
	s.letGo(now)
}

// joinDue takes out of joining those whose time has come.
func (s *sweeper) joinDue(now time.Duration) []joining {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.joining) && s.joining[n].at <= now {
		n++
	}
	due := s.joining[:n]
	s.joining = s.joining[n:]
	return due
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
	if s.group.roster == nil {
		return oldest
	}
	for i := range s.group.talkers {
		if t := s.group.talkers[i].Load(); t != nil {
			oldest = min(oldest, t.ledger.since())
		}
	}
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
	if c.talker != nil {
		settled = settled && c.talker.quiet()
		if g.roster == nil {
			settled = settled && c.talker.ledger.since() == never
		}
	}
	if !settled && now < c.leftAt+g.config.Timeout {
		return false
	}
	c.state = closing
	c.link.Load().farewell()
	return true
}
