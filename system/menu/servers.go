package menu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"

	"loadstone/block/dataset"
)

// What stores have in common whose databases are servers.

// maxChoices bounds how often CreateChoosing looks for an id: each that it finds taken,
// somebody else has taken since it looked.
const maxChoices = 50

// CreateChoosing is Create of a store that finds out by writing whether an id is free.
// Choose gives an id for a menu that has none, and is told how many were taken. Put writes a
// menu where there is none, a fresh one where there never was one; the page has version 0
// if it did not.
func CreateChoosing(ctx context.Context, m *Menu, choose func(ctx context.Context, choice int) (int64, error),
	put func(ctx context.Context, m *Menu, fresh bool) (Page, error),
) (Page, error) {
	created, fresh := *m, m.ID == 0
	for choice := range maxChoices {
		if fresh {
			var err error
			if created.ID, err = choose(ctx, choice); err != nil {
				return Page{}, fmt.Errorf("choose an id: %w", err)
			}
		}
		page, err := put(ctx, &created, fresh)
		if err != nil {
			return Page{}, fmt.Errorf("create menu %d: %w", created.ID, err)
		}
		if page.Version > 0 {
			m.ID = created.ID
			return page, nil
		}
		if !fresh {
			return Page{}, ErrExists
		}
	}
	return Page{}, fmt.Errorf("%w: no id was found that is free", ErrOverloaded)
}

type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// OfSource marks what is wrong with a data set, or with the machine that reads it, and not with the store that it is put into.
func OfSource(err error) error { return sourceError{err} }

// Classify gives an error the identity that Database promises; nil stays nil. Ctx is the
// caller's own: that it ended is no fault of the database. Busy says that too many wait for
// it, gone that it does not answer.
func Classify(ctx context.Context, err error, busy, gone bool) error {
	_, ours := errors.AsType[*Error](err)
	_, source := errors.AsType[sourceError](err)
	switch cause := ctx.Err(); {
	case err == nil:
		return nil
	case cause != nil:
		return fmt.Errorf("%w: %w", cause, err)
	case ours || source:
		return err
	case busy:
		return fmt.Errorf("%w: %w", ErrOverloaded, err)
	case gone:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// Load puts the menus of a source into a store, by how.Writers or one for each core.
// Of how, only that, ChunkRecords, Written, Open and Progress are read. Anew is what to do
// with a store that was begun with the menus in another order.
func Load(ctx context.Context, source dataset.Source[Menu], how dataset.Load[Menu], anew string) error {
	how.Read = func(ctx context.Context, put func(*Menu) error) error {
		if err := dataset.Each(ctx, source, nil, put); err != nil {
			return OfSource(err)
		}
		return nil
	}
	how.Key = func(m *Menu) int64 { return m.ID }
	how.Writers, how.Total = cmp.Or(how.Writers, runtime.GOMAXPROCS(0)), source.Meta().Count // the goroutine that reads only waits for the source
	err := how.Run(ctx)
	if errors.Is(err, dataset.ErrOrder) {
		return OfSource(fmt.Errorf("%w; %s", err, anew))
	}
	return err
}
