package commit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are those that New lists.
type metrics struct {
	refused prometheus.Counter
	busy    prometheus.Counter
	size    prometheus.Histogram
}

func newMetrics(r prometheus.Registerer, depth func() float64, capacity int) *metrics {
	auto := promauto.With(r)
	auto.NewGaugeFunc(prometheus.GaugeOpts{Name: "commit_queue_depth", Help: "Writes that wait to be committed."}, depth)
	auto.NewGaugeFunc(prometheus.GaugeOpts{Name: "commit_queue_capacity", Help: "Writes that may wait to be committed."},
		func() float64 { return float64(capacity) })
	return &metrics{
		refused: auto.NewCounter(prometheus.CounterOpts{Name: "commit_queue_refused_total", Help: "Writes for which the queue had no room."}),
		busy:    auto.NewCounter(prometheus.CounterOpts{Name: "commit_busy_seconds_total", Help: "Time in commits."}),
		size: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "commit_group_size", Help: "Writes that were committed together.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10), // to 512
		}),
	}
}
