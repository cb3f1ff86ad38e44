package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"loadstone/system/results"
)

// outcome of a look-up, as a label.
type outcome string

// All outcomes.
const (
	found       outcome = "found"
	notFound    outcome = "not_found"
	unreachable outcome = "unavailable" // the database did not answer
	broken      outcome = "failed"      // it answered with an error
	abandoned   outcome = "abandoned"   // the caller left
)

// metrics of a store. All series exist from the start; the only label is closed:
//
//	results_postgres_queries_total{outcome}          found, not_found, unavailable, failed, abandoned
//	results_postgres_query_duration_seconds          a look-up, the wait for a connection included
//	results_postgres_revision                        of the data set, as the store knows it
//	results_postgres_state_age_seconds               since the database last said what it holds
//	results_postgres_pool_connections{state}         in_use, idle
//	results_postgres_pool_max_connections
//	results_postgres_pool_acquires_total             look-ups that got a connection
//	results_postgres_pool_waits_total                those of them that had to wait
//	results_postgres_pool_wait_seconds_total         how long, together
//	results_postgres_pool_abandoned_waits_total      look-ups that waited in vain
//	results_postgres_pool_opened_connections_total
type metrics struct {
	outcomes map[outcome]prometheus.Counter
	seconds  prometheus.Histogram

	queries *prometheus.CounterVec
	// registered are the collectors that are ours in the registry, and no other
	// store's.
	registered []prometheus.Collector
}

func newMetrics() *metrics {
	m := &metrics{
		outcomes: map[outcome]prometheus.Counter{},
		queries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "results_postgres_queries_total", Help: "Look-ups in the database, by outcome.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "results_postgres_query_duration_seconds",
			Help: "Time of a look-up in the database, the wait for a connection included.",
			// From below a query over loopback to the longest that is allowed.
			Buckets: []float64{
				50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3,
				100e-3, 250e-3, 500e-3, 1, 2, 3,
			},
		}),
	}
	for _, o := range []outcome{found, notFound, unreachable, broken, abandoned} {
		m.outcomes[o] = m.queries.WithLabelValues(string(o))
	}
	return m
}

// outcome tells what became of a look-up.
func (s *Store) outcome(ctx context.Context, err error) outcome {
	switch err = classify(ctx, err); {
	case err == nil:
		return found
	case errors.Is(err, results.ErrNotFound):
		return notFound
	case ctx.Err() != nil:
		return abandoned
	case errors.Is(err, results.ErrUnavailable):
		return unreachable
	}
	return broken
}

func (m *metrics) looked(o outcome, took time.Duration) {
	m.outcomes[o].Inc()
	m.seconds.Observe(took.Seconds())
}

func (m *metrics) register(r prometheus.Registerer, s *Store) error {
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	for _, c := range []prometheus.Collector{
		m.queries, m.seconds, poolCollector{s.stat},
		gauge("results_postgres_revision", "How often the data set has been corrected, as the store knows it.", func() float64 {
			state, _ := s.State()
			return float64(state.Revision)
		}),
		gauge("results_postgres_state_age_seconds", "Time since the database last said what it holds.", func() float64 {
			return time.Since(time.Unix(0, s.health.said.Load())).Seconds()
		}),
	} {
		if err := r.Register(c); err != nil {
			m.unregister(r)
			return err // the caller says what was tried
		}
		m.registered = append(m.registered, c)
	}
	return nil
}

func (m *metrics) unregister(r prometheus.Registerer) {
	for _, c := range m.registered {
		r.Unregister(c)
	}
}

// Descriptions of the pool's metrics; they never change.
var (
	poolConnections = prometheus.NewDesc("results_postgres_pool_connections", "Open connections, by state.", []string{"state"}, nil)
	poolMax         = prometheus.NewDesc("results_postgres_pool_max_connections", "The size of the pool.", nil, nil)
	poolAcquires    = prometheus.NewDesc("results_postgres_pool_acquires_total", "Connections handed out.", nil, nil)
	poolWaits       = prometheus.NewDesc("results_postgres_pool_waits_total", "Connections handed out after a wait.", nil, nil)
	poolWaited      = prometheus.NewDesc("results_postgres_pool_wait_seconds_total", "Time waited for connections.", nil, nil)
	poolAbandoned   = prometheus.NewDesc("results_postgres_pool_abandoned_waits_total", "Waits for a connection that ended without one.", nil, nil)
	poolOpened      = prometheus.NewDesc("results_postgres_pool_opened_connections_total", "Connections that were made.", nil, nil)
)

// poolCollector reads the pool when it is scraped.
type poolCollector struct{ stat func() *pgxpool.Stat }

// Describe implements prometheus.Collector.
func (poolCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		poolConnections, poolMax, poolAcquires, poolWaits, poolWaited, poolAbandoned, poolOpened,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c poolCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int32, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	counter := func(d *prometheus.Desc, value float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value)
	}
	s := c.stat()
	if s == nil { // the database is not open
		gauge(poolConnections, 0, "in_use")
		gauge(poolConnections, 0, "idle")
		gauge(poolMax, 0)
		for _, d := range []*prometheus.Desc{poolAcquires, poolWaits, poolWaited, poolAbandoned, poolOpened} {
			counter(d, 0)
		}
		return
	}
	gauge(poolConnections, s.AcquiredConns(), "in_use")
	gauge(poolConnections, s.IdleConns(), "idle")
	gauge(poolMax, s.MaxConns())
	counter(poolAcquires, float64(s.AcquireCount()))
	counter(poolWaits, float64(s.EmptyAcquireCount()))
	counter(poolWaited, s.EmptyAcquireWaitTime().Seconds())
	counter(poolAbandoned, float64(s.CanceledAcquireCount()))
	counter(poolOpened, float64(s.NewConnsCount()))
}
