package serve

import (
	"errors"
	"fmt"

	"loadstone/block/backoffice"
	"loadstone/block/cache/rediscache"
	"loadstone/block/redact"
	"loadstone/block/service"
	"loadstone/system/menu/httpapi"
	"loadstone/system/menu/recordfile"
	"loadstone/system/menu/stores"
)

// Config says what the menu server serves and where. Start from DefaultConfig.
type Config struct {
	service.Config

	// Store is what to serve, see stores.Parse.
	Store string
	// CacheBytes is for menus of a record file, see recordfile.Config. Databases have memory of their own.
	CacheBytes int64
	// Token is what those send who change menus; empty if nobody may.
	Token string
	// Redis is where proxies have menus that are to be told of changes, see
	// rediscache.AddressForm; empty if there are none.
	Redis string
	// Dictionaries are files of what menus are compressed with, for clients that have it and in Redis: the
	// first is used, and the others known. Those of the proxies are the same. None by default: what is
	// compressed in Redis has to be decompressed for each client that does not have the dictionary.
	Dictionaries []string
	// Page serves the guests' page beside the interface.
	Page bool
	// Settings are about those who may use the admin's pages.
	backoffice.Settings

	// SearchIndex is the file in which editors find dishes, see package search; empty if they
	// find ids alone. Each server has one of its own.
	SearchIndex string
	// Webhooks is the file of those who are told of each change, see webhook.ParseEndpoints;
	// empty if there are none.
	Webhooks string
}

// DefaultConfig returns a configuration for one machine: reachable from that machine only,
// and without writes.
func DefaultConfig() Config {
	c := Config{Config: service.DefaultConfig("menu"), Store: "pebble:menus", CacheBytes: recordfile.DefaultConfig().CacheBytes, Page: true}
	c.MaxBodyBytes = maxBody
	return c
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	_, store := stores.Parse(c.Store)
	var token error
	if n := len(c.Token); n > 0 && n < httpapi.MinTokenBytes {
		token = fmt.Errorf("the token of who changes menus has %d characters: write at least %d", n, httpapi.MinTokenBytes)
	}
	var index error
	if c.SearchIndex != "" && c.Accounts == "" {
		index = errors.New("the search index is for editors, and there are none: name the file of their accounts, too")
	}
	var cache error
	if c.CacheBytes < 0 {
		cache = fmt.Errorf("the cache has %d bytes: write at least 0", c.CacheBytes)
	}
	_, webhooks := readWebhooks(c.Webhooks)
	return errors.Join(c.Config.Validate(), store, cache, token, c.Check(), checkRedis(c.Redis), webhooks, index)
}

func checkRedis(address string) error {
	if address == "" {
		return nil
	}
	return rediscache.CheckAddress(address)
}

// attributes are the configuration for the log, without secrets.
func (c Config) attributes() []any {
	return []any{
		"component", c.Name, "listen", c.Listen, "admin_listen", c.AdminListen, "store", stores.Redact(c.Store), "cache_bytes", c.CacheBytes,
		"writes", c.Token != "", "redis", redact.Address(c.Redis), "dictionaries", c.Dictionaries, "page", c.Page, "accounts", c.Accounts,
		"search_index", c.SearchIndex,
		"webhooks", c.Webhooks, "drain", c.Drain, "stop_timeout", c.StopTimeout,
	}
}
