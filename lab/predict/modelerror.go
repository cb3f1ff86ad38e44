package predict

import (
	"math"
	"slices"

	"loadstone/lab/model/queueing"
	"loadstone/lab/result"
	"loadstone/lab/stats"
	"loadstone/lab/verdict"
)

// A prediction is off by more than trials scatter: by what the model does not know, and by
// what a component needs for a request elsewhere. How much that is, a run says itself if it has
// variants that differ in sizes alone: each of them is predicted from each other one, and was
// measured. What components need was told from the same variants, so it is rather too small.

// leastKnown is the fewest degrees of freedom from which an error is worth telling: with one,
// Student's distribution reaches from a quarter of the prediction to four times as much where
// predictions were off by a tenth.
const leastKnown = 2

// modelError is with which error a run's variants are predicted from each other, over all
// families of variants that differ in sizes alone, and which variants those are.
func modelError(r *result.Result, name string) (e queueing.ModelError, of []string) {
	var sum float64
	seen := make(map[string]bool)
	for i := range r.Variants {
		all, err := relatives(r, &r.Variants[i], name)
		if err != nil || slices.ContainsFunc(all, func(v *result.Variant) bool { return seen[v.Name] }) {
			continue
		}
		var family []*System
		for _, v := range all {
			seen[v.Name] = true
			if s, err := model(r, name, v.Name); err == nil && s.Measured != nil && len(s.unmodelled(v)) == 0 {
				family = append(family, s)
			}
		}
		squares := between(family)
		if len(squares) == 0 {
			continue
		}
		// Of n variants that are each compared with each other, n-1 comparisons are news.
		sum += float64(len(family)-1) * stats.Mean(squares)
		e.DF += len(family) - 1
		for _, s := range family {
			of = append(of, s.Variant)
		}
	}
	if e.DF < leastKnown {
		return queueing.ModelError{}, nil
	}
	e.RMS = math.Sqrt(sum / float64(e.DF))
	return e, of
}

// between are the squares of the logarithms by which variants are predicted wrongly from each
// other; none where that cannot be told of all.
func between(family []*System) (squares []float64) {
	for _, from := range family {
		for _, to := range family {
			if from == to {
				continue
			}
			x, ok := from.like(to)
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
		share := st.Speed * float64(st.Servers)
		c := queueing.Change{Station: st.Name, Instances: &st.Instances}
		if !st.Pool {
			c.CPUs = s.usable(Change{Service: st.Name, CPUs: &share})
		}
		cs = append(cs, c)
	}
	p, err := queueing.Predict(s.certain(), queueing.Question{
		Changes: cs, Objective: s.Objective, Measured: &stats.Interval{Value: s.Measured.Value},
	})
	if err != nil || !(p.Capacity.Value > 0) {
		return 0, false
	}
	return min(p.Capacity.Value, p.Limit.Bound), true // as Ask does
}

// unmodelled are the limits of a variant that are known and not in the model.
func (s *System) unmodelled(v *result.Variant) []verdict.Limit {
	if !v.Verdict.Decided() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(v.Verdict.Limits()), func(l verdict.Limit) bool { return l.Resource == verdict.CPU || s.hasPool(l) })
}
