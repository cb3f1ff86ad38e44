package cache

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// How loads end, in the order of outcomes.
const (
	kept = iota
	tooLarge
	absent
	failed
	panicked
)

var outcomes = [...]string{kept: "kept", tooLarge: "too_large", absent: "absent", failed: "failed", panicked: "panicked"}

// How refreshes end.
const (
	done = iota
	undone
	skipped
)

var refreshEnds = [...]string{done: "done", undone: "failed", skipped: "skipped"}

// Why the shared tier did not answer.
const (
	broken = iota
	down
	garbage
)

var failureReasons = [...]string{broken: "failed", down: "down", garbage: "garbage"}

// Why loads are refused.
const (
	full = iota
	late
)

var refusals = [...]string{full: "queue_full", late: "waited_too_long"}

// metrics collects one cache's numbers, all with the label cache. The label tier
// is memory, shared or loader.
//
//	cache_gets_total{tier,result}      look-ups in memory and shared: hit, miss; a look-up
//	                                   may miss both
//	cache_negative_hits_total{tier}    those hits that were "there is no such key"
//	cache_served_age_seconds{tier}     histogram: age of what was served
//	cache_served_age_max_seconds       gauge: the greatest age of what was ever served
//	cache_stale_served_total           values served that were older than SyncAfter
//	cache_loads_total{outcome}         loads: kept, too_large, absent, failed, panicked
//	cache_refreshes_total{outcome}     refreshes: done, failed, skipped (no place)
//	cache_rejected_total{reason}       loads refused: queue_full, waited_too_long
//	cache_shared_failures_total{reason} failed, down (not asked), garbage
//	cache_evictions_total              entries that had to make room or grew too old
//	cache_bytes, cache_limit_bytes     size of all entries in memory and its bound
//	cache_entries                      their number, expired ones partly included
//
// Misses of the last tier minus loads is what coalescing saved.
type metrics struct {
	misses, negative [len(sources)]atomic.Uint64
	served           [len(sources)]ageHistogram
	stale            atomic.Uint64

	loads     [len(outcomes)]prometheus.Counter
	refreshes [len(refreshEnds)]prometheus.Counter
	refused   [len(refusals)]prometheus.Counter
	failures  [len(failureReasons)]prometheus.Counter

	memory  func() reading // nil without the tier
	counted bool           // look-ups, by the owner

	descs descs
}

type descs struct {
	gets, negative, age, oldest, stale, evictions, bytes, limit, entries *prometheus.Desc
}

func newMetrics(name string) *metrics {
	label := prometheus.Labels{"cache": name}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, label)
	}
	m := &metrics{descs: descs{
		gets:      desc("cache_gets_total", "Look-ups in a tier.", "tier", "result"),
		negative:  desc("cache_negative_hits_total", "Hits that said that there is no such key.", "tier"),
		age:       desc("cache_served_age_seconds", "Age of what was served.", "tier"),
		oldest:    desc("cache_served_age_max_seconds", "Greatest age of what was ever served."),
		stale:     desc("cache_stale_served_total", "Values served whose refresh failed or took too long."),
		evictions: desc("cache_evictions_total", "Entries that had to make room or grew too old."),
		bytes:     desc("cache_bytes", "Size of all entries."),
		limit:     desc("cache_limit_bytes", "Bound of the size of all entries."),
		entries:   desc("cache_entries", "Number of entries."),
	}}
	counters := func(into []prometheus.Counter, name, help, key string, values []string) {
		for i, value := range values {
			into[i] = prometheus.NewCounter(prometheus.CounterOpts{
				Name: name, Help: help, ConstLabels: prometheus.Labels{"cache": label["cache"], key: value},
			})
		}
	}
	counters(m.loads[:], "cache_loads_total", "Loads by outcome.", "outcome", outcomes[:])
	counters(m.refreshes[:], "cache_refreshes_total", "Refreshes by outcome.", "outcome", refreshEnds[:])
	counters(m.refused[:], "cache_rejected_total", "Loads that were refused.", "reason", refusals[:])
	counters(m.failures[:], "cache_shared_failures_total", "Look-ups that the shared tier failed to answer.", "reason", failureReasons[:])
	return m
}

// rejected counts a refusal.
func (m *metrics) rejected(err error) {
	over, ok := errors.AsType[*OverloadError](err)
	switch {
	case !ok: // the cache ends: nothing was refused
	case over.Full:
		m.refused[full].Inc()
	default:
		m.refused[late].Inc()
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	d := m.descs
	if !m.counted { // its owner describes them
		ch <- d.gets
	}
	for _, desc := range []*prometheus.Desc{d.negative, d.age, d.oldest, d.stale, d.evictions, d.bytes, d.limit, d.entries} {
		ch <- desc
	}
	for _, c := range m.counters() {
		c.Describe(ch)
	}
}

func (m *metrics) counters() []prometheus.Counter {
	var all []prometheus.Counter
	for _, some := range [][]prometheus.Counter{m.loads[:], m.refreshes[:], m.refused[:], m.failures[:]} {
		all = append(all, some...)
	}
	return all
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	d := m.descs
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	var oldest int64
	for from, tier := range sources {
		oldest = max(oldest, m.served[from].most.Load())
		buckets, count, sum := m.served[from].read()
		ch <- prometheus.MustNewConstHistogram(d.age, count, sum, buckets, tier)
		if Source(from) == FromLoader {
			continue
		}
		if !m.counted {
			counter(d.gets, count, tier, "hit")
			counter(d.gets, m.misses[from].Load(), tier, "miss")
		}
		counter(d.negative, m.negative[from].Load(), tier)
	}
	gauge(d.oldest, (time.Duration(oldest) * time.Microsecond).Seconds())
	counter(d.stale, m.stale.Load())
	if m.memory != nil {
		now := m.memory()
		counter(d.evictions, now.evictions)
		gauge(d.bytes, float64(now.bytes))
		gauge(d.limit, float64(now.limit))
		gauge(d.entries, float64(now.entries))
	}
	for _, c := range m.counters() {
		c.Collect(ch)
	}
}

// ageBounds are the histogram's buckets in seconds: from "just loaded" to days,
// where ages that are configured lie.
var ageBounds = [...]float64{0.01, 0.1, 1, 5, 10, 30, 60, 300, 900, 3600, 21600, 86400}

// ageMicros is ageBounds in microseconds.
var ageMicros = func() (bounds [len(ageBounds)]int64) {
	for i, seconds := range ageBounds {
		bounds[i] = int64(seconds * 1e6)
	}
	return bounds
}()

// ageHistogram is a histogram of two atomic additions and a look at the greatest age,
// which seldom changes: hits are the hot path.
type ageHistogram struct {
	buckets [len(ageBounds) + 1]atomic.Uint64
	sum     atomic.Int64 // microseconds
	most    atomic.Int64 // microseconds
}

func (h *ageHistogram) observe(age int64) {
	i := 0
	for i < len(ageMicros) && age > ageMicros[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(age)
	for most := h.most.Load(); age > most && !h.most.CompareAndSwap(most, age); {
		most = h.most.Load()
	}
}

func (h *ageHistogram) read() (buckets map[float64]uint64, count uint64, sum float64) {
	buckets = make(map[float64]uint64, len(ageBounds))
	for i := range h.buckets {
		count += h.buckets[i].Load()
		if i < len(ageBounds) {
			buckets[ageBounds[i]] = count
		}
	}
	return buckets, count, (time.Duration(h.sum.Load()) * time.Microsecond).Seconds()
}
