// Package service makes one running server of its parts: a public address, an address
// for the operator with metrics and profiles, and components that start and stop in a
// stated order. A system opens its parts and says who answers requests; Run does the
// rest, the same for every system.
//
// It does not route and does not know what is served. It does not know signals either:
// whoever owns the process turns the first into the end of a context, and lets the
// second end the process. What serves the public is package httpserver.
//
// # Starting
//
// The system opens its parts first. Then both addresses are bound and logged, and only
// then anything runs, so who reads the addresses can connect to them.
//
// # Stopping
//
//	not ready        /readyz, which asks Ready, says so from the first moment
//	drain            requests are accepted for Config.Drain, while balancers notice
//	stop accepting   what was accepted is answered, within Config.StopTimeout
//	components       in the reverse order of Add: consumers, producers, caches, stores
//	admin            last, so that metrics can be read until the end
//
// Everything is closed, whatever failed before, and all errors are joined.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/valyala/fasthttp"

	"loadstone/block/httpserver"
)

// Config says where to serve and how to stop. Start from DefaultConfig.
type Config struct {
	// Name is the component in the log, and the system in errors.
	Name string
	// Listen is the address for the public, host:port. Port 0 picks a free one.
	Listen string
	// AdminListen is the address for metrics, profiles and what the system lets its
	// operator do. It should not be public.
	AdminListen string
	// AdminToken is what profiles and changes there need, see Admin: at least
	// minToken characters; empty if there are to be none.
	AdminToken string
	// MaxConns bounds the open connections; one more is answered 503.
	MaxConns int
	// PerClient bounds those of one client; nil if one may have all.
	PerClient *httpserver.PerClient
	// MaxBodyBytes bounds a request's body.
	MaxBodyBytes int
	// Drain is how long the service goes on accepting requests, not ready,
	// after it has been told to stop: as long as a balancer takes to notice.
	Drain time.Duration
	// StopTimeout bounds what comes after Drain. Both together must be less
	// than what the process's supervisor waits before it kills.
	StopTimeout time.Duration
	// Listening is told both addresses when requests are accepted from now on. It
	// must return soon. Nil for nobody.
	Listening func(api, admin net.Addr)
}

// minToken is out of reach for guessing, if it is random.
const minToken = 16

// DefaultConfig returns a service that is reachable from this machine only.
func DefaultConfig(name string) Config {
	server := httpserver.DefaultConfig()
	return Config{
		Name: name, Listen: "127.0.0.1:8080", AdminListen: "127.0.0.1:9090",
		MaxConns: server.MaxConns, MaxBodyBytes: server.MaxBodyBytes,
		// One probe of a balancer that asks every second.
		Drain: time.Second,
		// Together with Drain below the 10 s after which Docker kills a container.
		StopTimeout: 8 * time.Second,
	}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	for _, a := range []struct{ what, value string }{{"listen", c.Listen}, {"admin", c.AdminListen}} {
		if _, _, err := net.SplitHostPort(a.value); err != nil {
			errs = append(errs, fmt.Errorf("%s address is %q: write HOST:PORT, such as 127.0.0.1:8080", a.what, a.value))
		}
	}
	if n := len(c.AdminToken); n > 0 && n < minToken {
		errs = append(errs, fmt.Errorf("admin token has %d characters: write at least %d", n, minToken))
	}
	for _, n := range []struct {
		what  string
		value int
	}{{"connections", c.MaxConns}, {"bytes of a request's body", c.MaxBodyBytes}} {
		if n.value < 1 {
			errs = append(errs, fmt.Errorf("%d %s at most: write at least 1", n.value, n.what))
		}
	}
	if c.Drain < 0 {
		errs = append(errs, fmt.Errorf("drain time is %v, must not be negative", c.Drain))
	}
	if c.StopTimeout <= 0 {
		errs = append(errs, fmt.Errorf("stop timeout is %v, must be positive", c.StopTimeout))
	}
	return errors.Join(errs...)
}

// Handler is who answers requests. Both functions must not panic.
type Handler struct {
	Handle fasthttp.RequestHandler
	// BadRequest answers what could not be read as a request, see httpserver.Config.
	BadRequest func(ctx *fasthttp.RequestCtx, status int)
}

// Service is what a system builds on while it opens its parts.
type Service struct {
	Logger   *slog.Logger
	Registry *prometheus.Registry

	cfg      Config
	group    *Group
	draining func() bool // nil until the server is there
	admin    []adminHandler
}

type adminHandler struct {
	pattern string
	handler http.Handler
}

// Open makes the parts of a system and adds them to the service in the order in which
// they depend on each other. What it has added when it fails is closed.
type Open func(ctx context.Context, s *Service) (Handler, error)

// Run serves until ctx ends and then stops as the package says. It returns nil if that
// lost nothing.
func Run(ctx context.Context, cfg Config, logger *slog.Logger, open Open) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	const margin = time.Second // that a component gets beyond what it allows itself
	s := &Service{
		Logger: logger.With("component", cfg.Name), Registry: prometheus.NewRegistry(),
		cfg: cfg, group: NewGroup(cfg.Drain + cfg.StopTimeout + margin),
	}
	if err := s.open(ctx, open); err != nil {
		return errors.Join(err, s.group.Close())
	}
	if err := s.group.Run(ctx); err != nil {
		return fmt.Errorf("serve %s: %w", cfg.Name, err)
	}
	s.Logger.Info("stopped")
	return nil
}

// open makes all parts and binds both addresses.
func (s *Service) open(ctx context.Context, open Open) error {
	s.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	handler, err := open(ctx, s)
	if err != nil {
		return err
	}
	admin, err := ListenAdmin(ctx, s.cfg.AdminListen, s.cfg.AdminToken, s.Registry)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	for _, h := range s.admin {
		admin.Handle(h.pattern, h.handler)
	}
	s.group.components = slices.Insert(s.group.components, 0, Component{Name: "admin", Run: admin.Run, Close: admin.Close})
	server, err := httpserver.Listen(ctx, s.server(handler))
	if err != nil {
		return fmt.Errorf("serve %s: %w", s.cfg.Name, err)
	}
	s.draining = server.Draining
	s.Add(Component{Name: "api", Run: server.Run, Close: server.Close})
	s.Logger.Info("listening", "address", server.Addr().String(), "admin", admin.Addr().String())
	if s.cfg.Listening != nil {
		s.cfg.Listening(server.Addr(), admin.Addr())
	}
	return nil
}

func (s *Service) server(handler Handler) httpserver.Config {
	c := httpserver.DefaultConfig()
	c.Addr, c.MaxConns, c.MaxBodyBytes = s.cfg.Listen, s.cfg.MaxConns, s.cfg.MaxBodyBytes
	c.PerClient, c.Drain, c.StopTimeout = s.cfg.PerClient, s.cfg.Drain, s.cfg.StopTimeout
	c.Handler, c.BadRequest, c.Registerer = handler.Handle, handler.BadRequest, s.Registry
	return c
}

// Add appends a component. It stops before all that were added before it, and after
// the last request was answered.
func (s *Service) Add(c Component) { s.group.Add(c) }

// HandleAdmin adds what the system lets its operator do, see Admin.Handle.
func (s *Service) HandleAdmin(pattern string, handler http.Handler) {
	s.admin = append(s.admin, adminHandler{pattern, handler})
}

// Ready reports whether requests should be sent here: the service has not been told to
// stop, and every component is ready. It is for requests, which come only once the
// service runs.
func (s *Service) Ready() bool {
	if s.draining() {
		return false
	}
	for _, c := range s.group.components {
		if c.Ready != nil && !c.Ready() {
			return false
		}
	}
	return true
}
