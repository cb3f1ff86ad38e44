package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

// recorder takes down what came of each request. It is split into shards, one
// for each event loop, so that loops do not wait for each other. What belongs
// to the measured part is decided by a request's intended time; what belongs
// to a window, by when it ended.
//
// A shard holds what has happened since the last rotation only. Once a second
// its tallies are swapped for empty ones, which takes no time, and added up
// outside: recording costs one histogram entry and not two, and nobody merges
// histograms while a request waits.
type recorder struct {
	from   time.Duration // where the measured part begins
	to     atomic.Int64  // and ends, in nanoseconds
	steps  int
	checks int
	trips  int    // scenarios whose iterations are timed
	values int    // that are extracted as metrics
	aside  []bool // steps whose times are not among those of all
	shards []*shard

	// Owned by whoever rotates.
	spare  *tallies
	window *tallies // of the last rotation
	total  *tallies // of the measured part
}

// outcome is what came of one request.
type outcome struct {
	step                 int // in the recorder
	intended, sent, done time.Duration

	status     int          // 0 if failed
	unexpected bool         // the status is one of a failed request
	said       string       // how that answer begins, if it is to be explained
	failed     failure.Kind // why there is no status, or no use in it
	err        error        // the failure in words
	open       bool         // its time is that of a schedule
	waited     bool         // no user, or no connection, was free at its time
	wrote, got int64        // bytes
	unsent     bool         // no connection came free for it: it has no service time
	untimed    bool         // it is counted, and in no distribution
	always     bool         // it belongs to the measured part whenever it was intended
}

// shard is one part of a recorder.
type shard struct {
	recorder *recorder
	mu       sync.Mutex
	now      *tallies

	// Of the whole run.
	openEnded uint64 // iterations of schedules that ended, or were dropped
	completed uint64 // requests of the measured part
}

// tallies is what is counted between two rotations: for requests that were
// intended in the warm-up and for those that were intended after it.
type tallies struct {
	warm, measured sums
}

// sums is what requests add up to.
type sums struct {
	steps  []tally // by step; their histograms are made when they are needed
	checks []checkCount
	trips  []trip // by scenario that has journeys
	values []valueTally

	iterations, dropped uint64
	droppedLate         uint64 // of them, although a user was free
	arrivals            uint64 // of schedules, those dropped among them
	waited, late        uint64
	wrote, got          uint64 // of no single request
	failures            [failure.Kinds]load.ErrorCount
	refusals            map[int]string // by status; nil for none

	// Whenever they were intended: what was done in the measured part.
	requestsInTime, iterationsInTime uint64

	scheduled uint64 // requests sent at a schedule's time, or as soon as the generator could
	onTime    uint64 // of them, within a millisecond
	lateness  *hdrhistogram.Histogram
}

// tally is what the requests of one step add up to.
type tally struct {
	requests, failed  uint64
	wrote, got        uint64
	status            [600]uint32
	response, service *hdrhistogram.Histogram // nil until the first request
}

// trip is what the iterations of one scenario add up to, where one is more than a
// request.
type trip struct {
	iterations, broken uint64
	duration           *hdrhistogram.Histogram // nil until the first
	cache              cacheCount
}

// cacheCount is what users' caches answered: by themselves, after they had asked, and not.
type cacheCount struct{ hits, revalidated, fetched uint64 }

// checkCount is what came of one check.
type checkCount struct{ passed, failed uint64 }

// The generator's lateness needs less room than a latency: up to ten seconds,
// two digits, about 20 KiB.
const (
	maxLateness    = 10 * time.Second
	latenessDigits = 2
)

// newRecorder returns a recorder with so many shards.
func newRecorder(shards, steps, checks, trips, values int) *recorder {
	r := &recorder{steps: steps, checks: checks, trips: trips, values: values, aside: make([]bool, steps)}
	r.spare, r.window, r.total = r.newTallies(), r.newTallies(), r.newTallies()
	for range shards {
		r.shards = append(r.shards, &shard{recorder: r, now: r.newTallies()})
	}
	return r
}

func (r *recorder) newTallies() *tallies {
	return &tallies{warm: r.newSums(), measured: r.newSums()}
}

func (r *recorder) newSums() sums {
	return sums{
		steps: make([]tally, r.steps), checks: make([]checkCount, r.checks), trips: make([]trip, r.trips), values: make([]valueTally, r.values),
		lateness: hdrhistogram.New(1, maxLateness.Microseconds(), latenessDigits),
	}
}

// of returns the sums that something intended for a time belongs to.
func (s *shard) of(intended time.Duration) *sums {
	if intended < s.recorder.from {
		return &s.now.warm
	}
	return &s.now.measured
}

// inTime says whether something done at a time was done in the measured part.
func (r *recorder) inTime(done time.Duration) bool {
	return done >= r.from && int64(done) < r.to.Load()
}

// addRequest records a request that was sent.
func (s *shard) addRequest(o *outcome) {
	response, service := microseconds(o.done-o.intended), microseconds(o.done-o.sent)
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.of(o.intended)
	if o.always {
		sum = &s.now.measured
	}
	if s.recorder.inTime(o.done) {
		sum.requestsInTime++
	}
	if o.intended >= s.recorder.from || o.always {
		s.completed++
	}
	t := &sum.steps[o.step]
	t.wrote += uint64(o.wrote)
	t.got += uint64(o.got)
	t.requests++
	if o.failed != failure.None || o.unexpected {
		t.failed++
	}
	t.status[o.status]++
	if o.said != "" {
		sum.refused(o.status, o.said)
	}
	if t.response == nil {
		t.response, t.service = load.NewHistogram(), load.NewHistogram()
	}
	if !o.untimed {
		record(t.response, response)
		if !o.unsent {
			record(t.service, service)
		}
	}
	if o.open {
		sum.addLateness(o)
	}
	if o.failed != failure.None {
		f := &sum.failures[o.failed]
		if f.Count++; f.Count == 1 {
			f.Example = o.err.Error()
		}
	}
}

// refused keeps how an answer begins, if it is the first of its status.
func (s *sums) refused(status int, said string) {
	if s.refusals == nil {
		s.refusals = map[int]string{}
	}
	if _, known := s.refusals[status]; !known {
		s.refusals[status] = said
	}
}

// addBytes records bytes that belong to no single request.
func (s *shard) addBytes(now time.Duration, sent, received uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.of(now)
	sum.wrote += sent
	sum.got += received
}

// addLateness records how a request kept to its schedule.
func (s *sums) addLateness(o *outcome) {
	s.arrivals++
	if o.waited {
		s.waited++
		return
	}
	late := o.sent - o.intended
	if late > load.LateAfter {
		s.late++
	}
	s.scheduled++
	if late <= time.Millisecond {
		s.onTime++
	}
	record(s.lateness, min(microseconds(late), maxLateness.Microseconds()))
}

// addIteration records an iteration that ended. scheduled is as for addDrop.
func (s *shard) addIteration(scheduled, measured bool, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countIteration(scheduled, measured, now)
}

// addJourney is addIteration for one that is more than a request. began is when it was
// intended to.
func (s *shard) addJourney(number int, scheduled bool, began, now time.Duration, failed failure.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.countIteration(scheduled, began >= s.recorder.from, now).trips[number]
	t.iterations++
	if failed != failure.None {
		t.broken++
	}
	if t.duration == nil {
		t.duration = load.NewHistogram()
	}
	record(t.duration, microseconds(now-began))
}

// addCached records what a user's cache did for a request of a scenario.
func (s *shard) addCached(trip int, intended time.Duration, count func(*cacheCount)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count(&s.of(intended).trips[trip].cache)
}

// countIteration returns the sums that the iteration belongs to. mu is held.
func (s *shard) countIteration(scheduled, measured bool, now time.Duration) *sums {
	if scheduled {
		s.openEnded++
	}
	sum := &s.now.warm
	if measured {
		sum = &s.now.measured
	}
	sum.iterations++
	if s.recorder.inTime(now) {
		sum.iterationsInTime++
	}
	return sum
}

// addDrop records an arrival that was never sent. scheduled says that it is one
// of those that the observer counts when they are due, late that a user was free for it.
func (s *shard) addDrop(intended time.Duration, scheduled, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if scheduled {
		s.openEnded++
	}
	sum := s.of(intended)
	sum.dropped++
	sum.arrivals++
	if late {
		sum.droppedLate++
	}
}

// addCheck records a check of the answer to a request.
func (s *shard) addCheck(index int, intended time.Duration, holds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.of(intended).checks[index]
	if holds {
		p.passed++
	} else {
		p.failed++
	}
}

// endedArrivals is how many iterations of schedules have ended, or were dropped.
func (r *recorder) endedArrivals() uint64 {
	var n uint64
	for _, s := range r.shards {
		s.mu.Lock()
		n += s.openEnded
		s.mu.Unlock()
	}
	return n
}

// completed is how many requests of the measured part have ended.
func (r *recorder) completed() uint64 {
	var n uint64
	for _, s := range r.shards {
		s.mu.Lock()
		n += s.completed
		s.mu.Unlock()
	}
	return n
}

// rotate makes what happened since the last rotation the window, and adds it to
// the total.
func (r *recorder) rotate() {
	r.window.clear()
	for _, s := range r.shards {
		s.mu.Lock()
		s.now, r.spare = r.spare, s.now
		s.mu.Unlock()
		r.window.warm.merge(&r.spare.warm)
		r.window.measured.merge(&r.spare.measured)
		r.spare.clear()
	}
	r.total.measured.merge(&r.window.measured)
	r.total.warm.merge(&r.window.warm)
}

// merge adds what from counted.
func (s *sums) merge(from *sums) {
	for i := range from.steps {
		s.steps[i].merge(&from.steps[i])
	}
	for i := range from.checks {
		s.checks[i].passed += from.checks[i].passed
		s.checks[i].failed += from.checks[i].failed
	}
	for i := range from.trips {
		s.trips[i].merge(&from.trips[i])
	}
	for i := range from.values {
		s.values[i].merge(&from.values[i])
	}
	s.iterations += from.iterations
	s.dropped += from.dropped
	s.droppedLate += from.droppedLate
	s.arrivals += from.arrivals
	s.waited += from.waited
	s.late += from.late
	s.wrote += from.wrote
	s.got += from.got
	s.requestsInTime += from.requestsInTime
	s.iterationsInTime += from.iterationsInTime
	s.scheduled += from.scheduled
	s.onTime += from.onTime
	if from.scheduled > 0 {
		s.lateness.Merge(from.lateness)
	}
	for status, said := range from.refusals {
		s.refused(status, said)
	}
	for i := range from.failures {
		if s.failures[i].Count == 0 {
			s.failures[i].Example = from.failures[i].Example
		}
		s.failures[i].Count += from.failures[i].Count
	}
}

// merge adds what from counted. All histograms have the same bounds, so
// nothing can be lost.
func (t *tally) merge(from *tally) {
	if from.requests == 0 {
		return
	}
	t.count(from)
	if t.response == nil {
		t.response, t.service = load.NewHistogram(), load.NewHistogram()
	}
	t.response.Merge(from.response)
	t.service.Merge(from.service)
}

// count adds what from counted, without its times.
func (t *tally) count(from *tally) {
	t.requests += from.requests
	t.failed += from.failed
	t.wrote += from.wrote
	t.got += from.got
	for i, n := range from.status {
		t.status[i] += n
	}
}

// merge adds what from counted.
func (t *trip) merge(from *trip) {
	t.cache.hits += from.cache.hits
	t.cache.revalidated += from.cache.revalidated
	t.cache.fetched += from.cache.fetched
	if from.iterations == 0 {
		return
	}
	t.iterations += from.iterations
	t.broken += from.broken
	if t.duration == nil {
		t.duration = load.NewHistogram()
	}
	t.duration.Merge(from.duration)
}

// clear empties the tallies. Histograms stay, so that they are made once.
func (t *tallies) clear() {
	t.warm.clear()
	t.measured.clear()
}

func (s *sums) clear() {
	steps, checks, trips, values, lateness := s.steps, s.checks, s.trips, s.values, s.lateness
	if s.scheduled > 0 {
		lateness.Reset()
	}
	for i := range steps {
		if t := &steps[i]; t.requests > 0 {
			t.response.Reset()
			t.service.Reset()
			*t = tally{response: t.response, service: t.service}
		}
	}
	clear(checks)
	for i := range trips {
		t := &trips[i]
		if t.iterations > 0 {
			t.duration.Reset()
		}
		*t = trip{duration: t.duration}
	}
	for i := range values {
		values[i].clear()
	}
	*s = sums{steps: steps, checks: checks, trips: trips, values: values, lateness: lateness}
}

// all merges the steps into one, without the times of those that are aside.
func (s *sums) all(aside []bool) *tally {
	sum := &tally{response: load.NewHistogram(), service: load.NewHistogram()}
	for i := range s.steps {
		if aside[i] {
			sum.count(&s.steps[i])
		} else {
			sum.merge(&s.steps[i])
		}
	}
	return sum
}

// microseconds rounds d to whole microseconds within a histogram's bounds.
func microseconds(d time.Duration) int64 {
	return min(max(int64(d+time.Microsecond/2)/int64(time.Microsecond), 0), load.MaxLatency.Microseconds())
}

// record adds a value that is within the histogram's bounds.
func record(h *hdrhistogram.Histogram, v int64) {
	if err := h.RecordValue(v); err != nil {
		panic(fmt.Sprintf("load: a histogram refused %d, which is within its bounds: %v", v, err))
	}
}

// latenessOf summarises the generator's delays.
func (s *sums) latenessOf() load.Lateness {
	h := s.lateness
	ms := func(quantile float64) float64 { return float64(h.ValueAtQuantile(quantile)) / 1000 }
	l := load.Lateness{P50: ms(50), P99: ms(99), P999: ms(99.9), Max: float64(h.Max()) / 1000}
	if s.scheduled > 0 {
		l.WithinMs = float64(s.onTime) / float64(s.scheduled)
	}
	return l
}
