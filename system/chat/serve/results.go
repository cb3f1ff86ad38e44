package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// results are the newest totals of each stream that this server has heard of, where others analyse.
type results struct {
	mu     sync.Mutex
	newest map[int64]json.RawMessage
}

// maxResult bounds a record of analysis-result, in bytes.
const maxResult = 8 << 10

var errResult = errors.New("a record of analysis-result cannot be read")

// heardResult is told of each record of analysis-result: what viewers are to be told, with its stream.
func (s *server) heardResult(value []byte) {
	var r struct {
		Stream int64  `json:"stream"`
		Type   string `json:"type"`
	}
	err := json.Unmarshal(value, &r)
	if err == nil && (r.Type != "totals" || len(value) > maxResult) {
		err = fmt.Errorf("it is %q, of %d bytes", r.Type, len(value))
	}
	if err == nil {
		_, err = s.log.Stream(r.Stream)
	}
	if err != nil {
		s.failed(fmt.Errorf("%w: %w", errResult, err))
		return
	}
	s.results.put(r.Stream, value)
	s.hub.Announce(r.Stream, value, false)
}

func (r *results) put(stream int64, value []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.newest == nil {
		r.newest = map[int64]json.RawMessage{}
	}
	r.newest[stream] = value
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
