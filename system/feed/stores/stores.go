// Package stores knows every kind of store of a feed by its name, such as sqlite:feed.db: it
// opens what a name names. Beside package serve it is the one place where the stores meet.
package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"loadstone/system/feed"
	"loadstone/system/feed/sqlitestore"
)

// Forms are the names of all stores, for people.
const Forms = "sqlite:FILE"

// Name is the name of a store.
type Name struct {
	// path of a SQLite file.
	path string
}

// Parse reads the name of a store.
func Parse(text string) (Name, error) {
	kind, path, _ := strings.Cut(text, ":")
	if kind != "sqlite" || path == "" {
		return Name{}, fmt.Errorf("store is %q; write %s", text, Forms)
	}
	return Name{path}, nil
}

// String is the name as it is written.
func (n Name) String() string { return "sqlite:" + n.path }

// Open opens the store to read it; it must be closed.
func (n Name) Open(ctx context.Context) (feed.Store, error) {
	if _, err := os.Stat(n.path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: `loadstone feed seed` and `loadstone feed import` make one", n, feed.ErrMissing)
	}
	return n.Make(ctx)
}

// Make opens the store, or makes an empty one; it must be closed.
func (n Name) Make(ctx context.Context) (feed.Store, error) {
	return keep(sqlitestore.Open(ctx, n.path))
}

// keep turns what a constructor returned into the interface: a nil pointer in it would be a
// store that is there.
func keep[S feed.Store](store S, err error) (feed.Store, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}
