package proxy

import (
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/valyala/fasthttp"

	"loadstone/block/cache"
	"loadstone/block/route"
	"loadstone/system/menu"
)

// What an answer about a menu has beside its body, as the menu servers give it.
var (
	headerVersion      = []byte(versionHeader)
	headerCacheControl = []byte(fasthttp.HeaderCacheControl)
	cacheControl       = []byte("public, no-cache")
)

const versionHeader = "X-Menu-Version"

// soon is when to try again after something failed that passes.
const soon = time.Second

// of is an error's code in the table.
func of(e *menu.Error) route.Code { return route.Code(e.Code) }

// answers is how each code is answered. What failed where is for the log.
var answers = route.Table{
	route.Internal:           {Status: http.StatusInternalServerError, Text: "the server made a mistake"},
	route.NoSuchPath:         {Status: http.StatusNotFound, Text: "there is nothing at this path; menus are at /api/menu/{id}"},
	route.MethodNotAllowed:   {Status: http.StatusMethodNotAllowed, Text: "this path has other methods, which Allow lists"},
	route.NotReady:           {Status: http.StatusServiceUnavailable, Code: "draining", Text: "the server is stopping"},
	route.TooManyConnections: {Status: http.StatusServiceUnavailable, Text: "too many connections are open; connect again after as many seconds as Retry-After says", RetryAfter: soon},
	route.BadRequest:         {Status: http.StatusBadRequest, Text: "this is not a valid HTTP request, or could be read in two ways"},
	route.RequestTimeout:     {Status: http.StatusRequestTimeout, Text: "the request took too long to arrive"},
	route.BodyTooLarge:       {Status: http.StatusRequestEntityTooLarge, Text: "the body is too large, and GET and HEAD have none"},
	route.HeadersTooLarge:    {Status: http.StatusRequestHeaderFieldsTooLarge, Text: "the request's line and headers are too large"},

	of(menu.ErrMalformedID): {Status: http.StatusBadRequest, Text: menu.ErrMalformedID.Message},
	of(menu.ErrNotFound):    {Status: http.StatusNotFound, Text: menu.ErrNotFound.Message},
	of(menu.ErrOverloaded):  {Status: http.StatusServiceUnavailable, Text: "too much is under way; try again after as many seconds as Retry-After says", RetryAfter: soon},
	of(menu.ErrUnavailable): {Status: http.StatusServiceUnavailable, Text: "the service behind this path does not answer, and a change that was sent may or may not have taken place; try again after as many seconds as Retry-After says", RetryAfter: soon},
}

// failed is the answer to a look-up or a request that no server answered.
func failed(err error) error {
	if over, ok := errors.AsType[*cache.OverloadError](err); ok {
		return &route.Error{Code: of(menu.ErrOverloaded), RetryAfter: over.RetryAfter, Err: err}
	}
	code := of(menu.ErrUnavailable)
	if e, ok := errors.AsType[*menu.Error](err); ok && answers[of(e)].Status != 0 {
		code = of(e)
	}
	return &route.Error{Code: code, Err: err}
}

// metrics are those of servers, by the label upstream: menus, or a route's prefix.
//
//	proxy_upstream_seconds         an attempt, until its answer began (routes) or was whole
//	proxy_upstream_errors_total    attempts without an answer, or with one that cannot be used
//	proxy_upstream_retries_total   second attempts
type metrics struct {
	seconds         *prometheus.HistogramVec
	errors, retries *prometheus.CounterVec
}

func newMetrics(to prometheus.Registerer) metrics {
	auto, by := promauto.With(to), []string{"upstream"}
	return metrics{
		seconds: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name: "proxy_upstream_seconds", Help: "Time of an attempt at a server.",
			Buckets: []float64{100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10},
		}, by),
		errors:  auto.NewCounterVec(prometheus.CounterOpts{Name: "proxy_upstream_errors_total", Help: "Attempts that failed."}, by),
		retries: auto.NewCounterVec(prometheus.CounterOpts{Name: "proxy_upstream_retries_total", Help: "Second attempts."}, by),
	}
}
