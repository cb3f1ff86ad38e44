package pagecache

import (
	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/cache/rediscache"
	"loadstone/block/redact"
)

// RedisForm says how a Redis is written, for people.
const RedisForm = rediscache.AddressForm

// CacheName tells the pages' cache from others in metrics.
const CacheName = "results"

// CheckURL reports whether the text names a Redis. Its error shows no password.
func CheckURL(text string) error { return rediscache.CheckAddress(text) }

// Redact returns the name of a Redis without its password, for people.
func Redact(text string) string { return redact.Address(text) }

// TierConfig describes the tier of pages in the Redis that the text names.
func TierConfig(text string, registerer prometheus.Registerer) (rediscache.Config, error) {
	c := rediscache.DefaultConfig(CacheName, "", registerer)
	c.Prefix = Prefix
	return c.At(text)
}
