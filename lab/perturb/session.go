package perturb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
)

// Done is the word with which a Session ends the load.
const Done = "the perturbations are done"

// restoreWithin bounds the restoring of all knobs: each is a write to the
// kernel or one request to an admin port.
const restoreWithin = 10 * time.Second

// Session carries out a plan under load that somebody else offers, whose
// windows it is given. Windows of the load's warm-up are not used but for how
// long slots have to be: the last of them says how fast requests are answered. It belongs to one goroutine; Close must be called
// whatever happens, and restores every knob.
type Session struct {
	config  Config
	knobs   []Knob
	plan    *planner
	slots   []Slot
	now     func() time.Time
	lengths lengths // of a slot
	filled  int     // windows of the slot under way
	under   *Slot   // way
	latency *hdrhistogram.Histogram
	turned  []bool // knobs that are not at 1
	arm     int    // of the slot under way
	spent   time.Duration
	over    bool
}

// NewSession prepares a session. It changes nothing yet.
func NewSession(c Config, knobs []Knob) *Session {
	return &Session{
		config: c, knobs: knobs, plan: newPlanner(c, knobs), now: time.Now, lengths: lengths{count: 1},
		turned: make([]bool, len(knobs)), arm: -1,
	}
}

// Slots are those that are complete, in time.
func (s *Session) Slots() []Slot { return s.slots }

// Window takes the next window of the load, and changes settings when it
// ends a slot. stop is not empty once there is nothing more to do. After an
// error there is nothing more to do either.
func (s *Session) Window(ctx context.Context, w load.Window) (stop string, err error) {
	switch {
	case s.over || w.Drain:
		return "", nil
	case w.Warmup:
		return "", s.prepare(w)
	}
	if s.under == nil { // the first slot is unperturbed
		s.begin(Slot{Start: w.Start, Factor: 1})
	}
	if err := s.fill(w); err != nil {
		s.over = true
		return Done, err
	}
	if s.filled < s.lengths.windows() {
		return "", nil
	}
	s.under.P95 = float64(s.latency.ValueAtQuantile(95)) / 1000
	s.slots = append(s.slots, *s.under)
	s.spent += seconds(s.under.Settled + s.under.Seconds)
	next, ok := s.plan.next(s.slots, s.left())
	if !ok {
		s.over = true
		return Done, nil
	}
	if err := s.turn(ctx, next, w.Start.Add(seconds(w.Seconds))); err != nil {
		s.over = true
		return Done, err
	}
	return "", nil
}

// prepare has slots be as long as the warm-up shows that they have to be.
func (s *Session) prepare(w load.Window) error {
	response := time.Duration(0)
	if w.Requests > 0 {
		h, err := latencies(w)
		if err != nil {
			return err
		}
		response = time.Duration(h.Mean()) * time.Microsecond
	}
	s.lengths = s.config.lengths(float64(w.Requests)/max(w.Seconds, 1e-6), response)
	s.plan = newPlanner(s.config.fitting(s.lengths.windows()), s.knobs)
	s.plan.slow = s.lengths.settle > 0
	return nil
}

// left is how many more slots the budget allows.
func (s *Session) left() int {
	each := time.Duration(s.lengths.windows()) * time.Second
	return int((s.config.Budget - s.spent) / each)
}

func (s *Session) begin(slot Slot) {
	s.under, s.filled, s.latency = &slot, 0, load.NewHistogram()
}

// fill takes a window into the slot, or leaves it out where queues still move.
func (s *Session) fill(w load.Window) error {
	s.filled++
	if s.filled <= s.lengths.settle {
		s.under.Settled += w.Seconds
		s.under.Start = w.Start.Add(seconds(w.Seconds))
		s.under.Set = max(0, s.under.Set-w.Seconds)
		return nil
	}
	h, err := latencies(w)
	if err != nil {
		return err
	}
	s.latency.Merge(h)
	s.under.Seconds += w.Seconds
	s.under.Requests += w.Requests
	s.under.Failed += w.Failed
	return nil
}

// latencies are the response times of a window, in microseconds.
func latencies(w load.Window) (*hdrhistogram.Histogram, error) {
	h, err := hdrhistogram.Decode([]byte(w.Response))
	if err != nil {
		return nil, fmt.Errorf("read the latencies of a window: %w", err)
	}
	return h, nil
}

// turn makes the settings those of the next slot, which began at began.
func (s *Session) turn(ctx context.Context, next step, began time.Time) error {
	slot := Slot{Start: began, Factor: next.factor}
	if err := s.restore(ctx); err != nil {
		return err
	}
	if next.arm >= 0 {
		a := s.plan.arms[next.arm]
		slot.Targets, slot.Factor = a.targets, s.actual(a, next.factor)
		for _, k := range a.knobs {
			s.turned[k] = true // also if it fails half way
			if err := s.knobs[k].Set(ctx, next.factor); err != nil {
				return fmt.Errorf("perturb %s of %s: %w", s.knobs[k].Resource, s.knobs[k].Component, err)
			}
		}
	}
	s.begin(slot)
	s.under.Set = max(0, s.now().Sub(began).Seconds())
	return nil
}

// actual is what a factor really comes to for an arm.
func (s *Session) actual(a arm, factor float64) float64 {
	sum := 0.0
	for _, k := range a.knobs {
		set := factor
		if of := s.knobs[k].Actual; of != nil {
			set = of(factor)
		}
		sum += math.Log(set) / float64(len(a.knobs))
	}
	return math.Exp(sum)
}

// restore sets every knob that was turned back to 1, and tries all of them.
func (s *Session) restore(ctx context.Context) error {
	var errs []error
	for k := range s.knobs {
		if !s.turned[k] {
			continue
		}
		if err := s.knobs[k].Set(ctx, 1); err != nil {
			errs = append(errs, fmt.Errorf("restore %s of %s: %w", s.knobs[k].Resource, s.knobs[k].Component, err))
			continue
		}
		s.turned[k] = false
	}
	return errors.Join(errs...)
}

// Close restores every knob, also if ctx has ended.
func (s *Session) Close(ctx context.Context) error {
	s.over = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreWithin)
	defer cancel()
	return s.restore(ctx)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
