package pgstore

import (
	"context"
	"errors"
	"fmt"

	"loadstone/block/postgres"
	"loadstone/system/results"
)

// ErrHolds is wrapped when a database was to be filled that holds, or is being
// filled with, other students.
var ErrHolds = errors.New("the database holds other students")

// kind gives an error the identity of one of the system's failures, and a text
// of its own: theirs speak of files.
type kind struct {
	is  *results.Error
	err error
}

func (k kind) Error() string   { return k.err.Error() }
func (k kind) Unwrap() []error { return []error{k.is, k.err} }

// classify gives an error of a query its kind. Ctx is the caller's own: that it
// ended is no fault of the database.
func classify(ctx context.Context, err error) error {
	what := postgres.KindOf(err)
	if what == postgres.None {
		return nil
	}
	if what == postgres.NotFound {
		return results.ErrNotFound
	}
	if cause := ctx.Err(); cause != nil {
		return errors.Join(cause, err)
	}
	var ours *results.Error
	if errors.As(err, &ours) || errors.Is(err, ErrHolds) {
		return err
	}
	switch what {
	case postgres.Busy, postgres.Closed:
		return kind{results.ErrUnavailable, err}
	case postgres.Unavailable:
		return kind{results.ErrUnavailable, fmt.Errorf("the database does not answer: %w", err)}
	default:
		return err
	}
}
