package serve

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"loadstone/block/service"
	"loadstone/system/results"
	"loadstone/system/results/pagecache"
	"loadstone/system/results/pgstore"
)

// connect opens the database at the address. One that does not answer is opened
// later, when it does: until then the service is not ready, and answers that it
// cannot look up. One that answers and cannot be served is a mistake that is better
// told at once.
func (s *server) connect(ctx context.Context, address string) (results.Store, error) {
	cfg := pgstore.DefaultConfig()
	cfg.URL, cfg.Registerer = address, s.registry
	cfg.Events.Opened = s.openedLater
	cfg.Events.Refused = func(err error) {
		s.logger.Warn("the database cannot be served yet; trying again", "error", err)
	}
	store, err := pgstore.Open(ctx, cfg)
	if errors.Is(err, results.ErrUnavailable) && ctx.Err() == nil {
		s.logger.Warn("starting without the database", "error", err)
		cfg.Lazy = true
		store, err = pgstore.Open(ctx, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	s.answers, s.pool = store.Ready, poolSize(address, cfg.Connections)
	s.group.Add(service.Component{Name: "store", Run: store.Run, Close: store.Close})
	if !cfg.Lazy {
		s.opened(store.Meta())
	}
	return store, nil
}

// openedLater follows the opening of a database that was not there at the start.
func (s *server) openedLater(meta results.Meta) {
	s.opened(meta)
	if s.cached == nil {
		return
	}
	if err := s.cached.Switch(); err != nil {
		s.logger.Error("the cache was not cleared", "error", err) // there is nothing in it
	}
}

// poolSize is how many connections pgstore makes: those of the address win.
func poolSize(address string, configured int) int {
	if u, err := url.Parse(address); err == nil {
		if n, err := strconv.Atoi(u.Query().Get("pool_max_conns")); err == nil && n > 0 {
			return n
		}
	}
	return configured
}

// cache puts the caches before a store.
func (s *server) cache(ctx context.Context, store results.Store) (results.Store, error) {
	behind := backing{Store: store, set: s.set, pool: s.pool}
	var err error
	if !s.cfg.hasRedis() {
		s.cached, err = newCached(behind, s.cfg, nil, s.registry)
	} else {
		err = s.cacheShared(ctx, behind)
	}
	if err != nil {
		return nil, err
	}
	s.group.Add(service.Component{Name: "cache", Close: s.cached.Close})
	return s.cached, nil
}

func (s *server) cacheShared(ctx context.Context, behind backing) error {
	shared, err := pagecache.OpenShared(ctx, s.cfg.Redis, s.registry)
	if err != nil {
		return err
	}
	s.group.Add(service.Component{Name: "redis", Run: shared.Run, Close: shared.Close})
	s.cached, err = newCached(behind, s.cfg, shared, s.registry)
	return err
}
