// Package serve makes a running results service of its parts: a store, perhaps
// caches before it, the HTTP interface, the students' page, and the servers for
// students and for the operator. Run is all of it; a command only fills a Config.
//
// It holds no logic of its own beside that: what a page is, where it is stored
// and how a request is answered are the other packages' business.
//
// # What is served when what is gone
//
// With the defaults, less up to a tenth of its age for each page so that they do not all
// go at once:
//
//	Redis is gone       Everything, from memory and store. A look-up in Redis is
//	or slow             given up after 500 ms; after two that failed in turn none
//	                    is tried, until a probe every 250 ms is answered.
//	                    Limits are each replica's own meanwhile, see package guard.
//	Redis is empty      Everything; it fills again with what is asked for.
//	the database is     What is cached, here or in Redis, for 24 hours after it was
//	gone                read (CacheMaxAge), or after the publication for which it was
//	                    preloaded. The rest, pages that are known to have been
//	                    corrected, and whoever has a wrong code, is 503 with
//	                    Retry-After. Without a cache the service is not ready.
//	both are gone       What is in this process's memory.
//	the database is     The service starts without it, is not ready, and answers 503
//	not there yet       until it has seen once which data set the database has.
//	the database is     The same: nothing of what was there before is served. Then
//	emptied, or filled  all is served from the new data set.
//	anew
//
// The database is never asked by more look-ups at one time than its pool has
// connections, whatever is lost: up to 4,096 more wait, for 2 seconds, and are then
// refused with 503 and Retry-After.
//
// # How long a correction takes
//
// A service asks its store every second which data set it holds, at which revision, and
// which students were corrected by which revision (results.State). A page that was read
// before its student's last correction is not served any more, from memory or from Redis.
// So a correction is seen
//
//	over a PostgreSQL or SQLite database   within about a second of its commit, whatever
//	                                       happens to whoever corrects
//	by a process that does not reach the   within about a second of when it does; until
//	database                               then it may serve the page as it was, and
//	                                       nobody can tell it: it does not know of any
//	                                       correction since its last answer, whose age is
//	                                       results_postgres_state_age_seconds
//	over a snapshot                        when it is published again
//
// The last 65,536 corrections are known one by one (results.MaxCorrections). Before them no
// page is fresh: after a correction of everybody all pages are read again, as far as the
// pool allows, and a preload fills Redis with them.
//
// Another data set, SQLite database or snapshot is seen within about a second too, and
// nothing of the one before is served from any tier.
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
	"loadstone/system/results/httpapi/guard"
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
	cfg.PerClient = cfg.perClient()
	return service.Run(ctx, cfg.Config, logger, func(ctx context.Context, s *service.Service) (service.Handler, error) {
		store, served, kind, err := openStore(ctx, cfg, s, switched)
		if err != nil {
			return service.Handler{}, err
		}
		peers, err := openPeers(cfg, s)
		if err != nil {
			return service.Handler{}, err
		}
		api, err := httpapi.New(httpapi.Config{
			Store: store, Access: cfg.Access, Limits: cfg.Limits, Peers: peers, Proxies: cfg.Proxies, Publication: served.Publication,
			Ready: s.Ready, Logger: s.Logger, Registerer: s.Registry, NotFoundAfter: cfg.notFoundAfter(kind),
		})
		if err != nil {
			return service.Handler{}, fmt.Errorf("make the interface: %w", err)
		}
		s.Add(service.Component{Name: "pulse", Run: api.Run})
		handle, err := withPage(cfg, api, s.Logger, s.Registry) //nolint:contextcheck // a request has its own
		return service.Handler{Handle: handle, BadRequest: api.BadRequest}, err
	})
}

// openPeers makes replicas share limits, if there are some and a Redis.
func openPeers(cfg Config, s *service.Service) (*guard.Peers, error) {
	if cfg.Limits == nil || cfg.Redis == "" {
		return nil, nil //nolint:nilnil // none is a value
	}
	redis, err := pagecache.TierConfig(cfg.Redis, s.Registry)
	if err != nil {
		return nil, err
	}
	peers := guard.NewPeers(*cfg.Limits, redis.Addr, redis.Username, redis.Password)
	s.Add(service.Component{Name: "limits", Run: peers.Run, Close: peers.Close})
	return peers, nil
}

// openStore opens what the configuration names, with the caches before it, and adds
// their switches.
//
// A service with a cache stays ready while its database is away: it answers what
// it has, and so would all its peers, which share the database. Taking them all out
// would turn a part of the failures into failures only. One that has never seen its
// database is not ready: it does not know whose pages to serve, and whether they are out.
func openStore(ctx context.Context, cfg Config, s *service.Service, switched func(from, to dataset.Meta)) (store results.Store, served *stores.Served, kind string, err error) {
	name, err := stores.Parse(cfg.Store)
	if err != nil {
		return nil, nil, "", err
	}
	served, err = name.Open(ctx, s.Logger, s.Registry)
	if err != nil {
		return nil, nil, "", err
	}
	s.Add(service.Component{Name: "store", Run: served.Run, Close: served.Close, Ready: func() bool {
		_, known := served.State()
		return known && (cfg.Cache != pagecache.None || served.Answers())
	}})
	store, switches, forget := served.Store, cache.NewSwitches(nil, nil), func() error { return nil }
	if cfg.Cache != pagecache.None {
		cached, err := pagecache.Open(ctx, cfg.Tiers, served, s.Registry)
		if err != nil {
			return nil, nil, "", err
		}
		s.Add(service.Component{Name: "cache", Close: cached.Close})
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
	return store, served, name.Kind, nil
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
	c.Publication, c.Admit, c.Lookup, c.Registerer = api.Publication, api.Admit, api.Decide, registerer
	c.Panicked = func(value any, stack []byte) {
		logger.Error("a page panicked", "panic", value, "stack", string(stack))
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
