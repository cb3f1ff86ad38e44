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
// A missing code is answered without asking the store, with the bytes of an unknown id:
// it is no try that anybody counts. For who gives a code the page that opens is the only
// answer that depends on the id. Everybody else is answered in the same way at the same
// time, whether the id exists, is in a cache, or could not be looked up:
//
//   - The answer is the service's and not the look-up's: 404, or while look-ups fail
//     or are refused 503, for a wrong code as for an unknown id.
//   - The time is counted from the arrival. It is Config.NotFoundAfter, doubled until
//     it is longer than every look-up of the last ten seconds. So a look-up is done
//     before the time comes, and has nothing more to say.
//   - The tries are counted before a code is looked at, see package guard, and the
//     lock-out is told at once, for it depends on the pair of id and address alone.
//
// How look-ups fare is known from those that opened nothing, and from Run, which every
// second asks for an id that nobody has, through all caches and queues: the state of the
// service is what that look-up met. What remains is the first look-up that takes longer
// than all before it in ten seconds: it is answered late, and the others from then on.
// That tells of one id that it was in no cache, once.
//
// Who waits holds a connection. When 2,048 do, the next ones are refused with 503
// after Config.NotFoundAfter, whatever the id; a page that is found by then opens.
//
// With a NotFoundAfter of 0 nobody waits, and the time is the same because a snapshot
// takes the same for known and unknown ids, and the comparison of codes always runs,
// over a fixed number of bytes.
//
// # Who may ask, and how often
//
// With Config.Limits, package guard bounds requests per address and wrong codes
// per id and address, with Config.Peers for all replicas together. Both refusals are
// status 429 with Retry-After. Unknown ids count like known ones, so the lock-out
// tells nobody which ids exist either. The probes are not limited.
//
// # The embargo
//
// Until Config.Publication says that results are out, every id is answered with 403,
// the same bytes for all of them, and Retry-After holds the seconds that are left; no
// page is looked up and no code compared. The instant, and whether it has come, are the
// store's to say: this process's clock does not matter. As long as the store has not
// said anything, every id is answered with 503.
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

	"loadstone/block/forwarded"
	"loadstone/block/route"
	"loadstone/system/results"
	"loadstone/system/results/httpapi/guard"
)

// Config is what an API needs. The fields up to Publication are required.
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
	// Publication says whether results are out. It must be fast: it is called twice
	// for a request.
	Publication func() results.Publication

	// Limits bound requests and wrong codes. Nil if there are none, as for load
	// tests that come from one address.
	Limits *guard.Config
	// Peers are the replicas that share limits. Nil: this one is alone. Its owner runs
	// and closes them.
	Peers *guard.Peers
	// Proxies are the peers whose X-Forwarded-For and -Proto are believed. None:
	// every peer is a client.
	Proxies forwarded.Proxies
	// NotFoundAfter is the least time after which a code that opens nothing is refused:
	// longer than the store commonly takes, for a store whose time tells ids that exist
	// from others. 0 for a store that takes the same for both.
	NotFoundAfter time.Duration
	// Now is the clock of limits. Nil for time.Now.
	Now func() time.Time
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if c.Store == nil || c.Ready == nil || c.Logger == nil || c.Registerer == nil || c.Publication == nil {
		errs = append(errs, errors.New("httpapi: a store, a logger, a registerer, or one of the functions Ready and Publication is missing"))
	}
	if err := c.Access.Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.Limits != nil {
		if err := c.Limits.Validate(); err != nil {
			errs = append(errs, err)
		}
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
	proxies  forwarded.Proxies

	refusals    refusals
	publication func() results.Publication

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
		cacheControl: []byte("public, max-age=60"),
		failures:     route.NewErrorLog(logger, "the store failed"),
		refusals:     refusals{least: cfg.NotFoundAfter, sleepUntil: sleepUntil},
		publication:  cfg.Publication,
	}
	if a.now == nil {
		a.now = time.Now
	}
	if a.locked {
		a.cacheControl = []byte("private, no-cache")
	}
	a.prepareFailures()
	if cfg.Limits != nil {
		var err error
		if a.guard, err = guard.New(*cfg.Limits, cfg.Peers, a.now()); err != nil {
			return nil, err
		}
	}
	a.requests = route.NewRequests(answers, logger, cfg.Registerer)
	a.metrics = newMetrics(cfg.Registerer, a.guard, cfg.Peers)
	return a, nil
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
	who := a.identify(ctx)
	if wait := a.admit(who); wait > 0 {
		a.refuse(ctx, &results.Decision{Err: results.ErrRateLimited, RetryAfter: wait})
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
