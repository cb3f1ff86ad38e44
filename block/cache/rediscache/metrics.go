package rediscache

import "github.com/prometheus/client_golang/prometheus"

// operation is what Redis was asked to do.
type operation int

const (
	opGet operation = iota
	opPut
	opLease
)

var operations = [...]string{opGet: "get", opPut: "put", opLease: "lease"}

// String is the operation's name in metrics and errors.
func (o operation) String() string { return operations[o] }

// What became of writes.
const (
	written = iota
	outdated
	dropped
	lost
	unreachable
)

var writeEnds = [...]string{written: "written", outdated: "outdated", dropped: "dropped", lost: "failed", unreachable: "down"}

// What became of requests for a lease.
const (
	granted = iota
	found
	waitedOut
)

var leaseEnds = [...]string{granted: "granted", found: "found", waitedOut: "waited_out"}

// metrics collects one tier's numbers, all with the label cache:
//
//	cache_redis_errors_total{op}           calls that failed: get, put, lease
//	cache_redis_writes_total{outcome}      written, outdated (it had expired), dropped (the
//	                                       queue was full), failed, down (not tried)
//	cache_redis_leases_total{outcome}      granted, found (somebody else's load), waited_out
//	cache_redis_breaker_open               1 while Redis is not asked
//	cache_redis_breaker_opened_total       how often that began
//	cache_redis_queue_items, _queue_bytes  writes that wait
type metrics struct {
	errors [len(operations)]prometheus.Counter
	writes [len(writeEnds)]prometheus.Counter
	leases [len(leaseEnds)]prometheus.Counter
	opened prometheus.Counter
	all    []prometheus.Collector
}

func newMetrics(name string, t *Tier) *metrics {
	m := &metrics{}
	label := prometheus.Labels{"cache": name}
	counter := func(name, help string, labels prometheus.Labels) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels})
		m.all = append(m.all, c)
		return c
	}
	family := func(into []prometheus.Counter, name, help, key string, values []string) {
		for i, value := range values {
			into[i] = counter(name, help, prometheus.Labels{"cache": label["cache"], key: value})
		}
	}
	gauge := func(name, help string, read func() float64) {
		m.all = append(m.all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: label}, read))
	}
	family(m.errors[:], "cache_redis_errors_total", "Calls that failed.", "op", operations[:])
	family(m.writes[:], "cache_redis_writes_total", "Writes by outcome.", "outcome", writeEnds[:])
	family(m.leases[:], "cache_redis_leases_total", "Requests for a lease by outcome.", "outcome", leaseEnds[:])
	m.opened = counter("cache_redis_breaker_opened_total", "How often Redis was given up for a while.", label)
	gauge("cache_redis_breaker_open", "1 while Redis is not asked.", func() float64 {
		if t.breaker.isOpen() {
			return 1
		}
		return 0
	})
	gauge("cache_redis_queue_items", "Writes that wait.", func() float64 { return float64(len(t.queue)) })
	gauge("cache_redis_queue_bytes", "Their size.", func() float64 { return float64(t.queued.Load()) })
	return m
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(ch)
	}
}
