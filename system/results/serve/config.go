package serve

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"loadstone/block/cache"
	"loadstone/block/postgres"
	"loadstone/block/redact"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
	"loadstone/system/results/pagecache"
)

// The kinds of stores, as they begin Config.Store.
const (
	StoreSQLite   = "sqlite"
	StoreSnapshot = "snapshot"
	StorePostgres = "postgres"
)

// The kinds of caches.
const (
	CacheNone        = "none"
	CacheMemory      = "memory"
	CacheRedis       = "redis"
	CacheMemoryRedis = "memory+redis"
)

var cacheKinds = []string{CacheNone, CacheMemory, CacheRedis, CacheMemoryRedis}

// Config says what to serve and where. Start from DefaultConfig.
type Config struct {
	// Listen is the address for students, host:port. Port 0 picks a free one.
	Listen string
	// AdminListen is the address for metrics and profiles. Whoever reaches it
	// can slow the process down: it should not be public.
	AdminListen string
	// Store is what to serve, see ParseStore. A snapshot is replaced while it is
	// served, a SQLite database by a restart.
	Store string
	// Cache is one of the kinds of caches.
	Cache string
	// Redis is the shared tier, see pagecache.RedisForm. It is not looked at unless
	// Cache has it.
	Redis string
	// CacheBytes bounds the memory cache, see cache.Config.
	CacheBytes int64
	// CacheMaxAge is how long a page may be served after it was read from the
	// store, however the store fares: the longest outage that cached pages
	// outlive.
	CacheMaxAge time.Duration
	// CacheRefresh is the age from which a page is read from the store again
	// before it is served, if the store answers: the time after which a change is
	// seen that nobody told the caches about. See DefaultRefresh.
	CacheRefresh time.Duration
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
	// SecureCookie keeps the page's cookie off plain HTTP: CookieOn, CookieOff, or
	// CookieAuto for whom one of Proxies says that they came over HTTPS
	// (X-Forwarded-Proto).
	SecureCookie string
	// Drain is how long the service goes on accepting requests, not ready,
	// after it has been told to stop: as long as a balancer takes to notice.
	Drain time.Duration
	// StopTimeout bounds what comes after Drain. Both together must be less
	// than what the process's supervisor waits before it kills.
	StopTimeout time.Duration
}

// DefaultConfig returns a configuration for one machine: reachable from that
// machine only, pages behind codes. Together, Drain and StopTimeout are below
// the 10 s after which Docker kills a container.
func DefaultConfig() Config {
	return Config{
		Listen:      "127.0.0.1:8080",
		AdminListen: "127.0.0.1:9090",
		Store:       "sqlite:results.db",
		Cache:       CacheNone,
		CacheBytes:  256 << 20, // some 420,000 pages
		CacheMaxAge: pagecache.MaxAge,
		// That of the caches without Redis.
		CacheRefresh: DefaultRefresh(CacheMemory),
		Access:       httpapi.Code,
		Page:         true,
		SecureCookie: CookieAuto,
		Drain:        time.Second,
		StopTimeout:  8 * time.Second,
	}
}

// DefaultRefresh is the CacheRefresh that suits a kind of cache.
//
// Memory alone is told nothing when the store changes, so a page is at most a
// minute behind. With Redis, whoever corrects a result tells all servers, and ages
// only bound what happens if that fails. They are long, for pages that were
// preloaded hours before results are out must not all be read again in the minute
// that everybody asks.
func DefaultRefresh(cacheKind string) time.Duration {
	if strings.Contains(cacheKind, CacheRedis) {
		return 12 * time.Hour
	}
	return time.Minute
}

func (c Config) hasMemory() bool { return c.Cache == CacheMemory || c.Cache == CacheMemoryRedis }
func (c Config) hasRedis() bool  { return c.Cache == CacheRedis || c.Cache == CacheMemoryRedis }

// notFoundAfter is how long whoever has no right code waits for the answer: ten times
// what Redis and then PostgreSQL take when they are not overloaded. A snapshot
// alone needs none: it takes the same for ids that exist and for others.
func (c Config) notFoundAfter() time.Duration {
	if c.Cache == CacheNone && strings.HasPrefix(c.Store, StoreSnapshot+":") {
		return 0
	}
	return 25 * time.Millisecond
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	add(checkAddr("listen address", c.Listen))
	add(checkAddr("admin address", c.AdminListen))
	_, _, err := ParseStore(c.Store)
	add(err)
	add(c.checkCache())
	add(c.Access.Validate())
	if c.SecureCookie != CookieAuto && c.SecureCookie != CookieOn && c.SecureCookie != CookieOff {
		add(fmt.Errorf("secure cookie is %q, must be %q, %q or %q", c.SecureCookie, CookieAuto, CookieOn, CookieOff))
	}
	if c.Drain < 0 {
		add(fmt.Errorf("drain time is %v, must not be negative", c.Drain))
	}
	if c.StopTimeout <= 0 {
		add(fmt.Errorf("stop timeout is %v, must be positive", c.StopTimeout))
	}
	return errors.Join(errs...)
}

func (c Config) checkCache() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains(cacheKinds, c.Cache) {
		bad("cache is %q, must be one of %s", c.Cache, strings.Join(cacheKinds, ", "))
	}
	if c.hasRedis() {
		if err := pagecache.CheckURL(c.Redis); err != nil {
			errs = append(errs, err)
		}
	}
	if c.CacheBytes < cache.MinBytes {
		bad("cache bytes is %d, must be at least %d", c.CacheBytes, cache.MinBytes)
	}
	if c.CacheMaxAge < minAge {
		bad("cache max age is %v, must be at least %v", c.CacheMaxAge, minAge)
	}
	if c.CacheRefresh < minAge || c.CacheRefresh >= c.CacheMaxAge {
		bad("cache refresh is %v, must be at least %v and less than the max age of %v", c.CacheRefresh, minAge, c.CacheMaxAge)
	}
	return errors.Join(errs...)
}

// minAge is the smallest age in a cache that is worth one.
const minAge = 10 * time.Millisecond

func checkAddr(what, addr string) error {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return fmt.Errorf("%s is %q, must be host:port: %w", what, addr, err)
	}
	return nil
}

// StoreForms says how the name of a store is written, for people.
const StoreForms = "sqlite:PATH, snapshot:PATH or postgres://USER@HOST/DATABASE"

// ParseStore splits the name of a store into its kind and what the kind's package
// opens: KIND:PATH into StoreSQLite or StoreSnapshot and a path that is not empty,
// and the URL of a PostgreSQL database into StorePostgres and the whole URL. Its
// error shows no password.
func ParseStore(text string) (kind, target string, err error) {
	kind, target, _ = strings.Cut(text, ":")
	switch {
	case strings.HasPrefix(text, "postgres://"), strings.HasPrefix(text, "postgresql://"):
		if err := postgres.CheckURL(text); err != nil {
			return "", "", fmt.Errorf("store: %w", err)
		}
		return StorePostgres, text, nil
	case (kind != StoreSQLite && kind != StoreSnapshot) || target == "":
		return "", "", fmt.Errorf("store is %q, must be %s", RedactStore(text), StoreForms)
	}
	return kind, target, nil
}

// RedactStore returns the name of a store without its secrets, for people. What has
// none comes back as it is.
func RedactStore(text string) string {
	if kind, _, _ := strings.Cut(text, ":"); kind == StoreSQLite || kind == StoreSnapshot {
		return text
	}
	return redact.Address(text)
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
		"limits", limits, "publish_at", publishAt, "proxies", c.Proxies.String(),
		"listen", c.Listen, "admin_listen", c.AdminListen, "store", RedactStore(c.Store),
		"cache", c.Cache, "redis", pagecache.Redact(c.Redis),
		"cache_bytes", c.CacheBytes, "cache_max_age", c.CacheMaxAge, "cache_refresh", c.CacheRefresh,
		"access", c.Access, "page", c.Page, "secure_cookie", c.SecureCookie, "drain", c.Drain, "stop_timeout", c.StopTimeout,
	}
}
