package engine

import (
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
// not keep up with a stall.
type openLane struct {
	sc           *scenario
	loop         *loop
	own          share
	schedule     schedule
	users        []*user
	free         userList
	preallocated int // users that are there before the load begins
	maxUsers     int // users, at most
	connecting   int // users that are connecting ahead
	busy         int

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
		preallocated: own.count(s.PreAllocatedVUs), maxUsers: own.count(s.MaxVUs),
		limit: never, cutAt: sc.run.endOf(s) + s.GracefulStop,
	}
	for range p.preallocated {
		p.free.push(p.addUser())
	}
	return p, nil
}

// addUser makes a user.
func (p *openLane) addUser() *user {
	u := newUser(p.own.number(len(p.users)), p.sc, p.loop, p)
	p.users = append(p.users, u)
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
	next = never
	for sent := 0; ; {
		a, ok := p.peek()
		if !ok || a.At >= p.limit {
			over = p.busy == 0 && p.connecting == 0
			break
		}
		if a.At > now {
			if now = p.loop.clock.now(); a.At > now {
				next = a.At
				break
			}
		}
		if p.dropping || now-a.At >= p.loop.timeout {
			p.schedule.Advance()
			p.loop.shard.addDrop(a.At, true)
			continue
		}
		u := p.free.pop()
		if u == nil {
			p.grow(growWhenWaiting, now)
			if p.free.first == nil && p.stopping {
				p.dropping = true
				continue
			}
			if p.free.first == nil {
				next = a.At + p.loop.timeout
				break
			}
			continue
		}
		p.schedule.Advance()
		p.send(u, a, now)
		if sent++; sent == maxSendsPerTurn {
			return now, false
		}
	}
	if now >= p.cutAt {
		p.cut()
		return now + time.Millisecond, over
	}
	return min(next, p.cutAt), over
}

// peek returns the share's next arrival.
func (p *openLane) peek() (load.Arrival, bool) {
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
		if len(p.users) == p.maxUsers {
			return
		}
		u := p.addUser()
		if u.slots != nil {
			u.freeAt = now
			p.free.push(u)
			return
		}
		p.connecting++
		// If it fails, its first request tries again, and reports it.
		u.link.ahead(func(failure.Kind, error) {
			p.connecting--
			u.freeAt = p.loop.clock.now()
			p.free.push(u)
		})
	}
}

// released takes back a user whose iteration has ended.
func (p *openLane) released(u *user, _ failure.Kind) {
	p.busy--
	p.sc.busy.Add(-1)
	p.free.push(u)
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
