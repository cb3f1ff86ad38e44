package series

import (
	"math"
	"time"

	"loadstone/lab/probe"
)

// counters follow counters from scrape to scrape, each series by itself: one that fell
// began again at 0, whatever others that are added to it did; one that is new began at 0;
// and one that a scrape lacks, or has as no number, goes on from where it was seen last. The zero value has seen
// nothing.
type counters struct{ last map[string]float64 }

// begin says that all of them were 0.
func (c *counters) begin() { c.last = map[string]float64{} }

// add takes notice of a scrape, and calls grew with each series that it has and by how
// much that grew since it was seen last: 0 for all in the first scrape. ok is false if the
// scrape has none, of which nothing is known then.
func (c *counters) add(values map[string]float64, match func(series string) bool, grew func(series string, by float64)) (ok bool) {
	first := c.last == nil
	for series, v := range values {
		if !match(series) || math.IsNaN(v) {
			continue
		}
		if ok = true; c.last == nil {
			c.begin()
		}
		was := c.last[series]
		c.last[series] = v
		switch {
		case first:
			grew(series, 0)
		case v >= was:
			grew(series, v-was)
		default:
			grew(series, v)
		}
	}
	return ok
}

// growths is by how much each matching counter grew from the last scrape at or before the
// view's begin, or the first after it, to the last at or before its end, and how long that
// is. ok is false if there are no two such scrapes. absent says that a scrape without any
// of them counts: that all of them were 0.
func (v *View) growths(match func(series string) bool, absent bool) (by map[string]float64, took time.Duration, ok bool) {
	var first, last *probe.Scrape
	var c counters
	by = make(map[string]float64)
	for i := range v.Scrapes {
		s := &v.Scrapes[i]
		if s.Instance != v.Instance || s.At.After(v.To) {
			continue
		}
		has := c.add(s.Values, match, func(series string, n float64) { by[series] += n })
		if !has && (!absent || c.last != nil) {
			continue
		}
		if !has {
			c.begin()
		}
		if last = s; first == nil || !s.At.After(v.From) {
			first = s
			for series := range by {
				by[series] = 0
			}
		}
	}
	if first == nil || !last.At.After(first.At) {
		return nil, 0, false
	}
	return by, last.At.Sub(first.At), true
}

// Growth is by how much counters grew each second of the span, from the last scrape at or
// before its begin, or the first after it, to the last at or before its end. A counter
// that fell began again at 0. ok is false if there are no two such scrapes.
func (v *View) Growth(match func(series string) bool) (perSecond float64, ok bool) {
	by, took, ok := v.growths(match, false)
	if !ok {
		return 0, false
	}
	for _, n := range by {
		perSecond += n
	}
	return perSecond / took.Seconds(), true
}

// Steps is the view moved to whole steps of counters that grow in such, as those that are brought up to date at
// the end of each collection of garbage: from the last step at or before its begin to the first at or after its
// end. Where either is missing, the step that is nearest takes its place. ok is false if there are no two steps.
func (v *View) Steps(match func(series string) bool) (whole View, ok bool) {
	var c counters
	var before, from, to time.Time // before is the step before from
	for i := range v.Scrapes {
		s := &v.Scrapes[i]
		by := 0.0
		if s.Instance != v.Instance || !c.add(s.Values, match, func(_ string, n float64) { by += n }) || by <= 0 {
			continue
		}
		if from.IsZero() || !s.At.After(v.From) {
			before, from = from, s.At
		}
		if to = s.At; to.After(from) && !to.Before(v.To) {
			break
		}
	}
	if to.Equal(from) {
		from = before
	}
	whole = *v
	whole.From, whole.To = from, to
	return whole, !from.IsZero()
}

// WorkedOff is by how much counters grew after the view's begin while they grew
// without a pause: until the first two scrapes in a row between which they grew by
// less than quiet a second, or until the view's end. within is how long that took
// from its begin, in seconds. What grew before the first scrape in the view is
// not counted, so that nothing is from before it.
func (v *View) WorkedOff(match func(series string) bool, quiet float64) (grown, within float64) {
	var before *probe.Scrape
	var c counters
	for i := range v.Scrapes {
		s := &v.Scrapes[i]
		by := 0.0
		if !v.has(s) || !c.add(s.Values, match, func(_ string, n float64) { by += n }) {
			continue
		}
		if before != nil {
			if by <= quiet*s.At.Sub(before.At).Seconds() {
				break
			}
			grown, within = grown+by, s.At.Sub(v.From).Seconds()
		}
		before = s
	}
	return grown, within
}
