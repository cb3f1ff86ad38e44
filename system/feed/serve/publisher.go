package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"loadstone/block/route"
	"loadstone/block/service"
	"loadstone/system/feed"
	"loadstone/system/feed/snapshot"
	"loadstone/system/feed/snapshot/publish"
	"loadstone/system/feed/stores"
)

// PublisherConfig says what a publisher publishes and where. Start from DefaultPublisherConfig.
type PublisherConfig struct {
	publish.Config

	// From is the store of posts, see stores.Parse, and To that of snapshots, see stores.ParseObjects, with its keys.
	From, To string
	Keys     stores.Keys
	// Keep is how long an earlier version can be read, and rolled back to.
	Keep time.Duration
	// AdminListen is the address for metrics, probes and profiles, and AdminToken what profiles need, as service.Config
	// has them.
	AdminListen, AdminToken string
	// Listening is told the address, as in service.Config; nil for nobody.
	Listening func(admin net.Addr)
}

// DefaultPublisherConfig has all but the store of snapshots.
func DefaultPublisherConfig() PublisherConfig {
	return PublisherConfig{
		Config: publish.DefaultConfig(), From: "sqlite:feed.db", Keep: snapshot.DefaultConfig().Keep, AdminListen: "127.0.0.1:9090",
	}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c PublisherConfig) Validate() error {
	_, from := stores.Parse(c.From)
	own := service.DefaultConfig("") // which has nothing else to complain of
	own.AdminListen, own.AdminToken = c.AdminListen, c.AdminToken
	return errors.Join(from, checkObjects(c.To, c.Keys), c.Config.Validate(), c.snapshots().Validate(), own.Validate())
}

// snapshots is the configuration of the one that is published into.
func (c PublisherConfig) snapshots() snapshot.Config {
	cfg := snapshot.DefaultConfig()
	cfg.Keep = c.Keep
	return cfg
}

func checkObjects(text string, keys stores.Keys) error {
	name, err := stores.ParseObjects(text)
	if err != nil {
		return err
	}
	return name.CheckKeys(keys)
}

// openPublisher makes a publisher of a store that is open. Whoever adds components closes the objects.
func (c PublisherConfig) openPublisher(ctx context.Context, posts feed.Store, add func(service.Component)) (*publish.Publisher, stores.ObjectStore, error) {
	name, err := stores.ParseObjects(c.To)
	if err != nil {
		return nil, nil, err
	}
	to, err := name.Make(ctx, c.Keys)
	if err != nil {
		return nil, nil, fmt.Errorf("open the store of snapshots: %w", err)
	}
	add(service.Component{Name: "snapshots", Close: to.Close})
	cfg := c.snapshots()
	cfg.Store, c.Store = to, posts
	if c.Snapshot, err = snapshot.NewPublisher(cfg); err != nil {
		return nil, nil, err
	}
	p, err := publish.New(c.Config)
	return p, to, err
}

// open opens both stores, whose metrics go to the registry, and makes a publisher.
func (c PublisherConfig) open(ctx context.Context, registry *prometheus.Registry, add func(service.Component)) (*publish.Publisher, error) {
	name, err := stores.Parse(c.From)
	if err != nil {
		return nil, err
	}
	posts, err := name.Few().Open(ctx, registry)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	add(service.Component{Name: "store", Close: posts.Close})
	c.Registerer = registry
	p, _, err := c.openPublisher(ctx, posts, add)
	return p, err
}

// Publish has f do something with a publisher, once.
func Publish(ctx context.Context, cfg PublisherConfig, logger *slog.Logger, f func(*publish.Publisher) error) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	group := service.NewGroup(stopTimeout)
	defer func() { err = errors.Join(err, group.Close()) }()
	cfg.Logger = logger
	p, err := cfg.open(ctx, prometheus.NewRegistry(), group.Add)
	if err != nil {
		return err
	}
	return f(p)
}

// stopTimeout bounds the end of a publisher: of the requests of the stores that it has under way.
const stopTimeout = 5 * time.Second

// RunPublisher publishes until ctx ends, and serves metrics and probes meanwhile. It logs the configuration once.
func RunPublisher(ctx context.Context, cfg PublisherConfig, logger *slog.Logger) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	from, err := stores.Parse(cfg.From)
	if err != nil {
		return err
	}
	cfg.Logger = logger.With("component", "publisher")
	cfg.Logger.Info("configuration", "from", from.String(), "to", cfg.To, "posts", cfg.Posts, "every", cfg.Every.String(), "keep", cfg.Keep.String(), "admin_listen", cfg.AdminListen)
	group, registry := service.NewGroup(stopTimeout), prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	fail := func(err error) error { return errors.Join(err, group.Close()) }
	p, err := cfg.open(ctx, registry, group.Add)
	if err != nil {
		return fail(err)
	}
	admin, err := service.ListenAdmin(ctx, cfg.AdminListen, cfg.AdminToken, registry)
	if err != nil {
		return fail(fmt.Errorf("serve metrics: %w", err))
	}
	admin.Handle(route.HealthPath, probe(func() bool { return true }))
	admin.Handle(route.ReadyPath, probe(p.Ready))
	group.Add(service.Component{Name: "admin", Run: admin.Run, Close: admin.Close})
	group.Add(service.Component{Name: "publisher", Run: p.Run})
	cfg.Logger.Info("publishing", "admin", admin.Addr().String())
	if cfg.Listening != nil {
		cfg.Listening(admin.Addr())
	}
	if err := group.Run(ctx); err != nil {
		return err
	}
	cfg.Logger.Info("stopped")
	return nil
}

func probe(ok func() bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if !ok() {
			http.Error(w, "the feed was not published, or too long ago", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n") // whoever asked has left
	}
}
