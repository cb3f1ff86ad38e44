package engine

import (
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

// connectPause is how long a virtual user of the closed model waits after it
// could not connect at all. k6 waits for nothing; but a loop of refused
// connections runs a hundred thousand times a second and takes the CPU from
// whatever is trying to come up at the target.
const connectPause = 10 * time.Millisecond

// closedLane is an event loop's share of a scenario without a schedule: each
// virtual user begins its next iteration when its last has ended. A request's
// intended time is when its user came free, so a system that stalls is asked
// less, and nothing here corrects for that: response time and service time are
// the same, but for waits for a connection where the plan caps them. Use an
// open model to learn what users who do not wait for each other would see.
//
// Every of-th user is the loop's.
type closedLane struct {
	sc      *scenario
	loop    *loop
	own     share
	users   []*user
	working []bool // by place in users: it is at work, or pausing between
	rests   []bool // of them: it waits for the time when it may begin
	cutBy   []time.Duration

	wanted  int           // users, of all loops' together
	change  time.Duration // when that changes next
	endAt   time.Duration // when the offered load ends
	cutAt   time.Duration // when what is under way is cut off
	active  int
	resting int
	begun   bool // its users have been started
}

// newClosedLane prepares a loop's share of a scenario.
func newClosedLane(sc *scenario, l *loop, own share) *closedLane {
	s := sc.spec
	end := sc.run.endOf(s)
	p := &closedLane{sc: sc, loop: l, own: own, change: s.StartTime, endAt: end, cutAt: end + s.GracefulStop}
	for range own.count(sc.ramp.At(0)) {
		p.addUser()
	}
	return p
}

// addUser makes a user.
func (p *closedLane) addUser() {
	p.users = append(p.users, newUser(p.own.number(len(p.users)), p.sc, p.loop, p))
	p.working, p.rests = append(p.working, false), append(p.rests, false)
	p.cutBy = append(p.cutBy, never)
}

// links are those of the users that the scenario begins with.
func (p *closedLane) links() []link { return linksOf(p.users) }

// turn keeps the number of users at what the ramp says.
func (p *closedLane) turn(now time.Duration) (next time.Duration, over bool) {
	if now >= p.change && now < p.endAt {
		at := now - p.sc.spec.StartTime
		p.setUsers(p.sc.ramp.At(at), now)
		p.change = never
		if then, ok := p.sc.ramp.Next(at); ok {
			p.change = p.sc.spec.StartTime + then
		}
	}
	if now >= p.endAt && p.resting > 0 {
		p.dismiss()
	}
	if now >= p.cutAt && p.active > 0 {
		p.cutAll()
		return now + time.Millisecond, p.active == 0
	}
	// Where iterations are counted, a user leaves when there are none left.
	if now >= p.endAt || p.begun && p.sc.spec.CountsIterations() {
		return min(p.change, p.cutAt), p.active == 0
	}
	return min(p.change, p.endAt), false
}

// setUsers sets how many users are to be at work. Users are taken away from the
// last on; they finish their iteration, for which they have the time of
// graceful stop.
func (p *closedLane) setUsers(n int, now time.Duration) {
	p.wanted, p.begun = n, true
	mine := p.own.count(n)
	for len(p.users) < mine {
		p.addUser()
	}
	for k, u := range p.users {
		switch {
		case k >= mine && p.working[k] && p.cutBy[k] == never:
			p.retire(k, now+p.sc.spec.GracefulStop)
		case k < mine:
			p.cutBy[k] = never
			if !p.working[k] {
				p.start(k, u, now)
			}
		}
	}
}

// retire has the user at place k cut off at a time, unless it is wanted
// again.
func (p *closedLane) retire(k int, at time.Duration) {
	p.cutBy[k] = at
	p.loop.timers.add(at, func(now time.Duration) {
		if p.cutBy[k] <= now && p.working[k] {
			p.cut(p.users[k])
		}
	})
}

// start has a user begin to work, after those before it where there is a MaxRate.
func (p *closedLane) start(k int, u *user, now time.Duration) {
	p.working[k] = true
	p.active++
	p.loop.active = true
	p.sc.begun(now)
	u.freeAt, u.failures = now, 0
	p.rest(u, now+p.spacing(u.index), p.open)
}

// open has a user make its first iteration. Opening its first connection is no part of it.
func (p *closedLane) open(u *user) {
	if u.slots != nil {
		p.next(u)
		return
	}
	u.link.ahead(func(kind failure.Kind, err error) {
		began := u.freeAt
		u.freeAt = p.loop.clock.now()
		if kind == failure.None {
			p.next(u)
			return
		}
		// That it cannot be had is what came of the first request.
		number, ok := p.reserve(u)
		if !ok {
			p.stopped(u)
			return
		}
		u.refused(load.Arrival{Number: number, At: began}, kind, err)
	})
}

// next has u begin its next iteration, if there is one.
func (p *closedLane) next(u *user) {
	number, ok := p.reserve(u)
	if !ok {
		p.stopped(u)
		return
	}
	u.begin(load.Arrival{Number: number, At: u.freeAt}, false, false)
}

// reserve returns the number of u's next iteration; ok is false if there is
// none for it.
func (p *closedLane) reserve(u *user) (number uint64, ok bool) {
	s := p.sc.spec
	if u.index >= p.wanted || p.loop.clock.now() >= p.endAt || s.Executor == load.PerVUIterations && u.own >= s.Iterations {
		return 0, false
	}
	number = p.sc.numbers.Add(1) - 1
	return number, s.Executor != load.SharedIterations || number < s.Iterations
}

// released takes back a user whose iteration has ended.
func (p *closedLane) released(u *user, failed failure.Kind) {
	until := max(u.freeAt, u.began+p.spacing(p.wanted), u.began+p.retry(u))
	if failed.ConnectFailed() {
		until = max(until, u.freeAt+connectPause)
	}
	p.rest(u, until, p.next)
}

// spacing is the time in which so many iterations may begin.
func (p *closedLane) spacing(n int) time.Duration {
	if p.sc.spec.MaxRate <= 0 {
		return 0
	}
	return time.Duration(float64(n) / p.sc.spec.MaxRate * float64(time.Second))
}

// retry is how long after the beginning of u's last iteration its next begins at the earliest,
// because that one failed.
func (p *closedLane) retry(u *user) time.Duration {
	if !u.failed {
		u.failures = 0
		return 0
	}
	wait := p.sc.spec.RetryAfter
	if wait <= 0 { // which doubling does not change
		return 0
	}
	for n := u.failures; n > 0 && wait < p.sc.spec.RetryMost; n-- {
		wait *= 2
	}
	u.failures++
	return min(wait, p.sc.spec.RetryMost)
}

// rest has u do what is next at a time, and at once if that has come.
func (p *closedLane) rest(u *user, until time.Duration, then func(*user)) {
	if until <= u.freeAt {
		then(u)
		return
	}
	k := u.index / p.own.of
	p.rests[k] = true
	p.resting++
	u.addThinking(1)
	u.turn++
	turn := u.turn
	p.loop.timers.add(until, func(at time.Duration) {
		if p.rests[k] && u.turn == turn {
			p.rested(k)
			u.freeAt = at
			then(u)
		}
	})
}

// rested ends the rest of the user at place k.
func (p *closedLane) rested(k int) {
	p.rests[k] = false
	p.resting--
	p.users[k].addThinking(-1)
}

// dismiss ends the work of those who rest: what they wait for is not to begin.
func (p *closedLane) dismiss() {
	for k, u := range p.users {
		if p.rests[k] {
			p.rested(k)
			p.stopped(u)
		}
	}
}

// stopped takes note that u has stopped working.
func (p *closedLane) stopped(u *user) {
	if u.slots == nil {
		u.closeLinks()
	}
	p.working[u.index/p.own.of] = false
	p.active--
	p.sc.busy.Add(-1)
}

// cut ends what u has under way.
func (p *closedLane) cut(u *user) {
	if k := u.index / p.own.of; p.rests[k] {
		p.rested(k)
		p.stopped(u)
		return
	}
	if u.state == userFree && u.slots == nil {
		u.link.abort(failure.CutOff, errCutOff) // it is opening its first connection
		return
	}
	u.cut()
}

// cutAll ends everything that is under way.
func (p *closedLane) cutAll() {
	p.wanted = 0
	cutWaiting(p.users)
	for k, u := range p.users {
		if p.working[k] {
			p.cut(u)
		}
	}
}

// stop ends the offered load now, and what is under way after the time of
// graceful stop, or at once.
func (p *closedLane) stop(now time.Duration, atOnce bool) {
	p.endAt = min(p.endAt, now)
	if !atOnce {
		now += p.sc.spec.GracefulStop
	}
	p.cutAt = min(p.cutAt, now)
}
