package cluster

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var errTurning = errors.New("the epoch is another one, to which the server turns")

type metrics struct {
	stored, placed, republished, left, lost, filled, gone, epochs prometheus.Counter

	results *prometheus.CounterVec
}

// newMetrics registers
//
//	chat_messages_stored_total       messages that this server accepted: they are in Kafka
//	chat_messages_placed_total{by}   messages that this server gave their places: server, which had accepted
//	                                 them, or republisher, for a server that did not
//	chat_messages_left_total         accepted messages that were left to the republisher
//	chat_broadcast_lost_total        times that this server heard no longer what is said
//	chat_broadcast_filled_total      messages that it had missed and read from the history
//	chat_broadcast_gone_total        messages that it had missed and that were in the history no more
//	chat_epochs_total                times that it went on with another epoch
//	chat_results_total{topic}        results of analyses and summaries that it heard
func newMetrics(to prometheus.Registerer) *metrics {
	auto := promauto.With(to)
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	placed := auto.NewCounterVec(prometheus.CounterOpts{Name: "chat_messages_placed_total", Help: "Messages that got their places."}, []string{"by"})
	return &metrics{
		stored:      counter("chat_messages_stored_total", "Messages that became durable."),
		placed:      placed.WithLabelValues("server"),
		republished: placed.WithLabelValues("republisher"),
		left:        counter("chat_messages_left_total", "Accepted messages that were left to the republisher."),
		lost:        counter("chat_broadcast_lost_total", "Times that messages were heard no longer."),
		filled:      counter("chat_broadcast_filled_total", "Messages that were missed and read from the history."),
		gone:        counter("chat_broadcast_gone_total", "Messages that were missed and are in the history no more."),
		epochs:      counter("chat_epochs_total", "Times that another epoch began."),
		results:     auto.NewCounterVec(prometheus.CounterOpts{Name: "chat_results_total", Help: "Results that were heard."}, []string{"topic"}),
	}
}
