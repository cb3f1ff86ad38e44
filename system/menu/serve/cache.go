package serve

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/cache/rediscache"
	"loadstone/block/dictionary"
	"loadstone/block/lookaside"
	"loadstone/block/route"
	"loadstone/block/service"
	"loadstone/system/menu/httpapi"
	"loadstone/system/menu/proxy"
)

// cacheConfig describes the cache of menus in the Redis at an address; Load is for whoever
// reads. The logger is told when Redis is lost, and when it is back.
func cacheConfig(address string, registerer prometheus.Registerer, logger *slog.Logger) (lookaside.Config, error) {
	redis := rediscache.DefaultConfig(proxy.CacheName, "", registerer)
	redis.Prefix = proxy.CacheName + ":"
	lost := route.NewErrorLog(logger, "redis does not answer: look-ups go to the menu servers, and changes are refused")
	redis.Switched = func(why error) {
		if why != nil {
			lost.Log("error", why)
			return
		}
		logger.Info("redis answers")
	}
	redis, err := redis.At(address)
	return lookaside.DefaultConfig(redis), err
}

// tellCache makes the interface tell the proxies' cache of writes.
func tellCache(ctx context.Context, address string, with *dictionary.Set, s *service.Service, to *httpapi.Config) error {
	cfg, err := cacheConfig(address, s.Registry, s.Logger)
	if err != nil {
		return err
	}
	proxy.Filling(&cfg, with, proxy.FromStore(to.Store))
	cached, err := lookaside.New(ctx, cfg)
	if err != nil {
		return fmt.Errorf("open the cache of the proxies: %w", err)
	}
	s.Add(service.Component{Name: "cache", Close: cached.Close})
	telling := proxy.Telling{Cache: cached, Dictionaries: with}
	to.Changing, to.Changed, to.Unchanged = telling.Changing, telling.Changed, telling.Unchanged
	return nil
}
