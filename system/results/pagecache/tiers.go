package pagecache

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"loadstone/block/cache"
)

// The kinds of caches.
const (
	None        = "none"
	Memory      = "memory"
	Redis       = "redis"
	MemoryRedis = "memory+redis"
)

var kinds = []string{None, Memory, Redis, MemoryRedis}

// Tiers says which caches stand before a store. Start from DefaultTiers.
type Tiers struct {
	// Cache is one of the kinds of caches.
	Cache string
	// Redis is the shared tier, see RedisForm. It is not used unless Cache has it.
	Redis string
	// CacheBytes bounds the memory cache, see cache.Config.
	CacheBytes int64
	// CacheMaxAge is how long a page is kept after it was read from the store: the
	// longest outage that cached pages outlive.
	CacheMaxAge time.Duration
}

// DefaultTiers returns no caches, with the sizes and ages of one in memory.
func DefaultTiers() Tiers {
	return Tiers{
		Cache:       None,
		CacheBytes:  256 << 20, // some 420,000 pages
		CacheMaxAge: MaxAge,
	}
}

func (t Tiers) hasMemory() bool { return t.Cache == Memory || t.Cache == MemoryRedis }
func (t Tiers) hasRedis() bool  { return t.Cache == Redis || t.Cache == MemoryRedis }

// minAge is the smallest age in a cache that is worth one.
const minAge = 10 * time.Millisecond

// Validate returns all problems of the configuration, joined, or nil.
func (t Tiers) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains(kinds, t.Cache) {
		bad("cache is %q, must be one of %s", t.Cache, strings.Join(kinds, ", "))
	}
	if t.hasRedis() || t.Redis != "" {
		errs = append(errs, CheckURL(t.Redis))
	}
	if t.CacheBytes < cache.MinBytes {
		bad("cache bytes is %d, must be at least %d", t.CacheBytes, cache.MinBytes)
	}
	if t.CacheMaxAge < minAge {
		bad("cache max age is %v, must be at least %v", t.CacheMaxAge, minAge)
	}
	return errors.Join(errs...)
}
