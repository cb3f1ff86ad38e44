package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// run is one plan being carried out.
type run struct {
	plan     *Plan
	clock    *clock
	from, to time.Duration // the measured part, as planned
	targets  []target

	recorder    *recorder
	executors   []executor
	curves      []scheduled // of the scenarios with a schedule
	hasSchedule bool
	observer    *observer
	windows     *windows
}

// executor carries out one scenario. There are two: open and closed.
type executor interface {
	// connect readies the first users, before the load begins.
	connect(ctx context.Context)
	// perform returns when every user has ended.
	perform() error
	// patrol ends overdue requests until stop is closed.
	patrol(stop <-chan struct{})
	// stop ends the offered load now, and what is under way after the time of
	// graceful stop or at once. It may be called more than once.
	stop(atOnce bool) error
	// advance returns how many arrivals of the schedule have been due by now,
	// and how many users of a closed model are at work.
	advance(now time.Duration) (due uint64, working int)
	// totals returns, after perform, the arrivals of the measured part and the
	// most users that were busy at once in it.
	totals() (offered uint64, most int)
}

// scheduled is the rate curve of a scenario and where it lies in the plan.
type scheduled struct {
	curve *rateCurve
	start time.Duration
}

// Run carries out a plan in this process and returns what came of it. onWindow
// is called with each second as it ends, from another goroutine and one at a
// time; it may be nil. A slow onWindow makes windows longer and delays nothing
// else.
//
// It fails if the plan is not valid, if ctx ends before the load does, and if
// the machine refuses a timer. What the targets do is never an error: it is in
// the Result. Generator in the Result is about the whole process: run nothing
// else in it, or use Process.
func Run(ctx context.Context, plan Plan, onWindow func(Window)) (Result, error) {
	if err := plan.Validate(); err != nil {
		return Result{}, fmt.Errorf("load plan: %w", err)
	}
	if onWindow == nil {
		onWindow = func(Window) {}
	}
	r, err := newRun(&plan, onWindow)
	if err != nil {
		return Result{}, err
	}
	r.connect(ctx)
	r.clock.epoch = time.Now()
	if err := r.perform(ctx); err != nil {
		return Result{}, err
	}
	return r.result()
}

// connect opens the connections that the load begins with. All of them together
// have as long as one request may take: a target that does not answer shows in
// the load itself, and must not keep it from beginning.
func (r *run) connect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.plan.Timeout)
	defer cancel()
	for _, e := range r.executors {
		e.connect(ctx)
	}
}

// newRun prepares a valid plan.
func newRun(plan *Plan, onWindow func(Window)) (*run, error) {
	r := &run{plan: plan, clock: &clock{}, from: plan.Warmup, to: plan.end()}
	r.recorder = newRecorder(r.from, r.to)
	for _, raw := range plan.Targets {
		to, err := parseTarget(raw)
		if err != nil {
			return nil, fmt.Errorf("target %q: %w", raw, err)
		}
		r.targets = append(r.targets, to)
	}
	for i := range plan.Scenarios {
		s := &plan.Scenarios[i]
		if !s.open() {
			r.executors = append(r.executors, newClosed(s, r))
			continue
		}
		e, err := newOpen(s, r)
		if err != nil {
			return nil, fmt.Errorf("scenario %q: %w", s.Name, err)
		}
		r.executors = append(r.executors, e)
		r.curves = append(r.curves, scheduled{curve: newRateCurve(s), start: s.StartTime})
		r.hasSchedule = true
	}
	r.observer = &observer{run: r}
	r.windows = newWindows(r, onWindow)
	return r, nil
}

// perform starts everything and waits for all of it: first the scenarios and
// the observer, who decides when the offered load is over; then the patrols and
// the windows, which serve them.
func (r *run) perform(ctx context.Context) error {
	var (
		errs           errorList
		main, serving  sync.WaitGroup
		over, watching = make(chan struct{}), make(chan struct{})
		stopWatching   = sync.OnceFunc(func() { close(watching) })
	)
	abandon := func() {
		_, err := r.stopAll(true)
		errs.add(err)
		stopWatching()
	}
	hooked := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(hooked)
		abandon()
	})
	for _, e := range r.executors {
		serving.Go(func() { e.patrol(over) })
		main.Go(func() {
			if err := e.perform(); err != nil {
				errs.add(err)
				abandon()
			}
		})
	}
	serving.Go(func() { errs.add(r.windows.cut(over)) })
	main.Go(func() { errs.add(r.observer.watch(watching)) })
	main.Wait()
	if !unhook() {
		<-hooked
	}
	close(over)
	serving.Wait()
	if ctx.Err() != nil {
		errs.add(fmt.Errorf("load: %w", context.Cause(ctx)))
	}
	return errs.join()
}

// stopAll ends the offered load of all scenarios, and returns when that was.
func (r *run) stopAll(atOnce bool) (time.Duration, error) {
	var errs []error
	for _, e := range r.executors {
		errs = append(errs, e.stop(atOnce))
	}
	now := r.clock.now()
	r.recorder.to.Store(min(int64(now), int64(r.to)))
	return now, errors.Join(errs...)
}

// expected is how many arrivals the schedules call for by t, on average.
func (r *run) expected(t time.Duration) float64 {
	var sum float64
	for _, s := range r.curves {
		sum += s.curve.due(t - s.start)
	}
	return sum
}

// result puts together what was recorded. Everything must have ended.
func (r *run) result() (Result, error) {
	t := r.recorder.total()
	result := Result{
		From:            r.clock.wall(r.from),
		To:              r.clock.wall(r.observer.ended),
		Offered:         t.closed,
		Requests:        t.requests,
		Failed:          t.failed,
		Dropped:         t.dropped,
		Waited:          t.waited,
		Late:            t.late,
		CompletedInTime: t.inTime,
		Status:          map[int]uint64{},
		Errors:          map[string]ErrorCount{},
		MaxInFlight:     r.observer.most,
		InFlight:        r.observer.fit.trend(trendConfidence),
		Generator:       r.observer.usage,
		Aborted:         r.observer.why,
	}
	for _, e := range r.executors {
		offered, most := e.totals()
		result.Offered += offered
		result.MaxInFlight = max(result.MaxInFlight, most)
	}
	for status, n := range t.status {
		if n > 0 && status > 0 {
			result.Status[status] = n
		}
	}
	for kind, count := range t.failures {
		if count.Count > 0 {
			result.Errors[failure(kind).String()] = count
		}
	}
	result.Generator.Lateness = lateness(t.lateness)
	var err error
	if result.Response, err = latency(t.response); err != nil {
		return Result{}, err
	}
	if result.Service, err = latency(t.service); err != nil {
		return Result{}, err
	}
	return result, nil
}

// errorList gathers errors from several goroutines.
type errorList struct {
	mu   sync.Mutex
	errs []error
}

func (l *errorList) add(err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func (l *errorList) join() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.errs...)
}
