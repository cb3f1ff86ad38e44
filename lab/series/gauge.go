package series

import (
	"maps"
	"math"
	"slices"
	"time"

	"loadstone/lab/probe"
)

// View is what the scrapes of one instance say of a span.
type View struct {
	Scrapes  []probe.Scrape // of any instance, in order of time
	Instance string
	From, To time.Time
}

// has says whether a scrape is the instance's and within the span, from the question to
// the answer.
func (v *View) has(s *probe.Scrape) bool {
	return s.Instance == v.Instance && !s.At.Add(-s.Took).Before(v.From) && !s.At.After(v.To)
}

// Gauge is how a gauge of one instance stood over a span, at its scrapes.
type Gauge struct {
	Mean, First, Last float64
	Most              float64
	// Slope is by how much it grew each second: the least-squares line.
	Slope float64
	// Above is the share of scrapes in which it was above 0.
	Above float64
	// Scrapes is how many there were.
	Scrapes int
}

// Gauge works out a gauge; match picks its series, which are added up. A scrape in which
// one of them is no number does not have it. ok is false if no scrape in the span has it.
func (v *View) Gauge(match func(series string) bool) (g Gauge, ok bool) {
	var seconds, values []float64
	for i := range v.Scrapes {
		s := &v.Scrapes[i]
		if !v.has(s) {
			continue
		}
		if n, has := Total(s.Values, match); has {
			seconds, values = append(seconds, s.At.Sub(v.From).Seconds()), append(values, n)
		}
	}
	if len(values) == 0 {
		return Gauge{}, false
	}
	n := float64(len(values))
	meanT := 0.0
	for i, y := range values {
		g.Mean += y
		meanT += seconds[i]
		g.Most = max(g.Most, y)
		if y > 0 {
			g.Above++
		}
	}
	g.Mean, meanT, g.Above = g.Mean/n, meanT/n, g.Above/n
	g.Scrapes, g.First, g.Last = len(values), values[0], values[len(values)-1]
	var square, product float64
	for i, y := range values {
		square += (seconds[i] - meanT) * (seconds[i] - meanT)
		product += (seconds[i] - meanT) * (y - g.Mean)
	}
	if square > 0 {
		g.Slope = product / square
	}
	return g, true
}

// ShareAtLeast is the share of scrapes in which one gauge was at least as high
// as another, such as the slots in use as high as the size of their pool. ok is
// false if no scrape has both, or the other is 0.
func (v *View) ShareAtLeast(gauge, limit func(series string) bool) (share float64, ok bool) {
	n := 0.0
	for i := range v.Scrapes {
		s := &v.Scrapes[i]
		if !v.has(s) {
			continue
		}
		y, has := Total(s.Values, gauge)
		most, limited := Total(s.Values, limit)
		if !has || !limited || most <= 0 {
			continue
		}
		n++
		if y >= most {
			share++
		}
	}
	if n == 0 {
		return 0, false
	}
	return share / n, true
}

// Series are the names of the series that match and of which the instance told a number in
// the span, sorted.
func (v *View) Series(match func(series string) bool) []string {
	found := make(map[string]bool)
	for i := range v.Scrapes {
		if !v.has(&v.Scrapes[i]) {
			continue
		}
		for series, value := range v.Scrapes[i].Values {
			if match(series) && !math.IsNaN(value) {
				found[series] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Total adds up the series that match; ok is false if there are none, or if one is no
// number: the sum of the others is not the whole.
func Total(values map[string]float64, match func(series string) bool) (sum float64, ok bool) {
	for series, v := range values {
		if match(series) {
			sum, ok = sum+v, true
		}
	}
	if math.IsNaN(sum) {
		return 0, false
	}
	return sum, ok
}
