package series

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"loadstone/lab/probe"
)

// HitRatio is the share of hits that one instance's cache counted over a span.
type HitRatio struct {
	// Name is what its counters have in common: results_cache for
	// results_cache_hits_total and results_cache_misses_total.
	Name  string
	Value float64
}

// HitRatios finds the caches of one instance in its scrapes and works out how many of
// the look-ups between from and to were hits. A cache is a pair of counters such as
// X_hits_total and X_misses_total, or X_cache_hit and X_cache_miss; or one counter with a
// label that tells results apart, hit and miss among them: X_gets_total{result="hit"}. Of
// such a counter everything else counts as no hit, also what the cache was not asked for.
// Caches that counted nothing in the span are left out.
func HitRatios(scrapes []probe.Scrape, instance string, from, to time.Time) []HitRatio {
	v := View{Scrapes: scrapes, Instance: instance, From: from, To: to}
	grown, _, ok := v.growths(func(series string) bool { _, result := lookup(series); return result != "" }, true)
	if !ok {
		return nil
	}
	caches := map[string]*lookups{}
	for name, n := range grown {
		cache, result := lookup(name)
		c := caches[cache]
		if c == nil {
			c = &lookups{}
			caches[cache] = c
		}
		c.add(result, n)
	}
	var out []HitRatio
	for name, c := range caches {
		if c.hit && c.miss && c.all > 0 {
			name, labels, _ := strings.Cut(name, " ")
			out = append(out, HitRatio{Name: name + labels, Value: c.hits / c.all})
		}
	}
	slices.SortFunc(out, func(a, b HitRatio) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// lookups are those of one cache.
type lookups struct {
	hit, miss bool // whether it counts such
	hits, all float64
}

// add counts n look-ups with a result. What is a hit says so: hit, hit_absent, HIT, hits.
func (l *lookups) add(result string, n float64) {
	l.all += n
	switch result = strings.ToLower(result); {
	case strings.HasPrefix(result, "hit"):
		l.hit, l.hits = true, l.hits+n
	case strings.HasPrefix(result, "miss"):
		l.miss = true
	}
}

var (
	pairForm   = regexp.MustCompile(`^(.*?)_?(hits?|miss|misses)(_total)?$`)
	resultForm = regexp.MustCompile(`\b(?:result|outcome|status)="([^"\\]*)",?`)
	// verbForm is what says no more than that a cache was asked.
	verbForm = regexp.MustCompile(`_(gets|requests|lookups|operations)?(_?total)?$`)
)

// lookup says which cache a series belongs to, its name and labels with a space between
// them, and which result it counts; none if it is of no cache.
func lookup(series string) (cache, result string) {
	name, labels, has := strings.Cut(series, "{")
	if has {
		labels = "{" + labels
	}
	if m := pairForm.FindStringSubmatch(name); m != nil {
		return m[1] + " " + labels, m[2]
	}
	m := resultForm.FindStringSubmatch(labels)
	if m == nil {
		return "", ""
	}
	labels = strings.Replace(strings.Replace(labels, m[0], "", 1), ",}", "}", 1)
	return verbForm.ReplaceAllString(name, "") + " " + strings.TrimPrefix(labels, "{}"), m[1]
}
