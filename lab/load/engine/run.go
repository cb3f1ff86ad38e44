package engine

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"loadstone/block/pause"
	"loadstone/lab/load"
	"loadstone/lab/load/httpclient"
	"loadstone/lab/load/rpc"
)

// run is one plan being carried out.
type run struct {
	plan     *load.Plan
	clock    *clock
	from, to time.Duration // the measured part, as planned
	timedTo  time.Duration // when the last scenario ends whose iterations are not counted
	targets  []target
	lengths  map[string]time.Duration // of the scenarios, by name
	notes    []string                 // what cannot be done as the plan says

	tls         *tls.Config            // for https and wss
	calls       map[string]*rpc.Method // by path
	sharedConns []*sharedConn          // the connections that HTTP/2 users share; empty if each has its own

	recorder  *recorder
	ids       []*stepIDs // by scenario
	loops     []*loop
	executors []executor
	sockets   []*sockets // of them, those of WebSocket clients
	logs      []*logReader
	curves    []scheduled // of the scenarios with a schedule
	observer  *observer
	windows   *windows

	abandoned atomic.Bool
}

// executor is a scenario as the observer sees it. The event loops carry it out.
type executor interface {
	// advance returns how many arrivals of the schedule have been due by now,
	// and how many users of a closed model are at work.
	advance(now time.Duration) (due uint64, working int)
	// busiest returns, after everything has ended, the most users that were busy
	// at once in the measured part.
	busiest() int
}

// scheduled is the rate curve of a scenario and where it lies in the plan.
type scheduled struct {
	curve *load.RateCurve
	start time.Duration
}

// stepIDs are a scenario's places in the recorder.
type stepIDs struct {
	key    uint64 // see scriptKey
	steps  []int
	checks [][]int
	values []map[string]int // by step, of what is extracted as a metric
	trip   int              // where its iterations are timed; noTrip if they are not
}

// noTrip is in place of a number for scenarios whose iterations are requests.
const noTrip = -1

// InputError is something wrong with what a plan names: a feed's file, an access
// log, a file of certificates. The plan's author can mend it.
type InputError struct{ error }

// Unwrap returns what is wrong.
func (e InputError) Unwrap() error { return e.error }

// Run carries out a plan in this process and returns what came of it. onWindow
// is called with each second as it ends, from another goroutine and one at a
// time; it may be nil. If it returns a text, the load ends early and that text
// is why; so does a text that comes from stops, which may be nil. A slow
// onWindow makes windows longer and delays nothing else.
//
// It fails if the plan is not valid, if a target's name or a feed's file cannot
// be found, if ctx ends before the load does, and if the machine refuses what
// an event loop needs. What the targets do is never an error: it is in the
// Result. Generator in the Result is about the whole process: run nothing else
// in it, or use a generator.Process.
func Run(ctx context.Context, plan load.Plan, onWindow func(load.Window) (stop string), stops <-chan string) (load.Result, error) {
	if err := plan.Validate(); err != nil {
		return load.Result{}, fmt.Errorf("load plan: %w", err)
	}
	if onWindow == nil {
		onWindow = func(load.Window) string { return "" }
	}
	if plan.Setup != nil {
		given, err := makeOnce(ctx, &plan, plan.Setup)
		if err != nil {
			return load.Result{}, fmt.Errorf("setup: %w", err)
		}
		plan.Given = given
	}
	result, err := carryOut(ctx, &plan, onWindow, stops)
	if plan.Teardown != nil {
		if _, failed := makeOnce(context.WithoutCancel(ctx), &plan, plan.Teardown); failed != nil {
			result.Notes = append(result.Notes, "teardown: "+failed.Error())
		}
	}
	return result, err
}

// carryOut is Run, without setup and teardown.
func carryOut(ctx context.Context, plan *load.Plan, onWindow func(load.Window) string, stops <-chan string) (load.Result, error) {
	r, err := newRun(ctx, plan, onWindow)
	if err != nil {
		return load.Result{}, err
	}
	if err := errors.Join(r.perform(ctx, stops), r.closeLoops()); err != nil {
		return load.Result{}, err
	}
	return r.result()
}

// newRun prepares a valid plan.
func newRun(ctx context.Context, plan *load.Plan, onWindow func(load.Window) string) (*run, error) {
	r := &run{plan: plan, clock: &clock{epoch: time.Now()}, from: plan.Warmup, lengths: map[string]time.Duration{}}
	for i, raw := range plan.Targets {
		to, err := newTarget(ctx, i, raw)
		if err != nil {
			return nil, fmt.Errorf("target %q: %w", raw, err)
		}
		r.targets = append(r.targets, to)
	}
	var err error
	if r.tls, err = httpclient.TLSConfig(plan.TLS.CAFile, plan.TLS.ServerName, plan.TLS.InsecureSkipVerify); err != nil {
		return nil, InputError{err}
	}
	if r.calls, err = r.describedCalls(ctx); err != nil {
		return nil, InputError{fmt.Errorf("calls of gRPC: %w", err)}
	}
	if plan.Protocol == load.HTTP2 {
		for i := range plan.Connections {
			r.sharedConns = append(r.sharedConns, newSharedConn(&r.targets[i%len(r.targets)], r, i, load.HTTP2, true))
		}
	}
	for i := range plan.Scenarios {
		s := &plan.Scenarios[i]
		length, notes, err := lengthOf(ctx, s)
		if err != nil {
			return nil, InputError{fmt.Errorf("scenario %q: %w", s.Name, err)}
		}
		r.lengths[s.Name] = length
		r.notes = append(r.notes, notes...)
		r.to = max(r.to, r.endOf(s))
		if !s.CountsIterations() {
			r.timedTo = max(r.timedTo, r.endOf(s))
		}
	}
	steps, checks, trips, values := r.numberSteps()
	r.recorder = newRecorder(plan.ThreadCount()+1, steps, checks, trips, values) // the last is the WebSocket clients'
	r.recorder.from = r.from
	r.setAside()
	r.recorder.to.Store(int64(r.to))
	if err := r.newLoops(); err != nil {
		return nil, err
	}
	for i := range plan.Scenarios {
		s := &plan.Scenarios[i]
		e, err := r.newExecutor(s, r.ids[i])
		if err != nil {
			return nil, errors.Join(fmt.Errorf("scenario %q: %w", s.Name, err), r.closeLoops())
		}
		r.executors = append(r.executors, e)
		if s.Executor == load.ConstantArrivalRate || s.Executor == load.RampingArrivalRate {
			r.curves = append(r.curves, scheduled{curve: load.NewRateCurve(s), start: s.StartTime})
		}
	}
	r.observer = &observer{run: r, wake: make(chan struct{})}
	r.windows = newWindows(r, onWindow)
	return r, nil
}

// newExecutor prepares a scenario.
func (r *run) newExecutor(s *load.Scenario, ids *stepIDs) (executor, error) {
	if s.WebSocket == nil {
		return newScenario(s, r, ids)
	}
	w, err := newSockets(s, r, ids)
	if err == nil {
		r.sockets = append(r.sockets, w)
	}
	return w, err
}

// protocol is what requests are sent by.
func (r *run) protocol() string { return cmp.Or(r.plan.Protocol, load.HTTP1) }

// endOf is when a scenario stops offering load, within the plan.
func (r *run) endOf(s *load.Scenario) time.Duration { return s.StartTime + r.lengths[s.Name] }

// numberSteps gives every step and check its place in the recorder.
func (r *run) numberSteps() (steps, checks, trips, values int) {
	for i := range r.plan.Scenarios {
		s := &r.plan.Scenarios[i]
		ids := &stepIDs{key: scriptKey(r.plan, s), trip: noTrip}
		if !s.OneRequest() {
			ids.trip = trips
			trips++
		}
		for k := range s.StepNames() {
			ids.steps = append(ids.steps, steps)
			steps++
			var mine []int
			for range s.ChecksOf(k) {
				mine = append(mine, checks)
				checks++
			}
			ids.checks = append(ids.checks, mine)
			named := map[string]int{}
			if k < len(s.Steps) {
				for _, name := range s.Steps[k].Metrics() {
					named[name] = values
					values++
				}
			}
			ids.values = append(ids.values, named)
		}
		r.ids = append(r.ids, ids)
	}
	return steps, checks, trips, values
}

// setAside says which steps have times of their own.
func (r *run) setAside() {
	for i := range r.plan.Scenarios {
		s := &r.plan.Scenarios[i]
		for k, name := range s.StepNames() {
			r.recorder.aside[r.ids[i].steps[k]] = s.WebSocket != nil && load.Aside(name)
		}
	}
}

// newLoops opens the event loops, and the slots if connections are capped.
func (r *run) newLoops() error {
	n := r.plan.ThreadCount()
	for i := range n {
		l, err := newLoop(r, r.recorder.shards[i])
		if err != nil {
			return errors.Join(err, r.closeLoops())
		}
		r.loops = append(r.loops, l)
		if !r.plan.SharesConnections() {
			continue
		}
		var links []link
		own := share{index: i, of: n}
		for k := range own.count(r.plan.Connections) {
			index := own.number(k)
			links = append(links, l.newLink(index))
		}
		l.slots = newSlots(r.clock, links)
	}
	return nil
}

func (r *run) closeLoops() error {
	var errs []error
	for _, l := range r.loops {
		errs = append(errs, l.close())
	}
	for _, l := range r.sharedConns {
		l.close()
	}
	for _, l := range r.logs {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}

// perform starts everything and waits for all of it: first the event loops and
// the observer, who decides when the offered load is over; then the windows.
func (r *run) perform(ctx context.Context, stops <-chan string) error {
	var (
		errs           errorList
		main, serving  sync.WaitGroup
		over, watching = make(chan struct{}), make(chan struct{})
		stopWatching   = sync.OnceFunc(func() { close(watching) })
	)
	abandon := func() {
		r.abandoned.Store(true)
		r.stopAll(true)
		stopWatching()
	}
	hooked := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(hooked)
		abandon()
	})
	errs.add(r.each((*loop).prepare))
	errs.add(r.awaitStart(ctx))
	r.clock.start()
	if r.abandoned.Load() {
		r.stopAll(true)
	}
	for _, w := range r.sockets {
		main.Go(func() {
			if err := w.perform(ctx); err != nil {
				errs.add(err)
				abandon()
			}
		})
	}
	main.Go(func() {
		if err := r.each((*loop).perform); err != nil {
			errs.add(err)
			abandon()
		}
		r.endOnceDone()
	})
	serving.Go(func() { errs.add(r.windows.cut(over)) })
	serving.Go(func() {
		select {
		case why := <-stops:
			r.observer.stop(why)
		case <-over:
		}
	})
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

// endOnceDone ends the load before its time if what it was waiting for was
// iterations, and they are done. The event loops have ended.
func (r *run) endOnceDone() {
	if r.timedTo >= r.to {
		return
	}
	timer := time.NewTimer(r.timedTo - r.clock.now())
	defer timer.Stop()
	select {
	case <-timer.C:
		r.observer.end()
	case <-r.observer.wake:
	}
}

// each has all loops do the same, and waits for them. If one fails, the others
// are stopped.
func (r *run) each(do func(*loop) error) error {
	var errs errorList
	var all sync.WaitGroup
	for _, l := range r.loops {
		all.Go(func() {
			if err := do(l); err != nil {
				errs.add(err)
				r.abandoned.Store(true)
				r.stopAll(true)
			}
		})
	}
	all.Wait()
	return errs.join()
}

// stopAll ends the offered load of all scenarios, and returns when that was.
func (r *run) stopAll(atOnce bool) time.Duration {
	now := r.clock.now()
	for to := r.recorder.to.Load(); int64(now) < to && !r.recorder.to.CompareAndSwap(to, int64(now)); {
		to = r.recorder.to.Load()
	}
	for _, l := range r.loops {
		l.post(func() {
			for _, p := range l.lanes {
				p.stop(now, atOnce)
			}
		})
	}
	for _, w := range r.sockets {
		w.stop(atOnce)
	}
	return now
}

// expected is how many arrivals the schedules call for by t, on average.
func (r *run) expected(t time.Duration) float64 {
	var sum float64
	for _, s := range r.curves {
		sum += s.curve.Due(t - s.start)
	}
	return sum / float64(r.plan.Portion.Size())
}

// awaitStart waits for the time at which the load is to begin.
func (r *run) awaitStart(ctx context.Context) error {
	if r.plan.StartAt.IsZero() {
		return nil
	}
	wait := time.Until(r.plan.StartAt)
	if wait < 0 {
		r.abandoned.Store(true)
		return fmt.Errorf("the load was to begin together with that of other generators, and this one was ready %v too late", -wait.Round(time.Millisecond))
	}
	pause.For(ctx, wait)
	return nil
}

// hasSchedule says whether there is an open scenario.
func (r *run) hasSchedule() bool {
	return slices.ContainsFunc(r.plan.Scenarios, func(s load.Scenario) bool { return s.Open() })
}

// replayed is how many arrivals of access logs have been due so far: they are
// as they are, and no average. Only the observer may ask.
func (r *run) replayed() (n uint64) {
	for _, e := range r.executors {
		if sc, ok := e.(*scenario); ok && sc.spec.Executor == load.Replay {
			n += sc.dueSoFar
		}
	}
	return n
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
