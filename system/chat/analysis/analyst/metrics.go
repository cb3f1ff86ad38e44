package analyst

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"loadstone/system/chat/analysis"
)

type metrics struct {
	labels               [analysis.Labels]prometheus.Counter
	dead, failures, shed prometheus.Counter
}

// newMetrics registers
//
//	chat_analysed_total                 messages by label, see package analysis
//	chat_analysis_dead_letters_total    messages that could not be read
//	chat_analysis_failures_total        chunks and texts that failed; a chunk is tried again
//	chat_analysis_summaries_shed_total  summaries for which too many waited for the language model
//	chat_analysis_lag_messages          gauge: messages that are published and not analysed
func newMetrics(registerer prometheus.Registerer, lag func() uint64) *metrics {
	auto := promauto.With(registerer)
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		dead:     counter("chat_analysis_dead_letters_total", "Messages that could not be analysed."),
		failures: counter("chat_analysis_failures_total", "Chunks of messages and texts of summaries that failed."),
		shed:     counter("chat_analysis_summaries_shed_total", "Summaries for which too many waited for the language model."),
	}
	byLabel := auto.NewCounterVec(prometheus.CounterOpts{Name: "chat_analysed_total", Help: "Messages that were analysed, by label."}, []string{"label"})
	for l := range analysis.Label(analysis.Labels) {
		m.labels[l] = byLabel.WithLabelValues(l.String())
	}
	auto.NewGaugeFunc(prometheus.GaugeOpts{Name: "chat_analysis_lag_messages", Help: "Messages that are published and not analysed."}, func() float64 {
		return float64(lag())
	})
	return m
}

func (m *metrics) count(c *chunk) {
	for l, n := range c.counted {
		m.labels[l].Add(float64(n))
	}
	m.dead.Add(float64(c.dead))
}
