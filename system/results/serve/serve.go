// Package serve makes a running results service of its parts: a store, perhaps
// caches before it, the HTTP interface, the students' page, and the servers for
// students and for the operator. Run is all of it; a command only fills a Config.
//
// It holds no logic of its own beside that: what a page is, where it is stored
// and how a request is answered are the other packages' business.
//
// # What is served when what is gone
//
// With the defaults, and ages as block/cache counts them, less up to a tenth for each
// page so that they do not all come due at once:
//
//	Redis is gone       Everything, from memory and store. A look-up in Redis is
//	or slow             given up after 50 ms; after five in a row that failed none
//	                    is tried, until a probe every 250 ms is answered.
//	Redis is empty      Everything; it fills again with what is asked for.
//	the database is     What is cached, here or in Redis, for 24 hours after it was
//	gone                read (CacheMaxAge); ids that nobody has, for a minute. The
//	                    rest is 503 with Retry-After. A page that is due to be read
//	                    again is served after 100 ms at most, old as it is. Without
//	                    a cache the service is not ready.
//	both are gone       What is in this process's memory.
//	the database is     The service starts without it, is not ready, and answers 503
//	not there yet       until it has seen once which data set the database has.
//
// The database is never asked by more look-ups at one time than its pool has
// connections, whatever is lost: up to 4,096 more wait, for 2 seconds, and are then
// refused with 503 and Retry-After. Refreshes take half of the pool at most and never
// wait.
//
// # How long a correction takes
//
// Corrected in the database and told by pagecache.Corrector (Redis configured):
//
//	new look-ups in Redis            at once
//	every process's memory           milliseconds, by a message
//	a process that missed it         5 seconds, by the journal (pagecache.JournalEvery),
//	                                 from when Redis can be reached again
//	a process that reaches neither   CacheRefresh, 12 hours with Redis; CacheMaxAge if
//	                                 it does not reach the database either
//
// Not told: after CacheRefresh, which is one minute with memory alone. A new snapshot
// is seen within a second, and nothing of the one before is served from any tier.
// What lies in front of this service is for package httpapi to say.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/httpserver"
	"loadstone/block/service"
	"loadstone/system/results"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/pagecache"
	"loadstone/system/results/snapshot"
	"loadstone/system/results/sqlitestore"
)

// Events tell a test or a supervisor what happens. Each may be nil; they must
// return soon.
type Events struct {
	// Listening: requests are accepted from now on, on these addresses.
	Listening func(api, admin net.Addr)
	// Switched: look-ups are answered from a new snapshot from now on, and
	// nothing of the old one is cached.
	Switched func(from, to results.Meta)
}

// stopMargin is what a component gets to return beyond what it allows itself.
const stopMargin = time.Second

// Run serves until ctx ends and then stops: not ready, stop accepting, drain,
// admin, store. It returns nil if that lost nothing. It logs the whole
// configuration once, then the addresses.
func Run(ctx context.Context, cfg Config, logger *slog.Logger, events Events) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	logger = logger.With("component", "results")
	logger.Info("configuration", cfg.attributes()...)
	s := &server{
		cfg: cfg, logger: logger, events: events,
		registry: prometheus.NewRegistry(),
		group:    service.NewGroup(cfg.Drain + cfg.StopTimeout + stopMargin),
	}
	if err := s.build(ctx); err != nil {
		return errors.Join(err, s.group.Close())
	}
	logger.Info("listening", "address", s.api.Addr().String(), "admin", s.admin.Addr().String())
	if events.Listening != nil {
		events.Listening(s.api.Addr(), s.admin.Addr())
	}
	if err := s.group.Run(ctx); err != nil {
		return fmt.Errorf("serve results: %w", err)
	}
	logger.Info("stopped")
	return nil
}

// server is the parts of one Run.
type server struct {
	cfg      Config
	logger   *slog.Logger
	events   Events
	registry *prometheus.Registry
	group    *service.Group

	cached *cached // nil without a cache
	set    func() pagecache.Set
	pool   int // of the database, 0 for files
	// database is the pagecache.Set of a database, and holds reports that there
	// has been something to serve.
	database atomic.Uint64
	holds    atomic.Bool
	// answers reports whether the store can be asked at all.
	answers func() bool
	api     *httpserver.Server
	admin   *service.Admin
}

// build makes all parts and adds them to the group in the order in which they
// depend on each other. What it has made when it fails is in the group.
func (s *server) build(ctx context.Context) error {
	if err := service.RegisterProcess(s.registry); err != nil {
		return err
	}
	store, err := s.openStore(ctx)
	if err != nil {
		return err
	}
	if s.cfg.Cache != CacheNone {
		if store, err = s.cache(ctx, store); err != nil {
			return err
		}
	}
	if s.admin, err = service.ListenAdmin(ctx, s.cfg.AdminListen, s.registry); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	tiers := &switches{}
	if s.cached != nil {
		tiers = &s.cached.switches
	} else {
		tiers.add("memory", false, nil)
		tiers.add("redis", false, nil)
	}
	s.admin.Handle("/cache", tiers)
	s.admin.Handle("/cache/", tiers)
	s.group.Add(service.Component{Name: "admin", Run: s.admin.Run, Close: s.admin.Close})
	return s.listen(ctx, store)
}

// listen makes the interface and its server.
func (s *server) listen(ctx context.Context, store results.Store) error {
	api, err := httpapi.New(httpapi.Config{
		Store:      store,
		Access:     s.cfg.Access,
		Limits:     s.cfg.Limits,
		Proxies:    s.cfg.Proxies,
		PublishAt:  s.cfg.PublishAt,
		Ready:      s.ready,
		Logger:     s.logger,
		Registerer: s.registry,

		NotFoundAfter: s.cfg.notFoundAfter(),
	})
	if err != nil {
		return fmt.Errorf("make the interface: %w", err)
	}
	cfg := httpserver.DefaultConfig()
	cfg.Addr, cfg.Drain, cfg.StopTimeout = s.cfg.Listen, s.cfg.Drain, s.cfg.StopTimeout
	cfg.BadRequest, cfg.Registerer = api.BadRequest, s.registry
	if cfg.Handler, err = s.handler(api); err != nil { //nolint:contextcheck // a request has its own
		return err
	}
	if s.api, err = httpserver.Listen(ctx, cfg); err != nil {
		return fmt.Errorf("serve results: %w", err)
	}
	s.group.Add(service.Component{Name: "api", Run: s.api.Run, Close: s.api.Close})
	return nil
}

// ready reports whether requests should be sent here. It is asked only by
// requests, which come only while s.api runs.
//
// A service with a cache stays ready while its database is away: it answers what
// it has, and so would all its peers, which share the database. Taking them all out
// would turn a part of the failures into failures only. One that has never seen its
// database is not ready: it does not know whose pages to serve.
func (s *server) ready() bool {
	return !s.api.Draining() && s.holds.Load() && (s.cfg.Cache != CacheNone || s.answers())
}

// openStore opens what the configuration names.
func (s *server) openStore(ctx context.Context) (results.Store, error) {
	kind, path, err := ParseStore(s.cfg.Store)
	if err != nil {
		return nil, err
	}
	s.answers = func() bool { return true } // files do, once they are open
	s.set = func() pagecache.Set { return pagecache.Set(s.database.Load()) }
	switch kind {
	case StoreSnapshot:
		return s.follow(path)
	case StorePostgres:
		return s.connect(ctx, path)
	}
	store, err := sqlitestore.Open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	s.group.Add(service.Component{Name: "store", Close: store.Close})
	s.opened(store.Meta())
	return store, nil
}

// follow opens the snapshot at path and serves each newer one.
func (s *server) follow(path string) (results.Store, error) {
	looks := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "results_snapshots_total",
		Help: "New snapshot files, by whether they are served or were refused.",
	}, []string{"outcome"})
	if err := s.registry.Register(looks); err != nil {
		return nil, fmt.Errorf("register metrics of the snapshot: %w", err)
	}
	served, refused := looks.WithLabelValues("served"), looks.WithLabelValues("refused")

	cfg := snapshot.DefaultConfig()
	cfg.Events.Refused = func(err error) {
		refused.Inc()
		s.logger.Error("new snapshot refused; the old one still is served", "error", err)
	}
	cfg.Events.Switched = func(from, to results.Meta) {
		served.Inc()
		s.switched(from, to)
	}
	store, err := snapshot.Follow(path, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	s.group.Add(service.Component{Name: "store", Run: store.Run, Close: store.Close})
	s.opened(store.Meta())
	s.set = func() pagecache.Set { return pagecache.SnapshotSetOf(store.Meta()) }
	return store, nil
}

// switched follows a change of the snapshot.
func (s *server) switched(from, to results.Meta) {
	if s.cached != nil {
		if err := s.cached.Switch(); err != nil {
			// Old pages then take room until their age is over.
			s.logger.Error("the cache was not cleared", "error", err)
		}
	}
	s.logger.Info("new snapshot served", "origin", to.Origin, "students", to.Count, "before", from.Origin)
	if s.events.Switched != nil {
		s.events.Switched(from, to)
	}
}

// opened tells what is served.
func (s *server) opened(meta results.Meta) {
	s.database.Store(uint64(pagecache.SetOf(meta)))
	s.holds.Store(true)
	s.logger.Info("store opened", "origin", meta.Origin, "students", meta.Count)
}
