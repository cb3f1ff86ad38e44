package serve

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/system/patterns"
)

// statuses are those that have a counter of their own; the rest is "other", so that
// the label is closed.
var statuses = [...]int{200, 201, 202, 400, 404, 405, 413, 500, 503, 504}

// routes answer a request with the handler of its method and path, and count.
//
//	http_requests_total             by status, see statuses
//	http_request_duration_seconds   from the whole request being read to the answer
//	                                being ready to be written
//	http_requests_in_flight
//	http_panics_total               each also counted as status 500
//
// Routes are added before the server runs and only read afterwards.
type routes struct {
	exact    map[string]map[string]fasthttp.RequestHandler // by path, by method
	prefixes []prefix
	ready    func() bool
	logger   *slog.Logger

	inFlight atomic.Int64
	requests *prometheus.CounterVec
	byStatus map[int]prometheus.Counter
	other    prometheus.Counter
	seconds  prometheus.Histogram
	panics   prometheus.Counter
}

// prefix is a path with something after it.
type prefix struct {
	path     []byte
	byMethod map[string]fasthttp.RequestHandler
}

func newRoutes() *routes {
	r := &routes{
		exact:    make(map[string]map[string]fasthttp.RequestHandler),
		byStatus: make(map[int]prometheus.Counter),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "http_requests_total", Help: "Requests answered, by status.",
		}, []string{"status"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "http_request_duration_seconds", Help: "Time in the handler.",
			// From a hit in memory to a service that has been taken down.
			Buckets: []float64{100e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 30},
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "http_panics_total", Help: "Handlers that panicked.",
		}),
	}
	for _, status := range statuses {
		r.byStatus[status] = r.requests.WithLabelValues(strconv.Itoa(status))
	}
	r.other = r.requests.WithLabelValues("other")
	return r
}

func (r *routes) register(to prometheus.Registerer) error {
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "http_requests_in_flight", Help: "Requests being handled.",
	}, func() float64 { return float64(r.inFlight.Load()) })
	for _, c := range []prometheus.Collector{r.requests, r.seconds, r.panics, gauge} {
		if err := to.Register(c); err != nil {
			return fmt.Errorf("register metrics of requests: %w", err)
		}
	}
	return nil
}

// add makes h answer requests for exactly this path.
func (r *routes) add(method, path string, h fasthttp.RequestHandler) {
	if r.exact[path] == nil {
		r.exact[path] = make(map[string]fasthttp.RequestHandler)
	}
	r.exact[path][method] = h
}

// addPrefix makes h answer requests for all paths that begin so.
func (r *routes) addPrefix(method, path string, h fasthttp.RequestHandler) {
	for _, p := range r.prefixes {
		if string(p.path) == path {
			p.byMethod[method] = h
			return
		}
	}
	r.prefixes = append(r.prefixes, prefix{[]byte(path), map[string]fasthttp.RequestHandler{method: h}})
}

// find returns who answers the path, by method; nil if nobody does.
func (r *routes) find(path []byte) map[string]fasthttp.RequestHandler {
	if m, ok := r.exact[string(path)]; ok {
		return m
	}
	for _, p := range r.prefixes {
		if bytes.HasPrefix(path, p.path) {
			return p.byMethod
		}
	}
	return nil
}

// handle answers one request. It does not panic. Probes are not counted: they are
// not load.
func (r *routes) handle(ctx *fasthttp.RequestCtx) {
	path := ctx.URI().PathOriginal()
	switch string(path) {
	case "/healthz":
		patterns.Answer(ctx, fasthttp.StatusOK, []byte(`{"status":"ok"}`))
		return
	case "/readyz":
		if !r.ready() {
			patterns.Busy(ctx, time.Second, "not_ready", "the service is starting or stopping")
			return
		}
		patterns.Answer(ctx, fasthttp.StatusOK, []byte(`{"status":"ok"}`))
		return
	}
	began := time.Now()
	r.inFlight.Add(1)
	defer r.done(ctx, began)
	byMethod := r.find(path)
	if byMethod == nil {
		patterns.Fail(ctx, fasthttp.StatusNotFound, "no_such_path", "there is nothing at this path, or its pattern is off")
		return
	}
	h, ok := byMethod[string(ctx.Method())]
	if !ok {
		ctx.Response.Header.Set(fasthttp.HeaderAllow, methods(byMethod))
		patterns.Fail(ctx, fasthttp.StatusMethodNotAllowed, "method_not_allowed", "this path has no such method, or its pattern is off")
		return
	}
	h(ctx)
}

// methods are those of a path, as Allow lists them.
func methods(byMethod map[string]fasthttp.RequestHandler) string {
	return strings.Join(slices.Sorted(maps.Keys(byMethod)), ", ")
}

// done counts a request, and answers it if its handler panicked.
func (r *routes) done(ctx *fasthttp.RequestCtx, began time.Time) {
	if p := recover(); p != nil {
		r.panics.Inc()
		r.logger.Error("a handler panicked", "panic", fmt.Sprint(p))
		ctx.Response.Reset()
		patterns.Fail(ctx, fasthttp.StatusInternalServerError, "internal", "the server made a mistake")
	}
	r.inFlight.Add(-1)
	r.seconds.Observe(time.Since(began).Seconds())
	if c, ok := r.byStatus[ctx.Response.StatusCode()]; ok {
		c.Inc()
		return
	}
	r.other.Inc()
}

// badRequest answers what could not be read as a request, and with 503 who is one
// connection too many.
func badRequest(ctx *fasthttp.RequestCtx, status int) {
	if status == fasthttp.StatusServiceUnavailable {
		patterns.Busy(ctx, time.Second, "too_many_connections", "too many connections are open; connect again after as many seconds as Retry-After says")
		return
	}
	patterns.Fail(ctx, status, "bad_request", "this is no request that this service can read")
}
