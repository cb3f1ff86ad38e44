package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/cache"
	"loadstone/block/dictionary"
	"loadstone/block/lookaside"
	"loadstone/block/redact"
	"loadstone/block/service"
	"loadstone/system/menu"
	"loadstone/system/menu/proxy"
	"loadstone/system/menu/web"
)

// ProxyConfig says what a proxy stands before, and where. Start from DefaultProxyConfig.
type ProxyConfig struct {
	service.Config

	// Servers are the menu servers, as http://host:port.
	Servers []string
	// Routes are the paths of other services, as proxy.ParseRoute reads them.
	Routes []string
	// Redis is where all proxies have menus, see rediscache.AddressForm; empty if every
	// look-up is to go to a menu server.
	Redis string
	// StaleIfError is how long after it was found a menu may be served while Redis does not answer, and just
	// after, see lookaside.Spare; 0 if nobody may get one that has changed. The name is that of RFC 5861.
	StaleIfError time.Duration
	// Dictionaries are those of Config.
	Dictionaries []string
	// Page serves the guests' page, from the same menus.
	Page bool
}

// DefaultProxyConfig returns a configuration for one machine: reachable from that machine
// only. Servers are for the caller.
func DefaultProxyConfig() ProxyConfig {
	c := ProxyConfig{Config: service.DefaultConfig("menu-proxy"), Page: true}
	c.MaxBodyBytes = maxBody
	return c
}

// Validate returns all problems of the configuration, joined, or nil.
func (c ProxyConfig) Validate() error {
	p, err := c.proxy()
	if err == nil { // what is missing is Run's to add
		p.Ready, p.Logger, p.Registerer = func() bool { return true }, slog.New(slog.DiscardHandler), prometheus.NewRegistry()
		err = p.Validate()
	}
	if c.StaleIfError != 0 && c.StaleIfError < time.Second {
		err = errors.Join(err, fmt.Errorf("stale if error is %v: write 0, or at least 1s", c.StaleIfError))
	}
	return errors.Join(c.Config.Validate(), err, checkRedis(c.Redis))
}

// proxy is the part for package proxy, as far as it is known before anything runs.
func (c ProxyConfig) proxy() (p proxy.Config, err error) {
	p = proxy.DefaultConfig()
	p.Servers = c.Servers
	for _, text := range c.Routes {
		route, problem := proxy.ParseRoute(text)
		p.Routes, err = append(p.Routes, route), errors.Join(err, problem)
	}
	return p, err
}

// RunProxy serves as a proxy until ctx ends and then stops as package service says. It
// returns nil if that lost nothing. It logs the whole configuration once, then the addresses.
func RunProxy(ctx context.Context, cfg ProxyConfig, logger *slog.Logger) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	logger.Info("configuration", "component", cfg.Name, "listen", cfg.Listen, "admin_listen", cfg.AdminListen,
		"servers", cfg.Servers, "routes", strings.Join(cfg.Routes, " "), "redis", redact.Address(cfg.Redis), "stale_if_error", cfg.StaleIfError, "dictionaries", cfg.Dictionaries, "page", cfg.Page,
		"drain", cfg.Drain, "stop_timeout", cfg.StopTimeout)
	return service.Run(ctx, cfg.Config, logger, func(ctx context.Context, s *service.Service) (service.Handler, error) {
		c, err := cfg.proxy()
		if err != nil {
			return service.Handler{}, err
		}
		if c.Dictionaries, err = dictionary.ReadSet(cfg.Dictionaries, menu.MaxBodyBytes); err != nil {
			return service.Handler{}, err
		}
		c.Ready, c.Logger, c.Registerer = s.Ready, s.Logger, s.Registry
		if cfg.Redis != "" {
			shared, err := cacheConfig(cfg.Redis, s.Registry, s.Logger)
			if err != nil {
				return service.Handler{}, err
			}
			if cfg.StaleIfError > 0 {
				// Tens of thousands of menus, of half a kilobyte each with a dictionary.
				shared.Spare = &lookaside.Spare{MaxBytes: 32 << 20, Age: cfg.StaleIfError}
			}
			c.Cache = &shared
		}
		var p *proxy.Proxy // the page asks it
		if cfg.Page {
			kept, err := overlays(s, func(ctx context.Context, id int64) ([]byte, error) { return p.Availability(ctx, id) })
			if err != nil {
				return service.Handler{}, err
			}
			site, err := web.New(web.Config{
				Lookup:  func(ctx context.Context, id int64) (menu.Page, error) { return p.Lookup(ctx, id) },
				Overlay: kept, Logger: s.Logger,
			})
			if err != nil {
				return service.Handler{}, fmt.Errorf("make the page: %w", err)
			}
			c.Page = site.Handle
		}
		if p, err = proxy.New(ctx, c); err != nil {
			return service.Handler{}, fmt.Errorf("make the proxy: %w", err)
		}
		s.Add(service.Component{Name: "proxy", Close: p.Close})
		switches := cache.NewSwitches(nil, p.Switch())
		s.HandleAdmin("/cache", switches)
		s.HandleAdmin("/cache/", switches)
		return service.Handler{Handle: p.Handle, BadRequest: p.BadRequest}, nil
	})
}
