package queueing

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"loadstone/lab/stats"
)

// Objective is what a rate must meet to be held.
type Objective struct {
	// Share of requests that must be answered in time, such as 0.95.
	Share float64
	// Seconds is that time.
	Seconds float64
}

// Change alters one station. What is nil stays as it is.
type Change struct {
	Station   string
	Instances *int
	CPUs      *float64 // of a component: its share of CPUs per instance
}

// Apply returns the model after the changes.
func (m Model) Apply(changes []Change) (Model, error) {
	out := Model{Stations: slices.Clone(m.Stations), Delay: m.Delay}
	for _, c := range changes {
		i := slices.IndexFunc(out.Stations, func(s Station) bool { return s.Name == c.Station })
		if i < 0 {
			return Model{}, fmt.Errorf("the model has no station %q", c.Station)
		}
		s := &out.Stations[i]
		if c.Instances != nil {
			// An uneven balancer stays uneven, but nobody can get more than all.
			s.Instances, s.Skew = *c.Instances, min(s.Skew, float64(*c.Instances))
		}
		if c.CPUs != nil {
			s.Servers, s.Speed = servers(*c.CPUs)
		}
	}
	return out, out.Validate()
}

// Question is what Predict answers.
type Question struct {
	Changes   []Change
	Objective Objective
	// Measured is the capacity of the model as it is, if it was measured. The
	// prediction is multiplied by what it was off there, so that errors that
	// stay the same cancel. Without it the prediction stands on demands alone.
	Measured *stats.Interval
	// Error is that of such predictions, where it is known. Without Measured it counts for
	// nothing.
	Error ModelError
	// Seed of the draws behind the interval.
	Seed uint64
}

// ModelError is how far predictions of other topologies were off that were measured: the root
// mean square RMS of the logarithm of predicted ÷ measured, and the degrees of freedom DF from
// which it is known. The noise of what was measured is part of it. It is not known if DF is 0.
type ModelError struct {
	RMS float64 `json:"rms"`
	DF  int     `json:"df"`
}

// width is the logarithm of the upper end of the interval that the error alone makes, relative
// to its middle.
func (e ModelError) width() float64 {
	if e.DF == 0 {
		return 0
	}
	return e.RMS * e.student().Quantile((1+stats.Level)/2)
}

func (e ModelError) student() distuv.StudentsT { return distuv.StudentsT{Sigma: 1, Nu: float64(e.DF)} }

// Prediction is what a changed model sustains.
type Prediction struct {
	// Capacity is the highest rate at which the objective holds, in requests
	// per second. Its interval holds the uncertainty of the demands and of the
	// measured capacity and, where Error is there, that of the model itself.
	Capacity stats.Interval `json:"capacity"`
	// Error is the model's, if it is known and something was changed.
	Error *ModelError `json:"model_error,omitempty"`
	// Limit is the station that limits, its bound (instances × servers × speed
	// / demand), and its utilisation at capacity.
	Limit Limit `json:"limit"`
	// Sure is the share of draws in which it was that station.
	Sure float64 `json:"sure"`
	// Next would limit if Limit did not: its Capacity is what the system would
	// sustain then. It is nil if nothing else would.
	Next *Limit `json:"next,omitempty"`
	// Factor is Measured relative to the model without changes; 1 without Measured.
	Factor   float64  `json:"factor"`
	Warnings []string `json:"warnings,omitempty"`
}

// Limit is a station that limits.
type Limit struct {
	Station     string  `json:"station"`
	Bound       float64 `json:"bound"`    // requests per second
	Capacity    float64 `json:"capacity"` // requests per second under the objective
	Utilisation float64 `json:"utilisation"`
}

// draws is how many sets of demands an interval is made of: its ends then vary
// by a tenth of its width from seed to seed.
const draws = 400

// Predict says what the model sustains after the changes. Every demand is drawn
// from the lognormal distribution that its interval describes, independently;
// with all of them fixed there is no interval. A model that misses the
// objective even when idle has the capacity 0.
func Predict(m Model, q Question) (*Prediction, error) {
	changed, err := check(m, q)
	if err != nil {
		return nil, fmt.Errorf("predict: %w", err)
	}
	x, err := changed.capacity(q.Objective)
	if err != nil {
		return nil, fmt.Errorf("predict: %w", err)
	}
	p := &Prediction{Factor: 1, Capacity: Known(x)}
	if q.Measured != nil {
		base, err := m.capacity(q.Objective)
		if err != nil || base == 0 {
			return nil, errors.Join(errors.New("predict: the model as measured sustains nothing, so the measured capacity cannot correct it"), err)
		}
		p.Factor = q.Measured.Value / base
		p.Capacity = Known(x * p.Factor)
		if p.Factor < 0.7 || p.Factor > 1.1 {
			p.Warnings = append(p.Warnings, fmt.Sprintf(
				"where it was measured the model is off by a factor of %.2f: something limits that it does not know, or its demands are not those at capacity", p.Factor))
		}
	}
	if x == 0 {
		p.Warnings = append(p.Warnings, "the objective is missed even without load")
		return p, nil
	}
	p.Limit = changed.limit(x)
	p.Limit.Capacity = p.Capacity.Value
	p.Next = changed.next(p.Limit.Station, q.Objective, p.Factor)
	if p.Limit.Utilisation < 0.5 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s is only %.0f %% busy at capacity: the objective is so tight that variation of response decides, which the model knows less well than throughput",
			p.Limit.Station, 100*p.Limit.Utilisation))
	}
	if q.Measured != nil && q.Error.DF > 0 && !slices.Equal(changed.Stations, m.Stations) {
		p.Error = &q.Error
	}
	p.interval(m, q)
	return p, nil
}

func check(m Model, q Question) (Model, error) {
	o := q.Objective
	errs := []error{m.Validate()}
	if !(o.Share > 0 && o.Share < 1) {
		errs = append(errs, fmt.Errorf("the objective is for a share of %v of requests; it must lie between 0 and 1", o.Share))
	}
	if !(o.Seconds > 0) || math.IsInf(o.Seconds, 0) {
		errs = append(errs, fmt.Errorf("the objective is a time of %v s; it must be a finite number above 0", o.Seconds))
	}
	if q.Measured != nil {
		errs = append(errs, checkInterval(*q.Measured, "the measured capacity"))
		if q.Measured.Value == 0 {
			errs = append(errs, errors.New("the measured capacity is 0; leave it out if nothing was measured"))
		}
	}
	if e := q.Error; !(e.RMS >= 0) || math.IsInf(e.RMS, 0) || e.DF < 0 {
		errs = append(errs, fmt.Errorf("the model's error is %v with %d degrees of freedom; it must be a finite number from 0 up", e.RMS, e.DF))
	}
	if err := errors.Join(errs...); err != nil {
		return Model{}, err
	}
	return m.Apply(q.Changes)
}

// capacity is the highest rate at which the objective holds.
func (m Model) capacity(o Objective) (float64, error) {
	high := math.Inf(1)
	for _, s := range m.Stations {
		high = min(high, s.Bound())
	}
	if math.IsInf(high, 1) {
		return 0, errors.New("no station has any demand, so nothing limits the rate")
	}
	qs := m.queues()
	holds := func(rate float64) bool {
		return m.open(qs, rate).within(o.Seconds) >= o.Share
	}
	if !holds(0) {
		return 0, nil
	}
	low := 0.0
	for range 50 {
		mid := low + (high-low)/2
		if holds(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low, nil
}

// Bottleneck is the station with the lowest bound, of a model that has any.
func (m Model) Bottleneck() Station {
	return slices.MinFunc(m.Stations, func(a, b Station) int { return cmp.Compare(a.Bound(), b.Bound()) })
}

// limit is the bottleneck at a rate.
func (m Model) limit(rate float64) Limit {
	s := m.Bottleneck()
	b := s.Bound()
	return Limit{Station: s.Name, Bound: b, Utilisation: rate / b}
}

// next is what limits when the named station does not.
func (m Model) next(without string, o Objective, factor float64) *Limit {
	rest := Model{Stations: slices.Clone(m.Stations), Delay: m.Delay}
	rest.Stations = slices.DeleteFunc(rest.Stations, func(s Station) bool { return s.Name == without })
	x, err := rest.capacity(o)
	if err != nil {
		return nil
	}
	l := rest.limit(x)
	l.Capacity = x * factor
	return &l
}

// interval draws demands, predicts with each draw, and keeps the middle of them.
func (p *Prediction) interval(m Model, q Question) {
	r := rand.New(rand.NewPCG(q.Seed, 0x10ad))
	fixed, known := uncertain(m, q, p.Error)
	if fixed {
		p.Sure = 1
		return
	}
	if known != "" {
		p.Warnings = append(p.Warnings, known)
	}
	var xs []float64
	same := 0
	offs := q.offs(r, p.Error)
	for i := range draws {
		drawn := m.draw(r)
		x, limit := drawn.predict(q)
		if q.Measured != nil {
			base, _ := drawn.capacity(q.Objective) // its demands were checked
			if base == 0 {
				continue
			}
			x *= q.Measured.Value * math.Exp(offs[i]) / base
		}
		if limit == p.Limit.Station {
			same++
		}
		xs = append(xs, x)
	}
	if len(xs) == 0 {
		return
	}
	p.Sure = float64(same) / float64(len(xs))
	slices.Sort(xs)
	tail := (1 - stats.Level) / 2 * float64(len(xs)-1)
	p.Capacity.Low = min(p.Capacity.Value, xs[int(tail)])
	p.Capacity.High = max(p.Capacity.Value, xs[len(xs)-1-int(tail)])
	p.Capacity.Confidence = stats.Level
}

// offs are logarithms of what the correction may be off by, one for each draw: from the
// interval of the measured capacity or, if that makes the interval wider, from the model's
// error, which holds the noise of such measurements. Few topologies tell of it, so it has
// Student's distribution, whose ends are far out: its quantiles are taken, in random order.
func (q Question) offs(r *rand.Rand, e *ModelError) []float64 {
	out := make([]float64, draws)
	if q.Measured == nil {
		return out
	}
	sd := spread(*q.Measured)
	if e == nil || e.width() <= sd*distuv.UnitNormal.Quantile((1+stats.Level)/2) {
		for i := range out {
			out[i] = sd * r.NormFloat64()
		}
		return out
	}
	for i, at := range r.Perm(draws) {
		out[i] = e.RMS * e.student().Quantile((float64(at)+0.5)/draws)
	}
	return out
}

func (m Model) predict(q Question) (x float64, limit string) {
	changed, err := m.Apply(q.Changes)
	if err != nil {
		return 0, ""
	}
	x, err = changed.capacity(q.Objective)
	if err != nil {
		return 0, ""
	}
	return x, changed.limit(x).Station
}

// uncertain says whether every figure is fixed, and which of some are.
func uncertain(m Model, q Question, e *ModelError) (fixed bool, known string) {
	var without []string
	with := q.Measured != nil && q.Measured.Confidence > 0 || e != nil
	for _, s := range m.Stations {
		switch {
		case s.Demand.Confidence > 0:
			with = true
		case s.Demand.Value > 0:
			without = append(without, s.Name)
		}
	}
	if len(without) > 0 && with {
		known = fmt.Sprintf("demands without an interval count as exact: %v", without)
	}
	return !with, known
}

func (m Model) draw(r *rand.Rand) Model {
	out := Model{Stations: slices.Clone(m.Stations), Delay: draw(m.Delay, r)}
	for i, s := range m.Stations {
		out.Stations[i].Demand = draw(s.Demand, r)
	}
	return out
}

func draw(e stats.Interval, r *rand.Rand) stats.Interval {
	return Known(e.Value * math.Exp(spread(e)*r.NormFloat64()))
}
