package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// patrolEvery is how often a fleet looks for overdue requests, and so how much
// later than its timeout one may be ended. Timeouts are seconds, and a look at
// a thousand connections takes microseconds.
const patrolEvery = 20 * time.Millisecond

// connectAtOnce bounds the connections that a scenario opens at the same time
// before the load begins, so that a server's accept queue does not overflow.
const connectAtOnce = 16

// fleet is the virtual users of one scenario. It makes them, ends requests that
// take too long, and at the end cuts off those still under way.
type fleet struct {
	run     *run
	scripts []*template     // one for each target
	goOn    context.Context //nolint:containedctx // the life of the fleet itself: dialling ends with it
	cutDial context.CancelFunc

	// cutAt is when everything under way is cut off, in nanoseconds on the
	// run's clock. It may only come nearer.
	cutAt atomic.Int64
	isCut atomic.Bool
	onCut func() // called once, when it happens

	mu    sync.Mutex
	users []*user
	live  sync.WaitGroup // the users' goroutines
}

// newFleet prepares the users of scenario s, whose offered load ends at end.
func newFleet(s *Scenario, run *run, end time.Duration) *fleet {
	f := &fleet{run: run, onCut: func() {}}
	var feeds []values
	for _, name := range sortedKeys(s.Feed) {
		feeds = append(feeds, newValues(run.plan.Seed, s.Name, name, s.Feed[name]))
	}
	for _, to := range run.targets {
		f.scripts = append(f.scripts, compile(&s.Steps[0].Request, feeds, to.base))
	}
	f.cutAt.Store(int64(end + s.GracefulStop))
	// Not the context of the caller: requests outlast it by the time of a cut,
	// so that all of them are accounted for.
	f.goOn, f.cutDial = context.WithCancel(context.Background())
	return f
}

// enlist adds a user. It is not connected and its goroutine is not started.
func (f *fleet) enlist() *user {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := len(f.users)
	u := newUser(i, f.run.targets[i%len(f.run.targets)], f.scripts[i%len(f.scripts)], f.run)
	f.users = append(f.users, u)
	return u
}

// enlistConnected adds n users and opens their connections, before the load.
// One that cannot connect will try again with its first request, and report it.
func (f *fleet) enlistConnected(ctx context.Context, n int) {
	slots := make(chan struct{}, connectAtOnce)
	var all sync.WaitGroup
	for range n {
		u := f.enlist()
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() == nil {
				_ = u.connect(ctx)
			}
		})
	}
	all.Wait()
}

// bringForward makes the cut happen at t, if that is earlier than planned.
func (f *fleet) bringForward(t time.Duration) {
	for {
		at := f.cutAt.Load()
		if int64(t) >= at || f.cutAt.CompareAndSwap(at, int64(t)) {
			return
		}
	}
}

// patrol looks after the users' requests until stop is closed.
func (f *fleet) patrol(stop <-chan struct{}) {
	ticker := time.NewTicker(patrolEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			f.look(int64(f.run.clock.now()))
		}
	}
}

// look ends what is overdue at time now. A request that begins after the cut,
// because its user was just about to, is found by the next look.
func (f *fleet) look(now int64) {
	cutAt := f.cutAt.Load()
	if now >= cutAt && !f.isCut.Swap(true) {
		f.cutDial()
		f.onCut()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range f.users {
		due := u.conn.due.Load()
		switch {
		case due <= 0:
		case now >= due:
			u.conn.expire(due, dueMissed)
		case now >= cutAt || now >= u.cutAt.Load():
			u.conn.expire(due, dueCut)
		}
	}
}

// disband waits for the users' goroutines to end and closes what they leave.
func (f *fleet) disband() {
	f.live.Wait()
	f.cutDial()
	for _, u := range f.users {
		u.conn.close()
	}
}
