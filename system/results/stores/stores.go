package stores

import (
	"context"
	"errors"
	"fmt"
	"time"

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
// they were not made up; nothing if there are none, or not all: only the source that they
// came from can then be filled in (Fill). A database of an earlier version is brought to
// this one. With an error it is not known what the store holds.
func (n Name) Imported(ctx context.Context) (origin string, err error) {
	if n.Kind == Postgres {
		if err := pgstore.Upgrade(ctx, n.Target); err != nil {
			return "", err
		}
	}
	meta, err := n.Describe(ctx)
	switch {
	case errors.Is(err, results.ErrMissing), err == nil && results.MadeUp(meta):
		return "", nil
	case err != nil:
		return "", err
	}
	return meta.Origin, nil
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
	if have, err := n.Describe(ctx); err == nil && results.FilledFrom(have, source.Meta()) {
		return Filled{Already: have.Origin}, nil
	}
	if n.Kind == Snapshot {
		return Filled{}, snapshot.Build(ctx, n.Target, source, progress)
	}
	return Filled{}, sqlitestore.Build(ctx, n.Target, source, progress)
}

// Read opens the database for use. A snapshot is none: the error is ErrNoDatabase.
func (n Name) Read(ctx context.Context, use func(results.Database) error) error {
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

// Publication is when the results in the store come out.
func (n Name) Publication(ctx context.Context) (p results.Publication, err error) {
	if n.Kind == Snapshot {
		err = snapshot.Reschedule(n.Target, func(have, _ time.Time) (time.Time, error) {
			p = results.State{}.Scheduled(have).Publication()
			return have, nil
		})
		return p, err
	}
	err = n.Read(ctx, func(db results.Database) error {
		p = db.State().Publication()
		return nil
	})
	return p, err
}

// Reschedule changes when the results in the store come out. By says who does, for those
// that come later; a snapshot does not keep it.
func (n Name) Reschedule(ctx context.Context, by string, choose results.Reschedule) error {
	switch n.Kind {
	case Postgres:
		return pgstore.Reschedule(ctx, n.Target, by, choose)
	case Snapshot:
		return snapshot.Reschedule(n.Target, choose)
	default:
		return sqlitestore.Reschedule(ctx, n.Target, by, choose)
	}
}

// Correct corrects students of the database, all or none.
func (n Name) Correct(ctx context.Context, c results.Corrections) (results.Corrected, error) {
	switch n.Kind {
	case SQLite:
		return sqlitestore.Correct(ctx, n.Target, c)
	case Postgres:
		return pgstore.Correct(ctx, n.Target, c)
	}
	return results.Corrected{}, fmt.Errorf("%s: %w", n, ErrNoDatabase)
}
