package serve

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"loadstone/block/cache"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
	"loadstone/system/results/pgstore"
)

// The kinds of stores, as they begin Config.Store.
const (
	StoreSQLite   = "sqlite"
	StoreSnapshot = "snapshot"
	StorePostgres = "postgres"
)

// The kinds of caches.
const (
	CacheNone   = "none"
	CacheMemory = "memory"
)

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
	// Cache is CacheNone or CacheMemory.
	Cache string
	// CacheBytes bounds the memory cache, see cache.Config.
	CacheBytes int64
	// CacheMaxAge is how long the memory cache may serve a page at most. A new
	// snapshot empties it at once, so this is the bound for all other changes.
	CacheMaxAge time.Duration
	// Access is what opens a page.
	Access httpapi.Access
	// Limits bound requests and wrong codes; nil for none. PublishAt is the
	// instant before which nothing is served; nil if results are out.
	Limits    *guard.Config
	PublishAt *time.Time
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
		CacheBytes:  256 << 20, // some 450,000 pages
		CacheMaxAge: time.Minute,
		Access:      httpapi.Code,
		Drain:       time.Second,
		StopTimeout: 8 * time.Second,
	}
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
	if c.Cache != CacheNone && c.Cache != CacheMemory {
		add(fmt.Errorf("cache is %q, must be %q or %q", c.Cache, CacheNone, CacheMemory))
	}
	if c.CacheBytes < cache.MinBytes {
		add(fmt.Errorf("cache bytes is %d, must be at least %d", c.CacheBytes, cache.MinBytes))
	}
	if c.CacheMaxAge <= 0 {
		add(fmt.Errorf("cache max age is %v, must be positive", c.CacheMaxAge))
	}
	add(c.Access.Validate())
	if c.Drain < 0 {
		add(fmt.Errorf("drain time is %v, must not be negative", c.Drain))
	}
	if c.StopTimeout <= 0 {
		add(fmt.Errorf("stop timeout is %v, must be positive", c.StopTimeout))
	}
	return errors.Join(errs...)
}

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
		if err := pgstore.CheckURL(text); err != nil {
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
	return pgstore.Redact(text)
}

// attributes are the configuration for the log, without secrets.
func (c Config) attributes() []any {
	return []any{
		"listen", c.Listen, "admin_listen", c.AdminListen, "store", RedactStore(c.Store),
		"cache", c.Cache, "cache_bytes", c.CacheBytes, "cache_max_age", c.CacheMaxAge,
		"access", c.Access, "drain", c.Drain, "stop_timeout", c.StopTimeout,
	}
}
