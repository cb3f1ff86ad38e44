package cache

import "github.com/prometheus/client_golang/prometheus"

// How loads end, in the order of outcomes.
const (
	kept = iota
	tooLarge
	failed
	panicked
)

var outcomes = [...]string{kept: "kept", tooLarge: "too_large", failed: "failed", panicked: "panicked"}

// reading is what the cache knows about itself at one moment.
type reading struct {
	hits, misses, evictions, bytes uint64
	entries                        int
	limit                          int64
}

// metrics collects one cache's numbers, all with the label cache:
//
//	cache_hits_total         look-ups answered from the cache
//	cache_misses_total       all other look-ups, those that waited for a load included
//	cache_loads_total        loads, by outcome: kept, too_large, failed, panicked;
//	                         misses minus loads is what coalescing saved
//	cache_evictions_total    entries that had to make room or grew too old
//	cache_bytes              size of all entries
//	cache_limit_bytes        its bound
//	cache_entries            number of entries, expired ones partly included
type metrics struct {
	loads [len(outcomes)]prometheus.Counter
	read  func() reading

	hits, misses, evictions, bytes, limit, entries *prometheus.Desc
}

func newMetrics(name string) *metrics {
	label := prometheus.Labels{"cache": name}
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, label) }
	m := &metrics{
		hits:      desc("cache_hits_total", "Look-ups answered from the cache."),
		misses:    desc("cache_misses_total", "Look-ups that were not in the cache."),
		evictions: desc("cache_evictions_total", "Entries that had to make room or grew too old."),
		bytes:     desc("cache_bytes", "Size of all entries."),
		limit:     desc("cache_limit_bytes", "Bound of the size of all entries."),
		entries:   desc("cache_entries", "Number of entries."),
	}
	for i, outcome := range outcomes {
		m.loads[i] = prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cache_loads_total", Help: "Loads by outcome.",
			ConstLabels: prometheus.Labels{"cache": name, "outcome": outcome},
		})
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.hits, m.misses, m.evictions, m.bytes, m.limit, m.entries} {
		ch <- d
	}
	for _, c := range m.loads {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	now := m.read()
	counter := func(d *prometheus.Desc, v uint64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	counter(m.hits, now.hits)
	counter(m.misses, now.misses)
	counter(m.evictions, now.evictions)
	gauge(m.bytes, float64(now.bytes))
	gauge(m.limit, float64(now.limit))
	gauge(m.entries, float64(now.entries))
	for _, c := range m.loads {
		c.Collect(ch)
	}
}
