package load

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// recorder takes down what came of each request. It is split into shards, each
// under its own lock and shared by a part of the virtual users, so that the
// cores do not wait for each other; a histogram per user would cost 200 KiB
// each. What belongs to the measured part is decided by a request's intended
// time; what belongs to a window, by when it ended.
type recorder struct {
	from   time.Duration // where the measured part begins
	to     atomic.Int64  // and ends, in nanoseconds
	shards []shard
}

// shard is one part of a recorder.
type shard struct {
	mu        sync.Mutex
	total     *tally   // of the measured part
	window    *tally   // since the last rotation
	openEnded uint64   // arrivals of schedules that were sent and ended, or dropped
	_         [64]byte // keeps the next shard's lock out of this cache line
}

// tally is what a shard counts, once for the measured part and once for each
// window.
type tally struct {
	requests, failed, dropped, waited, late uint64

	inTime   uint64 // ended within the measured part, begun in the warm-up or not
	closed   uint64 // requests that came from no schedule
	status   [600]uint64
	failures [failureKinds]ErrorCount

	response, service *hdrhistogram.Histogram
	lateness          *hdrhistogram.Histogram // nil in windows
}

// The generator's lateness needs less room than a latency: up to ten seconds,
// two digits, about 20 KiB.
const (
	mostLateness   = 10 * time.Second
	latenessDigits = 2
)

// mostShards bounds what a recorder costs: a shard is about 0.7 MiB.
const mostShards = 4

func newRecorder(from, to time.Duration) *recorder {
	r := &recorder{from: from, shards: make([]shard, min(runtime.GOMAXPROCS(0), mostShards))}
	r.to.Store(int64(to))
	for i := range r.shards {
		r.shards[i].total = newTotal()
		r.shards[i].window = newTally()
	}
	return r
}

func newTally() *tally {
	return &tally{response: NewHistogram(), service: NewHistogram()}
}

func newTotal() *tally {
	t := newTally()
	t.lateness = hdrhistogram.New(1, mostLateness.Microseconds(), latenessDigits)
	return t
}

// ended records a request that was sent, by the user of the given index.
func (r *recorder) ended(index int, o *outcome) {
	response, service := microseconds(o.done-o.intended), microseconds(o.done-o.sent)
	s := &r.shards[index%len(r.shards)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.open {
		s.openEnded++
	}
	s.window.add(o, response, service)
	t := s.total
	if o.done >= r.from && int64(o.done) < r.to.Load() {
		t.inTime++ // whenever it was intended: this is throughput
	}
	if o.intended < r.from {
		return
	}
	t.add(o, response, service)
	if !o.open {
		t.closed++
	} else if !o.waited {
		record(t.lateness, min(microseconds(o.sent-o.intended), mostLateness.Microseconds()))
	}
	t.status[o.status]++
	if o.failed != succeeded {
		f := &t.failures[o.failed]
		if f.Count++; f.Count == 1 {
			f.Example = o.err.Error()
		}
	}
}

// dropped records an arrival that was never sent.
func (r *recorder) dropped(intended time.Duration) {
	s := &r.shards[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openEnded++
	s.window.dropped++
	if intended >= r.from {
		s.total.dropped++
	}
}

// add counts what windows and totals both count.
func (t *tally) add(o *outcome, response, service int64) {
	t.requests++
	if o.failed != succeeded || o.status >= 400 {
		t.failed++
	}
	if o.waited {
		t.waited++
	} else if o.open && o.sent-o.intended > LateAfter {
		t.late++
	}
	record(t.response, response)
	record(t.service, service)
}

// ofSchedules is how many arrivals of schedules have ended, or were dropped.
func (r *recorder) ofSchedules() uint64 {
	var n uint64
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		n += s.openEnded
		s.mu.Unlock()
	}
	return n
}

// completed is how many requests of the measured part have ended.
func (r *recorder) completed() uint64 {
	var n uint64
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		n += s.total.requests
		s.mu.Unlock()
	}
	return n
}

// rotate moves what happened since the last rotation into sum, which it empties
// first. spare is an empty tally and is left empty.
func (r *recorder) rotate(sum, spare *tally) *tally {
	sum.clear()
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		s.window, spare = spare, s.window
		s.mu.Unlock()
		sum.merge(spare)
		spare.clear()
	}
	return spare
}

// total returns the counts of the measured part. All users must have ended.
func (r *recorder) total() *tally {
	sum := newTotal()
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		sum.merge(s.total)
		s.mu.Unlock()
	}
	return sum
}

// merge adds what from counted.
func (t *tally) merge(from *tally) {
	t.requests += from.requests
	t.failed += from.failed
	t.dropped += from.dropped
	t.waited += from.waited
	t.late += from.late
	t.inTime += from.inTime
	t.closed += from.closed
	for i, n := range from.status {
		t.status[i] += n
	}
	for i := range from.failures {
		if t.failures[i].Count == 0 {
			t.failures[i].Example = from.failures[i].Example
		}
		t.failures[i].Count += from.failures[i].Count
	}
	// All histograms have the same bounds, so nothing can be lost.
	t.response.Merge(from.response)
	t.service.Merge(from.service)
	if t.lateness != nil && from.lateness != nil {
		t.lateness.Merge(from.lateness)
	}
}

// clear empties a window's tally.
func (t *tally) clear() {
	response, service := t.response, t.service
	response.Reset()
	service.Reset()
	*t = tally{response: response, service: service}
}

// microseconds rounds d to whole microseconds within a histogram's bounds.
func microseconds(d time.Duration) int64 {
	return min(max(int64(d+time.Microsecond/2)/int64(time.Microsecond), 0), longest)
}

const longest = int64(10 * time.Minute / time.Microsecond)

// record adds a value that is within the histogram's bounds.
func record(h *hdrhistogram.Histogram, v int64) {
	if err := h.RecordValue(v); err != nil {
		panic(fmt.Sprintf("load: a histogram refused %d, which is within its bounds: %v", v, err))
	}
}

// latency summarises a histogram.
func latency(h *hdrhistogram.Histogram) (Latency, error) {
	encoded, err := encode(h)
	if err != nil {
		return Latency{}, err
	}
	ms := func(quantile float64) float64 { return float64(h.ValueAtQuantile(quantile)) / 1000 }
	return Latency{
		P50: ms(50), P90: ms(90), P95: ms(95), P99: ms(99), P999: ms(99.9),
		Max: float64(h.Max()) / 1000, Mean: h.Mean() / 1000,
		Histogram: encoded,
	}, nil
}

// lateness summarises the generator's delays.
func lateness(h *hdrhistogram.Histogram) Lateness {
	ms := func(quantile float64) float64 { return float64(h.ValueAtQuantile(quantile)) / 1000 }
	return Lateness{P50: ms(50), P99: ms(99), Max: float64(h.Max()) / 1000}
}

// encode writes a histogram as one line of text.
func encode(h *hdrhistogram.Histogram) (string, error) {
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return "", fmt.Errorf("encode a histogram: %w", err)
	}
	return string(b), nil
}
