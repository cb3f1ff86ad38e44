// Package serve makes a running service of the system's parts. A command only fills a
// Config. It holds no logic of its own.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"loadstone/block/backoffice"
	"loadstone/block/compress"
	"loadstone/block/route"
	"loadstone/block/service"
	"loadstone/system/feed"
	"loadstone/system/feed/admin"
	"loadstone/system/feed/httpapi"
	"loadstone/system/feed/snapshot/edge"
	"loadstone/system/feed/snapshot/publish"
	"loadstone/system/feed/stores"
	"loadstone/system/feed/web"
)

// Config says what the feed server serves and where. Start from DefaultConfig.
type Config struct {
	service.Config

	// Store is what to serve, see stores.Parse.
	Store string
	// Serializer makes JSON of answers.
	Serializer feed.Serializer
	// Codings compress answers, for clients that take it.
	Codings compress.Codings
	// Each reads the details of several posts by one query for each, see feed.Reader.
	Each bool
	// CacheBytes bounds what is kept in memory of a store that tells whether it has changed, 0 for nothing.
	CacheBytes int64
	// CursorTTL is how long a cursor is good.
	CursorTTL time.Duration
	// Page serves the readers' page beside the interface.
	Page bool
	// Settings are about those who may use the admin's pages.
	backoffice.Settings

	// Snapshots, if not empty, is the store of snapshots into which the feed is published by this server every
	// PublishEvery, and from which it is served beside the live interface, see RunPublisher and RunEdge.
	Snapshots    string
	Keys         stores.Keys
	PublishEvery time.Duration
}

// DefaultConfig returns a configuration for one machine, reachable from that machine only.
func DefaultConfig() Config {
	return Config{
		Config: service.DefaultConfig("feed"), Store: "sqlite:feed.db", Serializer: feed.Append,
		CacheBytes: 32 << 20,       // more than what a day's readers look at
		CursorTTL:  24 * time.Hour, // an app that is opened again the next morning
		Page:       true, PublishEvery: publish.DefaultConfig().Every,
	}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	_, store := stores.Parse(c.Store)
	var ttl error
	if c.CursorTTL < time.Minute {
		ttl = fmt.Errorf("cursors are good for %v: write at least 1m", c.CursorTTL)
	}
	var publisher error
	if c.Snapshots != "" {
		publisher = c.publisher().Validate()
	}
	var cache error
	if c.CacheBytes < 0 {
		cache = fmt.Errorf("the cache has %d bytes: write at least 0", c.CacheBytes)
	}
	return errors.Join(c.Config.Validate(), store, c.Serializer.Check(), ttl, cache, publisher, c.Check())
}

// publisher is the configuration of the one beside the interface.
func (c Config) publisher() PublisherConfig {
	p := DefaultPublisherConfig()
	p.From, p.To, p.Keys, p.Every = c.Store, c.Snapshots, c.Keys, c.PublishEvery
	return p
}

// Run serves a feed until ctx ends and then stops as package service says. It returns nil if
// that lost nothing. It logs the whole configuration once, then the addresses.
func Run(ctx context.Context, cfg Config, logger *slog.Logger) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	name, err := stores.Parse(cfg.Store)
	if err != nil {
		return err
	}
	cfg.MaxBodyBytes = max(cfg.MaxBodyBytes, cfg.formBytes())
	logger.Info("configuration", "component", cfg.Name, "listen", cfg.Listen, "admin_listen", cfg.AdminListen, "store", name.String(),
		"serializer", cfg.Serializer, "compression", cfg.Codings.String(), "each", cfg.Each, "cache_bytes", cfg.CacheBytes, "cursor_ttl", cfg.CursorTTL, "page", cfg.Page, "accounts", cfg.Accounts, "snapshots", cfg.Snapshots, "drain", cfg.Drain, "stop_timeout", cfg.StopTimeout)
	return service.Run(ctx, cfg.Config, logger, func(ctx context.Context, s *service.Service) (service.Handler, error) {
		store, err := name.Open(ctx, s.Registry)
		if err != nil {
			return service.Handler{}, fmt.Errorf("open the store: %w", err)
		}
		s.Add(service.Component{Name: "store", Close: store.Close})
		meta, err := stores.Answer(ctx, store.Meta)
		if err != nil && !errors.Is(err, feed.ErrMissing) { // posts that were written one by one
			return service.Handler{}, fmt.Errorf("open the store: %w", err)
		}
		s.Logger.Info("store opened", "origin", meta.Origin, "posts", meta.Count)
		key, err := stores.Answer(ctx, store.Key)
		if err != nil {
			return service.Handler{}, fmt.Errorf("read the key of cursors: %w", err)
		}
		cache, err := feed.NewCache(store, cfg.CacheBytes, s.Registry)
		if err != nil {
			return service.Handler{}, err
		}
		reader := &feed.Reader{Store: store, Cursors: feed.NewCursors(key, cfg.CursorTTL), Each: cfg.Each, Cache: cache}
		api, err := httpapi.New(httpapi.Config{Reader: reader, Serializer: cfg.Serializer, Codings: cfg.Codings, Ready: s.Ready, Logger: s.Logger, Registerer: s.Registry})
		if err != nil {
			return service.Handler{}, fmt.Errorf("make the interface: %w", err)
		}
		if cfg.Page {
			site, err := web.New(web.Config{Reader: reader, Logger: s.Logger})
			if err != nil {
				return service.Handler{}, fmt.Errorf("make the page: %w", err)
			}
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				api.Add(method, web.Path, site.Handle)
			}
		}
		if err := addAdmin(cfg, s, store, api.Routes); err != nil {
			return service.Handler{}, fmt.Errorf("make the pages of editors: %w", err)
		}
		if cfg.Snapshots != "" {
			if err := publishBeside(ctx, s, cfg.publisher(), store, api.Routes); err != nil {
				return service.Handler{}, fmt.Errorf("publish beside the interface: %w", err)
			}
		}
		return service.Handler{Handle: api.Handle, BadRequest: api.BadRequest}, nil
	})
}

// formBytes bounds the forms that are sent to this server.
func (c Config) formBytes() int {
	if c.Accounts == "" {
		return 0
	}
	return admin.MaxFormBytes
}

// addAdmin lets a server answer with the pages of editors, too, if there are any.
func addAdmin(cfg Config, s *service.Service, store feed.Store, to *route.Routes) error {
	if cfg.Accounts == "" {
		return nil
	}
	desk, ok := store.(feed.Desk)
	if !ok {
		return errors.New("posts cannot be edited in this store")
	}
	office, err := cfg.Office(s, admin.Roles())
	if err != nil {
		return err
	}
	pages, err := admin.New(admin.Config{Office: office, Desk: desk})
	if err != nil {
		return err
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		to.Add(method, admin.Path, pages.Handle)
		to.Add(method, admin.Path+"/", pages.Handle)
	}
	return nil
}

// publishBeside publishes the store and serves what is published. Whether there is a snapshot does not decide whether the
// server is ready: the rest does without.
func publishBeside(ctx context.Context, s *service.Service, cfg PublisherConfig, store feed.Store, routes *route.Routes) error {
	cfg.Logger, cfg.Registerer = s.Logger, s.Registry
	p, objects, err := cfg.openPublisher(ctx, store, s.Add)
	if err != nil {
		return err
	}
	c := edge.DefaultConfig()
	c.Store = objects
	e, err := addEdge(s, routes, c)
	if err != nil {
		return err
	}
	s.Add(service.Component{Name: "publisher", Run: p.Run})
	s.Add(service.Component{Name: "edge", Run: e.Run})
	return nil
}
