// Package stores knows every kind of store of a feed by its name, such as sqlite:feed.db: it
// opens what a name names. Beside package serve it is the one place where the stores meet.
package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/postgres"
	"loadstone/block/redact"
	"loadstone/system/feed"
	"loadstone/system/feed/pgstore"
	"loadstone/system/feed/sqlitestore"
)

// Forms are the names of all stores, for people.
const Forms = "sqlite:FILE or postgres://USER@HOST/DATABASE"

// openTimeout bounds the wait for a database that does not answer yet, and for its tables to
// be made, and so each Answer. retryPause is between two attempts.
const (
	openTimeout = 2 * time.Minute
	retryPause  = 250 * time.Millisecond
)

// Name is the name of a store.
type Name struct {
	path    string // of a SQLite file
	address string // of a PostgreSQL database
	few     bool   // connections
}

// Few is the name of the same store for who asks it for one thing after the other, over two connections: a database has
// those that it has for servers.
func (n Name) Few() Name {
	n.few = true
	return n
}

// Parse reads the name of a store. Its error shows no password.
func Parse(text string) (Name, error) {
	switch kind, path, _ := strings.Cut(text, ":"); {
	case kind == "postgres" || kind == "postgresql":
		if err := postgres.CheckURL(text); err != nil {
			return Name{}, fmt.Errorf("store: %w", err)
		}
		return Name{address: text}, nil
	case kind == "sqlite" && path != "":
		return Name{path: path}, nil
	}
	return Name{}, fmt.Errorf("store is %q; write %s", redact.Address(text), Forms)
}

// String is the name as it is written, without secrets.
func (n Name) String() string {
	if n.address != "" {
		return redact.Address(n.address)
	}
	return "sqlite:" + n.path
}

// Open opens the store to read it; it must be closed. It does not make a file that is not
// there, whose name may be misspelt.
func (n Name) Open(ctx context.Context, r prometheus.Registerer) (feed.Store, error) {
	if _, err := os.Stat(n.path); n.address == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: `loadstone feed seed` and `loadstone feed import` make one", n, feed.ErrMissing)
	}
	return n.Make(ctx, r)
}

// Make opens the store, or makes an empty one; it must be closed. A database that does not
// answer yet is waited for, a file is not. The metrics of a database go to r, unless that is nil.
func (n Name) Make(ctx context.Context, r prometheus.Registerer) (feed.Store, error) {
	if n.address == "" {
		if dir := filepath.Dir(n.path); !isDirectory(dir) {
			return nil, fmt.Errorf("%s: there is no directory %s: make it first", n, dir)
		}
		return n.open(ctx, r)
	}
	return Answer(ctx, func(ctx context.Context) (feed.Store, error) { return n.open(ctx, r) })
}

// Answer returns what ask returns, which asks a store while a program starts. A database that does not answer is asked again,
// within the same bound as Make: one that has just started may take connections before it gets to answer anything.
func Answer[T any](ctx context.Context, ask func(ctx context.Context) (T, error)) (T, error) {
	within, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	for {
		answer, err := ask(within)
		if !errors.Is(err, feed.ErrUnavailable) {
			return answer, err
		}
		select {
		case <-within.Done():
			return answer, errors.Join(err, within.Err())
		case <-time.After(retryPause):
		}
	}
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (n Name) open(ctx context.Context, r prometheus.Registerer) (feed.Store, error) {
	if n.address == "" {
		return keep(sqlitestore.Open(ctx, n.path))
	}
	return keep(pgstore.Open(ctx, n.database(r)))
}

// database is the configuration of the one that the name names.
func (n Name) database(r prometheus.Registerer) pgstore.Config {
	cfg := pgstore.DefaultConfig()
	cfg.URL, cfg.Registerer = n.address, r
	if n.few {
		cfg.Connections = 2
	}
	return cfg
}

// keep turns what a constructor returned into the interface: a nil pointer in it would be a
// store that is there.
func keep[S feed.Store](store S, err error) (feed.Store, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}
