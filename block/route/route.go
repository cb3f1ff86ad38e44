// Package route answers HTTP requests on fasthttp: it finds the handler of a path and
// method, turns the errors of handlers into answers, answers probes, counts, and
// survives panics.
//
// A handler returns an error and knows no status: an Error has a Code, and the
// system's one Table says which status, text and Retry-After that code has. All errors
// have one form, {"error":{"code","message"}}, and no cache may keep them.
//
// Routes is all of it together. Its parts, Errors, Requests and NotModified, can be
// used apart, by a handler that decides on paths itself. It owns no connections:
// those are package httpserver's.
package route

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
)

// Handler answers a request, or returns why it did not; then it has written nothing.
// The context of a request is not the fasthttp.RequestCtx, whose Done is the whole
// server's: a handler makes its own, with a deadline.
type Handler func(ctx *fasthttp.RequestCtx) error

// Config is what Routes need. All fields are required but for Failed.
type Config struct {
	Table Table
	// Ready reports whether ReadyPath should say so. It must be fast.
	Ready func() bool
	// Logger is told about panics.
	Logger *slog.Logger
	// Registerer receives the metrics, see Requests.
	Registerer prometheus.Registerer
	// Failed is told why a handler failed where the answer's status is 500 or more and does not
	// say that. It is called by many at a time.
	Failed func(err error)
}

// Routes answer a request with the handler of its path and method. Handlers are added
// before the first request and only read afterwards. Probes are not counted: they are
// not load.
type Routes struct {
	errors   Errors
	ready    func() bool
	requests *Requests
	failed   func(err error)
	exact    map[string]methods
	below    []prefix
}

// methods are the handlers of a path.
type methods map[string]Handler

// prefix is a path with something after it.
type prefix struct {
	path []byte
	methods
}

// New returns routes without handlers and registers their metrics. It panics if the
// table lacks an answer that every service needs.
func New(cfg Config) *Routes {
	for _, code := range []Code{Internal, NoSuchPath, MethodNotAllowed, NotReady, TooManyConnections, BadRequest} {
		if cfg.Table[code].Status == 0 {
			panic("route: the table has no answer for " + code)
		}
	}
	table := Prepare(cfg.Table)
	return &Routes{
		errors: table, ready: cfg.Ready, exact: make(map[string]methods),
		requests: NewRequests(table, cfg.Logger, cfg.Registerer), failed: cfg.Failed,
	}
}

// Add makes h answer requests for a path, and for all paths below one that ends in a
// slash. A path is taken as it was sent.
func (r *Routes) Add(method, path string, h Handler) {
	if !strings.HasSuffix(path, "/") {
		if r.exact[path] == nil {
			r.exact[path] = make(methods)
		}
		r.exact[path][method] = h
		return
	}
	for _, p := range r.below {
		if string(p.path) == path {
			p.methods[method] = h
			return
		}
	}
	r.below = append(r.below, prefix{[]byte(path), methods{method: h}})
}

// find returns who answers the path; nil if nobody does.
func (r *Routes) find(path []byte) methods {
	if m, ok := r.exact[string(path)]; ok {
		return m
	}
	for i := range r.below {
		if bytes.HasPrefix(path, r.below[i].path) {
			return r.below[i].methods
		}
	}
	return nil
}

// Handle answers one request. It does not panic.
func (r *Routes) Handle(ctx *fasthttp.RequestCtx) {
	path := ctx.URI().PathOriginal()
	if r.errors.Probe(ctx, path, r.ready) {
		return
	}
	r.requests.Begin()
	defer r.requests.End(ctx)
	m := r.find(path)
	if m == nil {
		r.errors[NoSuchPath].Write(ctx, 0)
		return
	}
	h, ok := m[string(ctx.Method())]
	if !ok {
		r.errors.NotAllowed(ctx, strings.Join(slices.Sorted(maps.Keys(m)), ", "))
		return
	}
	if err := h(ctx); err != nil {
		r.errors.Write(ctx, err)
		known, ok := errors.AsType[*Error](err)
		if r.failed != nil && ctx.Response.StatusCode() >= fasthttp.StatusInternalServerError && (!ok || known.Err != nil) {
			r.failed(err)
		}
	}
}

// BadRequest answers what could not be read as a request, see httpserver.Config. It
// does not panic.
func (r *Routes) BadRequest(ctx *fasthttp.RequestCtx, status int) { r.errors.Unreadable(ctx, status) }
