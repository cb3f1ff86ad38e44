package predict

import (
	"cmp"
	"math"
	"slices"

	"loadstone/lab/model/queueing"
	"loadstone/lab/result"
	"loadstone/lab/stats"
)

// A model is off by how near a component gets to its bound under the objective, which it knows less
// well than the bound. So a prediction is corrected by what it is off in the run's variants in which the same
// component limits, if they differ in sizes alone: of one variant, the trials' scatter is in it as well.

// off is what a variant was measured to sustain.
type off struct {
	variant  string
	limit    string  // the station that limits it
	model    float64 // relative to what the model says
	bound    float64 // relative to what the limit's demand allows
	measured stats.Interval
}

// off compares a variant with its model; ok is false if it was not measured or the model
// sustains nothing.
func (s *System) off() (o off, ok bool) {
	if s.Measured == nil {
		return o, false
	}
	p, err := queueing.Predict(s.certain(), queueing.Question{Objective: s.Objective})
	if err != nil || !(p.Capacity.Value > 0) {
		return o, false
	}
	x := s.Measured.Value
	return off{s.Variant, p.Limit.Station, x / p.Capacity.Value, x / p.Limit.Bound, *s.Measured}, true
}

// kin are the models of the run's variants that differ in sizes alone from v, v first, if all that limits
// them is in the model and they were measured. All are these variants, whether they have a model or not.
func kin(r *result.Result, name string, v *result.Variant) (all []*result.Variant, family []*System, err error) {
	all, err = relatives(r, v, name)
	for _, v := range all {
		if s, err := model(r, name, v.Name); err == nil && s.Measured != nil && len(s.unmodelled(v)) == 0 {
			family = append(family, s)
		}
	}
	return all, family, err
}

// correct lets a family correct each other: those of which the verdict names what limits the model, too.
func correct(family []*System) {
	var offs []off
	var who []*System
	for _, s := range family {
		if o, ok := s.off(); ok && slices.Contains(s.named, s.componentOf(o.limit)) {
			offs, who = append(offs, o), append(who, s)
		}
	}
	for _, s := range who {
		s.offs = offs
	}
}

// correction is what corrects predictions of a changed system.
type correction struct {
	measured *stats.Interval // what the variant would have been measured to sustain; nil if nothing was measured
	base     *float64        // its capacity without the changes, corrected likewise: what is predicted is a multiple of it
	over     float64         // by how much measured is more than CPU allows, 1 if it is not
	from     []string        // the variants that say so
}

// as corrects by what the model is off in the variants that are limited by what limits a changed model: by the median of the
// logarithms. What is not changed is what was measured. The interval is as wide as the widest of theirs.
func (s *System) as(changed queueing.Model) correction {
	own, ok := s.off()
	if !ok {
		return correction{measured: s.Measured, over: 1}
	}
	if slices.Equal(changed.Stations, s.Model.Stations) {
		c := combined(own, []off{own})
		c.base = &own.measured.Value
		return c
	}
	c := s.limitedBy(changed.Bottleneck().Name, own)
	c.base = &s.limitedBy(own.limit, own).measured.Value
	return c
}

// limitedBy is what corrects a model that the station limits.
func (s *System) limitedBy(station string, own off) correction {
	offs := slices.DeleteFunc(slices.Clone(s.offs), func(o off) bool { return o.limit != station })
	if len(offs) == 0 {
		offs = []off{own}
	}
	return combined(own, offs)
}

// combined corrects by the median of what variants are off.
func combined(own off, offs []off) correction {
	var models, bounds []float64
	var from []string
	for _, o := range offs {
		models, bounds = append(models, math.Log(o.model)), append(bounds, math.Log(o.bound))
		from = append(from, o.variant)
	}
	m := slices.MaxFunc(offs, func(a, b off) int { return cmp.Compare(wide(a.measured), wide(b.measured)) }).measured
	by := math.Exp(stats.Median(models).Value) / own.model * own.measured.Value / m.Value
	m.Value, m.Low, m.High = by*m.Value, by*m.Low, by*m.High
	return correction{measured: &m, over: max(1, math.Exp(stats.Median(bounds).Value)), from: from}
}

// wide is the ratio of an interval's ends, 1 if it has none.
func wide(e stats.Interval) float64 {
	if e.Confidence == 0 || !(e.Low > 0) {
		return 1
	}
	return e.High / e.Low
}
