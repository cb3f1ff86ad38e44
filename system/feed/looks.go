package feed

import (
	"context"
	"fmt"
)

// Looks are the readings of a Desk that are one transaction each, which sees one state: the
// function has something done in one, and gives its error an identity that Store promises.
type Looks func(ctx context.Context, do func(ctx context.Context, t Tx) error) error

// look returns what is read in a transaction.
func look[T any](ctx context.Context, l Looks, read func(ctx context.Context, t Tx) (T, error)) (found T, err error) {
	err = l(ctx, func(ctx context.Context, t Tx) error {
		found, err = read(ctx, t)
		return err
	})
	return found, err
}

// Entry is Desk's.
func (l Looks) Entry(ctx context.Context, id int64) (Kept, error) {
	k, err := look(ctx, l, func(ctx context.Context, t Tx) (Kept, error) { return t.Entry(ctx, id) })
	if err != nil {
		err = fmt.Errorf("read post %d: %w", id, err)
	}
	return k, err
}

// Down is Desk's.
func (l Looks) Down(ctx context.Context, before int64, limit int) ([]Change, error) {
	return look(ctx, l, func(ctx context.Context, t Tx) ([]Change, error) { return t.Down(ctx, before, limit) })
}

// Changes is Desk's.
func (l Looks) Changes(ctx context.Context, post, before int64, limit int) ([]Change, error) {
	return look(ctx, l, func(ctx context.Context, t Tx) ([]Change, error) { return t.Changes(ctx, post, before, limit) })
}

// Since is Desk's.
func (l Looks) Since(ctx context.Context, number int64, limit int) ([]Change, error) {
	return look(ctx, l, func(ctx context.Context, t Tx) ([]Change, error) { return t.Since(ctx, number, limit) })
}

// Authors is Desk's.
func (l Looks) Authors(ctx context.Context, name string, limit int) ([]Author, error) {
	return look(ctx, l, func(ctx context.Context, t Tx) ([]Author, error) { return t.Authors(ctx, name, limit) })
}
