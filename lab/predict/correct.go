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
	variant string
	limit   string  // the station that limits it
	model   float64 // relative to what the model says
	bound   float64 // relative to what the limit's demand allows
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
	return off{s.Variant, p.Limit.Station, s.Measured.Value / p.Capacity.Value, s.Measured.Value / p.Limit.Bound}, true
}

// kin are the models of the run's variants that differ in sizes alone from v, v first, if all that limits
// them is in the model and they were measured.
func kin(r *result.Result, name string, v *result.Variant) (all []*result.Variant, family []*System, err error) {
	all, err = relatives(r, v, name)
	for _, v := range all {
		if s, err := model(r, name, v.Name); err == nil && s.Measured != nil && len(s.unmodelled(v)) == 0 {
			family = append(family, s)
		}
	}
	return all, family, err
}

// corrected is model, with what corrects it.
func corrected(r *result.Result, name, variant string) (*System, error) {
	s, err := model(r, name, variant)
	if err != nil {
		return nil, err
	}
	v, err := find(r, variant)
	if err != nil {
		return nil, err
	}
	_, family, err := kin(r, name, v)
	if err != nil {
		return nil, err
	}
	if len(family) == 0 || family[0].Variant != s.Variant { // what limits it is not in the model
		return s, nil
	}
	for _, f := range family {
		if o, ok := f.off(); ok {
			s.offs = append(s.offs, o)
		}
	}
	return s, nil
}

// as is what s would have been measured to sustain if the model were off there by what it is off where the limit
// of the changed model limits, by how much that is more than CPU allows, 1 if it is not, and the variants
// that say so. What is not changed is what was measured.
func (s *System) as(changed queueing.Model) (measured *stats.Interval, over float64, from []string) {
	own, ok := s.off()
	if !ok {
		return s.Measured, 1, nil
	}
	offs := slices.DeleteFunc(slices.Clone(s.offs), func(o off) bool { return o.limit != bottleneck(changed) })
	if len(offs) == 0 || slices.Equal(changed.Stations, s.Model.Stations) {
		offs = []off{own}
	}
	var model, bound float64
	for _, o := range offs {
		model, bound = model+math.Log(o.model), bound+math.Log(o.bound)
		from = append(from, o.variant)
	}
	n := float64(len(offs))
	by := math.Exp(model/n) / own.model
	m := *s.Measured
	m.Value, m.Low, m.High = by*m.Value, by*m.Low, by*m.High
	return &m, max(1, math.Exp(bound/n)), from
}

// bottleneck is the station with the lowest bound.
func bottleneck(m queueing.Model) string {
	return slices.MinFunc(m.Stations, func(a, b queueing.Station) int { return cmp.Compare(a.Bound(), b.Bound()) }).Name
}
