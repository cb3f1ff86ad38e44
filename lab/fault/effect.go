package fault

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

// Input is the raw data of one load.
type Input struct {
	Events []Event
	// Windows are the seconds of the load that were measured, and those that
	// drained after them.
	Windows []load.Window
	SLO     []threshold.Threshold
	From    time.Time // when the measured part began
	To      time.Time // when the load ended
}

// Effect is what one fault cost.
//
// A fault reigns from when it was asked for until the next one is, or the load
// ends: what happens in that time is put down to it. Its window is the part of
// that in which it was felt: until all was back and the objectives held again
// for good. Everything is known to a second, the length of a load's windows; the
// second in which a fault was asked for is the fault's.
type Effect struct {
	Event

	// Window is how long the fault's window was, in seconds from Asked.
	Window float64
	// Failed are the requests that failed in the window, dropped arrivals
	// included; Kinds says how.
	Failed uint64
	Kinds  map[string]uint64

	Before, During, After Figures // the window is During

	// Recovered is how many seconds after Asked the objectives held for good: 0
	// if they always did. It means nothing if Recovers is false: then they did
	// not hold at the end of the fault's reign.
	Recovers  bool
	Recovered float64
	// BadSeconds are those of the reign in which they did not hold.
	BadSeconds int
}

// Figures are of some seconds of a load. They are zero if nothing was answered.
type Figures struct {
	Requests uint64
	P95, P99 float64 // response time, ms
}

// nothingMuch is the rate in requests per second from which on a second without
// an answer is a bad one. Below it there may have been nothing to answer: at 10
// a second, one second in 22,000 has no arrival (Poisson: e^-10).
const nothingMuch = 10

// Effects works out what each fault cost. Its error is that a window cannot be
// read.
func Effects(in Input) ([]Effect, error) {
	out := make([]Effect, len(in.Events))
	j := &judge{slo: momentary(in.SLO)}
	lastEnd := in.From // of the window of the fault before
	for i, e := range in.Events {
		reign := reign{asked: e.Asked, end: in.To, last: true}
		if i+1 < len(in.Events) {
			reign.end, reign.last = in.Events[i+1].Asked, false
		}
		x, err := j.effect(e, in, reign, lastEnd)
		if err != nil {
			return nil, fmt.Errorf("fault %d: %w", e.Number, err)
		}
		out[i] = x
		lastEnd = e.Asked.Add(time.Duration(x.Window * float64(time.Second)))
	}
	return out, nil
}

// reign is the time that is put down to a fault.
type reign struct {
	asked, end time.Time
	last       bool // what drains after the load's end belongs to it
}

func ends(w *load.Window) time.Time {
	return w.Start.Add(time.Duration(w.Seconds * float64(time.Second)))
}

// has says whether a window belongs to the reign: if it ends after the fault was
// asked for and before the next one was. A whole second is put down to one
// fault only.
func (r reign) has(w *load.Window) bool {
	end := ends(w)
	return end.After(r.asked) && (!end.After(r.end) || r.last)
}

func (j *judge) effect(e Event, in Input, r reign, lastEnd time.Time) (Effect, error) {
	x := Effect{Event: e, Kinds: map[string]uint64{}}
	var before sum
	for i := range in.Windows {
		w := &in.Windows[i]
		if !w.Start.Before(lastEnd) && !ends(w).After(e.Asked) {
			before.add(w)
		}
	}
	j.busy = before.rate() >= nothingMuch
	if err := j.recovery(&x, in.Windows, r); err != nil {
		return x, err
	}
	until := x.until(r)
	x.Window = until.Sub(e.Asked).Seconds()
	var during, after sum
	for i := range in.Windows {
		w := &in.Windows[i]
		switch {
		case !r.has(w):
		case w.Start.Before(until) || w.Drain && !x.Recovers:
			during.add(w)
			x.count(w)
		case !w.Drain:
			after.add(w)
		}
	}
	var err error
	for _, s := range []struct {
		from *sum
		to   *Figures
	}{{&before, &x.Before}, {&during, &x.During}, {&after, &x.After}} {
		if *s.to, err = s.from.figures(); err != nil {
			return x, err
		}
	}
	return x, nil
}

// recovery finds the seconds of the reign in which the objectives did not hold.
func (j *judge) recovery(x *Effect, windows []load.Window, r reign) error {
	for i := range windows {
		w := &windows[i]
		if !r.has(w) || w.Drain {
			continue
		}
		good, err := j.good(w)
		if err != nil {
			return err
		}
		if x.Recovers = good; !good {
			x.BadSeconds++
			x.Recovered = ends(w).Sub(x.Asked).Seconds()
		}
	}
	return nil
}

// until is the end of the fault's window: when all was back and the objectives
// held, or the end of its reign.
func (x *Effect) until(r reign) time.Time {
	back, ok := x.Back()
	if !ok || !x.Recovers || !back.Before(r.end) {
		return r.end
	}
	recovered := x.Asked.Add(time.Duration(x.Recovered * float64(time.Second)))
	if back.After(recovered) {
		return back
	}
	return recovered
}

// count takes over a window's failures.
func (x *Effect) count(w *load.Window) {
	x.Failed += w.Failed + w.Dropped
	for kind, n := range w.Errors {
		x.Kinds[kind] += n
	}
	if w.Dropped > 0 {
		x.Kinds["dropped"] += w.Dropped
	}
}

// sum is of some windows.
type sum struct {
	requests  uint64
	seconds   float64
	responses []string
}

func (s *sum) add(w *load.Window) {
	s.requests += w.Requests
	s.seconds += w.Seconds
	s.responses = append(s.responses, w.Response)
}

func (s *sum) rate() float64 {
	if s.seconds <= 0 {
		return 0
	}
	return float64(s.requests) / s.seconds
}

func (s *sum) figures() (Figures, error) {
	whole := load.NewHistogram()
	for _, text := range s.responses {
		h, err := decode(text)
		if err != nil {
			return Figures{}, err
		}
		if h != nil {
			whole.Merge(h)
		}
	}
	return figures(whole, s.requests), nil
}

func figures(h *hdrhistogram.Histogram, requests uint64) Figures {
	f := Figures{Requests: requests}
	if h.TotalCount() > 0 {
		f.P95, f.P99 = float64(h.ValueAtQuantile(95))/1000, float64(h.ValueAtQuantile(99))/1000
	}
	return f
}

// decode reads a window's histogram; nil if it has none.
func decode(text string) (*hdrhistogram.Histogram, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no histogram is not an error
	}
	h, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("read a window's histogram: %w", err)
	}
	return h, nil
}

// judge says of single seconds whether the objectives held in them.
type judge struct {
	slo  []threshold.Threshold
	busy bool // a second without an answer is a bad one
}

// momentary are the objectives as they can be asked of a second: those on times
// and on shares. Counts and rates are about the load as a whole.
func momentary(slo []threshold.Threshold) []threshold.Threshold {
	var out []threshold.Threshold
	for _, t := range slo {
		switch t.Metric {
		case threshold.HTTPReqDuration, threshold.HTTPReqService, threshold.GRPCReqDuration, threshold.HTTPReqFailed, threshold.WSConnecting, threshold.WSMsgDuration:
			t.Over, t.AbortOnFail, t.DelayAbortEval = time.Second, false, 0
			out = append(out, t)
		}
	}
	return out
}

// forgives says whether the objectives allow for some failures.
func (j *judge) forgives() bool {
	for _, t := range j.slo {
		if t.Metric == threshold.HTTPReqFailed && t.Scenario+t.Step == "" {
			return true
		}
	}
	return false
}

// good says whether the objectives held in a second. Without one on failures,
// none may fail.
func (j *judge) good(w *load.Window) (bool, error) {
	if w.Requests == 0 {
		return w.Dropped == 0 && !j.busy, nil
	}
	if w.Failed+w.Dropped > 0 && !j.forgives() {
		return false, nil
	}
	alone := *w
	alone.Warmup, alone.Drain = false, false
	watch := threshold.NewWatch(j.slo)
	if _, err := watch.Add(alone); err != nil {
		return false, err
	}
	for _, o := range watch.Now() {
		// A part of the load of which nothing ended in the second says nothing.
		nothing := o.Observed == 0 && o.Reason != ""
		if !o.Met && !nothing {
			return false, nil
		}
	}
	return true, nil
}

// Second is the load in one second, for a chart.
type Second struct {
	From, To time.Time
	Rate     float64 // requests answered per second, failed ones included
	Failed   float64 // failed requests and dropped arrivals, per second
	P95      float64 // ms; 0 if nothing was answered
}

// Seconds are the load's windows without those that drained.
func Seconds(windows []load.Window) ([]Second, error) {
	var out []Second
	for i := range windows {
		w := &windows[i]
		if w.Drain || w.Seconds <= 0 {
			continue
		}
		s := Second{From: w.Start, To: ends(w), Rate: float64(w.Requests) / w.Seconds, Failed: float64(w.Failed+w.Dropped) / w.Seconds}
		h, err := decode(w.Response)
		if err != nil {
			return nil, err
		}
		if h != nil && h.TotalCount() > 0 {
			s.P95 = float64(h.ValueAtQuantile(95)) / 1000
		}
		out = append(out, s)
	}
	return out, nil
}
