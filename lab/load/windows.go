package load

import "time"

// windows cuts a run into seconds and hands each of them out as it ends.
type windows struct {
	run      *run
	onWindow func(Window)
	sum      *tally        // of the window being made
	spare    *tally        // swapped for a shard's
	began    time.Duration // the window under way
}

func newWindows(run *run, onWindow func(Window)) *windows {
	return &windows{run: run, onWindow: onWindow, sum: newTally(), spare: newTally()}
}

// cut ends a window at every whole second of the measured part, counted from
// its beginning, and so also where the warm-up ends; where the offered load
// ends; and every second after that, until stop is closed and the last is cut.
func (w *windows) cut(stop <-chan struct{}) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
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
	w.spare = w.run.recorder.rotate(w.sum, w.spare)
	now, began := w.run.clock.now(), w.began
	for next := w.next(); next <= now; next = w.next() {
		w.began = next // more than one if the receiver was slow: a longer window
	}
	if began >= w.run.to && w.sum.requests+w.sum.dropped == 0 {
		return nil
	}
	window := Window{
		Start:    w.run.clock.wall(began),
		Warmup:   began < w.run.from,
		Requests: w.sum.requests,
		Failed:   w.sum.failed,
		Late:     w.sum.late,
		Dropped:  w.sum.dropped,
		InFlight: int(w.run.observer.inFlight.Load()),
	}
	var err error
	if window.Response, err = encode(w.sum.response); err != nil {
		return err
	}
	if window.Service, err = encode(w.sum.service); err != nil {
		return err
	}
	w.onWindow(window)
	return nil
}
