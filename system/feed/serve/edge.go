package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"loadstone/block/route"
	"loadstone/block/service"
	"loadstone/system/feed/httpapi"
	"loadstone/system/feed/snapshot/edge"
	"loadstone/system/feed/stores"
)

// EdgeConfig says what an edge serves and where. Start from DefaultEdgeConfig.
type EdgeConfig struct {
	service.Config

	// Edge has the times.
	Edge edge.Config
	// From is the store of snapshots, see stores.ParseObjects, with its keys.
	From string
	Keys stores.Keys
}

// DefaultEdgeConfig has all but the store.
func DefaultEdgeConfig() EdgeConfig {
	return EdgeConfig{Config: service.DefaultConfig("edge"), Edge: edge.DefaultConfig()}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c EdgeConfig) Validate() error {
	return errors.Join(c.Config.Validate(), c.Edge.Validate(), checkObjects(c.From, c.Keys))
}

// RunEdge serves a snapshot until ctx ends and then stops as package service says. It does not listen before it has one: who
// is in front has what it kept, and takes it if nobody answers, but not in place of an answer that says that there is none.
func RunEdge(ctx context.Context, cfg EdgeConfig, logger *slog.Logger) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	name, err := stores.ParseObjects(cfg.From)
	if err != nil {
		return err
	}
	logger.Info("configuration", "component", cfg.Name, "listen", cfg.Listen, "admin_listen", cfg.AdminListen, "from", name.String(), "interval", cfg.Edge.Interval.String(),
		"stale_if_error", cfg.Edge.StaleIfError.String(), "shared", cfg.Edge.Shared.String(), "drain", cfg.Drain.String(), "stop_timeout", cfg.StopTimeout.String())
	err = service.Run(ctx, cfg.Config, logger, func(ctx context.Context, s *service.Service) (service.Handler, error) {
		from, err := name.Open(cfg.Keys)
		if err != nil {
			return service.Handler{}, fmt.Errorf("open the store of snapshots: %w", err)
		}
		s.Add(service.Component{Name: "snapshots", Close: from.Close})
		cfg.Edge.Store = from
		routes := route.New(route.Config{Table: httpapi.Answers(), Ready: s.Ready, Logger: s.Logger, Registerer: s.Registry})
		e, err := addEdge(s, routes, cfg.Edge)
		if err != nil {
			return service.Handler{}, err
		}
		s.Add(service.Component{Name: "edge", Run: e.Run, Ready: e.Ready})
		return service.Handler{Handle: routes.Handle, BadRequest: routes.BadRequest}, e.Await(ctx)
	})
	if errors.Is(err, context.Canceled) { // told to stop before there was one
		return nil
	}
	return err
}

// addEdge makes an edge and its routes. The caller has it run.
func addEdge(s *service.Service, routes *route.Routes, cfg edge.Config) (*edge.Edge, error) {
	cfg.Logger, cfg.Registerer = s.Logger, s.Registry
	e, err := edge.New(cfg)
	if err != nil {
		return nil, err
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		routes.Add(method, cfg.Path+"/", e.Handle)
	}
	return e, nil
}
