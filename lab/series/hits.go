package series

import (
	"slices"
	"strings"
	"time"

	"loadstone/lab/probe"
)

// HitRatio is the share of hits that one instance's cache counted over a span.
type HitRatio struct {
	// Name is what the counters' names have in common: results_cache for
	// results_cache_hits_total and results_cache_misses_total.
	Name  string
	Value float64
	Of    float64 // hits and misses in the span
}

// HitRatios finds pairs of counters X_hits_total and X_misses_total, by
// Prometheus' naming conventions, in the scrapes of one instance and works out
// how many of the look-ups between from and to were hits. Pairs that counted
// nothing in the span are left out.
func HitRatios(scrapes []probe.Scrape, instance string, from, to time.Time) []HitRatio {
	first, last := around(scrapes, instance, from, to)
	if first == nil || last == nil {
		return nil
	}
	var out []HitRatio
	for name, end := range last.Values {
		prefix, labels, ok := strings.Cut(name, "_hits_total")
		if !ok {
			continue
		}
		other := prefix + "_misses_total" + labels
		if _, ok := last.Values[other]; !ok {
			continue
		}
		hits := end - first.Values[name]
		misses := last.Values[other] - first.Values[other]
		if of := hits + misses; of > 0 {
			out = append(out, HitRatio{Name: prefix + labels, Value: hits / of, Of: of})
		}
	}
	slices.SortFunc(out, func(a, b HitRatio) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// around returns the last scrape before from, or the first after it, and the
// last before to.
func around(scrapes []probe.Scrape, instance string, from, to time.Time) (first, last *probe.Scrape) {
	for i := range scrapes {
		s := &scrapes[i]
		if s.Instance != instance || s.At.After(to) {
			continue
		}
		if first == nil || !s.At.After(from) {
			first = s
		}
		last = s
	}
	return first, last
}
