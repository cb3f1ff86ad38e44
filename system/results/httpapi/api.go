// Package httpapi answers HTTP requests for students' results from a store.
//
//	GET, HEAD /student/{id}   a student's result
//	GET, HEAD /healthz        200 while the process is alive
//	GET, HEAD /readyz         200 while it should be sent requests, else 503
//
// It holds the interface and no data: the store owns those, and the server owns
// connections and their limits. Errors are JSON, {"error":{"code","message"}},
// and are never to be stored by caches.
//
// # What a student is asked for
//
// In mode Code, the default, a page is opened by the student's access code, in
// the header X-Access-Code or else in ?code=. The header is the better place:
// addresses end up in logs and histories. Letters may be small or capital, and
// spaces and dashes do not count, for people copy codes from paper.
//
// A missing or wrong code is answered exactly as an unknown id, byte for byte
// but for the date, so the answer does not tell which ids exist. The comparison
// takes the same time, too: it always runs, for an unknown id with a code
// nobody has, and over a fixed number of bytes. What remains is the store's own
// difference between finding and not finding: a database does not read and encode a
// row that is not there, some microseconds; and with a cache before the store, a
// known id is found faster the second time, as not-found is not cached. Who must
// hide that serves from a snapshot without a cache, where the two differ by
// a fraction of a microsecond.
//
// # What a request costs
//
// The path of a found page is the same work for every one of them, so it is
// written to add little to what fasthttp itself does: routing by prefix,
// headers from ready bytes, metrics resolved beforehand, no allocation.
// BenchmarkStudent and BenchmarkBare measure it, and BenchmarkSnapshot in package
// serve measures the whole service.
package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/system/results"
)

// Config is what an API needs. All fields are required.
type Config struct {
	Store results.Store
	// Access is what opens a page.
	Access Access
	// Ready reports whether /readyz should say so. It must be fast.
	Ready func() bool
	// Logger is told about failures of the store and panics, at most one of
	// each kind in ten seconds, with the number of those left out.
	Logger *slog.Logger
	// Registerer receives the metrics, see Metrics.
	Registerer prometheus.Registerer
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if c.Store == nil || c.Ready == nil || c.Logger == nil || c.Registerer == nil {
		errs = append(errs, errors.New("httpapi: a store, a readiness function, a logger or a registerer is missing"))
	}
	if err := c.Access.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// API answers requests. It is safe for concurrent use.
type API struct {
	store   results.Store
	locked  bool // pages need a code
	ready   func() bool
	logger  *slog.Logger
	metrics *metrics

	notFound, malformed []byte
	cacheControl        []byte

	failures, panics throttle
}

// New returns an API and registers its metrics.
func New(cfg Config) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	a := &API{
		store:   cfg.Store,
		locked:  cfg.Access == Code,
		ready:   cfg.Ready,
		logger:  cfg.Logger.With("component", "httpapi"),
		metrics: newMetrics(),
		// A public page may be kept a minute by anyone: results do not change
		// by the second. One behind a code may be kept by its reader, who must
		// ask whether it still holds, code in hand.
		cacheControl: []byte("public, max-age=60"),
		notFound:     errorBody(results.ErrNotFound.Code, results.ErrNotFound.Message),
		malformed:    errorBody(results.ErrMalformedID.Code, results.ErrMalformedID.Message),
		failures:     throttle{every: logEvery},
		panics:       throttle{every: logEvery},
	}
	if a.locked {
		a.cacheControl = []byte("private, no-cache")
		a.notFound = errorBody(results.ErrNotFound.Code, "no student has this id and access code")
	}
	if err := a.metrics.register(cfg.Registerer); err != nil {
		return nil, fmt.Errorf("register metrics of the API: %w", err)
	}
	return a, nil
}

var studentPath = []byte("/student/")

const (
	healthPath = "/healthz"
	readyPath  = "/readyz"
)

// Handle answers one request. It does not panic.
//
// The path is taken as it was sent. A decoded or shortened one would give each
// page many addresses, and whoever keeps pages by address would keep them
// many times.
func (a *API) Handle(ctx *fasthttp.RequestCtx) {
	path := ctx.URI().PathOriginal()
	// Probes ask all the time; they are not load and are not counted.
	if string(path) == healthPath || string(path) == readyPath {
		a.probe(ctx, string(path) == healthPath || a.ready())
		return
	}
	a.metrics.inFlight.Add(1)
	defer a.done(ctx)
	if id, ok := bytes.CutPrefix(path, studentPath); ok {
		a.student(ctx, id)
		return
	}
	fail(ctx, fasthttp.StatusNotFound, bodyNoPath)
}

// BadRequest answers what could not be read as a request, see
// httpserver.Config. It does not panic.
func (a *API) BadRequest(ctx *fasthttp.RequestCtx, status int) {
	fail(ctx, status, unreadable(status))
	a.metrics.answered(status)
}

// done ends every request but probes.
func (a *API) done(ctx *fasthttp.RequestCtx) {
	if r := recover(); r != nil {
		ctx.Response.Reset()
		fail(ctx, fasthttp.StatusInternalServerError, bodyInternal)
		a.metrics.panics.Inc()
		if dropped, ok := a.panics.allow(time.Now()); ok {
			a.logger.Error("a handler panicked", "panic", r, "stack", string(debug.Stack()), "dropped", dropped)
		}
	}
	a.metrics.inFlight.Add(-1)
	a.metrics.answered(ctx.Response.StatusCode())
	a.metrics.seconds.Observe(time.Since(ctx.Time()).Seconds())
}

// student answers a request for /student/{id}.
func (a *API) student(ctx *fasthttp.RequestCtx, text []byte) {
	if !ctx.IsGet() && !ctx.IsHead() {
		notAllowed(ctx)
		return
	}
	id, err := results.ParseID(text)
	if err != nil {
		fail(ctx, fasthttp.StatusBadRequest, a.malformed)
		return
	}
	// No deadline: nothing behind a store here is remote. A query on a mapped
	// file takes microseconds, and no more can wait for one than there are
	// connections to this server.
	page, err := a.store.Lookup(context.Background(), id)
	if err != nil && !errors.Is(err, results.ErrNotFound) {
		a.unavailable(ctx, err)
		return
	}
	found := err == nil
	if a.locked {
		stored := page.Code
		if !found {
			stored = nobodysCode
		}
		// Not short-circuited: the comparison runs for unknown ids as well.
		opens := codeOpens(givenCode(ctx), stored)
		found = found && opens
	}
	if !found {
		fail(ctx, fasthttp.StatusNotFound, a.notFound)
		return
	}
	a.page(ctx, &page)
	// Body and Code may lie in memory that goes when page does.
	runtime.KeepAlive(page.Owner)
}

// page answers with a page that the caller may see.
func (a *API) page(ctx *fasthttp.RequestCtx, page *results.Page) {
	var tag [tagLen]byte
	putTag(&tag, page.Tag)
	h := &ctx.Response.Header
	h.SetCanonical(headerETag, tag[:])
	h.SetCanonical(headerCacheControl, a.cacheControl)
	if match := ctx.Request.Header.PeekBytes(headerIfNoneMatch); len(match) != 0 && matches(match, &tag) {
		ctx.Response.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	h.SetContentTypeBytes(contentJSON)
	ctx.Response.SetBody(page.Body) // copies
}

// unavailable answers for a store that failed. The client learns that, and not
// how: the text may name files or queries.
func (a *API) unavailable(ctx *fasthttp.RequestCtx, err error) {
	fail(ctx, fasthttp.StatusServiceUnavailable, bodyUnavailable)
	ctx.Response.Header.SetCanonical(headerRetryAfter, retryAfter)
	a.metrics.failures.Inc()
	if dropped, ok := a.failures.allow(time.Now()); ok {
		a.logger.Error("the store failed", "error", err, "dropped", dropped)
	}
}

// probe answers /healthz and /readyz.
func (a *API) probe(ctx *fasthttp.RequestCtx, ok bool) {
	switch {
	case !ctx.IsGet() && !ctx.IsHead():
		notAllowed(ctx)
	case !ok:
		fail(ctx, fasthttp.StatusServiceUnavailable, bodyDraining)
	default:
		answer(ctx, fasthttp.StatusOK, bodyOK)
	}
}
