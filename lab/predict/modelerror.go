package predict

import (
	"math"
	"slices"
	"strings"

	"loadstone/lab/model/queueing"
	"loadstone/lab/result"
	"loadstone/lab/stats"
	"loadstone/lab/verdict"
)

// A prediction is off by more than trials scatter: by what the model does not know, and by
// what a component needs for a request elsewhere. How much that is, a run says itself if it has
// variants that differ in sizes alone: each of them is predicted from each other one, as if it had not
// been run, and was measured. With one variant less known the error is rather too large.

// leastKnown is the fewest degrees of freedom from which an error is worth telling: with one,
// Student's distribution reaches from a third of the prediction to more than three times as much
// where predictions were off by a tenth.
const leastKnown = 2

// modelError is with which error a run's variants are predicted from each other, over all
// families of variants that differ in sizes alone, and of which variants each of these is.
func modelError(r *result.Result, name string) (e queueing.ModelError, compared []string) {
	var sum float64
	seen := make(map[string]bool)
	for i := range r.Variants {
		if seen[r.Variants[i].Name] {
			continue
		}
		all, family, err := kin(r, name, &r.Variants[i])
		if err != nil || slices.ContainsFunc(all, func(v *result.Variant) bool { return seen[v.Name] }) {
			continue
		}
		for _, v := range all {
			seen[v.Name] = true
		}
		var names []string
		for _, s := range family {
			names = append(names, s.Variant)
		}
		squares := between(r, family)
		if len(squares) == 0 {
			continue
		}
		// Of n variants that are each compared with each other, n-1 comparisons are news.
		sum += float64(len(family)-1) * stats.Mean(squares)
		e.DF += len(family) - 1
		compared = append(compared, strings.Join(names, ", "))
	}
	if e.DF < leastKnown {
		return queueing.ModelError{}, nil
	}
	e.RMS = math.Sqrt(sum / float64(e.DF))
	return e, compared
}

// between are the squares of the logarithms by which variants are predicted wrongly from each
// other; none where that cannot be told of all.
func between(r *result.Result, family []*System) (squares []float64) {
	for _, to := range family {
		// Without those that are the same system again, too.
		others := *r
		others.Variants = slices.DeleteFunc(slices.Clone(r.Variants), func(v result.Variant) bool {
			return v.Name == to.Variant || !slices.ContainsFunc(family, func(s *System) bool { return s.Variant == v.Name })
		})
		if len(others.Variants) == 0 {
			return nil
		}
		_, known, err := kin(&others, to.Run, &others.Variants[0])
		if err != nil || len(known) != len(family)-1 {
			return nil
		}
		correct(known)
		for _, s := range known {
			x, ok := s.like(to)
			if !ok {
				return nil
			}
			off := math.Log(x / to.Measured.Value)
			squares = append(squares, off*off)
		}
	}
	return squares
}

// like is the capacity that is predicted of a system with the sizes of another; ok is false if
// none can be.
func (s *System) like(o *System) (x float64, ok bool) {
	var cs []queueing.Change
	for i, st := range o.Model.Stations {
		if i >= len(s.Model.Stations) || s.Model.Stations[i].Name != st.Name {
			return 0, false
		}
		was := s.Model.Stations[i]
		c := queueing.Change{Station: st.Name}
		if st.Instances != was.Instances {
			c.Instances = &st.Instances
		}
		if share := st.Speed * float64(st.Servers); !st.Pool && share != was.Speed*float64(was.Servers) {
			c.CPUs = s.usable(Change{Service: st.Name, CPUs: &share})
		}
		cs = append(cs, c)
	}
	changed, err := s.Model.Apply(cs)
	if err != nil {
		return 0, false
	}
	c := s.as(changed)
	p, err := queueing.Predict(s.certain(), queueing.Question{Changes: cs, Objective: s.Objective, Measured: &stats.Interval{Value: c.measured.Value}})
	if err != nil || !(p.Capacity.Value > 0) {
		return 0, false
	}
	return min(p.Capacity.Value, p.Limit.Bound*c.over), true // as Ask does
}

// unmodelled are the limits of a variant that are known and not in the model.
func (s *System) unmodelled(v *result.Variant) []verdict.Limit {
	if !v.Verdict.Decided() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(v.Verdict.Limits()), func(l verdict.Limit) bool { return l.Resource == verdict.CPU || s.hasPool(l) })
}
