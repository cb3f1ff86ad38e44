// Package serve makes running services of the system's parts: Run is the menu server, which
// asks a store, and RunProxy the proxy, which asks Redis and then a menu server. A command
// only fills a Config. It holds no logic of its own.
package serve

import (
	"context"
	"fmt"
	"log/slog"

	"loadstone/block/dictionary"
	"loadstone/block/service"
	"loadstone/system/menu"
	"loadstone/system/menu/admin"
	"loadstone/system/menu/httpapi"
	"loadstone/system/menu/overlay"
	"loadstone/system/menu/stores"
	"loadstone/system/menu/web"
)

// maxBody bounds the body of a request: a menu, and a little more, so that it is the
// interface that says how large a menu may be.
const maxBody = menu.MaxBodyBytes + 1<<10

// Run serves menus until ctx ends and then stops as package service says. It returns nil if
// that lost nothing. It logs the whole configuration once, then the addresses.
func Run(ctx context.Context, cfg Config, logger *slog.Logger) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if cfg.Accounts != "" {
		cfg.MaxBodyBytes = max(cfg.MaxBodyBytes, admin.MaxFormBytes)
	}
	logger.Info("configuration", cfg.attributes()...)
	return service.Run(ctx, cfg.Config, logger, func(ctx context.Context, s *service.Service) (service.Handler, error) {
		store, err := openStore(ctx, cfg, s)
		if err != nil {
			return service.Handler{}, err
		}
		with, err := dictionary.ReadSet(cfg.Dictionaries, menu.MaxBodyBytes)
		if err != nil {
			return service.Handler{}, err
		}
		c := httpapi.Config{Store: store.Store, Dictionaries: with, Token: cfg.Token, Ready: s.Ready, Logger: s.Logger, Registerer: s.Registry}
		if cfg.Redis != "" {
			if err := tellCache(ctx, cfg.Redis, with, s, &c); err != nil {
				return service.Handler{}, err
			}
		}
		if err := addWebhooks(cfg.Webhooks, s, store.Store); err != nil {
			return service.Handler{}, fmt.Errorf("tell of changes: %w", err)
		}
		api, err := httpapi.New(c)
		if err != nil {
			return service.Handler{}, fmt.Errorf("make the interface: %w", err)
		}
		find, err := openSearch(ctx, cfg.SearchIndex, s, store.Store)
		if err != nil {
			return service.Handler{}, err
		}
		if err := addPages(cfg, s, store.Store, api, find); err != nil {
			return service.Handler{}, err
		}
		return service.Handler{Handle: api.Handle, BadRequest: api.BadRequest}, nil
	})
}

// overlays keeps what load finds of availability for the page.
func overlays(s *service.Service, load func(ctx context.Context, id int64) ([]byte, error)) (func(context.Context, int64) *menu.Overlay, error) {
	kept, err := overlay.New(load, s.Registry)
	if err != nil {
		return nil, err
	}
	s.Add(service.Component{Name: "availability", Close: kept.Close})
	return kept.Find, nil
}

func openStore(ctx context.Context, cfg Config, s *service.Service) (*stores.Served, error) {
	name, err := stores.Parse(cfg.Store)
	if err != nil {
		return nil, err
	}
	name.CacheBytes = cfg.CacheBytes
	store, err := name.Open(ctx, s.Logger, s.Registry)
	if err != nil {
		return nil, err
	}
	s.Add(service.Component{Name: "store", Run: store.Run, Close: store.Close})
	return store, nil
}

// addPages lets the interface answer with pages, too: those of guests, and of editors.
func addPages(cfg Config, s *service.Service, store menu.Store, to *httpapi.API, find menu.Searcher) error {
	w := web.Config{Lookup: store.Lookup, Logger: s.Logger}
	if kept, ok := store.(menu.Documents); ok && cfg.Page {
		var err error
		w.Overlay, err = overlays(s, func(ctx context.Context, id int64) ([]byte, error) {
			d, err := kept.Document(ctx, menu.Availability, id)
			return d.Body, err
		})
		if err != nil {
			return err
		}
	}
	site, err := web.New(w)
	if err != nil {
		return fmt.Errorf("make the page: %w", err)
	}
	reading := []string{"GET", "HEAD"}
	if cfg.Page {
		for _, method := range reading {
			to.Add(method, web.Path+"/", site.Handle)
		}
	}
	if cfg.Accounts == "" {
		return nil
	}
	desk, err := newAdmin(cfg, s, store, admin.Config{Writer: to.Writer(), Search: find, Preview: site.Preview})
	if err != nil {
		return fmt.Errorf("make the pages of editors: %w", err)
	}
	for _, method := range append(reading, "POST") {
		to.Add(method, admin.Path, desk.Handle)
		to.Add(method, admin.Path+"/", desk.Handle)
	}
	return nil
}
