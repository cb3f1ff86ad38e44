package pool

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// The outcomes of a job that was begun.
const (
	done     = "done"
	panicked = "panicked"
)

// counts are the metrics of one pool, with its name as the label pool:
//
//	pool_size                  workers
//	pool_in_use                workers that do a job
//	pool_waiting               jobs in the queue and callers that wait for a place in it
//	pool_places                jobs that may be inside at one time; moves if adaptive
//	pool_wait_seconds_total    waited, by all, until a job began or was refused
//	pool_busy_seconds_total    worked, by all workers
//	pool_jobs_total            begun and ended, by outcome: done, panicked
//	pool_refused_total         by why: full, crowded, late
type counts struct {
	queued, running atomic.Int64
	waitedNanos     atomic.Int64
	busyNanos       atomic.Int64
	jobs            map[string]prometheus.Counter
	refused         map[string]prometheus.Counter
}

func newCounts(p *Pool) *counts {
	m := &counts{jobs: make(map[string]prometheus.Counter), refused: make(map[string]prometheus.Counter)}
	auto, labels := promauto.With(p.cfg.Registerer), prometheus.Labels{"pool": p.cfg.Name}
	gauge := func(name, help string, value func() float64) {
		auto.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value)
	}
	seconds := func(name, help string, nanos *atomic.Int64) {
		auto.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return time.Duration(nanos.Load()).Seconds() })
	}
	gauge("pool_size", "Workers.", func() float64 { return float64(p.size.Load()) })
	gauge("pool_in_use", "Workers that do a job.", func() float64 { return float64(m.running.Load()) })
	gauge("pool_waiting", "Jobs and callers that wait.", func() float64 { return float64(m.queued.Load() + p.calling.Load()) })
	gauge("pool_places", "Jobs that may be inside at one time.", func() float64 { return float64(p.places.places()) })
	seconds("pool_wait_seconds_total", "Waited until a job began or was refused.", &m.waitedNanos)
	seconds("pool_busy_seconds_total", "Worked.", &m.busyNanos)
	jobs := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "pool_jobs_total", Help: "Jobs that were begun and ended, by outcome.", ConstLabels: labels,
	}, []string{"outcome"})
	for _, outcome := range []string{done, panicked} {
		m.jobs[outcome] = jobs.WithLabelValues(outcome)
	}
	refused := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "pool_refused_total", Help: "Jobs that were refused, by why.", ConstLabels: labels,
	}, []string{"why"})
	for _, why := range []string{Full, Crowded, Late} {
		m.refused[why] = refused.WithLabelValues(why)
	}
	return m
}

func (m *counts) waited(d time.Duration) { m.waitedNanos.Add(int64(d)) }

func (m *counts) ended(outcome string, took time.Duration) {
	m.busyNanos.Add(int64(took))
	m.jobs[outcome].Inc()
}
