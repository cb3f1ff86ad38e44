// Package edge serves a snapshot over HTTP, from memory, as a content delivery network would from an object
// store: it looks at the manifest now and then, and no request of a client ever reaches the store.
//
//	PATH/manifest.json       the manifest, good for Config.Interval
//	PATH/whole/SHA-256       all pages as one text, which is also the dictionary for the next one
//	PATH/objects/17/SHA-256  an index or a page, immutable
//	PATH/pages/1.json        a page by its name, good for Config.Interval
//
// What the current manifest does not name is not there, but for the version before it while the manifest keeps that one:
// who has just read the old manifest finds its objects. So what was purged is gone at the next look, however a
// client came by its address.
//
// While the store does not answer, or shows what is broken or older, the last version is served, for Config.StaleIfError.
// Answers are compressed when somebody first asks for a form of them, once for all who ask at the time and later. A client
// that has an earlier version's whole as a dictionary (RFC 9842) gets the delta from it, which the publisher made.
package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"loadstone/block/objects"
	"loadstone/block/pause"
	"loadstone/block/route"
	"loadstone/system/feed/snapshot"
)

// Config says what is served and for how long.
type Config struct {
	Store objects.Store
	// Path is what all addresses begin with, such as /feed.
	Path string
	// Interval is the time between two looks at the manifest, and how long caches may keep what has no hash in its
	// address.
	Interval time.Duration
	// Timeout bounds a look, with everything that is new.
	Timeout time.Duration
	// StaleIfError is how long the last version is served while the store does not answer. Then nothing is.
	StaleIfError time.Duration
	// Shared is how long shared caches on the way may keep immutable objects before they ask whether they are still
	// there. What was purged is gone from them that long after it is gone from here.
	Shared time.Duration
	// Logger is told of versions, and of looks that failed.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// DefaultConfig has all but the store, the logger and the registerer. A post that is taken down is gone within ten
// seconds here, and within five minutes from the caches of others.
func DefaultConfig() Config {
	return Config{Path: "/feed", Interval: 5 * time.Second, Timeout: 30 * time.Second, StaleIfError: time.Hour, Shared: 5 * time.Minute}
}

// Validate returns every problem of the path and the durations, joined.
func (c Config) Validate() error {
	var problems []error
	if !strings.HasPrefix(c.Path, "/") || strings.HasSuffix(c.Path, "/") || strings.ContainsAny(c.Path, " \"\\*?#%") {
		problems = append(problems, fmt.Errorf("path is %q: write one like /feed", c.Path))
	}
	for name, d := range map[string]time.Duration{"interval": c.Interval, "timeout": c.Timeout, "stale-if-error": c.StaleIfError, "shared": c.Shared} {
		if d <= 0 {
			problems = append(problems, fmt.Errorf("%s is %v: write a duration above 0", name, d))
		}
	}
	return errors.Join(problems...)
}

// Edge serves the snapshot of one store. Handle answers from the moment it is made, with Unavailable before the first version.
type Edge struct {
	cfg     Config
	reader  *snapshot.Reader // Run's
	site    atomic.Pointer[site]
	looked  atomic.Int64 // when the store last answered, in nanoseconds since start
	start   time.Time    // for the monotonic clock
	failing *route.ErrorLog
	metrics metrics
}

// metrics are feed_edge_version, feed_edge_looks_total{outcome="same|switched|failed"} and
// feed_edge_answers_total{form="identity|gzip|zstd|br|dcz|not_modified"}.
type metrics struct {
	version prometheus.Gauge
	looks   *prometheus.CounterVec
	answers *prometheus.CounterVec
}

// New returns an edge and registers its metrics.
func New(cfg Config) (*Edge, error) {
	err := cfg.Validate()
	if cfg.Store == nil || cfg.Logger == nil || cfg.Registerer == nil {
		err = errors.Join(errors.New("the store, the logger or the registerer is missing"), err)
	}
	if err != nil {
		return nil, fmt.Errorf("serve the snapshot: %w", err)
	}
	f := promauto.With(cfg.Registerer)
	return &Edge{
		cfg: cfg, reader: snapshot.NewReader(cfg.Store), start: time.Now(),
		failing: route.NewErrorLog(cfg.Logger, "the snapshot could not be read; the last version is served"),
		metrics: metrics{
			f.NewGauge(prometheus.GaugeOpts{Name: "feed_edge_version", Help: "Version that is served."}),
			f.NewCounterVec(prometheus.CounterOpts{Name: "feed_edge_looks_total", Help: "Looks at the manifest by outcome."}, []string{"outcome"}),
			f.NewCounterVec(prometheus.CounterOpts{Name: "feed_edge_answers_total", Help: "Answers by the form that clients took."}, []string{"form"}),
		},
	}, nil
}

// Run looks at the manifest until the context ends, and then returns nil.
func (e *Edge) Run(ctx context.Context) error {
	for {
		e.look(ctx)
		if !pause.For(ctx, e.pause()) {
			return nil
		}
	}
}

// Await looks until there is something to serve, or the context ends, whose error it then returns.
func (e *Edge) Await(ctx context.Context) error {
	for !e.Ready() {
		if e.look(ctx); !e.Ready() && !pause.For(ctx, e.pause()) {
			return ctx.Err()
		}
	}
	return nil
}

// pause is the time to the next look: what nothing can be served without is looked for each second.
func (e *Edge) pause() time.Duration {
	if e.Ready() {
		return e.cfg.Interval
	}
	return min(e.cfg.Interval, time.Second)
}

// look reads what is new, and serves it from then on.
func (e *Edge) look(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	began := time.Since(e.start)
	old := e.site.Load()
	s, err := e.reader.Read(limited)
	var fresh *site
	if err == nil && (old == nil || old.snapshot != s) {
		fresh, err = e.build(limited, s, old)
	}
	switch {
	case ctx.Err() != nil: // the end
		return
	case err != nil:
		e.metrics.looks.WithLabelValues("failed").Inc()
		if old != nil || !errors.Is(err, snapshot.ErrNone) { // who publishes for the first time needs a moment
			e.failing.Log("error", err)
		}
		return
	case fresh != nil:
		e.site.Store(fresh)
		e.metrics.version.Set(float64(s.Manifest.Version))
		e.metrics.looks.WithLabelValues("switched").Inc()
		e.cfg.Logger.Info("snapshot", "version", s.Manifest.Version, "pages", fresh.pages, "bytes", len(s.Whole()))
	default:
		e.metrics.looks.WithLabelValues("same").Inc()
	}
	e.looked.Store(int64(began)) // what is served was current then
}

// current is what to serve; nil if there is nothing yet, or nothing that is fresh enough.
func (e *Edge) current() *site {
	s := e.site.Load()
	if s == nil || time.Since(e.start)-time.Duration(e.looked.Load()) > e.cfg.Interval+e.cfg.StaleIfError {
		return nil
	}
	return s
}

// Ready reports whether there is a version to serve.
func (e *Edge) Ready() bool { return e.current() != nil }
