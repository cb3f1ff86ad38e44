package load

import (
	"fmt"
	"sync"
	"time"
)

// queue hands the arrivals of an open scenario to its virtual users.
//
// # The problem
//
// Arrivals come at times of their own, whether or not anybody is free. Each
// must be sent at its time by a free user, or wait for one, in order; whoever
// is to blame for a delay must be told apart (the system, which held every
// user, or the generator, which was slow); and all of that for a few
// microseconds per request and with no list of pending arrivals, because the
// backlog of an overloaded system has no bound.
//
// # The design: one leads, the others stand in line
//
//	schedule ──► leader ──► the server
//	               ▲
//	 line:  [u7] [u2] [u9] ◄── users that came free, longest free first
//
// Users pull. The one in front, the leader, owns the schedule. It takes the
// next arrival, sleeps until its time, hands the lead to the next in line and
// sends the request itself. So the thread that wakes up is the one that sends,
// without handing the request over, and only one user at a time keeps a timer.
//
// Nobody free means nobody leads. Arrivals then stay in the schedule, which
// costs nothing, and the first user to come free takes the oldest of them.
//
// # Who was late
//
// The line is first in, first out. So when a user takes an arrival whose time
// has passed, all users that came free before it hold earlier arrivals, and:
//
//   - it came free after the arrival's time: with an infinitely fast generator
//     this arrival would have waited for this user as well. It waited, and that
//     is the system's doing.
//   - it was free at the arrival's time: it should have been sent then. Every
//     microsecond since is the generator's lateness.
//
// First in, first out also spreads requests evenly over the targets.
//
// # More users
//
// A leader that leaves nobody in line asks for one more user, up to the limit,
// so there is always one on the watch, connected ahead of its first request.
// When arrivals have begun to wait it asks for several, because one at a time
// would not keep up with a stall.
//
// # What was tried or thought of
//
// A dispatcher that sleeps and hands arrivals to idle users wakes a second
// goroutine, often on the other core, before anything is sent. Users that hold
// one future arrival each, all asleep, send out of order once some of them are
// busy. A timer for each user, which the leader sets for its successor, saves
// waking the successor only to see it sleep again: measured, that cost as much
// CPU at 5,000 requests a second, an eighth less at 1,000, was a fifth later,
// and needs two open files for each user instead of one.
type queue struct {
	clock   *clock
	alarm   *alarm
	timeout time.Duration
	most    int           // users, at most
	add     func()        // starts one more user
	drop    func(arrival) // counts an arrival that is never sent

	// Owned by whoever leads.
	schedule *arrivals

	mu       sync.Mutex
	led      bool
	first    *user // of the line
	last     *user
	users    int  // started so far
	ended    bool // there are no more arrivals
	busy     int  // users that hold an arrival
	mostBusy int  // at once, since from
	from     time.Duration

	// limit is where the schedule ends early: from it on there are no
	// arrivals. dropping says that those still unsent will not be sent.
	limit    time.Duration
	dropping bool
	failed   error // of the alarm
}

// growBehind is how many users are added at once when arrivals are waiting.
const growBehind = 8

// next waits for u's next arrival, and returns false when there will be none.
// freeAt is when u came free; waited says that no user was free at the
// arrival's time.
func (q *queue) next(u *user, freeAt time.Duration) (a arrival, waited, ok bool) {
	q.lead(u)
	for {
		a, ok = q.schedule.peek()
		if !ok {
			break
		}
		now := q.clock.now()
		if a.at > now {
			now = q.sleepUntil(a.at)
		}
		var drop bool
		if drop, ok = q.take(a, now); !ok {
			break
		}
		if !drop {
			u.holding = true
			waited = freeAt > a.at
			q.pass(waited)
			return a, waited, true
		}
		q.drop(a)
	}
	q.mu.Lock()
	q.ended = true
	q.mu.Unlock()
	q.pass(false)
	return a, false, false
}

// lead makes u the leader, once those before it in the line have been.
func (q *queue) lead(u *user) {
	q.mu.Lock()
	if u.holding {
		u.holding = false
		q.busy--
	}
	if !q.led {
		q.led = true
		q.mu.Unlock()
		return
	}
	if q.first == nil {
		q.first = u
	} else {
		q.last.behind = u
	}
	q.last = u
	q.mu.Unlock()
	<-u.turn
}

// sleepUntil returns the time at which it woke up: at, or earlier if the
// schedule was ended meanwhile.
func (q *queue) sleepUntil(at time.Duration) time.Duration {
	for {
		now := q.clock.now()
		if now >= at {
			return now
		}
		err := q.alarm.sleep(at - now)
		q.mu.Lock()
		if err != nil {
			q.failed = fmt.Errorf("wait for the next arrival: %w", err)
			q.limit, q.dropping = min(q.limit, q.clock.now()), true
		}
		over := at >= q.limit
		q.mu.Unlock()
		if over {
			return q.clock.now()
		}
	}
}

// take removes a from the schedule, unless the schedule ends before it (ok is
// false then). drop says that it is too late to send it.
func (q *queue) take(a arrival, now time.Duration) (drop, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a.at >= q.limit {
		return false, false
	}
	q.schedule.advance()
	if q.dropping || now-a.at >= q.timeout {
		return true, true
	}
	q.busy++
	if a.at >= q.from {
		q.mostBusy = max(q.mostBusy, q.busy)
	}
	return false, true
}

// pass hands the lead to the first in line. If there is none, the lead is free
// and more users are asked for.
func (q *queue) pass(behind bool) {
	q.mu.Lock()
	u := q.first
	if u != nil {
		q.first, u.behind = u.behind, nil
		q.mu.Unlock()
		u.turn <- struct{}{}
		return
	}
	q.led = false
	more := 0
	switch {
	case q.ended:
	case behind:
		more = min(growBehind, q.most-q.users)
	default:
		more = min(1, q.most-q.users)
	}
	q.users += more
	q.mu.Unlock()
	for range more {
		q.add()
	}
}

// expire drops the arrivals that have waited for too long while every user is
// busy. Without it they would be dropped, and seen to be, only when a user
// comes free.
func (q *queue) expire(now time.Duration) {
	q.mu.Lock()
	if q.led {
		q.mu.Unlock()
		return // the leader does it
	}
	q.led = true
	q.mu.Unlock()
	for {
		a, ok := q.schedule.peek()
		if !ok || now-a.at < q.timeout {
			break
		}
		if _, ok = q.take(a, now); !ok {
			break
		}
		q.drop(a)
	}
	q.mu.Lock()
	u := q.first
	if u == nil {
		q.led = false
	} else {
		q.first, u.behind = u.behind, nil
	}
	q.mu.Unlock()
	if u != nil {
		u.turn <- struct{}{}
	}
}

// stop ends the schedule at once and drops what has not been sent. It returns
// the time from which on there are no arrivals.
func (q *queue) stop() (time.Duration, error) {
	q.mu.Lock()
	q.limit = min(q.limit, q.clock.now())
	q.dropping = true
	limit := q.limit
	q.mu.Unlock()
	return limit, q.alarm.ring()
}

// giveUp drops what has not been sent; arrivals to come stay as they are.
func (q *queue) giveUp() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropping = true
}
