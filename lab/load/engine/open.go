package engine

import (
	"sync/atomic"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

// openLane is an event loop's share of a scenario with a schedule: iterations
// begin when the schedule says, whatever the system does. Every of-th arrival
// is the loop's.
//
// # Who was late
//
// Arrivals wait in the schedule, which costs nothing, until a user is free; the
// user that has been free longest takes the oldest. So when a user takes an
// arrival whose time has passed:
//
//   - it came free after the arrival's time: with an infinitely fast generator
//     this arrival would have waited for this user as well. It waited, and that
//     is the system's doing.
//   - it was free at the arrival's time: it should have been sent then. Every
//     microsecond since is the generator's lateness.
//
// # More users
//
// An arrival that leaves nobody free asks for one more user, up to the limit,
// so there is always one ready, connected ahead of its first request. When
// arrivals have begun to wait it asks for several, because one at a time would
// not keep up with a stall. The limit is of the lanes of all loops together.
//
// # Users of other loops
//
// An arrival for which nobody is free here, where there may be no more users, goes to a
// lane of another loop that has somebody free: else it would depend on the number of loops
// how long arrivals wait, and where nobody is free anywhere, a lane that has somebody again
// and nothing to do wakes one whose arrivals wait. Each lane says how many it has free,
// and how many arrivals are on their way to it; that another's figures may be a moment old
// costs no more than that an arrival waits there and not here.
type openLane struct {
	sc           *scenario
	loop         *loop
	own          share
	schedule     schedule
	users        []*user
	free         userList
	preallocated int // users that are there before the load begins
	connecting   int // users that are connecting ahead
	busy         int

	handed  []load.Arrival // by other lanes, for the next who comes free
	coming  atomic.Int64   // arrivals on their way from other lanes, and those in handed
	spare   atomic.Int64   // users that are free
	starved atomic.Bool    // arrivals wait for whoever comes free first
	done    atomic.Bool    // its schedule has no more arrivals

	limit    time.Duration // from when on there are no arrivals
	cutAt    time.Duration // when what is under way is cut off
	stopping bool          // what finds nobody free is not waited for
	dropping bool          // what has not been sent will not be
}

// growWhenWaiting is how many users are made at once when arrivals are waiting.
const growWhenWaiting = 8

// maxSendsPerTurn is how many arrivals are sent before sockets are looked at again.
const maxSendsPerTurn = 64

// newOpenLane prepares a loop's share of a scenario.
func newOpenLane(sc *scenario, l *loop, own share) (*openLane, error) {
	s := sc.spec
	walk, err := sc.run.newSchedule(s)
	if err != nil {
		return nil, err
	}
	p := &openLane{
		sc: sc, loop: l, own: own, schedule: walk,
		preallocated: own.count(s.PreAllocatedVUs),
		limit:        never, cutAt: sc.run.endOf(s) + s.GracefulStop,
	}
	for range p.preallocated {
		if u := p.addUser(); u != nil {
			p.setFree(u)
		}
	}
	return p, nil
}

// addUser makes a user; nil if there are as many as there may be.
func (p *openLane) addUser() *user {
	part, number := p.sc.run.plan.Portion, p.sc.made.Load()
	for ; ; number = p.sc.made.Load() {
		if number >= int64(part.Count(p.sc.spec.MaxVUs)) {
			return nil
		}
		if p.sc.made.CompareAndSwap(number, number+1) {
			break
		}
	}
	u := newUser(part.Index+part.Size()*int(number), p.sc, p.loop, p)
	p.users = append(p.users, u)
	return u
}

// setFree puts a user at the end of those who are free.
func (p *openLane) setFree(u *user) {
	p.free.push(u)
	p.spare.Add(1)
}

// takeFree takes the one away who has been free longest; nil if there is none.
func (p *openLane) takeFree() *user {
	u := p.free.pop()
	if u != nil {
		p.spare.Add(-1)
	}
	return u
}

// links are those of the users that are there from the start.
func (p *openLane) links() []link { return linksOf(p.users) }

// linksOf returns the links of users and of their lanes, nil for those that have none
// of their own.
func linksOf(users []*user) []link {
	var links []link
	for _, u := range users {
		links = append(links, u.link)
		if u.journey == nil || u.slots != nil {
			continue
		}
		for k, lane := range u.journey.lanes {
			if k > 0 { // the first has its user's
				links = append(links, lane.link)
			}
		}
	}
	return links
}

// turn sends what is due.
func (p *openLane) turn(now time.Duration) (next time.Duration, over bool) {
	p.starved.Store(false)
	for sent := 0; ; {
		a, ok := p.peek()
		if !ok || a.At >= p.limit && len(p.handed) == 0 {
			return p.untilCut(never, now, p.ended())
		}
		if a.At > now {
			if now = p.loop.clock.now(); a.At > now {
				return p.untilCut(a.At, now, false)
			}
		}
		switch u := p.free.first; {
		case p.dropping || now-a.At >= p.loop.timeout:
			p.advance()
			p.drop(a)
		case u != nil:
			p.advance()
			p.send(p.takeFree(), a, now)
			if sent++; sent == maxSendsPerTurn {
				return now, false
			}
		case !p.seek(a, now):
			return p.untilCut(a.At+p.loop.timeout, now, false)
		}
	}
}

// ended says whether nothing of the lane is under way, and nothing can come to it any more:
// who has no more arrivals hands none over, so that is looked at first.
func (p *openLane) ended() bool {
	return p.allOffered() && p.coming.Load() == 0 && p.busy == 0 && p.connecting == 0
}

// seek looks for somebody for an arrival for which nobody is free. It is false if the
// arrival has to wait.
func (p *openLane) seek(a load.Arrival, now time.Duration) bool {
	p.grow(growWhenWaiting, now)
	switch {
	case p.free.first != nil:
		return true
	case len(p.handed) == 0 && p.handOver(a):
		p.advance()
		return true
	case p.stopping:
		p.dropping = true
		return true
	}
	p.starved.Store(true)
	return len(p.handed) == 0 && p.sc.spareLane(p) != nil // since handOver looked
}

// untilCut ends a turn: what is under way is cut off when its time is over.
func (p *openLane) untilCut(next, now time.Duration, over bool) (time.Duration, bool) {
	if now >= p.cutAt {
		p.cut()
		return now + time.Millisecond, over
	}
	return min(next, p.cutAt), over
}

// advance takes the next arrival off: one that was handed over, or the schedule's.
func (p *openLane) advance() {
	if len(p.handed) > 0 {
		p.handed = p.handed[1:]
		p.coming.Add(-1)
		return
	}
	p.schedule.Advance()
}

// drop takes down that an arrival is never sent. Where somebody has been free since its
// time that is the generator's doing.
func (p *openLane) drop(a load.Arrival) {
	u := p.free.first
	p.loop.shard.addDrop(a.At, true, u != nil && u.freeAt <= a.At)
}

// handOver gives an arrival to a lane that has somebody free for it. It is false if none
// has.
func (p *openLane) handOver(a load.Arrival) bool {
	to := p.sc.spareLane(p)
	if to == nil {
		return false
	}
	to.coming.Add(1)
	to.loop.post(func() { to.handed = append(to.handed, a) })
	return true
}

// spareLane is a lane but p that has more users free than arrivals coming to it; nil if
// there is none.
func (sc *scenario) spareLane(p *openLane) *openLane {
	for i := range sc.open {
		// Not always the first ones.
		if to := sc.open[(p.own.index+1+i)%len(sc.open)]; to != p && to.spare.Load() > to.coming.Load() {
			return to
		}
	}
	return nil
}

// allOffered says whether no lane has arrivals left. It has none itself.
func (p *openLane) allOffered() bool {
	first := !p.done.Swap(true)
	all := true
	for _, other := range p.sc.open {
		all = all && other.done.Load()
		if first && other != p {
			other.loop.post(func() {}) // it may have waited for this
		}
	}
	return all
}

// feed wakes a lane whose arrivals wait, if somebody is free here and has nothing to do.
func (p *openLane) feed() {
	if len(p.sc.open) < 2 || p.starved.Load() || p.spare.Load() <= p.coming.Load() {
		return
	}
	for _, other := range p.sc.open {
		if other != p && other.starved.CompareAndSwap(true, false) {
			other.loop.post(func() {})
			return
		}
	}
}

// peek returns the next arrival: one that was handed over, or the share's.
func (p *openLane) peek() (load.Arrival, bool) {
	if len(p.handed) > 0 {
		return p.handed[0], true
	}
	for {
		a, ok := p.schedule.Peek()
		if !ok || int(a.Number%uint64(p.own.of)) == p.own.index {
			return a, ok
		}
		p.schedule.Advance()
	}
}

// send has u begin the iteration of a.
func (p *openLane) send(u *user, a load.Arrival, now time.Duration) {
	p.busy++
	p.sc.begun(a.At)
	p.loop.active = true
	u.begin(a, true, u.freeAt > a.At)
	if p.free.first == nil {
		p.grow(1, now)
	}
}

// grow makes users until n are on their way, or there are as many as there may
// be.
func (p *openLane) grow(n int, now time.Duration) {
	// Not while making is below n: a connection that cannot even be begun is
	// made and unmade at once.
	for range n - p.connecting {
		u := p.addUser()
		if u == nil {
			return
		}
		if u.slots != nil {
			u.freeAt = now
			p.setFree(u)
			return
		}
		p.connecting++
		// If it fails, its first request tries again, and reports it.
		u.link.ahead(func(failure.Kind, error) {
			p.connecting--
			u.freeAt = p.loop.clock.now()
			p.setFree(u)
			p.feed()
		})
	}
}

// released takes back a user whose iteration has ended.
func (p *openLane) released(u *user, _ failure.Kind) {
	p.busy--
	p.sc.busy.Add(-1)
	p.setFree(u)
	p.feed()
}

// cut ends what is under way, and drops what has not been sent.
func (p *openLane) cut() {
	p.dropping = true
	cutWaiting(p.users) // else each would be sent on a connection that another leaves
	for _, u := range p.users {
		u.cut()
		if u.link != nil && u.slots == nil {
			u.link.abort(failure.CutOff, errCutOff) // one that connects ahead
		}
	}
}

// cutWaiting cuts off those who wait for a connection.
func cutWaiting(users []*user) {
	for _, u := range users {
		switch u.state {
		case userWaiting:
			u.cut()
		case userForked:
			u.journey.cut = true
			cutWaiting(u.journey.lanes)
		default:
		}
	}
}

// stop ends the schedule at once, and drops what has to wait.
func (p *openLane) stop(now time.Duration, atOnce bool) {
	p.limit = min(p.limit, now)
	p.stopping, p.dropping = true, p.dropping || atOnce
	if !atOnce {
		now += p.sc.spec.GracefulStop
	}
	p.cutAt = min(p.cutAt, now)
}
