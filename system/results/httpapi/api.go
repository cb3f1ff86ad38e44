// Package httpapi answers HTTP requests for students' results from a store.
//
//	GET, HEAD /student/{id}   a student's result
//	GET, HEAD /openapi.json   this interface as an OpenAPI 3.1 document
//	GET, HEAD /healthz        200 while the process is alive
//	GET, HEAD /readyz         200 while it should be sent requests, else 503
//
// Decide is the same decision without the JSON, for a page that shows results in
// another form: both have one set of limits, one embargo and one clock.
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
// but for the date, so the answer does not tell which ids exist. Without a code
// the store is not asked at all: such a request is no try that anybody counts.
// The comparison takes the same time, too: it always runs, for an unknown id with
// a code nobody has, and over a fixed number of bytes. What remains is the store's own
// difference between finding and not finding: nothing for a snapshot, a query more
// for a Redis that was filled beforehand and knows the known ids only. Where
// there is one, Config.NotFoundAfter covers it: whoever has no right code waits
// for as long, whatever the store did.
//
// # Who may ask, and how often
//
// With Config.Limits, package guard bounds requests per address and wrong codes
// per id and address. Both refusals are status 429 with Retry-After. The
// lock-out is looked at before the store is asked and counts unknown ids like
// known ones, so it tells nobody which ids exist either. A missing code is no
// try. The probes are not limited.
//
// # The embargo
//
// Before Config.PublishAt every id is answered with 403, the same bytes for
// all of them, and Retry-After holds the seconds that are left; no store is asked
// and no code compared. From that instant on everything is served. Replicas agree
// as well as their clocks do, so keep those synchronised. A process that has
// begun to serve does not stop again when its clock is set back.
//
// 403 and not another status: 404 may be kept by any cache (RFC 9111, 4.2.2),
// 425 is about replayed TLS data (RFC 8470), and 503 makes balancers take a
// healthy replica out and alerts ring while all is well. A 403 is kept by a cache
// only if it says so, and this one says no-store: no cache holds it beyond the
// instant.
//
// # Corrections
//
// How long a corrected result takes to reach a student who asks again is the sum
// of two bounds. Behind this interface it is the store's own: see packages serve
// and snapshot. In front of it:
//
//   - with codes, nothing: an answer is "private, no-cache". No shared cache may
//     keep it, and a browser must ask with its ETag before each use, and is sent
//     the new result if there is one
//   - without codes (mode Open), 60 seconds: "public, max-age=60". A cache that is set up to
//     serve stale answers while this server is down may go beyond that for as
//     long as it is
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
	"errors"
	"log/slog"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/system/results"
	"loadstone/system/results/httpapi/guard"
)

// Config is what an API needs. The fields up to Registerer are required.
type Config struct {
	Store results.Store
	// Access is what opens a page.
	Access Access
	// Ready reports whether /readyz should say so. It must be fast.
	Ready func() bool
	// Logger is told about failures of the store and panics, at most one of
	// each kind in ten seconds, with the number of those left out.
	Logger *slog.Logger
	// Registerer receives the metrics, see metrics.
	Registerer prometheus.Registerer

	// Limits bound requests and wrong codes. Nil if there are none, as for load
	// tests that come from one address.
	Limits *guard.Config
	// Proxies are the peers whose X-Forwarded-For and -Proto are believed. None:
	// every peer is a client.
	Proxies guard.Proxies
	// NotFoundAfter is how long after it was begun a look-up with a code that opens
	// nothing is answered: longer than the store takes, for a store whose time
	// tells ids that exist from others. 0 for a store that takes the same for both.
	NotFoundAfter time.Duration
	// PublishAt is the instant before which nothing is served. Nil if results
	// are out.
	PublishAt *time.Time
	// Now is the clock of limits and embargo. Nil for time.Now.
	Now func() time.Time
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
	if c.Limits != nil {
		if err := c.Limits.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	if c.PublishAt != nil && c.PublishAt.IsZero() {
		errs = append(errs, errors.New("the instant of publication is the year 1: leave it out if results are out"))
	}
	return errors.Join(errs...)
}

// API answers requests. It is safe for concurrent use.
type API struct {
	store    results.Store
	locked   bool // pages need a code
	ready    func() bool
	requests *route.Requests
	metrics  *metrics
	now      func() time.Time
	guard    *guard.Guard // nil without limits
	proxies  guard.Proxies

	notFoundAfter time.Duration
	embargo       *embargo // nil without one

	byError      map[*results.Error]*route.Failure
	cacheControl []byte
	failures     *route.ErrorLog // of the store
}

// New returns an API and registers its metrics.
func New(cfg Config) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	logger := cfg.Logger.With("component", "httpapi")
	a := &API{
		store: cfg.Store, locked: cfg.Access == Code, ready: cfg.Ready, now: cfg.Now, proxies: cfg.Proxies,
		// A public page may be kept a minute by anyone: results do not change
		// by the second. One behind a code may be kept by its reader, who must
		// ask whether it still holds, code in hand.
		cacheControl:  []byte("public, max-age=60"),
		failures:      route.NewErrorLog(logger, "the store failed"),
		notFoundAfter: cfg.NotFoundAfter,
	}
	if a.now == nil {
		a.now = time.Now
	}
	if cfg.PublishAt != nil {
		a.embargo = newEmbargo(*cfg.PublishAt)
	}
	if a.locked {
		a.cacheControl = []byte("private, no-cache")
	}
	a.prepareFailures()
	var err error
	if cfg.Limits != nil {
		if a.guard, err = guard.New(*cfg.Limits, a.now()); err != nil {
			return nil, err
		}
	}
	if a.requests, err = route.NewRequests(answers, logger, cfg.Registerer); err != nil {
		return nil, err
	}
	a.metrics, err = newMetrics(cfg.Registerer, a.guard)
	return a, err
}

var studentPath = []byte("/student/")

// Handle answers one request. It does not panic.
//
// The path is taken as it was sent. A decoded or shortened one would give each
// page many addresses, and whoever keeps pages by address would keep them
// many times.
func (a *API) Handle(ctx *fasthttp.RequestCtx) {
	path := ctx.URI().PathOriginal()
	// Probes ask all the time; they are not load and are not counted.
	if answers.Probe(ctx, path, a.ready) {
		return
	}
	a.requests.Begin()
	defer a.requests.End(ctx)
	who, wait := a.identify(ctx)
	if wait > 0 {
		d := a.refused(results.ErrRateLimited, wait)
		a.refuse(ctx, &d)
		return
	}
	if id, ok := bytes.CutPrefix(path, studentPath); ok {
		a.student(ctx, id, who)
		return
	}
	if string(path) == documentPath {
		document(ctx)
		return
	}
	answers[route.NoSuchPath].Write(ctx, 0)
}

// BadRequest answers what could not be read as a request, see
// httpserver.Config. It does not panic.
func (a *API) BadRequest(ctx *fasthttp.RequestCtx, status int) {
	answers.Unreadable(ctx, status)
	a.requests.Count(status)
}

// student answers a request for /student/{id}.
func (a *API) student(ctx *fasthttp.RequestCtx, text []byte, who caller) {
	if !ctx.IsGet() && !ctx.IsHead() {
		answers.NotAllowed(ctx, allowed)
		return
	}
	id, err := results.ParseID(text)
	if err != nil {
		answers[code(results.ErrMalformedID)].Write(ctx, 0)
		return
	}
	var given []byte
	if a.locked {
		given = givenCode(ctx)
	}
	d := a.decide(id, given, who)
	if d.Err != nil {
		a.refuse(ctx, &d)
		return
	}
	a.page(ctx, &d.Page)
	// Body and Code may lie in memory that goes when the page does.
	runtime.KeepAlive(d.Page.Owner)
}

// page answers with a page that the caller may see.
func (a *API) page(ctx *fasthttp.RequestCtx, page *results.Page) {
	known := route.NotModified(ctx, page.Tag)
	ctx.Response.Header.SetCanonical(headerCacheControl, a.cacheControl)
	if !known {
		route.SetJSON(ctx, page.Body)
	}
}
