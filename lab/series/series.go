package series

import (
	"math"
	"slices"
	"time"

	"loadstone/lab/probe"
)

// Life is a time in which an instance ran. A life that began during the load
// has counters that were 0 at From.
type Life struct {
	From, To time.Time
	Began    bool // From is when its process began, and not just when watching did
}

// Instance is one instance of the service with its lives, in order.
type Instance struct {
	Name  string
	Lives []Life
}

// Second is a span of the load for which a figure is wanted.
type Second struct{ From, To time.Time }

const (
	// mostGap is the longest time between two scrapes of an instance over which
	// a counter is taken to have grown evenly: a few times the probe's interval
	// and one scrape that timed out. What grew over a longer one grew nobody
	// knows when. Who takes long to answer is asked less often, so what it took is added.
	mostGap = 2 * time.Second
	// leastKnown is the part of a second that has to be known of an instance
	// for the second to have a figure.
	leastKnown = 0.5
)

// Seconds works out a metric's figure for each second: NaN where it is a gap.
// found is false if no instance of the service ever published the metric.
func (m Metric) Seconds(scrapes []probe.Scrape, instances []Instance, seconds []Second) (figures []float64, found bool) {
	scrapes, instances = m.whole(scrapes, instances)
	figures = make([]float64, len(seconds))
	ran := make([]bool, len(seconds))
	for _, in := range instances {
		own := slices.DeleteFunc(slices.Clone(scrapes), func(s probe.Scrape) bool { return s.Instance != in.Name })
		found = found || slices.ContainsFunc(own, func(s probe.Scrape) bool { return told(s.Values, m.Selector.Matches) })
		var known []segment // of all lives, in order
		for _, l := range in.Lives {
			known = append(known, m.segments(own, l)...)
		}
		for i, s := range seconds {
			for len(known) > 0 && !known[0].to.After(s.From) {
				known = known[1:]
			}
			v, up := m.figure(known, in.Lives, s)
			if up {
				ran[i] = true
				figures[i] += v
			}
		}
	}
	for i := range figures {
		if !ran[i] || !found {
			figures[i] = math.NaN()
		}
	}
	return figures, found
}

// whole are the scrapes and the one instance that tell the metric for all of the service, if one does:
// it ran while any of them did. Else they are those in which each tells of itself.
func (m Metric) whole(scrapes []probe.Scrape, instances []Instance) ([]probe.Scrape, []Instance) {
	for _, in := range instances {
		own := slices.DeleteFunc(slices.Clone(scrapes), func(s probe.Scrape) bool { return !s.Whole || s.Instance != in.Name })
		if slices.ContainsFunc(own, func(s probe.Scrape) bool { return told(s.Values, m.Selector.Matches) }) {
			return own, []Instance{{Name: in.Name, Lives: together(instances)}}
		}
	}
	return slices.DeleteFunc(slices.Clone(scrapes), func(s probe.Scrape) bool { return s.Whole }), instances
}

// together are the times in which any of the instances ran. What is told of all of them does not
// begin at 0 with one.
func together(instances []Instance) []Life {
	var all, out []Life
	for _, in := range instances {
		all = append(all, in.Lives...)
	}
	slices.SortFunc(all, func(a, b Life) int { return a.From.Compare(b.From) })
	for _, l := range all {
		if n := len(out); n > 0 && !l.From.After(out[n-1].To) {
			if l.To.After(out[n-1].To) {
				out[n-1].To = l.To
			}
			continue
		}
		out = append(out, Life{From: l.From, To: l.To})
	}
	return out
}

// figure is one instance's share of a second, of which known has what is known.
// up is false if it did not run in it; the figure is NaN if it did and too little
// is known.
func (m Metric) figure(known []segment, lives []Life, s Second) (v float64, up bool) {
	var told, ran time.Duration
	for _, l := range lives {
		ran += max(0, overlap(l.From, l.To, s.From, s.To))
	}
	grown, weighted := 0.0, 0.0
	for _, seg := range known {
		if !seg.from.Before(s.To) {
			break
		}
		part := max(0, overlap(seg.from, seg.to, s.From, s.To))
		told += part
		grown += seg.growth * float64(part) / float64(seg.to.Sub(seg.from))
		weighted += seg.value * float64(part)
	}
	switch {
	case ran <= 0:
		return 0, false
	case float64(told) < leastKnown*float64(ran):
		return math.NaN(), true
	case m.As == Value:
		// A gauge of an instance that ran for a part of the second counts for
		// that part.
		return weighted / float64(told) * float64(ran) / float64(s.To.Sub(s.From)), true
	default:
		// What is not known of the second went on as what is.
		return grown * float64(ran) / float64(told) / s.To.Sub(s.From).Seconds(), true
	}
}

// segment is the time between two scrapes of one life.
type segment struct {
	from, to time.Time
	growth   float64 // of a counter
	value    float64 // of a gauge: as at its end
}

// end has the segment end with what a scrape told, and says whether that has the metric.
func (s *segment) end(m Metric, c *counters, values map[string]float64) bool {
	has := c.add(values, m.Selector.Matches, func(_ string, by float64) { s.growth += by })
	if m.As == Value {
		s.value, has = Total(values, m.Selector.Matches)
	}
	return has
}

// segments are those of one life. A scrape that lacks the metric says nothing of it, but
// for a counter that the life has not had yet: that has counted nothing.
func (m Metric) segments(own []probe.Scrape, l Life) []segment {
	var out []segment
	var c counters
	var before *probe.Scrape
	if l.Began {
		before = &probe.Scrape{At: l.From}
		c.begin()
	}
	had := false
	for i := range own {
		after := &own[i]
		if after.At.Before(l.From) || after.At.After(l.To) {
			continue
		}
		seg := segment{to: after.At}
		has := seg.end(m, &c, after.Values)
		switch had = had || has; {
		case !has && m.As == Value:
			before = after // until when nothing is known
			continue
		case !has && had:
			continue
		}
		if !has && c.last == nil {
			c.begin() // what appears later began in between
		}
		if before != nil && after.At.Sub(before.At) <= mostGap+before.Took+after.Took && after.At.After(before.At) {
			seg.from = before.At
			out = append(out, seg)
		}
		before = after
	}
	return toEnd(out, l)
}

// toEnd has the last segment of a life go on to its end, if that is near: an
// instance that was killed between two scrapes counted until then.
func toEnd(segments []segment, l Life) []segment {
	if len(segments) == 0 {
		return nil
	}
	last := segments[len(segments)-1]
	if rest := l.To.Sub(last.to); rest > 0 && rest <= mostGap {
		last.growth *= float64(rest) / float64(last.to.Sub(last.from))
		last.from, last.to = last.to, l.To
		segments = append(segments, last)
	}
	return segments
}

// told says whether there is a number of one of the series that match.
func told(values map[string]float64, match func(series string) bool) bool {
	for series, v := range values {
		if match(series) && !math.IsNaN(v) {
			return true
		}
	}
	return false
}

func overlap(a, b, c, d time.Time) time.Duration {
	if c.After(a) {
		a = c
	}
	if d.Before(b) {
		b = d
	}
	return b.Sub(a)
}
