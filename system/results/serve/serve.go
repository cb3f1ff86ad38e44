// Package serve makes a running results service of its parts: a store, perhaps
// a cache before it, the HTTP interface, and the servers for students and for
// the operator. Run is all of it; a command only fills a Config.
//
// It holds no logic of its own beside that: what a page is, where it is stored
// and how a request is answered are the other packages' business.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"loadstone/block/httpserver"
	"loadstone/block/lifecycle"
	"loadstone/system/results"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/pgstore"
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
	s := &service{
		cfg: cfg, logger: logger, events: events,
		registry: prometheus.NewRegistry(),
		group:    lifecycle.New(cfg.Drain + cfg.StopTimeout + stopMargin),
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

// service is the parts of one Run.
type service struct {
	cfg      Config
	logger   *slog.Logger
	events   Events
	registry *prometheus.Registry
	group    *lifecycle.Group

	cached *cached // nil without a cache
	// answers reports whether the store can be asked at all.
	answers func() bool
	api     *httpserver.Server
	admin   *httpserver.Admin
}

// build makes all parts and adds them to the group in the order in which they
// depend on each other. What it has made when it fails is in the group.
func (s *service) build(ctx context.Context) error {
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := s.registry.Register(c); err != nil {
			return fmt.Errorf("register metrics of the process: %w", err)
		}
	}
	store, err := s.openStore(ctx)
	if err != nil {
		return err
	}
	if s.cfg.Cache == CacheMemory {
		s.cached, err = newCached(store, s.cfg, s.registry)
		if err != nil {
			return err
		}
		s.group.Add(lifecycle.Component{Name: "cache", Close: s.cached.Close})
		store = s.cached
	}
	if s.admin, err = httpserver.ListenAdmin(ctx, s.cfg.AdminListen, s.registry); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	s.group.Add(lifecycle.Component{Name: "admin", Run: s.admin.Run, Close: s.admin.Close})
	return s.listen(ctx, store)
}

// listen makes the interface and its server.
func (s *service) listen(ctx context.Context, store results.Store) error {
	api, err := httpapi.New(httpapi.Config{
		Store:      store,
		Access:     s.cfg.Access,
		Limits:     s.cfg.Limits,
		PublishAt:  s.cfg.PublishAt,
		Ready:      s.ready,
		Logger:     s.logger,
		Registerer: s.registry,
	})
	if err != nil {
		return fmt.Errorf("make the interface: %w", err)
	}
	cfg := httpserver.DefaultConfig()
	cfg.Addr, cfg.Drain, cfg.StopTimeout = s.cfg.Listen, s.cfg.Drain, s.cfg.StopTimeout
	cfg.Handler, cfg.BadRequest, cfg.Registerer = api.Handle, api.BadRequest, s.registry
	if s.api, err = httpserver.Listen(ctx, cfg); err != nil {
		return fmt.Errorf("serve results: %w", err)
	}
	s.group.Add(lifecycle.Component{Name: "api", Run: s.api.Run, Close: s.api.Close})
	return nil
}

// ready reports whether requests should be sent here. It is asked only by
// requests, which come only while s.api runs.
//
// A service with a cache stays ready while its database is away: it answers what
// it has, and so would all its peers, which share the database. Taking them all out
// would turn a part of the failures into failures only.
func (s *service) ready() bool {
	return !s.api.Draining() && (s.cfg.Cache != CacheNone || s.answers())
}

// openStore opens what the configuration names.
func (s *service) openStore(ctx context.Context) (results.Store, error) {
	kind, path, err := ParseStore(s.cfg.Store)
	if err != nil {
		return nil, err
	}
	s.answers = func() bool { return true } // files do, once they are open
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
	s.group.Add(lifecycle.Component{Name: "store", Close: store.Close})
	s.opened(store.Meta())
	return store, nil
}

// connect opens the database at the address.
func (s *service) connect(ctx context.Context, address string) (results.Store, error) {
	cfg := pgstore.DefaultConfig()
	cfg.URL, cfg.Registerer = address, s.registry
	store, err := pgstore.Open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	s.answers = store.Ready
	s.group.Add(lifecycle.Component{Name: "store", Run: store.Run, Close: store.Close})
	s.opened(store.Meta())
	return store, nil
}

// follow opens the snapshot at path and serves each newer one.
func (s *service) follow(path string) (results.Store, error) {
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
	s.group.Add(lifecycle.Component{Name: "store", Run: store.Run, Close: store.Close})
	s.opened(store.Meta())
	return store, nil
}

// switched follows a change of the snapshot.
func (s *service) switched(from, to results.Meta) {
	if s.cached != nil {
		if err := s.cached.Clear(); err != nil {
			// Old pages then live out their age.
			s.logger.Error("the cache was not cleared", "error", err)
		}
	}
	s.logger.Info("new snapshot served", "origin", to.Origin, "students", to.Count, "before", from.Origin)
	if s.events.Switched != nil {
		s.events.Switched(from, to)
	}
}

func (s *service) opened(meta results.Meta) {
	s.logger.Info("store opened", "origin", meta.Origin, "students", meta.Count)
}
