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
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/cache"
	"loadstone/block/dataset"
	"loadstone/block/service"
	"loadstone/system/results"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/pagecache"
	"loadstone/system/results/stores"
	"loadstone/system/results/web"
)

// Run serves until ctx ends and then stops as package service says. It returns nil if
// that lost nothing. It logs the whole configuration once, then the addresses.
//
// switched is told that look-ups are answered from a new snapshot from now on, and
// nothing of the old one is cached. It must return soon; nil for nobody.
func Run(ctx context.Context, cfg Config, logger *slog.Logger, switched func(from, to dataset.Meta)) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	logger.Info("configuration", cfg.attributes()...)
	return service.Run(ctx, cfg.Config, logger, func(ctx context.Context, s *service.Service) (service.Handler, error) {
		store, kind, err := openStore(ctx, cfg, s, switched)
		if err != nil {
			return service.Handler{}, err
		}
		api, err := httpapi.New(httpapi.Config{
			Store: store, Access: cfg.Access, Limits: cfg.Limits, Proxies: cfg.Proxies, PublishAt: cfg.PublishAt,
			Ready: s.Ready, Logger: s.Logger, Registerer: s.Registry, NotFoundAfter: cfg.notFoundAfter(kind),
		})
		if err != nil {
			return service.Handler{}, fmt.Errorf("make the interface: %w", err)
		}
		handle, err := withPage(cfg, api, s.Logger, s.Registry) //nolint:contextcheck // a request has its own
		return service.Handler{Handle: handle, BadRequest: api.BadRequest}, err
	})
}

// openStore opens what the configuration names, with the caches before it, and adds
// their switches.
//
// A service with a cache stays ready while its database is away: it answers what
// it has, and so would all its peers, which share the database. Taking them all out
// would turn a part of the failures into failures only. One that has never seen its
// database is not ready: it does not know whose pages to serve.
func openStore(ctx context.Context, cfg Config, s *service.Service, switched func(from, to dataset.Meta)) (store results.Store, kind string, err error) {
	name, err := stores.Parse(cfg.Store)
	if err != nil {
		return nil, "", err
	}
	served, err := name.Open(ctx, s.Logger, s.Registry)
	if err != nil {
		return nil, "", err
	}
	s.Add(service.Component{Name: "store", Run: served.Run, Close: served.Close, Ready: func() bool {
		return served.Filled() && (cfg.Cache != pagecache.None || served.Answers())
	}})
	store, switches, forget := served.Store, cache.NewSwitches(nil, nil), func() error { return nil }
	if cfg.Cache != pagecache.None {
		cached, err := pagecache.Open(ctx, cfg.Tiers, served, s.Registry)
		if err != nil {
			return nil, "", err
		}
		s.Add(service.Component{Name: "cache", Run: cached.Run, Close: cached.Close})
		store, switches, forget = cached, cached.Switches, cached.Switch
	}
	s.HandleAdmin("/cache", switches)
	s.HandleAdmin("/cache/", switches)
	served.Changed = func(from, to dataset.Meta) {
		if err := forget(); err != nil {
			// Old pages then take room until their age is over.
			s.Logger.Error("the cache was not cleared", "error", err)
		}
		if switched != nil && from.Count > 0 {
			switched(from, to)
		}
	}
	return store, name.Kind, nil
}

// withPage is the interface, with the page at all other addresses if it is wanted.
func withPage(cfg Config, api *httpapi.API, logger *slog.Logger, registerer prometheus.Registerer) (fasthttp.RequestHandler, error) {
	if !cfg.Page {
		return api.Handle, nil
	}
	if cfg.Access == httpapi.Open {
		logger.Warn("access is open: the page asks for a code, and any code opens a result")
	}
	c := web.DefaultConfig()
	c.Opens, c.Lookup, c.Registerer = api.Opens, api.Decide, registerer
	c.Panicked = func(value any, stack []byte) {
		logger.Error("a page panicked", "panic", value, "stack", string(stack))
	}
	if cfg.PublishAt != nil {
		c.PublishAt, c.Location = *cfg.PublishAt, cfg.PublishAt.Location() // as it was announced
	}
	var err error
	if c.SecureCookie, err = web.SecureCookie(cfg.SecureCookie, api.Secure); err != nil {
		return nil, err
	}
	site, err := web.New(c)
	if err != nil {
		return nil, fmt.Errorf("make the page: %w", err)
	}
	return api.Before(site.Handle), nil
}
