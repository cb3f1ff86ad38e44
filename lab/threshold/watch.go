package threshold

import (
	"fmt"
	"math"
	"time"

	"loadstone/lab/load"
)

// Watch judges thresholds while a load runs and when it has ended. It is given
// every window of the load, in order, and at the end the result:
//
//	watch := threshold.NewWatch(thresholds)
//	for each window { reason, err := watch.Add(window) }   // reason: end the load
//	outcomes, err := watch.Outcomes(result)
//
// Thresholds on the load as a whole are judged on the result, which has every
// request by its intended time. Those on windows are judged on the windows,
// which have requests by the time at which they ended; so requests that have
// not ended are in none of them. Two rules keep those from hiding:
//
//   - What drains after the load's end belongs to the last window, for times and
//     for shares. That is strict: the last window then has what began in it and
//     what ended in it.
//   - A window in which work was under way from its beginning to its end, and
//     nothing was answered, is an observation for a threshold that bounds
//     http_req_duration from above: of as long as nothing was answered. If the
//     threshold allows for that long, the window says nothing yet, and the
//     request counts when it ends. This is not known by step, and so not done
//     for thresholds with a selector.
//
// Other windows in which nothing happened say nothing about times and shares:
// nothing was due, or it counts when it ends. Counts and rates are then 0,
// which is an observation. A load of which all windows say nothing has met no
// threshold. A load that is shorter than the window is one window.
//
// A Watch is used by one goroutine at a time. What it costs does not grow with
// the load: about 200 KiB for each different selection of times, and about
// 2 KiB for each second of a window.
type Watch struct {
	guards  []*guard
	series  []*series
	decoder *decoder

	began   time.Time // of the measured part; zero before it
	several bool      // windows have steps, as far as they told
	quiet   silence
}

// guard is a threshold under watch.
type guard struct {
	Threshold
	series *series  // nil if no window has the metric
	worst  *finding // of the windows so far; nil if none said anything
}

// finding is what one window says of a threshold.
type finding struct {
	observed float64
	reason   string
}

// silence is a time in which work was under way and nothing was answered. It
// takes a window's InFlight for requests that somebody waits for: a virtual user
// who thinks is not in flight.
type silence struct {
	inFlight int // when the latest window ended
	on       bool
	from     time.Duration
}

// add takes notice of a window that began at from.
func (s *silence) add(w *load.Window, from time.Duration) {
	if w.Requests == 0 && s.inFlight > 0 && !s.on {
		s.on, s.from = true, from
	}
	if w.Requests > 0 || w.InFlight == 0 {
		s.on = false
	}
	s.inFlight = w.InFlight
}

// NewWatch begins to watch a load.
func NewWatch(thresholds []Threshold) *Watch {
	w := &Watch{decoder: newDecoder()}
	for _, t := range thresholds {
		g := &guard{Threshold: t}
		if t.knownWhileRunning() {
			g.series = w.seriesFor(t)
		}
		w.guards = append(w.guards, g)
	}
	return w
}

func (w *Watch) seriesFor(t Threshold) *series {
	for _, s := range w.series {
		if s.serves(t) {
			return s
		}
	}
	s := newSeries(t)
	w.series = append(w.series, s)
	return s
}

// Add takes the next window of the load. abort says why the load is to end now;
// empty is to go on. Windows of the warm-up are not judged, and those that drain
// after the load's end cannot end it.
//
// The error is that a window cannot be read. The Watch is then of no more use.
func (w *Watch) Add(window load.Window) (abort string, err error) {
	if math.IsNaN(window.Seconds) || math.IsInf(window.Seconds, 0) || window.Seconds <= 0 {
		return "", fmt.Errorf("watch thresholds: a window of the load is %g seconds long", window.Seconds)
	}
	w.several = w.several || len(window.Steps) > 0
	if window.Warmup {
		w.quiet.inFlight = window.InFlight
		return "", nil
	}
	if w.began.IsZero() {
		w.began = window.Start
	}
	from := window.Start.Sub(w.began)
	to := from + time.Duration(window.Seconds*float64(time.Second))
	if !window.Drain {
		w.quiet.add(&window, from)
	}
	defer w.decoder.reset()
	for _, s := range w.series {
		second := s.selection.cut(&window, s.times, w.several)
		second.from, second.to = from, to
		if err := s.add(second, window.Drain, w.decoder); err != nil {
			return "", fmt.Errorf("watch thresholds, second %s of the load: %w", inSeconds(from), err)
		}
	}
	if window.Drain {
		return "", nil
	}
	return w.evaluate(to)
}

// evaluate looks at what the windows say once a second was added.
func (w *Watch) evaluate(now time.Duration) (abort string, err error) {
	for _, g := range w.guards {
		if g.series == nil || !g.due() {
			continue
		}
		f, err := w.currentFinding(g)
		if err != nil {
			return "", err
		}
		if f == nil {
			continue
		}
		if g.Over > 0 && (g.worst == nil || g.worse(f.observed, g.worst.observed)) {
			g.worst = f
		}
		if abort == "" && g.AbortOnFail && now >= g.DelayAbortEval && !g.Holds(f.observed) {
			abort = g.crossed(f, now)
		}
	}
	return abort, nil
}

// due says whether the threshold is to be looked at now.
func (g *guard) due() bool {
	if g.Over > 0 {
		return g.series.full()
	}
	return g.AbortOnFail && !g.canStillBeMet()
}

// crossed says why the load is to end.
func (g *guard) crossed(f *finding, now time.Duration) string {
	where := f.reason
	if where == "" {
		where = "after " + inSeconds(now) + " s"
	}
	return fmt.Sprintf("the threshold %s of %s does not hold: it was %s, %s", g.source, g.name, number(round(f.observed)), where)
}

// round keeps four digits of what is shown.
func round(v float64) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	if math.IsInf(scale, 0) || scale == 0 {
		return v
	}
	return math.Round(v*scale) / scale
}

// currentFinding returns what a guard's series says at this moment; nil if that is
// nothing.
func (w *Watch) currentFinding(g *guard) (*finding, error) {
	s := g.series
	if !s.seen {
		return nil, nil
	}
	observed, err := s.observe(g.Threshold)
	if err != nil {
		return nil, fmt.Errorf("judge %s: %w", g.name, err)
	}
	f := &finding{observed: observed}
	if g.Over > 0 {
		f.reason = fmt.Sprintf("from second %s to %s", inSeconds(s.span.from), inSeconds(s.span.to))
	}
	if !math.IsNaN(observed) {
		return f, nil
	}
	if g.Over == 0 || g.Metric != HTTPReqDuration || !s.selection.whole() || !w.quiet.on || w.quiet.from > s.span.from {
		return nil, nil
	}
	f.observed = float64((s.span.to - w.quiet.from).Microseconds()) / 1000
	if !g.isUpperBound() || g.Holds(f.observed) {
		return nil, nil
	}
	f.reason = fmt.Sprintf("nothing was answered %s, with %d in flight", f.reason, w.quiet.inFlight)
	return f, nil
}

// inSeconds writes a time since the measured part began: 12, or 12.5.
func inSeconds(d time.Duration) string {
	return number(d.Round(100 * time.Millisecond).Seconds())
}
