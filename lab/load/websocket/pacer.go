package websocket

import (
	"container/heap"
	"time"
)

// dialsAtOnce bounds the connects that are under way at once, so that a server
// that does not answer holds up no more than this many goroutines. Further ones
// are begun late, which shows in their response time.
const dialsAtOnce = 256

// pacer has the clients connect, one after the other, at the schedule's rate.
// Connects that begin late, because dialsAtOnce were under way, are made up for.
type pacer struct {
	*alarm

	group *Group
	slots chan struct{}

	// Under the alarm's lock.
	wishes  wishes
	counted uint64
	last    time.Duration // the latest time that was given out
	begun   bool          // one was
	heldTo  time.Duration // until then the connects under way let no other begin
}

// wish is a client that wants to connect, no earlier than at.
type wish struct {
	at     time.Duration
	number uint64 // among equals, who came first
	client *client
}

// ask lets a client connect at a time or later.
func (p *pacer) ask(c *client, at, now time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil
	}
	p.counted++
	heap.Push(&p.wishes, wish{at: at, number: p.counted, client: c})
	return p.set(p.first() - now)
}

// first is when the next connection is to be opened. There is a wish.
func (p *pacer) first() time.Duration {
	at := p.wishes[0].at
	if p.begun {
		gap := time.Duration(float64(time.Second) / p.group.config.ConnectRate)
		at = max(at, p.last+gap)
	}
	return at
}

// run opens connections until the pacer is stopped.
func (p *pacer) run() error {
	for {
		c, at, err := p.take()
		if err != nil {
			return err
		}
		switch {
		case c != nil:
			// Without the lock: clients ask with theirs held.
			if c.startDial() {
				p.dial(c, at)
			}
		case p.isStopped():
			return nil
		default:
			if err := p.wait(); err != nil {
				return err
			}
		}
	}
}

// dial has a client connect, whose time has come.
func (p *pacer) dial(c *client, at time.Duration) {
	p.mu.Lock()
	p.last, p.begun = at, true
	p.mu.Unlock()
	if !p.slot() {
		c.setAway()
		return
	}
	waited := p.waited(at)
	p.group.dials.Go(func() {
		defer func() { <-p.slots }()
		c.dial(at, waited)
	})
}

// waited says whether a connect that was wanted at a time begins later for the server's sake.
func (p *pacer) waited(at time.Duration) bool { return at < p.heldTo }

// slot waits until another connect may be under way. It is false if the group is stopped.
func (p *pacer) slot() bool {
	select {
	case p.slots <- struct{}{}:
		return true
	default:
	}
	select {
	case p.slots <- struct{}{}:
		p.heldTo = p.group.config.Now()
		return true
	case <-p.group.stopping:
		return false
	}
}

// take returns the next client and its time if that has come; else nobody.
func (p *pacer) take() (*client, time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped || len(p.wishes) == 0 {
		return nil, 0, nil
	}
	at := p.first()
	if wait := at - p.group.config.Now(); wait > 0 {
		return nil, 0, p.set(wait)
	}
	w := heap.Pop(&p.wishes).(wish) // the heap has nothing else
	return w.client, at, nil
}

// wishes is a heap by time.
type wishes []wish

func (w *wishes) Len() int { return len(*w) }

func (w *wishes) Less(i, j int) bool {
	a, b := &(*w)[i], &(*w)[j]
	return a.at < b.at || a.at == b.at && a.number < b.number
}

func (w *wishes) Swap(i, j int) { (*w)[i], (*w)[j] = (*w)[j], (*w)[i] }

// Push is heap.Interface's.
func (w *wishes) Push(x any) { *w = append(*w, x.(wish)) } // the heap has nothing else

// Pop is heap.Interface's.
func (w *wishes) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	*w = (*w)[:last]
	return x
}
