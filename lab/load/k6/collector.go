package k6

import (
	"fmt"
	"time"

	"loadstone/lab/load"
)

// lateBy is how long after a window's end a point may still come for it. k6
// hands its points out five times a second.
const lateBy = 500 * time.Millisecond

// mostGap is how far ahead of all others a point may lie. k6 writes something
// every second; what lies further off is no time of this load.
const mostGap = time.Hour

// collector makes windows and a result of points. Points come almost in order:
// two windows are open at once, and one that comes too late for its own counts
// in the older of them.
type collector struct {
	onWindow func(load.Window) error
	busy     func() float64 // cores that k6 has used since the last call

	names     names // of steps
	scenarios names
	checks    checks
	total     *tally
	webSocket *load.WebSocketResult
	span      span
	last      time.Time // of all points but those of vus

	older, newer *window // older is nil before the first point, newer until one comes for it
	spare        *tally  // of a window that is over, empty
	inFlight     int
	maxInFlight  int

	garbage      uint64 // lines that could not be read
	firstGarbage string
}

type window struct {
	from  time.Time
	tally *tally
}

func (w *window) to() time.Time { return w.from.Add(time.Second) }

func newCollector(busy func() float64, onWindow func(load.Window) error) *collector {
	return &collector{onWindow: onWindow, busy: busy, total: newTally()}
}

// line takes one line of k6's output. A line that cannot be read is counted and
// is no error: the load goes on.
func (c *collector) line(text []byte) error {
	p, matters, err := decode(text)
	if err == nil && matters && c.older != nil && p.Data.Time.After(c.older.from.Add(mostGap)) {
		err = fmt.Errorf("its time is %s, an hour after all others", p.Data.Time)
	}
	if err != nil {
		c.unreadable(text, err)
		return nil
	}
	if !matters {
		return nil
	}
	return c.point(&p)
}

func (c *collector) unreadable(text []byte, err error) {
	if c.garbage++; c.garbage == 1 {
		c.firstGarbage = fmt.Sprintf("%.80q: %v", text, err)
	}
}

func (c *collector) point(p *point) error {
	w, err := c.windowAt(p.Data.Time)
	if err != nil {
		return err
	}
	var number int
	switch p.Metric {
	case "vus":
		c.inFlight = int(p.Data.Value)
		c.maxInFlight = max(c.maxInFlight, c.inFlight)
		return nil
	case "ws_sessions", "ws_msgs_sent", "ws_msgs_received":
		c.message(p)
	case "checks":
		c.checks.add(p)
	case "http_req_duration", "http_req_failed":
		number = c.names.index(p.Data.Tags.Scenario, p.Data.Tags.Name)
	case "iteration_duration":
		number = c.scenarios.index(p.Data.Tags.Scenario, "")
	}
	c.total.add(p, number)
	w.tally.add(p, number)
	c.measured(p)
	if p.Data.Time.After(c.last) {
		c.last = p.Data.Time
	}
	return nil
}

// measured widens the time that the result is about: bytes are counted at an
// iteration's end, whenever they went, and say nothing about it.
func (c *collector) measured(p *point) {
	switch p.Metric {
	case "data_sent", "data_received":
	case "http_req_duration":
		c.span.add(p.Data.Time, p.Data.Value)
	default:
		c.span.add(p.Data.Time, 0)
	}
}

func (c *collector) message(p *point) {
	if c.webSocket == nil {
		c.webSocket = &load.WebSocketResult{}
	}
	n := uint64(p.Data.Value)
	switch p.Metric {
	case "ws_sessions":
		c.webSocket.Connects += n
	case "ws_msgs_sent":
		c.webSocket.Sent += n
	case "ws_msgs_received":
		c.webSocket.Other += n // k6 does not know which message it is
	}
}

// windowAt returns the open window for a point at t, and hands out those that
// are over by then. A second in which there is no point has no window.
func (c *collector) windowAt(t time.Time) (*window, error) {
	if c.older == nil {
		c.older = c.begin(t)
	}
	for !t.Before(c.older.to().Add(lateBy)) {
		if err := c.emit(c.older, 1); err != nil {
			return nil, err
		}
		if c.newer == nil {
			c.newer = c.begin(c.older.from.Add(t.Sub(c.older.from).Truncate(time.Second)))
		}
		c.older, c.newer = c.newer, nil
	}
	if t.Before(c.older.to()) {
		return c.older, nil
	}
	if c.newer == nil {
		c.newer = c.begin(c.older.to())
	}
	return c.newer, nil
}

func (c *collector) begin(from time.Time) *window {
	t := c.spare
	c.spare = nil
	if t == nil {
		t = newTally()
	}
	return &window{from: from, tally: t}
}

func (c *collector) emit(w *window, seconds float64) error {
	service, err := load.EncodeHistogram(w.tally.service)
	if err != nil {
		return err
	}
	t := w.tally
	out := load.Window{
		Start: w.from, Seconds: seconds, Requests: t.requests, Failed: t.failed, Dropped: t.dropped,
		InFlight: c.inFlight, Iterations: t.iterations, Checks: t.checks, CheckFails: t.checkFails,
		Sent: t.sent, Received: t.received, Errors: t.windowErrors(), Busy: c.busy(),
		Response: service, Service: service,
	}
	if out.Steps, err = t.windowSteps(c.names.all); err != nil {
		return err
	}
	if out.Journeys, err = t.windowJourneys(c.scenarios.all); err != nil {
		return err
	}
	c.recycle(t)
	return c.onWindow(out)
}

// recycle keeps a window's histograms, which are most of what it costs.
func (c *collector) recycle(t *tally) {
	t.service.Reset()
	for _, s := range t.steps {
		if s == nil {
			continue
		}
		s.service.Reset()
		clear(s.status)
		s.requests, s.failed = 0, 0
	}
	for _, j := range t.journeys {
		j.Reset()
	}
	c.spare = &tally{service: t.service, steps: t.steps, journeys: t.journeys}
}

// finish hands out the windows that are still open.
func (c *collector) finish() error {
	for _, w := range []*window{c.older, c.newer} {
		if w == nil {
			continue
		}
		if c.last.Before(w.from) {
			continue // nothing in it but k6's own ticking
		}
		// A window of no length would be one of an infinite rate.
		seconds := min(1, max(0.001, c.last.Sub(w.from).Seconds()))
		if err := c.emit(w, seconds); err != nil {
			return err
		}
	}
	c.older, c.newer = nil, nil
	return nil
}

// report is what there is to say at the end, but for how k6 ended.
func (c *collector) report() (Report, error) {
	r := Report{Notes: []string{ServiceTimeOnly}}
	if c.garbage > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d lines of k6's output could not be read and are not counted; the first: %s", c.garbage, c.firstGarbage))
	}
	var err error
	if r.Result, err = c.total.result(c.names.all, c.scenarios.all); err != nil {
		return r, err
	}
	r.Result.From, r.Result.To = c.span.from, c.span.to
	r.Result.Checks = c.checks.results()
	r.Result.WebSocket = c.webSocket
	r.Result.MaxInFlight = c.maxInFlight
	return r, nil
}
