// Package httpapi answers HTTP requests for menus from a store, and changes them where the
// store is a database.
//
//	GET, HEAD /menu/{id}            a menu
//	GET, HEAD /menu/{id}/metadata   what it is, without the menu itself
//	GET, HEAD /menu?ids=1,2,3       many menus in one answer, at most MaxIDs
//	GET, HEAD /menu/dictionary/{hash}   what menus can be compressed with, see package dcz
//	POST      /menu                 makes a menu; the database chooses an id if it has none
//	PUT       /menu/{id}            replaces a menu, or makes it
//	DELETE    /menu/{id}            removes it
//
//	GET, HEAD /menu/{id}/now            what of it is served now
//	GET, HEAD, PUT, DELETE
//	          /menu/{id}/availability   what is served when, and what is sold out: a menu.Overlay
//	PATCH     /menu/{id}/sold-out       says so of one dish
//
//	GET, HEAD /openapi.json         this interface as an OpenAPI 3.1 document
//	GET, HEAD /healthz, /readyz     probes, see package route
//
// It holds the interface and no data: the store owns those, and the server owns connections
// and their limits. Errors are JSON, {"error":{"code","message"}}; no cache may keep them.
//
// # Reading
//
// Answers are "public, no-cache": any cache may keep one, and has to ask with its ETag
// before each use, which costs 304 and no body. X-Menu-Version is Page.Version; the
// 404 of a menu that was deleted has it, too, so that a cache knows which came later.
//
// # Writing
//
// Writes need "Authorization: Bearer TOKEN", and without a configured token nobody writes.
// If-Match with an ETag, and If-None-Match with *, make a write conditional: who would
// overwrite another's change is answered 412 with the ETag of what is there.
//
// # Caches
//
// Caches that are not asked for each use, as the proxies' in Redis, are told of writes, see
// menu.Writer. If they cannot be told the answer is 503; reading does not depend on them.
package httpapi

import (
	"context"
	"crypto/sha256"
	_ "embed" // for the document
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/valyala/fasthttp"

	"loadstone/block/dictionary"
	"loadstone/block/dictionary/dcz"
	"loadstone/block/route"
	"loadstone/system/menu"
)

// MinTokenBytes is the least length of a token: 16 characters are not guessed over a network.
const MinTokenBytes = 16

// Config is what an API needs. Store, Ready, Logger and Registerer are required.
type Config struct {
	// Store has the menus. Writing is possible if it is a menu.Database, too.
	Store menu.Store
	// Dictionaries are those that menus can be compressed with for clients that have them, beside the
	// one of a store that is menu.Compressed; nil for none.
	Dictionaries *dictionary.Set
	// Token is what writers send, at least MinTokenBytes of printable ASCII without
	// spaces; empty if nobody may write.
	Token string
	// Changing, Changed and Unchanged are those of menu.Writer.
	Changing  func(ctx context.Context, id int64) error
	Changed   func(ctx context.Context, id int64, page menu.Page, deleted bool) error
	Unchanged func(ctx context.Context, id int64) error
	// Ready reports whether /readyz should say so. It must be fast.
	Ready func() bool
	// Logger is told about failures of the store, of Changing and Changed, and panics, at
	// most one of each kind in ten seconds, with the number of those left out.
	Logger *slog.Logger
	// Registerer receives the metrics, see metrics and route.Requests.
	Registerer prometheus.Registerer
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if c.Store == nil || c.Ready == nil || c.Logger == nil || c.Registerer == nil {
		errs = append(errs, errors.New("httpapi: a store, a logger, a registerer, or the function Ready is missing"))
	}
	printable := true
	for i := range len(c.Token) {
		printable = printable && c.Token[i] > ' ' && c.Token[i] <= '~'
	}
	if c.Token != "" && (len(c.Token) < MinTokenBytes || !printable) {
		errs = append(errs, fmt.Errorf("httpapi: the token has %d bytes: write at least %d printable ASCII characters without spaces", len(c.Token), MinTokenBytes))
	}
	return errors.Join(errs...)
}

// API answers requests. It is safe for concurrent use.
type API struct {
	*route.Routes

	cfg      Config
	writer   *menu.Writer // nil if menus cannot be changed
	overlays menu.Documents
	token    [sha256.Size]byte
	texts    dcz.Texts
	failures *route.ErrorLog // of the store
	untold   *route.ErrorLog
	metrics  metrics
	ofMenu   map[string]map[string]route.Handler // by what is behind Path/{id}, and by method
}

// metrics are those of menus, beside route.Requests.
//
//	menu_store_lookups_total    menus that the database was asked for
//	menu_store_failures_total   look-ups and writes that the store did not do: not those
//	                            for unknown ids, unmet conditions and overload
//	menu_writes_total           by outcome: done, refused (status 4xx), failed
//	menu_untold_total           by when: before (the write was refused), after (it stands)
type metrics struct {
	storeLookups  prometheus.Counter
	storeFailures prometheus.Counter
	writes        map[string]prometheus.Counter
	untold        map[string]prometheus.Counter
}

const (
	outcomeDone    = "done"
	outcomeRefused = "refused"
	outcomeFailed  = "failed"
	before         = "before"
	after          = "after"
)

func newMetrics(to prometheus.Registerer) metrics {
	auto := promauto.With(to)
	m := metrics{
		storeLookups: auto.NewCounter(prometheus.CounterOpts{Name: "menu_store_lookups_total", Help: "Menus that the database was asked for."}),
		storeFailures: auto.NewCounter(prometheus.CounterOpts{
			Name: "menu_store_failures_total", Help: "Look-ups and writes that the store of menus failed to do.",
		}),
		writes: make(map[string]prometheus.Counter), untold: make(map[string]prometheus.Counter),
	}
	writes := auto.NewCounterVec(prometheus.CounterOpts{Name: "menu_writes_total", Help: "Writes asked for, by outcome."}, []string{"outcome"})
	for _, outcome := range []string{outcomeDone, outcomeRefused, outcomeFailed} {
		m.writes[outcome] = writes.WithLabelValues(outcome)
	}
	untold := auto.NewCounterVec(prometheus.CounterOpts{Name: "menu_untold_total", Help: "Writes that caches could not be told of."}, []string{"when"})
	for _, when := range []string{before, after} {
		m.untold[when] = untold.WithLabelValues(when)
	}
	return m
}

// New returns an API and registers its metrics. Further paths, such as a page's, can be
// added until the first request.
func New(cfg Config) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	logger := cfg.Logger.With("component", "httpapi")
	a := &API{
		Routes: route.New(route.Config{Table: answers, Ready: cfg.Ready, Logger: logger, Registerer: cfg.Registerer}),
		cfg:    cfg, token: sha256.Sum256([]byte(cfg.Token)), metrics: newMetrics(cfg.Registerer), ofMenu: make(map[string]map[string]route.Handler),
		failures: route.NewErrorLog(logger, "the store of menus failed"),
		untold:   route.NewErrorLog(logger, "caches could not be told of a change"),
	}
	if database, ok := cfg.Store.(menu.Database); ok {
		a.writer = &menu.Writer{Database: database, Changing: cfg.Changing, Changed: cfg.Changed, Unchanged: cfg.Unchanged, Untold: a.countUntold}
	}
	a.texts = dcz.Texts{Path: Path, Known: cfg.Dictionaries}
	if stored, ok := cfg.Store.(menu.Compressed); ok {
		a.texts.Stored = stored.Dictionary
	}
	a.overlays = noDocuments{}
	if kept, ok := cfg.Store.(menu.Documents); ok {
		a.overlays = kept
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		a.Add(method, Path, a.many)
		a.Add(method, Path+dcz.Below, a.texts.Serve) // before what is below Path
		a.below("", method, ofMenu(a.get))
		a.below("/metadata", method, ofMenu(a.metadata))
		a.below("/availability", method, ofMenu(a.availability))
		a.below("/now", method, ofMenu(a.now))
		a.Add(method, documentPath, document)
	}
	a.Add(http.MethodPost, Path, a.writing(a.post))
	a.below("", http.MethodPut, a.writing(ofMenu(a.put)))
	a.below("", http.MethodDelete, a.writing(ofMenu(a.remove)))
	a.below("/availability", http.MethodPut, a.writing(ofMenu(a.putAvailability)))
	a.below("/availability", http.MethodDelete, a.writing(ofMenu(a.removeAvailability)))
	a.below("/sold-out", http.MethodPatch, a.writing(ofMenu(a.markSoldOut)))
	return a, nil
}

// Writer is what this interface writes with, for others to write alike; nil if menus cannot
// be changed.
func (a *API) Writer() *menu.Writer { return a.writer }

func (a *API) countUntold(id int64, early bool, err error) {
	when := after
	if early {
		when = before
	}
	a.metrics.untold[when].Inc()
	a.untold.Log("when", when, "menu", id, "error", err)
}

const documentPath = "/openapi.json"

// openAPI describes what this package answers. It is written by hand, and tests
// compare every answer that they see with it.
//
//go:embed openapi.json
var openAPI []byte

// document answers with the interface's description, which changes with the program only.
func document(ctx *fasthttp.RequestCtx) error {
	route.SetJSON(ctx, openAPI)
	ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "public, max-age=300")
	return nil
}
