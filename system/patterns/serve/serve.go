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
//	New(cfg Config) (*Handler, error)
//	(*Handler) Handle(ctx *fasthttp.RequestCtx) error   see route.Handler; reads id and body itself
//	(*Handler) Run(ctx context.Context) error           its goroutines, until ctx ends; only if it has some
//	(*Handler) Ready() bool                             only if it can be not ready
//	(*Handler) Close() error                            after the last answer has been given
//
// and fails with the codes of package patterns, which says how each is answered. In this
// package each pattern has a function that makes the handler, adds it to the service,
// and adds the routes; and its part of Config. A pattern that is off has no
// route, and is answered 404, unless "off" is a way of doing the same: so it is for
// movies, books and jobs.
//
// What starts and stops when is package service's to say. A request that was accepted is
// answered, and then the patterns stop in the reverse order of opening.
package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"loadstone/block/route"
	"loadstone/block/service"
	"loadstone/system/patterns"
	"loadstone/system/patterns/activity"
	"loadstone/system/patterns/activity/stores"
	"loadstone/system/patterns/book"
	"loadstone/system/patterns/event"
	"loadstone/system/patterns/job"
	"loadstone/system/patterns/movie"
)

// Run serves until ctx ends and then stops as package service says. It returns nil if
// that lost nothing. It logs the whole configuration once, then the addresses.
func Run(ctx context.Context, cfg Config, logger *slog.Logger) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	logger.Info("configuration", cfg.attributes()...)
	return service.Run(ctx, cfg.Config, logger, func(ctx context.Context, s *service.Service) (service.Handler, error) {
		routes := route.New(route.Config{Table: patterns.Errors, Ready: s.Ready, Logger: s.Logger, Registerer: s.Registry})
		for _, open := range []func(context.Context, Config, *service.Service, *route.Routes) error{
			openMovies, openBooks, openJobs, openEvents, openActivities,
		} {
			if err := open(ctx, cfg, s, routes); err != nil {
				return service.Handler{}, err
			}
		}
		return service.Handler{Handle: routes.Handle, BadRequest: routes.BadRequest}, nil
	})
}

func openMovies(_ context.Context, cfg Config, s *service.Service, routes *route.Routes) error {
	cfg.Movies.Registerer = s.Registry
	h, err := movie.New(cfg.Movies)
	if err != nil {
		return fmt.Errorf("open the movies: %w", err)
	}
	s.Add(service.Component{Name: "movies", Run: h.Run, Close: h.Close, Ready: h.Ready})
	routes.Add("GET", "/getPopularMovies", h.Handle)
	return nil
}

func openBooks(ctx context.Context, cfg Config, s *service.Service, routes *route.Routes) error {
	cfg.Books.Registerer = s.Registry
	h, err := book.New(ctx, cfg.Books)
	if err != nil {
		return fmt.Errorf("open the books: %w", err)
	}
	s.Add(service.Component{Name: "books", Close: h.Close})
	routes.Add("GET", book.Path, h.Handle)
	return nil
}

func openJobs(_ context.Context, cfg Config, s *service.Service, routes *route.Routes) error {
	cfg.Jobs.Registerer = s.Registry
	h, err := job.New(cfg.Jobs)
	if err != nil {
		return fmt.Errorf("open the jobs: %w", err)
	}
	s.Add(service.Component{Name: "jobs", Close: h.Close})
	routes.Add("GET", "/handle", h.Handle)
	s.HandleAdmin("PUT /pool", http.HandlerFunc(h.Resize))
	return nil
}

func openEvents(ctx context.Context, cfg Config, s *service.Service, routes *route.Routes) error {
	if cfg.Events == Off {
		return nil
	}
	h, err := event.New(ctx, cfg.Events, s.Registry)
	if err != nil {
		return fmt.Errorf("open the events: %w", err)
	}
	s.Add(service.Component{Name: "events", Close: h.Close, Ready: h.Ready})
	routes.Add("POST", "/handle", h.Handle)
	return nil
}

func openActivities(ctx context.Context, cfg Config, s *service.Service, routes *route.Routes) error {
	if cfg.Activities == Off {
		return nil
	}
	store, err := stores.Open(ctx, cfg.Activities, s.Registry)
	if err != nil {
		return err
	}
	h := activity.New(store, s.Logger, s.Registry)
	s.Add(service.Component{Name: "activities", Close: h.Close})
	routes.Add("POST", activity.Path, h.Post)
	routes.Add("GET", activity.Path+"/", h.Get)
	return nil
}
