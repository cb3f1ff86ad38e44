package engine

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/lab/host"
	"loadstone/lab/load"
)

// observer watches a run from the side, each SampleEvery: how much work is in
// flight and whether it grows, and what the generator itself uses. It ends the
// load when it is told to stop on overload.
type observer struct {
	run      *run
	fit      load.TrendFit
	most     int          // in flight at once, of the measured samples
	inFlight atomic.Int64 // the latest sample, for the windows

	replayedBefore uint64 // arrivals of access logs, at the first of them

	usage load.Generator
	ended time.Duration // when the measured part ended

	wake chan struct{} // closed when the load is to end early
	once sync.Once
	why  string // it ended early; empty if because its iterations were done
}

// stop ends the load early.
func (o *observer) stop(why string) {
	o.once.Do(func() {
		o.why = why
		close(o.wake)
	})
}

// end takes note that there is nothing left to do.
func (o *observer) end() { o.stop("") }

// watch returns when the offered load ends: at the time that the plan says, or
// early because of overload, because all iterations are done, because it was
// told to, or because abandon was closed.
func (o *observer) watch(abandon <-chan struct{}) error {
	from, to := o.run.from, o.run.to
	if o.follow(abandon, from%load.SampleEvery, from, o.sample) == wasAbandoned {
		return nil
	}
	before, err := cpuTime()
	if err != nil {
		return err
	}
	began, worked, around := o.run.clock.now(), o.worked(), lookAround()
	switch o.follow(abandon, from, to, o.measure) {
	case wasAbandoned:
		return nil
	case wasStopped:
		o.ended = max(o.run.stopAll(false), from+1)
	default:
		o.ended = to
		o.once.Do(func() {}) // who wants to end it now is too late
	}
	after, err := cpuTime()
	if err != nil {
		return err
	}
	elapsed := o.run.clock.now() - began
	o.usage.CPUSeconds = (after - before).Seconds()
	o.usage.Busy = o.usage.CPUSeconds / elapsed.Seconds()
	o.usage.Cores = runtime.NumCPU()
	around.tell(&o.usage)
	for i, w := range o.worked() {
		o.usage.Working = max(o.usage.Working, (w-worked[i]).Seconds()/elapsed.Seconds())
	}
	return nil
}

// surroundings is what else decides whether the generator gets its time: how busy the
// machine is, and what the quotas leave.
type surroundings struct {
	busy, total time.Duration
	quotas      map[string]host.Periods
}

// lookAround reads them. What the machine does not tell is nothing that was seen.
func lookAround() surroundings {
	var s surroundings
	var err error
	if s.busy, s.total, err = host.MachineTime(); err != nil {
		s.busy, s.total = 0, 0
	}
	s.quotas = host.Quotas(os.Getpid())
	return s
}

// tell says how they were since they were read.
func (s *surroundings) tell(g *load.Generator) {
	now := lookAround()
	if total := now.total - s.total; s.total > 0 && total > 0 {
		g.MachineBusy = max(0, float64(now.busy-s.busy)/float64(total))
	}
	g.Throttled = host.Throttled(s.quotas, now.quotas)
}

// worked is the time that each event loop has been at work.
func (o *observer) worked() []time.Duration {
	var out []time.Duration
	for _, l := range o.run.loops {
		out = append(out, time.Duration(l.workedNs.Load()))
	}
	for _, k := range o.run.sockets {
		out = append(out, k.group.Worked()...)
	}
	return out
}

// The ways in which follow ends.
const (
	wasOver = iota
	wasStopped
	wasAbandoned
)

// follow calls look at every SampleEvery from first on, until end.
func (o *observer) follow(abandon <-chan struct{}, first, end time.Duration, look func()) int {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for at := first; ; {
		at = min(at, end)
		timer.Reset(at - o.run.clock.now())
		select {
		case <-abandon:
			return wasAbandoned
		case <-o.wake:
			return wasStopped
		case <-timer.C:
		}
		if at >= end {
			return wasOver
		}
		look()
		// After a delay, go on with the next step that is still to come.
		late := o.run.clock.now() - at
		at += late.Truncate(load.SampleEvery) + load.SampleEvery
	}
}

// sample looks at the work in flight.
func (o *observer) sample() { o.sampleInFlight() }

// sampleInFlight returns the arrivals of schedules in flight, those due so far,
// and the time they were counted at. What has ended is counted before what is
// due: a request that ends in between counts as still in flight for once, rather
// than as ended before it was due.
func (o *observer) sampleInFlight() (inFlight int, due uint64, now time.Duration) {
	ended := o.run.recorder.endedArrivals()
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

// measure takes a sample of the measured part, and ends the load if it is too
// much and the plan says so.
func (o *observer) measure() {
	inFlight, due, now := o.sampleInFlight()
	o.most = max(o.most, int(o.inFlight.Load()))
	if !o.run.hasSchedule() {
		return // a closed model's work in flight is what the plan says
	}
	expected, replayed := o.run.expected(now), o.run.replayed()
	o.fit.Add(now.Seconds(), float64(inFlight), float64(due-replayed)-expected)
	if !o.run.plan.StopOnOverload {
		return
	}
	if o.fit.Samples() == 1 {
		o.replayedBefore = replayed
	}
	rate := (expected - o.run.expected(o.run.from) + float64(replayed-o.replayedBefore)) / (now - o.run.from).Seconds()
	// Before the first answers, work in flight rises because the system is
	// filling with it, as it does whenever a load begins.
	if now <= o.run.from || o.run.recorder.completed() == 0 || !o.fit.Overload(rate) {
		return
	}
	t := o.fit.Trend(load.StopConfidence)
	o.stop(fmt.Sprintf("overload: work in flight grew by %.0f requests/s (99.9 %% interval %.0f to %.0f) at %.0f requests/s offered, to %d after %.1f s",
		t.Slope, t.Low, t.High, rate, inFlight, (now - o.run.from).Seconds()))
}

// cpuTime returns the CPU time that the process has used.
func cpuTime() (time.Duration, error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("read the generator's own CPU time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
