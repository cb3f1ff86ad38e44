package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are those of all endpoints, by the label endpoint, a configured name.
//
//	webhook_behind_seconds     how long ago the endpoint was known to miss nothing: the age of the
//	                           oldest message that it has not got. Every sender has it, also
//	                           of endpoints that another sends to
//	webhook_attempt_seconds    tries, by outcome: delivered, refused, unavailable, gone
//	webhook_skipped_total      messages that were not sent, by reason: merged, given_up
type metrics struct {
	to      prometheus.Registerer
	attempt *prometheus.HistogramVec
	skipped *prometheus.CounterVec
}

func newMetrics(to prometheus.Registerer) *metrics {
	auto := promauto.With(to)
	return &metrics{
		to: to,
		attempt: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name: "webhook_attempt_seconds", Help: "Time of a try.", Buckets: []float64{5e-3, 25e-3, 0.1, 0.5, 1, 5, 15},
		}, []string{"endpoint", "outcome"}),
		skipped: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "webhook_skipped_total", Help: "Messages that were not sent: a newer one says the same (merged), or the endpoint refused them too long (given_up).",
		}, []string{"endpoint", "reason"}),
	}
}

// watch registers an endpoint, so that there is a zero before anything happens.
func (m *metrics) watch(name string, behind func() float64) {
	for _, reason := range []string{merged, givenUp} {
		m.skipped.WithLabelValues(name, reason)
	}
	promauto.With(m.to).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "webhook_behind_seconds", Help: "How long ago the endpoint was known to miss nothing.", ConstLabels: prometheus.Labels{"endpoint": name},
	}, behind)
}

// Reasons for not sending a message.
const (
	merged  = "merged"
	givenUp = "given_up"
)
