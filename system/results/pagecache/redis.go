package pagecache

import (
	"errors"
	"net"
	"net/url"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/cache/rediscache"
	"loadstone/block/redact"
)

// RedisForm says how a Redis is written, for people.
const RedisForm = "redis://[USER:PASSWORD@]HOST[:PORT]"

// defaultPort is Redis's own.
const defaultPort = "6379"

// CacheName tells the pages' cache from others in metrics.
const CacheName = "results"

// CheckURL reports whether the text names a Redis. Its error shows no password.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}

// Redact returns the name of a Redis without its password, for people.
func Redact(text string) string { return redact.Address(text) }

// parseURL takes redis://[user:password@]host[:port], with / or nothing behind it.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "redis" || u.Hostname() == "":
		// Without the reason, which quotes the text and so the password.
		return nil, errors.New("redis must be " + RedisForm + ", with special characters of a password written as %XX")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("redis is " + Redact(text) + ", must be " + RedisForm +
			": there is no choice of a database, and there are no options; data sets have keys of their own")
	}
	return u, nil
}

// TierConfig describes the tier of pages in the Redis that the text names.
func TierConfig(text string, registerer prometheus.Registerer) (rediscache.Config, error) {
	u, err := parseURL(text)
	if err != nil {
		return rediscache.Config{}, err
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	c := rediscache.DefaultConfig(CacheName, net.JoinHostPort(u.Hostname(), port), registerer)
	c.Prefix = Prefix
	c.Username = u.User.Username()
	c.Password, _ = u.User.Password()
	return c, nil
}
