package activity

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// What a request was for, and what became of it: the closed sets of labels.
const (
	operationPut = "put"
	operationGet = "get"

	outcomeDone        = "done"
	outcomeNotFound    = "not_found"
	outcomeInvalid     = "invalid"
	outcomeBusy        = "busy"
	outcomeUnavailable = "unavailable"
	outcomeFailed      = "failed"
)

// metrics are:
//
//	activities_requests_total{operation,outcome}   requests; see the constants above
//	activities_store_seconds{operation}            time in the store, of those that it answered
//	activities_synced                              1 if an activity is synced to disk before it is acknowledged, else 0
type metrics struct {
	requests map[[2]string]prometheus.Counter
	seconds  map[string]prometheus.Observer
}

func newMetrics(r prometheus.Registerer, synced bool) *metrics {
	auto := promauto.With(r)
	requests := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "activities_requests_total", Help: "Requests for activities.",
	}, []string{"operation", "outcome"})
	seconds := auto.NewHistogramVec(prometheus.HistogramOpts{
		Name: "activities_store_seconds", Help: "Time that the store of activities took.",
		// From a read in memory to the deadline of a request.
		Buckets: prometheus.ExponentialBucketsRange(50e-6, 5, 20),
	}, []string{"operation"})
	durable := auto.NewGauge(prometheus.GaugeOpts{
		Name: "activities_synced", Help: "1 if an activity is synced to disk before it is acknowledged, else 0.",
	})
	if synced {
		durable.Set(1)
	}
	m := &metrics{map[[2]string]prometheus.Counter{}, map[string]prometheus.Observer{}}
	for _, operation := range []string{operationPut, operationGet} {
		m.seconds[operation] = seconds.WithLabelValues(operation)
		for _, outcome := range []string{outcomeDone, outcomeNotFound, outcomeInvalid, outcomeBusy, outcomeUnavailable, outcomeFailed} {
			m.requests[[2]string{operation, outcome}] = requests.WithLabelValues(operation, outcome)
		}
	}
	return m
}

func (m *metrics) count(operation, outcome string) { m.requests[[2]string{operation, outcome}].Inc() }

func (m *metrics) took(operation string, since time.Time) {
	m.seconds[operation].Observe(time.Since(since).Seconds())
}
