package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// connectPause is how long a virtual user of the closed model waits after it
// could not connect at all. k6 waits for nothing; but a loop of refused
// connections runs a hundred thousand times a second and takes the CPU from
// whatever is trying to come up at the target.
const connectPause = 10 * time.Millisecond

// closed carries out a constant-vus or ramping-vus scenario: each virtual user
// sends its next request when its last has ended. A request's intended time is
// when its user came free, so a system that stalls is asked less, and nothing
// here corrects for that: response time and service time are the same. Use an
// open model to learn what users who do not wait for each other would see.
type closed struct {
	fleet    *fleet
	recorder *recorder
	clock    *clock
	ramp     userRamp
	start    time.Duration
	graceful time.Duration

	wanted  atomic.Int64 // users that are to be at work
	endAt   atomic.Int64 // when the offered load ends, in nanoseconds
	numbers atomic.Uint64

	stopped  chan struct{} // closed when the load is to end early
	stopOnce sync.Once

	mu      sync.Mutex
	working []bool // by user index: its goroutine is there
	active  int    // how many are
	most    int    // at once, since from
	from    time.Duration
}

// newClosed prepares the scenario.
func newClosed(s *Scenario, run *run) *closed {
	c := &closed{
		fleet:    newFleet(s, run, s.end()),
		recorder: run.recorder,
		clock:    run.clock,
		ramp:     newUserRamp(s),
		start:    s.StartTime,
		graceful: s.GracefulStop,
		stopped:  make(chan struct{}),
		from:     run.plan.Warmup,
	}
	c.endAt.Store(int64(s.end()))
	return c
}

// connect readies the users that the scenario begins with.
func (c *closed) connect(ctx context.Context) { c.fleet.enlistConnected(ctx, c.ramp.at(0)) }

// perform runs the scenario until every user has ended.
func (c *closed) perform() error {
	c.control()
	c.fleet.disband()
	return nil
}

// control keeps the number of users at what the ramp says, to its end.
func (c *closed) control() {
	if !c.waitUntil(c.start) {
		return
	}
	at := time.Duration(0)
	for {
		c.want(c.ramp.at(at))
		next, ok := c.ramp.next(at)
		if !ok {
			return // the users see the end for themselves
		}
		if !c.waitUntil(c.start + next) {
			return
		}
		at = max(next, c.clock.now()-c.start) // a late wake-up skips steps
		if at >= c.ramp.end() {
			return
		}
	}
}

// waitUntil returns false if the load is stopped before t.
func (c *closed) waitUntil(t time.Duration) bool {
	timer := time.NewTimer(t - c.clock.now())
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.stopped:
		return false
	}
}

// want sets how many users are to be at work. Users are taken away from the
// last on; they finish their request, for which they have the time of graceful
// stop.
func (c *closed) want(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := int(c.wanted.Swap(int64(n)))
	now := c.clock.now()
	for i := n; i < before; i++ {
		c.fleet.users[i].cutAt.Store(int64(now + c.graceful))
	}
	for i := range n {
		if i >= len(c.fleet.users) {
			c.fleet.enlist()
		}
		if i >= len(c.working) {
			c.working = append(c.working, false)
		}
		u := c.fleet.users[i]
		u.cutAt.Store(never)
		if !c.working[i] {
			c.working[i] = true
			c.active++
			c.fleet.live.Go(func() { c.live(u) })
		}
	}
	c.note(now)
}

// note keeps the largest number of users at work.
func (c *closed) note(now time.Duration) {
	if now >= c.from {
		c.most = max(c.most, c.active)
	}
}

// live is the working time of one user.
func (c *closed) live(u *user) {
	defer c.leave(u)
	var out outcome
	begun := false
	for free := c.clock.now(); c.goesOn(u, free); free = c.pause(&out) {
		out = outcome{intended: free}
		number := c.numbers.Add(1) - 1
		if !begun {
			begun = c.begin(u, &out)
			if begun && !c.goesOn(u, out.intended) {
				return // connecting took until the end
			}
		}
		if begun {
			u.perform(c.fleet.goOn, number, &out)
		}
		c.recorder.ended(u.index, &out)
	}
}

// begin opens a user's first connection, which is no part of its first request:
// o is intended for when it is open. If it cannot be had, that is what came of
// the request, and false is returned.
func (c *closed) begin(u *user, o *outcome) bool {
	err := u.connect(c.fleet.goOn)
	now := c.clock.now()
	if err == nil {
		o.intended = now
		return true
	}
	o.sent, o.done = o.intended, now
	o.failed, o.err = u.dialFailure(c.fleet.goOn, err), err
	return false
}

// pause returns when the user is free after a request: at once, or after a
// while if it could not connect.
func (c *closed) pause(o *outcome) time.Duration {
	if !o.failed.connectFailed() {
		return o.done
	}
	c.waitUntil(o.done + connectPause)
	return c.clock.now()
}

// goesOn says whether u is to send another request at time now.
func (c *closed) goesOn(u *user, now time.Duration) bool {
	return int64(u.index) < c.wanted.Load() && int64(now) < c.endAt.Load() && !c.fleet.isCut.Load()
}

// leave takes note that u has stopped working. If it was wanted again in the
// meantime, it starts anew.
func (c *closed) leave(u *user) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.goesOn(u, c.clock.now()) {
		c.fleet.live.Go(func() { c.live(u) })
		return
	}
	u.conn.close()
	c.working[u.index] = false
	c.active--
}

// patrol ends overdue requests until stop is closed.
func (c *closed) patrol(stop <-chan struct{}) { c.fleet.patrol(stop) }

// stop ends the offered load now and cuts off what is under way after the time
// of graceful stop, or at once.
func (c *closed) stop(atOnce bool) error {
	now := c.clock.now()
	c.endAt.Store(min(c.endAt.Load(), int64(now)))
	c.stopOnce.Do(func() { close(c.stopped) })
	if !atOnce {
		now += c.graceful
	}
	c.fleet.bringForward(now)
	return nil
}

// advance returns how many users are at work.
func (c *closed) advance(now time.Duration) (due uint64, working int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(now)
	return 0, c.active
}

// totals returns the most users that were at work at once in the measured
// part. Its requests count as offered when they are sent.
func (c *closed) totals() (offered uint64, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return 0, c.most
}
