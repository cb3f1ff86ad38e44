package load

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// observer watches a run from the side, each SampleEvery: how much work is in
// flight and whether it grows, and what the generator itself uses. It ends the
// load when it is told to stop on overload.
type observer struct {
	run      *run
	fit      trendFit
	most     int          // in flight at once, of the measured samples
	inFlight atomic.Int64 // the latest sample, for the windows

	usage Generator
	ended time.Duration // when the measured part ended
	why   string        // it ended early
}

// watch returns when the offered load ends: at the time that the plan says, or
// early because of overload, or because stop was closed.
func (o *observer) watch(stop <-chan struct{}) error {
	from, to := o.run.from, o.run.to
	if !o.follow(stop, from%SampleEvery, from, o.sample) {
		return nil
	}
	before, began, err := o.cpu()
	if err != nil {
		return err
	}
	if !o.follow(stop, from, to, o.measure) {
		return nil
	}
	if o.why == "" {
		o.ended = to
	} else if o.ended, err = o.run.stopAll(false); err != nil {
		return err
	}
	after, ended, err := o.cpu()
	if err != nil {
		return err
	}
	o.usage.CPUSeconds = (after - before).Seconds()
	o.usage.Busy = o.usage.CPUSeconds / (ended - began).Seconds()
	return nil
}

// follow calls look at every SampleEvery from first on, until end or until look
// says not to go on. It returns false if stop was closed.
func (o *observer) follow(stop <-chan struct{}, first, end time.Duration, look func() (goOn bool)) bool {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for at := first; at < end; {
		timer.Reset(at - o.run.clock.now())
		select {
		case <-stop:
			return false
		case <-timer.C:
		}
		if !look() {
			return true
		}
		// After a delay, go on with the next step that is still to come.
		late := o.run.clock.now() - at
		at += late.Truncate(SampleEvery) + SampleEvery
	}
	timer.Reset(end - o.run.clock.now())
	select {
	case <-stop:
		return false
	case <-timer.C:
		return true
	}
}

// sample looks at the work in flight.
func (o *observer) sample() bool {
	o.look()
	return true
}

// look returns the arrivals of schedules in flight, those due so far, and the
// time they were counted at. What has ended is counted before what is due: a
// request that ends in between counts as still in flight for once, rather than
// as ended before it was due.
func (o *observer) look() (inFlight int, due uint64, now time.Duration) {
	ended := o.run.recorder.ofSchedules()
	now = o.run.clock.now()
	working := 0
	for _, e := range o.run.executors {
		d, w := e.advance(now)
		due += d
		working += w
	}
	// An arrival that is due now and that a user took and ended since.
	inFlight = int(max(due, ended) - ended)
	o.inFlight.Store(int64(inFlight + working))
	return inFlight, due, now
}

// measure takes a sample of the measured part, and says whether the load is to
// go on.
func (o *observer) measure() bool {
	inFlight, due, now := o.look()
	o.most = max(o.most, int(o.inFlight.Load()))
	if !o.run.hasSchedule {
		return true // a closed model's work in flight is what the plan says
	}
	expected := o.run.expected(now)
	o.fit.add(now.Seconds(), float64(inFlight), float64(due)-expected)
	if !o.run.plan.StopOnOverload {
		return true
	}
	rate := (expected - o.run.expected(o.run.from)) / (now - o.run.from).Seconds()
	// Before the first answers, work in flight rises because the system is
	// filling with it, as it does whenever a load begins.
	if now <= o.run.from || o.run.recorder.completed() == 0 || !o.fit.overload(rate) {
		return true
	}
	t := o.fit.trend(stopConfidence)
	o.why = fmt.Sprintf("overload: work in flight grew by %.0f requests/s (99.9 %% interval %.0f to %.0f) at %.0f requests/s offered, to %d after %.1f s",
		t.Slope, t.Low, t.High, rate, inFlight, (now - o.run.from).Seconds())
	return false
}

// cpu returns the CPU time that the process has used, and when.
func (o *observer) cpu() (used, now time.Duration, err error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0, 0, fmt.Errorf("read the generator's own CPU time: %w", err)
	}
	used = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return used, o.run.clock.now(), nil
}
