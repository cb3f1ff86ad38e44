// Package serve makes one running service of the six patterns. Run is all of it; a
// command only fills a Config. It holds no pattern itself: what each does, off and
// on, is its own package's business.
//
//	GET  /getPopularMovies   movie      Config.RefreshAhead
//	GET  /getBook/{id}       book       Config.DoOnce
//	GET  /handle             job        Config.Pool
//	POST /handle             event      Config.Events
//	POST /activities         activity   Config.Activities
//	GET  /activities/{id}    activity
//	GET  /healthz, /readyz   200 while alive; 200 while it should be sent requests
//
// # How a pattern plugs in
//
// Each package of a pattern has a Config with its switch, its limits, a
// prometheus.Registerer and whatever else it needs, a Validate, and
//
//	New(ctx context.Context, cfg Config) (*Handler, error)
//	(*Handler) Handle(ctx *fasthttp.RequestCtx)   answers; must not panic; reads id and body itself
//	(*Handler) Run(ctx context.Context) error     its goroutines, until ctx ends; only if it has some
//	(*Handler) Ready() bool                       only if it can be not ready
//	(*Handler) Close() error                      after the last answer has been given
//
// and answers with patterns.Answer, patterns.Fail and patterns.Busy. The
// context of a request is not the fasthttp.RequestCtx, whose Done is the whole
// server's: a handler makes its own, with a deadline.
//
// In this package each pattern has one file named after it (movie.go, event.go
// and so on) with a method (s *service) openX(ctx) that makes the handler, adds what
// runs and closes to the group, and adds the routes; and the part of Config that
// belongs to it. A pattern that is off has no route, and is answered 404, unless
// "off" is a way of doing the same: so it is for movies, books and jobs.
//
// # Stopping
//
// Not ready, accept for Drain, stop accepting, answer what was accepted, then each
// pattern in the reverse order of opening, then the stores. A request that was
// accepted is answered.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/httpserver"
	"loadstone/block/lifecycle"
)

// Events tell a test or a supervisor what happens. Each may be nil; they must
// return soon.
type Events struct {
	// Listening: requests are accepted from now on, on these addresses.
	Listening func(api, admin net.Addr)
}

// stopMargin is what a component gets to return beyond what it allows itself.
const stopMargin = time.Second

// Run serves until ctx ends and then stops as the package says. It returns nil if
// that lost nothing. It logs the whole configuration once, then the addresses.
func Run(ctx context.Context, cfg Config, logger *slog.Logger, events Events) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	logger = logger.With("component", "patterns")
	logger.Info("configuration", cfg.attributes()...)
	s := &service{
		cfg: cfg, logger: logger,
		registry: prometheus.NewRegistry(),
		group:    lifecycle.New(cfg.Drain + cfg.StopTimeout + stopMargin),
		routes:   newRoutes(),
	}
	if err := s.build(ctx); err != nil {
		return errors.Join(err, s.group.Close())
	}
	logger.Info("listening", "address", s.api.Addr().String(), "admin", s.admin.Addr().String())
	if events.Listening != nil {
		events.Listening(s.api.Addr(), s.admin.Addr())
	}
	if err := s.group.Run(ctx); err != nil {
		return fmt.Errorf("serve patterns: %w", err)
	}
	logger.Info("stopped")
	return nil
}

// service is the parts of one Run.
type service struct {
	cfg      Config
	logger   *slog.Logger
	registry *prometheus.Registry
	group    *lifecycle.Group
	routes   *routes
	// readiness is asked for /readyz; every one must agree.
	readiness []func() bool

	api   *httpserver.Server
	admin *httpserver.Admin
}

// build makes all parts and adds them to the group in the order in which they
// depend on each other. What it has made when it fails is in the group.
func (s *service) build(ctx context.Context) error {
	err := httpserver.RegisterProcess(s.registry)
	if err != nil {
		return err
	}
	if s.admin, err = httpserver.ListenAdmin(ctx, s.cfg.AdminListen, s.registry); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	s.group.Add(lifecycle.Component{Name: "admin", Run: s.admin.Run, Close: s.admin.Close})
	for _, open := range []func(context.Context) error{
		s.openMovies, s.openBooks, s.openJobs, s.openEvents, s.openActivities,
	} {
		if err := open(ctx); err != nil {
			return err
		}
	}
	return s.listen(ctx)
}

// listen makes the server, last: nothing is accepted before all patterns are open.
func (s *service) listen(ctx context.Context) error {
	if err := s.routes.register(s.registry); err != nil {
		return err
	}
	s.routes.ready, s.routes.logger = s.ready, s.logger
	cfg := httpserver.DefaultConfig()
	cfg.Addr, cfg.Drain, cfg.StopTimeout = s.cfg.Listen, s.cfg.Drain, s.cfg.StopTimeout
	cfg.MaxConns, cfg.MaxBodyBytes = s.cfg.MaxConns, maxBodyBytes
	cfg.Handler, cfg.BadRequest, cfg.Registerer = s.routes.handle, badRequest, s.registry
	var err error
	if s.api, err = httpserver.Listen(ctx, cfg); err != nil {
		return fmt.Errorf("serve patterns: %w", err)
	}
	s.group.Add(lifecycle.Component{Name: "api", Run: s.api.Run, Close: s.api.Close})
	return nil
}

// ready reports whether requests should be sent here. It is asked only by
// requests, which come only while s.api runs.
func (s *service) ready() bool {
	if s.api.Draining() {
		return false
	}
	for _, ready := range s.readiness {
		if !ready() {
			return false
		}
	}
	return true
}
