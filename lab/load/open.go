package load

import (
	"context"
	"errors"
	"time"
)

// open carries out a constant-arrival-rate or ramping-arrival-rate scenario:
// requests are sent when the schedule says, whatever the system does.
type open struct {
	fleet    *fleet
	queue    *queue
	recorder *recorder
	graceful time.Duration
	firstly  int // users that stand ready before the load begins

	// A second walk through the same schedule, which belongs to the observer.
	due          *arrivals
	dueSoFar     uint64
	dueInMeasure uint64
}

// newOpen prepares the scenario.
func newOpen(s *Scenario, run *run) (*open, error) {
	alarm, err := newAlarm()
	if err != nil {
		return nil, err
	}
	o := &open{
		fleet:    newFleet(s, run, s.end()),
		recorder: run.recorder,
		graceful: s.GracefulStop,
		firstly:  s.PreAllocatedVUs,
		due:      newArrivals(s, run.plan.Seed),
	}
	o.queue = &queue{
		clock:    run.clock,
		alarm:    alarm,
		timeout:  run.plan.Timeout,
		most:     s.MaxVUs,
		users:    s.PreAllocatedVUs,
		add:      o.addUser,
		drop:     o.dropped,
		schedule: newArrivals(s, run.plan.Seed),
		from:     run.plan.Warmup,
		limit:    time.Duration(never),
	}
	o.fleet.onCut = o.queue.giveUp
	return o, nil
}

// connect readies the users that are there from the start.
func (o *open) connect(ctx context.Context) { o.fleet.enlistConnected(ctx, o.firstly) }

// perform runs the scenario from its first arrival until every user has ended.
func (o *open) perform() error {
	for _, u := range o.fleet.users {
		o.fleet.live.Go(func() { o.live(u, 0) })
	}
	o.fleet.disband()
	return errors.Join(o.queue.failed, o.queue.alarm.close())
}

// addUser starts one more user. Only users call it, so that the number of live
// ones cannot reach zero in between.
func (o *open) addUser() {
	o.fleet.live.Go(func() {
		u := o.fleet.enlist()
		_ = u.connect(o.fleet.goOn) // else its first request tries again, and reports it
		o.live(u, o.queue.clock.now())
	})
}

// live is the life of one user, who is free from freeAt on.
func (o *open) live(u *user, freeAt time.Duration) {
	out := outcome{open: true}
	for {
		a, waited, ok := o.queue.next(u, freeAt)
		if !ok {
			return
		}
		out.intended, out.waited = a.at, waited
		u.perform(o.fleet.goOn, a.number, &out)
		o.recorder.ended(u.index, &out)
		freeAt = out.done
	}
}

// dropped records an arrival that was never sent.
func (o *open) dropped(a arrival) { o.recorder.dropped(a.at) }

// patrol ends overdue requests until stop is closed.
func (o *open) patrol(stop <-chan struct{}) { o.fleet.patrol(stop) }

// stop ends the offered load now and cuts off what is under way after the time
// of graceful stop, or at once.
func (o *open) stop(atOnce bool) error {
	limit, err := o.queue.stop()
	if !atOnce {
		limit += o.graceful
	}
	o.fleet.bringForward(limit)
	return err
}

// advance drops the arrivals that have waited too long, and returns how many
// have been due by now since the load began.
func (o *open) advance(now time.Duration) (due uint64, working int) {
	o.queue.expire(now)
	o.countUpTo(now + 1)
	return o.dueSoFar, 0
}

// totals returns the arrivals of the measured part and the most users that
// were busy at once in it. The scenario must be over.
func (o *open) totals() (offered uint64, most int) {
	o.countUpTo(o.queue.limit)
	return o.dueInMeasure, o.queue.mostBusy
}

// countUpTo counts the arrivals before t.
func (o *open) countUpTo(t time.Duration) {
	for {
		a, ok := o.due.peek()
		if !ok || a.at >= t {
			return
		}
		o.dueSoFar++
		if a.at >= o.queue.from {
			o.dueInMeasure++
		}
		o.due.advance()
	}
}
