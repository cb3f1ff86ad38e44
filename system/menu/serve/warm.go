package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/cache/rediscache"
	"loadstone/block/dataset"
	"loadstone/block/dictionary"
	"loadstone/block/lookaside"
	"loadstone/system/menu"
	"loadstone/system/menu/proxy"
)

// WarmConfig says which Redis is to be filled, from where. Start from DefaultWarmConfig.
type WarmConfig struct {
	// Servers, Redis and Dictionaries are those of the proxies, see ProxyConfig. What is compressed
	// in Redis with a dictionary that is not among them would be replaced.
	Servers      []string
	Redis        string
	Dictionaries []string
	// Concurrent is how many look-ups are under way at one time.
	Concurrent int
}

// maxConcurrent is how many connections to a server there are at most.
const maxConcurrent = 256

// patience is how long Redis may take: it may be forking a snapshot of all, or run on a busy machine.
const patience = 5 * time.Second

// DefaultWarmConfig returns a configuration that leaves a database time for others: a look-up that takes a
// millisecond there makes 8,000 a second, while a proxy allows itself 32 at one time.
func DefaultWarmConfig() WarmConfig { return WarmConfig{Concurrent: 8} }

// Validate returns all problems of the configuration, joined, or nil.
func (c WarmConfig) Validate() error {
	p := c.proxy()
	var concurrent error
	if c.Concurrent < 1 || c.Concurrent > maxConcurrent {
		concurrent = fmt.Errorf("%d look-ups at one time: write 1 to %d", c.Concurrent, maxConcurrent)
	}
	return errors.Join(p.Validate(), rediscache.CheckAddress(c.Redis), concurrent)
}

// proxy is one that answers nobody.
func (c WarmConfig) proxy() proxy.Config {
	p := proxy.DefaultConfig()
	p.Servers, p.Limits.Conns = c.Servers, maxConcurrent
	p.Ready, p.Logger, p.Registerer = func() bool { return false }, slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	return p
}

// Warm fills those of the menus into the proxies' Redis that it lacks, as a proxy does: see
// lookaside.Cache.Warm. Progress may be nil.
func Warm(ctx context.Context, cfg WarmConfig, ids []int64, progress dataset.Progress) (did lookaside.Warmed, err error) {
	if err := cfg.Validate(); err != nil {
		return did, err
	}
	c := cfg.proxy()
	if c.Dictionaries, err = dictionary.ReadSet(cfg.Dictionaries, menu.MaxBodyBytes); err != nil {
		return did, err
	}
	shared, err := cacheConfig(cfg.Redis, c.Registerer, c.Logger)
	if err != nil {
		return did, err
	}
	// Nobody waits for an answer: better late than asked again.
	shared.Redis.ReadTimeout, shared.Redis.WriteTimeout, shared.LoadTimeout = patience, patience, c.Limits.Timeout
	shared.Shed.Concurrent = cfg.Concurrent
	c.Cache = &shared
	p, err := proxy.New(ctx, c)
	if err != nil {
		return did, err
	}
	tell := func(w lookaside.Warmed) {
		if progress != nil {
			progress(w.Keys(), int64(len(ids)))
		}
	}
	did, err = p.Warm(ctx, slices.Values(ids), cfg.Concurrent, tell)
	return did, errors.Join(err, p.Close())
}
