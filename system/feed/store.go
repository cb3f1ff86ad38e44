package feed

import (
	"context"
	"errors"
	"fmt"

	"loadstone/block/dataset"
)

// Store has posts. It is safe for concurrent use. What was written is on stable storage, and
// seen by every reading that begins later; a reading sees an entry whole or not at all, but
// for its parts, of which each is read by itself.
type Store interface {
	// Page returns at most limit posts that stand behind the position, in descending order
	// of their positions: Published first, then ID.
	Page(ctx context.Context, behind Position, limit int) ([]Post, error)
	// Details finds one part of several posts, in one query. Posts that there are not, and
	// those without anything of the kind, are not in the map.
	Details(ctx context.Context, part Part, posts []int64) (Details, error)
	// Notices are those for somebody who has seen the posts up to a time.
	Notices(ctx context.Context, seen int64) (Notices, error)
	// Key signs cursors: 32 random bytes, made with the store, the same for all who serve it.
	Key(ctx context.Context) ([]byte, error)

	// Put stores a post that is new. Its author replaces the one with the same id.
	Put(ctx context.Context, e *Entry) error
	// Delete removes a post, and what belongs to it alone. The error wraps ErrNotFound
	// if there is none.
	Delete(ctx context.Context, id int64) error
	// Fill puts a whole data set in, all or nothing. A store that was filled with it is
	// left alone; of one that has anything else the error wraps ErrOccupied.
	Fill(ctx context.Context, source dataset.Source[Entry], progress dataset.Progress) (kept bool, err error)
	// Meta is what the store was filled with. The error wraps ErrMissing if it was not.
	Meta(ctx context.Context) (dataset.Meta, error)
	// Close frees the store. After it everything else fails with ErrUnavailable.
	Close() error
}

// Occupied is for what a store does first when it is to be filled with a data set: have and
// err are what Meta says of it, and posts whether it has any. It reports that the store was
// filled with the same, and refuses one that has anything else (ErrOccupied).
func Occupied(have dataset.Meta, err error, posts func() (bool, error), with dataset.Meta) (kept bool, _ error) {
	switch {
	case errors.Is(err, ErrMissing):
		if there, err := posts(); err != nil || !there {
			return false, err
		}
		return false, fmt.Errorf("%w: posts that were written one by one", ErrOccupied)
	case err != nil:
		return false, err
	case !have.Same(with):
		return false, fmt.Errorf("%w: %s", ErrOccupied, have.Origin)
	}
	return true, nil
}
