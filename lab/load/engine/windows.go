package engine

import (
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

// windows cuts a run into seconds and hands each of them out as it ends.
type windows struct {
	run      *run
	onWindow func(load.Window) string
	began    time.Duration // the window under way
	cpu      time.Duration // that the process had used then
}

func newWindows(run *run, onWindow func(load.Window) string) *windows {
	return &windows{run: run, onWindow: onWindow}
}

// cut ends a window at every whole second of the measured part, counted from
// its beginning, and so also where the warm-up ends; where the offered load
// ends; and every second after that, until stop is closed and the last is cut.
func (w *windows) cut(stop <-chan struct{}) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var err error
	if w.cpu, err = cpuTime(); err != nil {
		return err
	}
	for {
		timer.Reset(w.next() - w.run.clock.now())
		select {
		case <-stop:
			return w.emit()
		case <-timer.C:
			if err := w.emit(); err != nil {
				return err
			}
		}
	}
}

// next returns when the window under way is to end.
func (w *windows) next() time.Duration {
	from, to := w.run.from, w.run.to
	next := from + (w.began - from).Truncate(time.Second)
	if next <= w.began {
		next += time.Second
	}
	if w.began < to && next > to {
		next = to
	}
	return next
}

// emit hands out what happened since the last call. After the load is over,
// seconds in which nothing ends are left out.
func (w *windows) emit() error {
	for _, k := range w.run.sockets {
		k.countBytes()
	}
	w.run.recorder.rotate()
	now, began := w.run.clock.now(), w.began
	for next := w.next(); next <= now; next = w.next() {
		w.began = next // more than one if the receiver was slow: a longer window
	}
	sum := w.run.recorder.window
	dropped := sum.warm.dropped + sum.measured.dropped
	all := sum.warm.all(w.run.recorder.aside)
	all.merge(sum.measured.all(w.run.recorder.aside))
	if int64(began) >= w.run.recorder.to.Load() && all.requests+dropped+sum.warm.iterations+sum.measured.iterations == 0 {
		var err error
		w.cpu, err = cpuTime()
		return err
	}
	window := load.Window{
		Start:    w.run.clock.wall(began),
		Warmup:   began < w.run.from,
		Drain:    int64(began) >= w.run.recorder.to.Load(),
		Requests: all.requests,
		Failed:   all.failed,
		Sent:     all.wrote,
		Received: all.got,
		Dropped:  dropped,
		InFlight: int(w.run.observer.inFlight.Load()),
		Errors:   map[string]uint64{},
		Seconds:  (w.began - began).Seconds(),
	}
	if w.began == began { // the last, cut before its time
		window.Seconds = max(now-began, time.Microsecond).Seconds()
	}
	for _, s := range []*sums{&sum.warm, &sum.measured} {
		window.Late += s.late
		window.Iterations += s.iterations
		window.Sent += s.wrote
		window.Received += s.got
		for i := range s.checks {
			window.Checks += s.checks[i].passed + s.checks[i].failed
			window.CheckFails += s.checks[i].failed
		}
		for kind, count := range s.failures {
			if count.Count > 0 {
				window.Errors[failure.Kind(kind).String()] += count.Count
			}
		}
	}
	var err error
	if window.Response, window.Service, err = all.encoded(); err != nil {
		return err
	}
	if err := w.steps(&window, sum); err != nil {
		return err
	}
	if err := w.journeys(&window, sum); err != nil {
		return err
	}
	if err := w.busy(&window); err != nil {
		return err
	}
	if why := w.onWindow(window); why != "" {
		w.run.observer.stop(why)
	}
	return nil
}

// steps adds each step's part, if there is more than one step.
func (w *windows) steps(window *load.Window, sum *tallies) error {
	if w.run.recorder.steps < 2 {
		return nil
	}
	for i := range w.run.plan.Scenarios {
		s := &w.run.plan.Scenarios[i]
		for k, name := range s.StepNames() {
			at := w.run.ids[i].steps[k]
			t := &tally{}
			t.merge(&sum.warm.steps[at])
			t.merge(&sum.measured.steps[at])
			if t.requests == 0 {
				continue
			}
			step := load.WindowStep{Scenario: s.Name, Name: name, Requests: t.requests, Failed: t.failed, GRPC: k < len(s.Steps) && s.Steps[k].Request.GRPC}
			var err error
			if step.Response, step.Service, err = t.encoded(); err != nil {
				return err
			}
			window.Steps = append(window.Steps, step)
		}
	}
	return nil
}

// journeys adds the iterations of scenarios of which one is more than a request.
func (w *windows) journeys(window *load.Window, sum *tallies) error {
	for i := range w.run.plan.Scenarios {
		if !w.run.timed(i) {
			continue
		}
		t := w.run.trip(&sum.warm, i)
		t.merge(w.run.trip(&sum.measured, i))
		journey := load.WindowJourney{Scenario: w.run.plan.Scenarios[i].Name, Iterations: t.iterations}
		if t.iterations > 0 {
			var err error
			if journey.Duration, err = load.EncodeHistogram(t.duration); err != nil {
				return err
			}
		}
		window.Journeys = append(window.Journeys, journey)
	}
	return nil
}

// busy adds what the generator itself used.
func (w *windows) busy(window *load.Window) error {
	used, err := cpuTime()
	if err != nil {
		return err
	}
	window.Busy = (used - w.cpu).Seconds() / window.Seconds
	w.cpu = used
	return nil
}

// encoded returns the histograms as text.
func (t *tally) encoded() (response, service string, err error) {
	if response, err = load.EncodeHistogram(t.response); err != nil {
		return "", "", err
	}
	service, err = load.EncodeHistogram(t.service)
	return response, service, err
}
