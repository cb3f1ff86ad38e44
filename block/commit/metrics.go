package commit

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those that New lists.
type metrics struct {
	refused prometheus.Counter
	busy    prometheus.Counter
	size    prometheus.Histogram
}

func newMetrics(r prometheus.Registerer, depth func() float64, capacity int) (*metrics, error) {
	m := &metrics{
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "commit_queue_refused_total", Help: "Writes for which the queue had no room."}),
		busy:    prometheus.NewCounter(prometheus.CounterOpts{Name: "commit_busy_seconds_total", Help: "Time in commits."}),
		size: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "commit_group_size", Help: "Writes that were committed together.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10), // to 512
		}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.refused, m.busy, m.size,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "commit_queue_depth", Help: "Writes that wait to be committed."}, depth),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "commit_queue_capacity", Help: "Writes that may wait to be committed."},
			func() float64 { return float64(capacity) }),
	} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}
