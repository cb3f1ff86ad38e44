package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/dataset"
	"loadstone/block/dictionary"
	"loadstone/system/menu"
	"loadstone/system/menu/cqlstore"
	"loadstone/system/menu/pebblestore"
	"loadstone/system/menu/pgstore"
	"loadstone/system/menu/recordfile"
)

// ErrNoDatabase says that a store cannot be read whole or changed.
var ErrNoDatabase = errors.New("this is no database; write " + DatabaseForms)

// ErrNoFile says that menus cannot be published to a store.
var ErrNoFile = errors.New("menus are published as a file; write record:FILE")

// openTimeout bounds the wait for a database that does not answer yet, and for its tables to
// be made: Cassandra's ten take 4 s, and took more than a minute on a machine with forty
// programs for two cores. retryPause is between two attempts.
const (
	openTimeout = 2 * time.Minute
	retryPause  = 250 * time.Millisecond
)

// database is what every database of this system is.
type database interface {
	menu.Desk
	menu.Filler
}

// Served is a store that is served.
type Served struct {
	menu.Store
	// Run follows what changes at the store until its context ends; nil if there is
	// nothing to follow.
	Run func(ctx context.Context) error
}

// Open opens the store to serve it; it must be closed. A database that does not answer yet
// is waited for. A record file may be replaced while it is served.
func (n Name) Open(ctx context.Context, logger *slog.Logger, registerer prometheus.Registerer) (*Served, error) {
	if n.Kind != Record {
		if err := n.there(); err != nil {
			return nil, fmt.Errorf("open the store: %w", err)
		}
		db, err := n.database(ctx, registerer)
		if err != nil {
			return nil, err
		}
		return &Served{Store: db}, nil
	}
	cfg := recordfile.DefaultConfig()
	cfg.CacheBytes = n.CacheBytes
	cfg.Events.Switched = func(from, to dataset.Meta) {
		logger.Info("new menus are served", "origin", to.Origin, "menus", to.Count, "before", from.Origin)
	}
	cfg.Events.Refused = func(err error) {
		logger.Error("the new file is refused; the old one still is served", "error", err)
	}
	store, err := recordfile.Follow(n.Target, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	logger.Info("store opened", "origin", store.Meta().Origin, "menus", store.Meta().Count)
	return &Served{Store: store, Run: store.Run}, nil
}

// there keeps whoever reads from making an empty database under a misspelt name.
func (n Name) there() error {
	if n.Kind != Pebble {
		return nil
	}
	if _, err := os.Stat(n.Target); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w: `loadstone menu seed` and `loadstone menu import` make one", n, menu.ErrMissing)
	}
	return nil
}

// database opens a store that can be changed.
func (n Name) database(ctx context.Context, registerer prometheus.Registerer) (database, error) {
	return n.open(ctx, openTimeout, registerer)
}

func (n Name) open(ctx context.Context, patience time.Duration, registerer prometheus.Registerer) (database, error) {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		db, err := n.openDatabase(within, registerer)
		if err == nil {
			return db, nil
		}
		if within.Err() != nil && ctx.Err() == nil && !errors.Is(err, menu.ErrUnavailable) { // in the middle of an attempt
			err = fmt.Errorf("%w: %w", menu.ErrUnavailable, err)
		}
		if !errors.Is(err, menu.ErrUnavailable) {
			return nil, fmt.Errorf("open the store: %w", err)
		}
		select {
		case <-within.Done():
			return nil, fmt.Errorf("open the store: %w", errors.Join(err, within.Err()))
		case <-time.After(retryPause):
		}
	}
}

func (n Name) openDatabase(ctx context.Context, registerer prometheus.Registerer) (database, error) {
	switch n.Kind {
	case Postgres:
		cfg := pgstore.DefaultConfig()
		cfg.URL, cfg.Registerer = n.Target, registerer
		return keep(pgstore.Open(ctx, cfg))
	case Cassandra:
		cfg, err := cqlstore.Parse(n.Target)
		if err != nil {
			return nil, err
		}
		cfg.SortedTables = n.SortedTables
		return keep(cqlstore.Open(ctx, cfg))
	}
	cfg := pebblestore.DefaultConfig()
	cfg.Dir, cfg.Registerer = n.Target, registerer
	return keep(pebblestore.Open(ctx, cfg))
}

// keep turns what a constructor returned into the interface: a nil pointer in it would be a
// store that is there.
func keep[S database](store S, err error) (database, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}

// Fill puts the source into the store, see menu.Filler.
func (n Name) Fill(ctx context.Context, source dataset.Source[menu.Menu], progress dataset.Progress) (menu.Filled, error) {
	if n.Kind == Record {
		if have, err := recordfile.Describe(n.Target); err == nil && !have.Same(source.Meta()) {
			return menu.Filled{}, fmt.Errorf("fill %s: %w: %s", n, menu.ErrOccupied, have.Origin)
		}
		return n.Publish(ctx, source, nil, progress)
	}
	db, err := n.database(ctx, prometheus.NewRegistry())
	if err != nil {
		return menu.Filled{}, err
	}
	did, err := db.Fill(ctx, source, progress)
	return did, errors.Join(err, db.Close())
}

// Publish writes the source into a record file and puts it in place of the one that is
// there, unless that has the same menus. The dictionary is trained if none is given. Of another
// store the error is ErrNoFile.
func (n Name) Publish(ctx context.Context, source dataset.Source[menu.Menu], with *dictionary.Dictionary, progress dataset.Progress) (menu.Filled, error) {
	if n.Kind != Record {
		return menu.Filled{}, fmt.Errorf("%s: %w", n, ErrNoFile)
	}
	return recordfile.Fill(ctx, n.Target, source, with, progress)
}

// Verify reads a record file whole, see recordfile.Follower.Verify, and says what it holds, in how many
// bytes. Of another store the error is ErrNoFile.
func (n Name) Verify(ctx context.Context, progress dataset.Progress) (meta dataset.Meta, size int64, err error) {
	if n.Kind != Record {
		return meta, 0, fmt.Errorf("%s: %w", n, ErrNoFile)
	}
	file, err := recordfile.Follow(n.Target, recordfile.DefaultConfig())
	if err != nil {
		return meta, 0, err
	}
	meta, size = file.Meta(), file.Size()
	err = errors.Join(file.Verify(ctx, progress), file.Close())
	if errors.Is(err, menu.ErrCorrupt) {
		err = fmt.Errorf("%s: %w; publish it again", n, err)
	}
	return meta, size, err
}

// Dictionary is that of a record file, or one that is trained on the menus of a database.
func (n Name) Dictionary(ctx context.Context) (d *dictionary.Dictionary, err error) {
	if n.Kind == Record {
		file, err := recordfile.Follow(n.Target, recordfile.DefaultConfig())
		if err != nil {
			return nil, err
		}
		d = file.Dictionary()
		return d, file.Close()
	}
	err = n.Read(ctx, func(source dataset.Source[menu.Menu]) error {
		d, err = menu.TrainDictionary(ctx, source)
		return err
	})
	return d, err
}

// Read hands all menus of a database to use. A record file is none: the error is
// ErrNoDatabase. If there are no menus, it wraps menu.ErrMissing.
func (n Name) Read(ctx context.Context, use func(dataset.Source[menu.Menu]) error) error {
	return n.Desk(ctx, func(db menu.Desk) error {
		source, err := db.Menus(ctx)
		switch {
		case err != nil:
			return err
		case source.Meta().Count == 0:
			return fmt.Errorf("%s: %w", n, menu.ErrMissing)
		}
		return use(source)
	})
}

// Desk hands a database that is there to use. A record file is none: the error is
// ErrNoDatabase.
func (n Name) Desk(ctx context.Context, use func(menu.Desk) error) error {
	if n.Kind == Record {
		return fmt.Errorf("%s: %w", n, ErrNoDatabase)
	}
	if err := n.there(); err != nil {
		return err
	}
	db, err := n.database(ctx, prometheus.NewRegistry())
	if err != nil {
		return err
	}
	return errors.Join(use(db), db.Close())
}

// Imported returns the origin of the store's menus if it holds all of them and they were not
// made up; nothing if there are none, or not all: only the source that they came from can then
// be filled in. With an error it is not known what the store holds.
func (n Name) Imported(ctx context.Context) (origin string, err error) {
	var meta dataset.Meta
	if n.Kind == Record {
		meta, err = recordfile.Describe(n.Target)
	} else {
		err = n.Read(ctx, func(source dataset.Source[menu.Menu]) error {
			meta = source.Meta()
			return nil
		})
	}
	switch {
	case errors.Is(err, menu.ErrMissing), err == nil && menu.MadeUp(meta):
		return "", nil
	case err != nil:
		return "", err
	}
	return meta.Origin, nil
}
