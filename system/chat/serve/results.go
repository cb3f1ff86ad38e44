package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"loadstone/system/chat/topics"
)

// results are the newest totals of each stream that this server has heard of, where others analyse.
type results struct {
	mu     sync.Mutex
	newest map[int64]json.RawMessage
}

// countLag registers the metric that the analyst has where a server analyses by itself. It says what viewers see: a message
// waits in Kafka, or anywhere on its way through the analysis. Streams count in which somebody is, and whose totals were heard.
func (s *server) countLag(to prometheus.Registerer) {
	promauto.With(to).NewGaugeFunc(prometheus.GaugeOpts{Name: "chat_analysis_lag_messages", Help: "Messages of streams whose totals were heard that are published and not analysed."}, func() float64 {
		var lag uint64
		for _, room := range s.hub.Rooms() {
			var of struct {
				Next uint64 `json:"next"`
			}
			next, open := s.hub.Next(room)
			if open && json.Unmarshal(s.results.totals(room), &of) == nil && of.Next > 0 {
				lag += max(next, of.Next) - of.Next // it may have counted what Redis has lost
			}
		}
		return float64(lag)
	})
}

// heardResult is told of each result: what viewers of a stream are to be told.
func (s *server) heardResult(topic string, stream int64, value []byte) {
	if _, err := s.log.Stream(stream); err != nil {
		s.failed(fmt.Errorf("a record of %s cannot be read: %w", topic, err))
		return
	}
	if topic == topics.Analysis {
		s.results.put(stream, value)
	}
	s.hub.Announce(stream, value, false)
}

func (r *results) put(stream int64, value []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.newest == nil {
		r.newest = map[int64]json.RawMessage{}
	}
	r.newest[stream] = bytes.Clone(value) // not all that was fetched with it
}

// totals are those of a stream, or nil if none were heard of yet.
func (r *results) totals(stream int64) json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	if value := r.newest[stream]; value != nil {
		return value
	}
	return json.RawMessage("null")
}
