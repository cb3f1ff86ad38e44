package series

import (
	"maps"
	"math"
	"slices"
	"time"

	"loadstone/lab/probe"
	"loadstone/lab/stats"
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

// points are the scrapes in the span that have a gauge, by their seconds from its begin. match
// picks its series, which are added up. A scrape in which one of them is no number does not have it.
func (v *View) points(match func(series string) bool) (seconds, values []float64) {
	for i := range v.Scrapes {
		s := &v.Scrapes[i]
		if !v.has(s) {
			continue
		}
		if n, has := Total(s.Values, match); has {
			seconds, values = append(seconds, s.At.Sub(v.From).Seconds()), append(values, n)
		}
	}
	return seconds, values
}

// Gauge works out a gauge; ok is false if no scrape in the span has it.
func (v *View) Gauge(match func(series string) bool) (g Gauge, ok bool) {
	seconds, values := v.points(match)
	if len(values) == 0 {
		return Gauge{}, false
	}
	n := float64(len(values))
	for _, y := range values {
		g.Mean += y
		g.Most = max(g.Most, y)
		if y > 0 {
			g.Above++
		}
	}
	g.Mean, g.Above = g.Mean/n, g.Above/n
	g.Scrapes, g.First, g.Last = len(values), values[0], values[len(values)-1]
	g.Slope, _ = stats.Slope(seconds, values, 0, 0)
	return g, true
}

// growsMuch is the share of what comes by which what is left grows that matters, as it is of the
// work in flight: see load.Trend.
const growsMuch = 0.02

// Behind says whether whoever takes from a queue falls behind: whether what it leaves undone at
// its commits grows, without doubt and by more than matters. left is a gauge of that, told once for
// each commit, and done a counter of what is committed. It returns what is left as a gauge.
//
// A commit is seen at the next scrape, and what came meanwhile is left as well. How long that is has a
// known variance, however few commits there are: scrapes of a probe.Source are from a half to one and a
// half of their mean interval apart, evenly, which makes it an eighth of the interval squared. Beside that, arrivals
// vary, by their number (Poisson), and who is busy for most of the time works off what came by chance only slowly.
func (v *View) Behind(left, done func(series string) bool) (g Gauge, behind bool) {
	rate, told := v.Growth(done)
	seconds, values := v.points(left)
	scraped, _ := v.points(done)
	if !told || len(values) < 3 || len(scraped) < 2 {
		return Gauge{}, false
	}
	between := (scraped[len(scraped)-1] - scraped[0]) / float64(len(scraped)-1)
	g, _ = v.Gauge(left)
	meanwhile := (rate + g.Slope) * between
	_, least := stats.Slope(seconds, values, meanwhile*meanwhile/8, rate)
	return g, least > 0 && g.Slope > growsMuch*(rate+g.Slope)
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
