package route

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/valyala/fasthttp"
)

// statuses are those that have a counter of their own, the most frequent first; the
// rest is "other", so that the label is closed.
var statuses = [...]int{200, 304, 201, 202, 404, 400, 403, 405, 408, 413, 422, 429, 431, 500, 503, 504}

// Requests counts requests, and answers those whose handler panicked.
//
//	http_requests_total             by status, see statuses
//	http_request_duration_seconds   from the whole request being read to the answer
//	                                being ready to be written
//	http_requests_in_flight
//	http_panics_total               each also counted as status 500
//
// The counters are looked up beforehand, as finding them by label costs more than the
// rest of a short request.
type Requests struct {
	inFlight atomic.Int64
	byStatus [len(statuses)]prometheus.Counter
	other    prometheus.Counter
	seconds  prometheus.Histogram
	panics   prometheus.Counter
	panicked *ErrorLog
	internal *Failure
}

// NewRequests registers the metrics. Panics are answered with Internal and logged, at
// most one in LogEvery, with its stack.
func NewRequests(errs Errors, logger *slog.Logger, to prometheus.Registerer) *Requests {
	auto := promauto.With(to)
	r := &Requests{
		seconds: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "http_request_duration_seconds", Help: "Time in the handler.",
			// From well below one look-up in memory to what a client would wait at most.
			Buckets: []float64{
				50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3,
				100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 30,
			},
		}),
		panics: auto.NewCounter(prometheus.CounterOpts{
			Name: "http_panics_total", Help: "Handlers that panicked.",
		}),
		panicked: NewErrorLog(logger, "a handler panicked"),
		internal: errs[Internal],
	}
	total := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "http_requests_total", Help: "Requests answered, by status.",
	}, []string{"status"})
	for i, status := range statuses {
		r.byStatus[i] = total.WithLabelValues(strconv.Itoa(status))
	}
	r.other = total.WithLabelValues("other")
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "http_requests_in_flight", Help: "Requests being handled.",
	}, func() float64 { return float64(r.inFlight.Load()) })
	return r
}

// Begin counts a request that is in flight from now on.
func (r *Requests) Begin() { r.inFlight.Add(1) }

// End counts the answer. It is to be deferred by whoever called Begin, itself, so that
// it meets a panic.
func (r *Requests) End(ctx *fasthttp.RequestCtx) {
	if p := recover(); p != nil {
		r.panics.Inc()
		ctx.Response.Reset()
		r.internal.Write(ctx, 0)
		r.panicked.Log("panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
	r.inFlight.Add(-1)
	r.Count(ctx.Response.StatusCode())
	r.seconds.Observe(time.Since(ctx.Time()).Seconds())
}

// Count counts an answer alone, for what was no request.
func (r *Requests) Count(status int) {
	for i := range statuses {
		if statuses[i] == status {
			r.byStatus[i].Inc()
			return
		}
	}
	r.other.Inc()
}
