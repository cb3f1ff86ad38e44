// Package stores opens the store of activities that an address names. It is the
// one place that knows all of them.
package stores

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/cql"
	"loadstone/block/postgres"
	"loadstone/block/redact"
	"loadstone/system/patterns/activity"
	"loadstone/system/patterns/activity/cassandrastore"
	"loadstone/system/patterns/activity/pebblestore"
	"loadstone/system/patterns/activity/pgstore"
	"loadstone/system/patterns/activity/sqlitestore"
)

// Forms are the addresses that there are, for people.
const Forms = "sqlite:FILE, pebble:DIRECTORY, postgres://USER@HOST:PORT/DATABASE or " + cql.AddressForm

const (
	sqliteScheme = "sqlite:"
	pebbleScheme = "pebble:"
)

// retryPause is between two attempts to reach a database that is not there yet. A
// server takes seconds to start, and an attempt costs it nothing.
const retryPause = 250 * time.Millisecond

// Check returns what is wrong with an address, or nil. It asks nobody.
func Check(address string) error {
	switch scheme, rest, _ := strings.Cut(address, ":"); {
	case scheme+":" == sqliteScheme && rest != "", scheme+":" == pebbleScheme && rest != "":
		return nil
	case scheme == "postgres" || scheme == "postgresql":
		return postgres.CheckURL(address)
	case scheme+":" == cql.Scheme:
		_, err := cql.ParseAddress(address)
		return err
	default:
		return fmt.Errorf("the store of activities is %q; write %s", Redact(address), Forms)
	}
}

// Redact returns an address without its secrets, for people. The names of files have
// none and come back as they are.
func Redact(address string) string {
	if strings.HasPrefix(address, sqliteScheme) || strings.HasPrefix(address, pebbleScheme) {
		return address
	}
	return redact.Address(address)
}

// openTimeout bounds the wait for a database, the making of its tables included: a
// Cassandra node on a busy machine takes most of a minute until it answers.
const openTimeout = time.Minute

// Open opens the store. A database that does not answer is tried again for
// openTimeout, or until ctx ends.
func Open(ctx context.Context, address string, r prometheus.Registerer) (activity.Store, error) {
	if err := Check(address); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	for {
		store, err := open(ctx, address, r)
		if !errors.Is(err, activity.ErrUnavailable) {
			return store, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("open the store of activities %s: %w", Redact(address), errors.Join(err, ctx.Err()))
		case <-time.After(retryPause):
		}
	}
}

func open(ctx context.Context, address string, r prometheus.Registerer) (activity.Store, error) {
	if path, ok := strings.CutPrefix(address, sqliteScheme); ok {
		return keep(sqlitestore.Open(ctx, path, r))
	}
	if dir, ok := strings.CutPrefix(address, pebbleScheme); ok {
		return keep(pebblestore.Open(dir, r))
	}
	if strings.HasPrefix(address, cql.Scheme) {
		cluster, err := cql.ParseAddress(address)
		if err != nil {
			return nil, err
		}
		cfg := cassandrastore.DefaultConfig()
		cfg.Cluster = cluster
		return keep(cassandrastore.Open(ctx, cfg))
	}
	cfg := pgstore.DefaultConfig()
	cfg.URL, cfg.Registerer = address, r
	return keep(pgstore.Open(ctx, cfg))
}

// keep turns what a constructor returned into the interface: a nil pointer in it
// would be a store that is there.
func keep[S activity.Store](store S, err error) (activity.Store, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}
