// Package httpapi answers an app's HTTP requests for its feed.
//
//	GET, HEAD /feed?limit=&cursor=    API 1: posts, the newest first, 1 to MaxPage
//	GET, HEAD /posts/{id}/media       API 2
//	GET, HEAD /posts/{id}/author      API 3
//	GET, HEAD /posts/{id}/responses   API 4: reactions and comments
//	GET, HEAD /bundle?posts=1,2,3     APIs 2, 3 and 4 of 1 to MaxBundle posts in one answer;
//	                                  with &stream=jsonl each part as soon as it is there
//	GET, HEAD /notices?seen=          API 5: what is new since a time
//
//	GET, HEAD /openapi.json           this interface as an OpenAPI 3.1 document
//	GET, HEAD /healthz, /readyz       probes, see package route
//
// It holds the interface and no data: the store owns those, and the server owns connections
// and their limits. Errors are JSON, {"error":{"code","message"}}; no cache may keep them.
//
// Answers are "public, no-cache": any cache may keep one, and has to ask with its ETag
// before each use, which costs 304 and no body. Where answers are compressed they vary by
// Accept-Encoding, and each coding has an ETag of its own.
//
// They are made for each request, and small: parts of them (Range) are not to be had, nothing is
// compressed beforehand, and no dictionary (RFC 9842) is offered. What is published has all three,
// see package edge: its texts stay, and the last one is the dictionary for the next.
//
// # Bundles
//
// A bundle has, for each post and part, the status and the body of the request that it
// stands for, byte for byte: {"bundles":[{"post":1,"media":{"status":200,"body":{...}},...}]}.
// A part that fails has a status and the others stay; only where nothing at all could be
// read the answer itself fails. An answer has at most MaxBundleBytes: parts beyond have
// status 413, and are to be asked for by themselves.
//
// A stream has the same parts in the order in which the store gives them, a line for each:
// {"post":1,"part":"media","status":200,"body":{...}}. No line is left out: what could not be read,
// or not in time, has a status that says so. It is an argument and not a media type of Accept, so
// that caches need not vary by that; and it is neither compressed nor kept.
package httpapi

import (
	_ "embed" // for the document
	"errors"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/valyala/fasthttp"

	"loadstone/block/compress"
	"loadstone/block/cputime"
	"loadstone/block/route"
	"loadstone/system/feed"
)

// Config is what an API needs. All fields but Codings are required.
type Config struct {
	// Reader has the feed. Its Asked is set by New.
	Reader     *feed.Reader
	Serializer feed.Serializer
	// Codings are how answers are compressed for clients that take it.
	Codings compress.Codings
	// Ready reports whether /readyz should say so. It must be fast.
	Ready func() bool
	// Logger is told about failures of the store and panics, at most one of each kind in ten
	// seconds, with the number of those left out.
	Logger *slog.Logger
	// Registerer receives the metrics, see metrics and route.Requests.
	Registerer prometheus.Registerer
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	_, err := compress.Parse(c.Codings.String())
	errs := []error{c.Serializer.Check(), err}
	if c.Reader == nil || c.Ready == nil || c.Logger == nil || c.Registerer == nil {
		errs = append(errs, errors.New("httpapi: a reader, a logger, a registerer, or the function Ready is missing"))
	}
	return errors.Join(errs...)
}

// API answers requests. It is safe for concurrent use.
type API struct {
	*route.Routes

	cfg      Config
	failures *route.ErrorLog // of the store
	metrics  metrics
	inBundle route.Errors

	codings     []string // the names of the compressors
	compressors []*compress.Pool
}

// metrics are those of the feed, beside route.Requests.
//
//	feed_queries_total             queries of the store, by what was asked for
//	feed_store_failures_total      those that the store did not answer, but for overload
//	feed_serialize_seconds_total   CPU time in which answers became JSON, see cputime.Sampler
//	feed_compress_seconds_total    CPU time in which those were compressed
type metrics struct {
	queries       map[string]prometheus.Counter
	storeFailures prometheus.Counter
	serialize     *cputime.Sampler
	compress      *cputime.Sampler
}

func newMetrics(to prometheus.Registerer) metrics {
	auto := promauto.With(to)
	m := metrics{
		queries: map[string]prometheus.Counter{},
		storeFailures: auto.NewCounter(prometheus.CounterOpts{
			Name: "feed_store_failures_total", Help: "Queries that the store of posts failed to answer.",
		}),
		serialize: cputime.NewSampler(auto.NewCounter(prometheus.CounterOpts{
			Name: "feed_serialize_seconds_total", Help: "CPU time in which answers became JSON, from a sample of them.",
		}).Add),
		compress: cputime.NewSampler(auto.NewCounter(prometheus.CounterOpts{
			Name: "feed_compress_seconds_total", Help: "CPU time in which answers were compressed, from a sample of them.",
		}).Add),
	}
	queries := auto.NewCounterVec(prometheus.CounterOpts{Name: "feed_queries_total", Help: "Queries of the store, by what was asked for."}, []string{"of"})
	for _, of := range []string{"page", "notices", string(feed.PartMedia), string(feed.PartAuthor), string(feed.PartResponses)} {
		m.queries[of] = queries.WithLabelValues(of)
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
		cfg:    cfg, metrics: newMetrics(cfg.Registerer), inBundle: route.Prepare(answers), codings: cfg.Codings.Names(),
		failures: route.NewErrorLog(logger, "the store of posts failed"),
	}
	for _, coding := range cfg.Codings {
		a.compressors = append(a.compressors, compress.NewPool(coding, window))
	}
	cfg.Reader.Asked = func(what string) { a.metrics.queries[what].Inc() }
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		a.Add(method, "/feed", a.list)
		a.Add(method, "/posts/", a.detail)
		a.Add(method, "/bundle", a.bundle)
		a.Add(method, "/notices", a.notices)
		a.Add(method, "/openapi.json", a.document)
	}
	return a, nil
}

//go:embed openapi.json
var openapi []byte

func (a *API) document(ctx *fasthttp.RequestCtx) error {
	return a.answer(ctx, openapi)
}
