package stores

import (
	"context"
	"errors"
	"fmt"

	"loadstone/block/dataset"
	"loadstone/system/results"
	"loadstone/system/results/pgstore"
	"loadstone/system/results/snapshot"
	"loadstone/system/results/sqlitestore"
)

// ErrNoDatabase says that a store cannot be read whole or corrected.
var ErrNoDatabase = errors.New("this is no database; write " + DatabaseForms)

// Describe returns what the store holds, if it holds all of it.
func (n Name) Describe(ctx context.Context) (dataset.Meta, error) {
	switch n.Kind {
	case Postgres:
		source, err := pgstore.OpenSource(ctx, n.Target)
		if err != nil {
			return dataset.Meta{}, err
		}
		return source.Meta(), nil
	case Snapshot:
		return snapshot.Describe(n.Target)
	default:
		return sqlitestore.Describe(ctx, n.Target)
	}
}

// Imported returns the origin of the store's students if it holds all of them and
// they were not made up; nothing if there are none. What cannot be read holds nothing:
// filling it says why.
func (n Name) Imported(ctx context.Context) (origin string) {
	meta, err := n.Describe(ctx)
	if err != nil || results.MadeUp(meta) {
		return ""
	}
	return meta.Origin
}

// Filled is what Fill found.
type Filled struct {
	Already string // the origin of what the store held, if that was all of it
	Resumed int64  // students of an interrupted run
}

// Fill puts the source into the store, unless the store holds it already.
func (n Name) Fill(ctx context.Context, source dataset.Source[results.Student], progress dataset.Progress) (Filled, error) {
	if n.Kind == Postgres {
		seeded, err := pgstore.Seed(ctx, n.Target, source, progress)
		if seeded.Already {
			return Filled{Already: source.Meta().Origin}, err
		}
		return Filled{Resumed: seeded.Resumed}, err
	}
	if have, err := n.Describe(ctx); err == nil && have.Same(source.Meta()) {
		return Filled{Already: have.Origin}, nil
	}
	if n.Kind == Snapshot {
		return Filled{}, snapshot.Build(ctx, n.Target, source, progress)
	}
	return Filled{}, sqlitestore.Build(ctx, n.Target, source, progress)
}

// Read opens the database for use. A snapshot is none: the error is ErrNoDatabase.
func (n Name) Read(ctx context.Context, use func(dataset.Source[results.Student]) error) error {
	switch n.Kind {
	case SQLite:
		db, err := sqlitestore.Open(ctx, n.Target)
		if err != nil {
			return err
		}
		return errors.Join(use(db), db.Close())
	case Postgres:
		db, err := pgstore.OpenSource(ctx, n.Target)
		if err != nil {
			return err
		}
		return use(db)
	}
	return fmt.Errorf("%s: %w", n, ErrNoDatabase)
}

// Correct corrects students of the database, all or none, and then calls tell with
// what the database holds, before corrections, and what was done. The error may be
// tell's: then they are corrected all the same.
func (n Name) Correct(ctx context.Context, c results.Corrections, tell func(context.Context, dataset.Meta, results.Corrected) error) (results.Corrected, error) {
	switch n.Kind {
	case SQLite:
		meta, err := sqlitestore.Describe(ctx, n.Target)
		if err != nil {
			return results.Corrected{}, err
		}
		done, err := sqlitestore.Correct(ctx, n.Target, c)
		if err != nil {
			return done, err
		}
		return done, tell(ctx, meta, done)
	case Postgres:
		source, err := pgstore.OpenSource(ctx, n.Target)
		if err != nil {
			return results.Corrected{}, err
		}
		return pgstore.Correct(ctx, n.Target, c, func(ctx context.Context, done results.Corrected) error {
			return tell(ctx, source.Meta(), done)
		})
	}
	return results.Corrected{}, fmt.Errorf("%s: %w", n, ErrNoDatabase)
}
