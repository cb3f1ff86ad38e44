package serve

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"loadstone/block/forwarded"
	"loadstone/block/httpserver"
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

	// Store is what to serve, see stores.Parse. A file may be replaced while it is
	// served.
	Store string
	// Access is what opens a page.
	Access httpapi.Access
	// Limits bound requests and wrong codes, of all replicas together that have the same
	// Redis (of Tiers); nil for none.
	Limits *guard.Config
	// Proxies are the balancers whose word counts about who asks, and how they came.
	Proxies forwarded.Proxies
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

// perClient bounds an address's connections by how many requests it may send at once: one
// more could not ask. That leaves two for each of 500 students behind one address. A
// balancer's connections are its clients', and it bounds those.
func (c Config) perClient() *httpserver.PerClient {
	if c.Limits == nil {
		return nil
	}
	return &httpserver.PerClient{MaxConns: c.Limits.Burst, Client: func(peer netip.Addr) (name uint64, others bool) {
		return uint64(guard.Group(peer)), c.Proxies.Trusts(peer)
	}}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	_, store := stores.Parse(c.Store)
	_, cookie := web.SecureCookie(c.SecureCookie, nil)
	return errors.Join(c.Config.Validate(), store, c.Tiers.Validate(), c.Access.Validate(), cookie)
}

// attributes are the configuration for the log, without secrets.
func (c Config) attributes() []any {
	limits := "off"
	if c.Limits != nil {
		limits = fmt.Sprintf("%+v", *c.Limits)
	}
	return []any{
		"component", c.Name, "limits", limits, "proxies", c.Proxies.String(),
		"listen", c.Listen, "admin_listen", c.AdminListen, "store", stores.Redact(c.Store),
		"cache", c.Cache, "redis", pagecache.Redact(c.Redis),
		"cache_bytes", c.CacheBytes, "cache_max_age", c.CacheMaxAge,
		"access", c.Access, "page", c.Page, "secure_cookie", c.SecureCookie, "drain", c.Drain, "stop_timeout", c.StopTimeout,
	}
}
