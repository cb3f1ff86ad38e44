package predict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"loadstone/lab/model/queueing"
	"loadstone/lab/stats"

	"loadstone/lab/format"
)

// Schema names the version of Answer's JSON form.
const Schema = "loadstone.prediction/1"

// Question is what to predict.
type Question struct {
	Changes []Change
	// Users and Think, in seconds, ask for a closed system besides; 0 users ask
	// for none.
	Users int
	Think float64
	Seed  uint64
}

// Answer is a prediction.
type Answer struct {
	Schema    string   `json:"schema"`
	Run       string   `json:"run"`
	Variant   string   `json:"variant"`
	Unit      string   `json:"unit"`
	Changes   []string `json:"changes"`
	Objective string   `json:"objective,omitempty"` // as written
	// Measured is the capacity that was measured, without the changes; absent if
	// there is none, or it is but a lower bound.
	Measured *stats.Interval `json:"measured,omitempty"`
	// Capacity and what limits it, after the changes.
	queueing.Prediction
	// CorrectedBy are the variants that the correction, Factor, is from: those that are limited by what limits
	// after the changes, or Variant alone.
	CorrectedBy []string `json:"corrected_by,omitempty"`
	// Base is the capacity without the changes, corrected by the variants that are limited as it is: what Capacity is
	// a multiple of. Measured is of one variant and scatters.
	Base *float64 `json:"base,omitempty"`
	// Before is the same of the model without changes, not corrected.
	Before queueing.Limit `json:"before"`
	// Loads are the components at the predicted capacity.
	Loads  []Load  `json:"loads"`
	Closed *Closed `json:"closed,omitempty"`
	// Check is what was measured of the predicted topology, if it was.
	Check       *Check   `json:"check,omitempty"`
	Assumptions []string `json:"assumptions"`

	system *System
}

// Load is a component at the predicted capacity.
type Load struct {
	Name   string         `json:"name"`
	Size   string         `json:"size"` // "3 × 0.25 CPU"
	Demand stats.Interval `json:"demand_seconds"`
	// Idle is what each instance uses whatever the rate, in cores, where that is
	// known apart; Demand is then without it.
	Idle    float64 `json:"idle_cores,omitempty"`
	Bound   float64 `json:"bound"`
	Busy    float64 `json:"busy"` // share of the hottest instance's limit
	WasSize string  `json:"was_size,omitempty"`
}

// Closed is the system with a fixed number of users.
type Closed struct {
	queueing.Closed

	Think  float64         `json:"think"` // seconds
	Bounds queueing.Bounds `json:"bounds"`
}

// Ask predicts. Mistakes in the question are errors of one sentence.
func (s *System) Ask(q Question) (*Answer, error) {
	if err := CheckChanges(q.Changes); err != nil {
		return nil, err
	}
	a := &Answer{
		Schema: Schema, Run: s.Run, Variant: s.Variant, Unit: s.Unit, Objective: s.objective, Measured: s.Measured,
		Changes: []string{}, Assumptions: []string{},
	}
	for _, c := range q.Changes {
		a.Changes = append(a.Changes, c.String())
	}
	if err := s.enough(q.Changes); err != nil {
		return nil, err
	}
	before, err := queueing.Predict(s.certain(), queueing.Question{Objective: s.Objective})
	if err != nil {
		return nil, err
	}
	a.Before, a.system = before.Limit, s
	changed, err := s.Model.Apply(s.changes(q.Changes))
	if err != nil {
		return nil, err
	}
	by := s.as(changed)
	p, err := queueing.Predict(s.Model, queueing.Question{
		Changes: s.changes(q.Changes), Objective: s.Objective, Measured: by.measured, Error: s.Error, Seed: q.Seed,
	})
	if err != nil {
		return nil, err
	}
	a.Prediction, a.CorrectedBy, a.Base = *p, by.from, by.base
	a.clamp(s.Model, by.over)
	a.Warnings = append(slices.Clone(s.Warnings), p.Warnings...)
	if s.tooFew != "" && a.Error == nil {
		a.Warnings = append(a.Warnings, s.tooFew)
	}
	s.loads(a, changed)
	if q.Users > 0 {
		if a.Closed, err = closed(changed, q); err != nil {
			return nil, err
		}
	}
	s.machine(a, changed)
	s.unsure(a)
	s.assume(a, q.Changes)
	s.threads(a, q.Changes)
	return a, nil
}

// clamp takes back what is above the limit's bound: a correction above 1 is noise
// of the measurement, as nothing sustains more than its CPU allows, or by no more than where it
// was measured: the backlog of a rate that was sustained may grow a little. The interval may reach as far above the bound as the interval of the demand that it
// is from; or, where it holds the model's error, as it does: the bound may be what is wrong.
func (a *Answer) clamp(m queueing.Model, over float64) {
	bound := a.Limit.Bound * over
	top := bound
	for _, st := range m.Stations {
		if d := st.Demand; st.Name == a.Limit.Station && d.Confidence > 0 && d.Low > 0 {
			top *= d.Value / d.Low
		}
	}
	c := &a.Capacity
	if a.Error != nil {
		by := min(1, bound/c.Value)
		c.Value, c.Low, c.High = by*c.Value, by*c.Low, by*c.High
	} else {
		c.Value = min(c.Value, bound)
		c.Low, c.High = min(c.Low, c.Value), max(c.Value, min(c.High, top))
	}
	a.Limit.Capacity = min(a.Limit.Capacity, bound)
	if a.Next != nil {
		a.Next.Capacity = min(a.Next.Capacity, a.Next.Bound*over)
	}
}

// enough is an error if a share is no more than what an instance uses whatever
// the rate.
func (s *System) enough(cs []Change) error {
	for _, c := range cs {
		i := slices.IndexFunc(s.Model.Stations, func(st queueing.Station) bool { return st.Name == c.Service })
		if c.CPUs != nil && i >= 0 && *c.CPUs <= s.Model.Stations[i].Idle {
			return fmt.Errorf("%s: each instance of %s uses %s CPU whatever the rate, so that share leaves nothing for requests; write more",
				c, c.Service, format.Measured(s.Model.Stations[i].Idle))
		}
	}
	return nil
}

// certain is the model without the uncertainty of its demands, for an answer
// that needs no interval.
func (s *System) certain() queueing.Model {
	m := queueing.Model{Stations: slices.Clone(s.Model.Stations), Delay: s.Model.Delay}
	for i := range m.Stations {
		m.Stations[i].Demand = queueing.Known(m.Stations[i].Demand.Value)
	}
	return m
}

// loads are the components at the predicted capacity. Utilisation there is what
// demand says: the model's factor is about latency, not about CPU.
func (s *System) loads(a *Answer, changed queueing.Model) {
	for i, st := range changed.Stations {
		l := Load{Name: st.Name, Size: describe(st), Demand: st.Demand, Idle: st.Idle}
		if st.Demand.Value > 0 {
			l.Bound = st.Bound()
			idle := st.Idle / (st.Speed * float64(st.Servers))
			l.Busy = idle + (1-idle)*a.Capacity.Value/l.Bound
		}
		if was := describe(s.Model.Stations[i]); was != l.Size {
			l.WasSize = was
		}
		a.Loads = append(a.Loads, l)
	}
}

func closed(m queueing.Model, q Question) (*Closed, error) {
	c, err := m.Closed(q.Users, q.Think)
	if err != nil {
		return nil, err
	}
	b, err := m.Bounds(q.Users, q.Think)
	if err != nil {
		return nil, err
	}
	return &Closed{Closed: *c, Think: q.Think, Bounds: b}, nil
}

// nearlyFull is the share of a machine's cores from which on a system on it is
// limited by the machine.
const nearlyFull = 0.9

// machine warns where the measured machine could not carry the prediction.
func (s *System) machine(a *Answer, changed queueing.Model) {
	each, idle := s.Other, 0.0
	for _, st := range changed.Stations {
		if st.Pool {
			continue
		}
		each += st.Demand.Value
		idle += st.Idle * float64(st.Instances)
	}
	cores := idle + each*a.Capacity.Value
	if cores > nearlyFull*float64(s.Cores) {
		a.Warnings = append(a.Warnings, fmt.Sprintf(
			"the system and its load need %s cores at that rate, and the measured machine has %d: the prediction is for components that have their shares, and that machine would limit it first, at about %s %s",
			format.Measured(cores), s.Cores, format.Measured(max(0, float64(s.Cores)-idle)/each), s.Unit))
	}
}

// unsure warns if the limit is where no variant of the run had one.
func (s *System) unsure(a *Answer) {
	if busy := s.busiest[a.Limit.Station]; busy > 0 && busy < atLimit {
		a.Warnings = append(a.Warnings, fmt.Sprintf(
			"%s limits, and was %s busy at most where it was measured: at its limit it may need more or less for a request; a variant of the run in which it limits would tell",
			a.Limit.Station, format.Percent(busy)))
	}
}

// correction says what the correction rests on; nothing if there is none, or nothing is changed.
func (s *System) correction(a *Answer, cs []Change) string {
	same := fmt.Sprintf("by what the model was off in %s it is off with the changes too", strings.Join(a.CorrectedBy, ", "))
	switch {
	case a.Error != nil:
		return fmt.Sprintf("%s, to within %s as a rule, by which variants were off that were predicted from each other (%s): the interval allows for it",
			same, format.Percent(math.Expm1(a.Error.RMS)), strings.Join(s.compared, "; "))
	case s.Measured != nil && len(cs) > 0 && s.Error.DF == 0:
		return same + ": how nearly, is not in the interval, as it takes three variants, or two pairs, that differ in replicas and CPU shares alone and can be predicted from each other"
	default:
		return ""
	}
}

// assume says what the prediction rests on.
func (s *System) assume(a *Answer, cs []Change) {
	add := func(format string, args ...any) { a.Assumptions = append(a.Assumptions, fmt.Sprintf(format, args...)) }
	add("CPU per request stays what it was where it was measured, whatever the share of CPU")
	if text := s.correction(a, cs); text != "" {
		add("%s", text)
	}
	var more, fewer []string
	for _, c := range cs {
		if c.Replicas == nil {
			continue
		}
		i := slices.IndexFunc(s.Model.Stations, func(st queueing.Station) bool { return st.Name == c.Service })
		switch before := s.Model.Stations[i].Instances; {
		case *c.Replicas > before:
			more = append(more, c.Service)
		case *c.Replicas < before:
			fewer = append(fewer, c.Service)
		}
	}
	if len(more) > 0 {
		add("more replicas of %s cost the others nothing: connections, health checks and cache misses of each replica may raise their CPU per request", strings.Join(more, ", "))
	}
	if len(fewer) > 0 {
		add("fewer replicas of %s save the others nothing", strings.Join(fewer, ", "))
	}
	for i, st := range s.Model.Stations {
		if st.Skew > 1.02 && i < len(a.Loads) {
			add("the hottest instance of %s stays %s busier than the mean", st.Name, format.Percent(st.Skew-1))
		}
	}
	if len(s.unlimited) > 0 {
		add("%s had no CPU limit: each instance is taken to have all %d cores to itself", strings.Join(s.unlimited, ", "), s.Cores)
	}
	if len(s.component) > 0 {
		add("a request holds a slot of each pool as long as where it was measured, whatever is changed behind it; for users that time counts beside the CPU used meanwhile, which makes their response time too long")
	}
	add("nothing but CPU and the pools that the Compose file declares limits: no lock, disk or network that the run did not reach")
	add("arrivals without bursts, one visit of each request to each component")
	a.Assumptions = append(a.Assumptions, s.Assumptions...)
}
