package serve

import (
	"errors"
	"fmt"
	"time"

	"loadstone/block/service"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
	"loadstone/system/results/pagecache"
	"loadstone/system/results/stores"
	"loadstone/system/results/web"
)

// Config says what to serve and where. Start from DefaultConfig.
type Config struct {
	service.Config
	// Tiers are the caches before the store.
	pagecache.Tiers

	// Store is what to serve, see stores.Parse. A snapshot is replaced while it is
	// served, a SQLite database by a restart.
	Store string
	// Access is what opens a page.
	Access httpapi.Access
	// Limits bound requests and wrong codes; nil for none. PublishAt is the
	// instant before which nothing is served; nil if results are out.
	Limits    *guard.Config
	PublishAt *time.Time
	// Proxies are the balancers whose word counts about who asks, and how they came.
	Proxies guard.Proxies
	// Page serves the students' page at all addresses but the interface's.
	Page bool
	// SecureCookie keeps the page's cookie off plain HTTP, see web.SecureCookie. With
	// web.CookieAuto one of Proxies says who came over HTTPS (X-Forwarded-Proto).
	SecureCookie string
}

// DefaultConfig returns a configuration for one machine: reachable from that
// machine only, pages behind codes.
func DefaultConfig() Config {
	return Config{
		Config: service.DefaultConfig("results"), Tiers: pagecache.DefaultTiers(),
		Store: "sqlite:results.db", Access: httpapi.Code, Page: true, SecureCookie: web.CookieAuto,
	}
}

// notFoundAfter is how long whoever has no right code waits for the answer: ten times
// what Redis and then PostgreSQL take when they are not overloaded. A snapshot
// alone needs none: it takes the same for ids that exist and for others.
func (c Config) notFoundAfter(kind string) time.Duration {
	if c.Cache == pagecache.None && kind == stores.Snapshot {
		return 0
	}
	return 25 * time.Millisecond
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	_, store := stores.Parse(c.Store)
	_, cookie := web.SecureCookie(c.SecureCookie, nil)
	return errors.Join(c.Config.Validate(), store, c.Tiers.Validate(), c.Access.Validate(), cookie)
}

// attributes are the configuration for the log, without secrets.
func (c Config) attributes() []any {
	limits, publishAt := "off", "out"
	if c.Limits != nil {
		limits = fmt.Sprintf("%+v", *c.Limits)
	}
	if c.PublishAt != nil {
		publishAt = c.PublishAt.Format(time.RFC3339Nano)
	}
	return []any{
		"component", c.Name, "limits", limits, "publish_at", publishAt, "proxies", c.Proxies.String(),
		"listen", c.Listen, "admin_listen", c.AdminListen, "store", stores.Redact(c.Store),
		"cache", c.Cache, "redis", pagecache.Redact(c.Redis),
		"cache_bytes", c.CacheBytes, "cache_max_age", c.CacheMaxAge, "cache_refresh", c.CacheRefresh,
		"access", c.Access, "page", c.Page, "secure_cookie", c.SecureCookie, "drain", c.Drain, "stop_timeout", c.StopTimeout,
	}
}
