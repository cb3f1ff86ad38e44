package httpapi

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/system/results/httpapi/guard"
)

// statuses are all that this package answers with: the label status is closed.
var statuses = [...]int{
	fasthttp.StatusOK, fasthttp.StatusNotModified, fasthttp.StatusBadRequest, fasthttp.StatusForbidden,
	fasthttp.StatusNotFound, fasthttp.StatusMethodNotAllowed, fasthttp.StatusTooManyRequests, fasthttp.StatusRequestTimeout, fasthttp.StatusRequestEntityTooLarge,
	fasthttp.StatusRequestHeaderFieldsTooLarge, fasthttp.StatusInternalServerError, fasthttp.StatusServiceUnavailable,
}

// metrics count all requests but probes. Those of Decide are its caller's.
//
//	http_requests_total              by status, see statuses
//	http_request_duration_seconds    from the whole request being read to the
//	                                 answer being ready to be written
//	http_requests_in_flight
//	http_panics_total                each also counted as status 500
//	results_store_failures_total     each also counted as status 503, but for those
//	                                 of Decide
//	results_refused_total            by reason: rate_limited, locked_out (each
//	                                 also counted as status 429), embargoed (403),
//	                                 overloaded (503); pages' (Decide) included
//	results_guard_forgotten_total    by table: addresses, pairs, ids; entries
//	                                 that still counted and made room, see
//	                                 package guard; only with limits
//
// A histogram's observation is a handful of atomic additions; the counters
// are looked up beforehand, as finding them by label costs more than the rest
// of a request.
type metrics struct {
	inFlight atomic.Int64
	byStatus [len(statuses)]prometheus.Counter
	seconds  prometheus.Histogram
	panics   prometheus.Counter
	failures prometheus.Counter
	refused  [reasons]prometheus.Counter

	requests *prometheus.CounterVec
	refusals *prometheus.CounterVec
	gauge    prometheus.GaugeFunc
}

func newMetrics() *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "http_requests_total", Help: "Requests answered, by status.",
		}, []string{"status"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "http_request_duration_seconds", Help: "Time in the handler.",
			// From well below one look-up to what a client would wait at most.
			Buckets: []float64{
				50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3,
				100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10,
			},
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "http_panics_total", Help: "Handlers that panicked.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "results_store_failures_total", Help: "Look-ups that failed, not counting unknown ids.",
		}),
	}
	m.refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "results_refused_total", Help: "Requests refused before a result was looked up or shown, by reason.",
	}, []string{"reason"})
	for i, name := range reasonNames {
		m.refused[i] = m.refusals.WithLabelValues(name)
	}
	for i, status := range statuses {
		m.byStatus[i] = m.requests.WithLabelValues(fmt.Sprint(status))
	}
	m.gauge = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "http_requests_in_flight", Help: "Requests being handled.",
	}, func() float64 { return float64(m.inFlight.Load()) })
	return m
}

// register registers all metrics; g may be nil.
func (m *metrics) register(r prometheus.Registerer, g *guard.Guard) error {
	all := []prometheus.Collector{m.requests, m.refusals, m.seconds, m.panics, m.failures, m.gauge}
	if g != nil {
		all = append(all,
			forgotten("addresses", func() uint64 { n, _, _ := g.Forgotten(); return n }),
			forgotten("pairs", func() uint64 { _, n, _ := g.Forgotten(); return n }),
			forgotten("ids", func() uint64 { _, _, n := g.Forgotten(); return n }),
		)
	}
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return err // the caller says what was tried
		}
	}
	return nil
}

func forgotten(table string, value func() uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "results_guard_forgotten_total", Help: "Entries of the limits' tables that still counted and made room for others.",
		ConstLabels: prometheus.Labels{"table": table},
	}, func() float64 { return float64(value()) })
}

// reason is why a request was refused.
type reason int

const (
	rateLimited reason = iota
	lockedOut
	embargoed
	overloaded
	reasons // how many there are
)

// reasonNames are the values of the label, and the codes of the errors, but for
// overloaded, which is unavailable to the client.
var reasonNames = [reasons]string{"rate_limited", "locked_out", "embargoed", "overloaded"}

// answered counts an answer. statuses begins with the most frequent one.
func (m *metrics) answered(status int) {
	for i := range statuses {
		if statuses[i] == status {
			m.byStatus[i].Inc()
			return
		}
	}
}

// logEvery is the shortest time between two log lines of one kind. A store that
// is down fails every request; the lines would drown all others.
const logEvery = 10 * time.Second

// throttle lets one event through in a while and counts the others.
type throttle struct {
	every time.Duration

	mu      sync.Mutex
	next    time.Time
	dropped int
}

// allow reports whether an event at now may pass, and how many did not since
// the last that did.
func (t *throttle) allow(now time.Time) (dropped int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.next) {
		t.dropped++
		return 0, false
	}
	dropped, t.dropped = t.dropped, 0
	t.next = now.Add(t.every)
	return dropped, true
}
