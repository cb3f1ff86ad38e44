package topics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metrics counts what a client writes. A request has records of several partitions, so the rate of
// records, or of offsets, says nothing about requests.
type metrics struct {
	requests prometheus.Counter
	records  *prometheus.CounterVec
}

var (
	_ kgo.HookBrokerWrite         = (*metrics)(nil)
	_ kgo.HookProduceBatchWritten = (*metrics)(nil)
)

// newMetrics registers
//
//	chat_kafka_produce_requests_total         requests with records that were sent to brokers
//	chat_kafka_produced_records_total{topic}  records that brokers took, by topic
func newMetrics(to prometheus.Registerer) *metrics {
	auto := promauto.With(to)
	return &metrics{
		requests: auto.NewCounter(prometheus.CounterOpts{Name: "chat_kafka_produce_requests_total", Help: "Requests with records that were sent to brokers."}),
		records:  auto.NewCounterVec(prometheus.CounterOpts{Name: "chat_kafka_produced_records_total", Help: "Records that brokers took."}, []string{"topic"}),
	}
}

// OnBrokerWrite counts a request.
func (m *metrics) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) { //nolint:revive // so kgo has it
	if err == nil && key == kmsg.Produce.Int16() {
		m.requests.Inc()
	}
}

// OnProduceBatchWritten counts the records of a partition in a request that was answered.
func (m *metrics) OnProduceBatchWritten(_ kgo.BrokerMetadata, topic string, _ int32, batch kgo.ProduceBatchMetrics) {
	m.records.WithLabelValues(topic).Add(float64(batch.NumRecords))
}
