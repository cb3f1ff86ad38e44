// Package web is the page on which a student enters id and access code and
// sees, prints or saves the result.
//
//	GET, HEAD /      the form; before results are out, when they will be
//	POST      /      the result, or the page that says why there is none
//	GET       /wait  the same again, for a browser that was asked to wait
//
// It holds texts, looks and manners and nothing else: who may see what, how often
// somebody may try and whether results are out is decided by the function that
// the caller gives it. It reads no store and keeps no state between requests.
//
// # Manners
//
// Pages are plain HTML with their style inside: one response, no script, no
// fonts, nothing else to load, 4 to 7 kB, about 2 kB compressed. Codes
// travel in the bodies of POST requests, so that they are in no address, log or
// history. A wrong code and an unknown id get the same bytes but for the id that
// was typed, which is the only thing that is ever shown again.
//
// # Waiting
//
// When results are not out or the service is busy, everybody waits for the same
// thing, and everybody would ask again in the same second. Pages therefore ask
// the browser to come back after a time that is drawn for each of them.
//
// Who has typed id and code and meets a busy service need not type them again:
// a cookie that only /wait gets, that no script can read and that ends a minute
// after its use carries them. The price is that the code is on the device for
// up to three minutes, where a browser that filled in forms would keep it for
// good.
package web

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/language"
	"loadstone/system/results"
)

// Lookup looks a student up for a client. ctx is the client's request, for its
// address. id is valid; code is what was typed, trimmed, 1 to 128 bytes, and valid
// only during the call. It must be safe for concurrent use and bound its own time. Of
// the page only Body is read, before the response is sent; it is kept reachable until
// then. RetryAfter is taken as between one second and one day.
type Lookup func(ctx *fasthttp.RequestCtx, id int64, code []byte) results.Decision

// Config is what a Site needs. Start from DefaultConfig.
type Config struct {
	// Lookup decides what a student may see. Required.
	Lookup Lookup
	// Admit counts a request and returns how long its client must wait before it may
	// ask; 0 if it may now. Required.
	Admit func(ctx *fasthttp.RequestCtx) time.Duration
	// Publication says whether results are out. It decides what GET / shows and
	// nothing else. Required.
	Publication func() results.Publication
	// Spread is over how long the browsers that wait for the same moment come
	// back after it, evenly: with 600,000 of them, a minute is 10,000 a second.
	Spread time.Duration
	// SecureCookie tells whether to keep the waiting cookie off plain HTTP for
	// this client. It must be true for who reaches the page over HTTPS, and
	// false for others, whose browser would not send it back.
	SecureCookie func(ctx *fasthttp.RequestCtx) bool
	// Random returns a number from 0 to below n, which is positive. It must be
	// safe for concurrent use.
	Random func(n int64) int64
	// Panicked is told about each panic while a page was made. It must be fast.
	Panicked func(value any, stack []byte)
	// Registerer receives the metrics, see metrics. Required.
	Registerer prometheus.Registerer
}

// maxSpread bounds Spread: nobody should look at a page for longer that could
// show the result.
const maxSpread = 10 * time.Minute

// DefaultConfig returns a configuration for pages that are reached over HTTPS, without
// limits. Lookup, Publication, Panicked and Registerer are left for the caller.
func DefaultConfig() Config {
	return Config{
		Admit:        func(*fasthttp.RequestCtx) time.Duration { return 0 },
		Spread:       time.Minute,
		SecureCookie: func(*fasthttp.RequestCtx) bool { return true },
		Random:       rand.Int64N,
	}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if c.Lookup == nil || c.Admit == nil || c.Publication == nil || c.Random == nil || c.Panicked == nil || c.SecureCookie == nil {
		errs = append(errs, errors.New("web: one of the functions Lookup, Admit, Publication, SecureCookie, Random and Panicked is missing"))
	}
	if c.Registerer == nil {
		errs = append(errs, errors.New("web: a registerer is missing"))
	}
	if c.Spread < time.Second || c.Spread > maxSpread {
		errs = append(errs, fmt.Errorf("web: spread is %v, must be from 1s to %v", c.Spread, maxSpread))
	}
	return errors.Join(errs...)
}

// Site answers with pages. It is safe for concurrent use.
type Site struct {
	cfg      Config
	editions [len(languageCodes)]*edition
	policy   string // Content-Security-Policy
	metrics  *metrics
}

// New makes all pages and registers the metrics.
func New(cfg Config) (*Site, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Site{cfg: cfg, metrics: newMetrics(cfg.Registerer)}
	var err error
	if s.editions, err = printEditions(); err != nil {
		return nil, fmt.Errorf("make the pages: %w", err)
	}
	hash, err := styleHash(s.editions[0].sheets[pageForm])
	if err != nil {
		return nil, fmt.Errorf("make the pages: %w", err)
	}
	s.policy = "default-src 'none'; style-src " + hash +
		"; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	return s, nil
}

// The addresses that exist.
const (
	formPath = "/"
	waitPath = "/wait"
)

// Handle answers one request, for any address: those that do not exist get a
// page that says so. It does not panic.
func (s *Site) Handle(ctx *fasthttp.RequestCtx) {
	e := s.editions[wanted(ctx)]
	defer s.done(ctx, e)
	if wait := s.cfg.Admit(ctx); wait > 0 {
		s.limited(ctx, e, wait)
		return
	}
	switch string(ctx.URI().PathOriginal()) {
	case formPath:
		s.front(ctx, e)
	case waitPath:
		s.wait(ctx, e)
	default:
		s.show(ctx, e, pageAbsent, &values{})
	}
}

// DownPage returns the page that says that the service is down, for a balancer
// to keep and to show when there is nobody left to ask, in a language such as "en".
func DownPage(languageCode string) ([]byte, error) {
	i, ok := language.Find(languageCode, languageCodes[:])
	if !ok {
		return nil, errors.New("there is no page in this language: try en")
	}
	editions, err := printEditions()
	if err != nil {
		return nil, fmt.Errorf("make the pages: %w", err)
	}
	var r fasthttp.Response
	editions[i].sheets[pageDown].write(&r, &values{})
	return r.Body(), nil
}

// done ends a request. Whoever met a mistake of ours is told that we are down,
// with status 500, which is not asked for again by itself.
func (s *Site) done(ctx *fasthttp.RequestCtx, e *edition) {
	if r := recover(); r != nil {
		ctx.Response.Reset()
		s.metrics.panics.Inc()
		s.show(ctx, e, pageDown, &values{})
		ctx.Response.SetStatusCode(fasthttp.StatusInternalServerError)
		s.cfg.Panicked(r, debug.Stack())
	}
	s.metrics.seconds.Observe(time.Since(ctx.Time()).Seconds())
}
