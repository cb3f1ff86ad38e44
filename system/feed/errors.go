package feed

import (
	"context"
	"errors"
	"fmt"
)

// Error is a failure that callers tell apart, by identity (errors.Is with the variables
// below). Code is the same fact for machines, in lower_snake_case, and never changes once
// published.
type Error struct {
	Code    string
	Message string
}

// Error returns the message, a sentence part without a full stop.
func (e *Error) Error() string { return e.Message }

// The failures of this system. Everything else that a function returns is an internal
// failure: a broken disk, a cancelled context.
var (
	// ErrNotFound: there is no such post, or it has nothing of the kind that was asked for.
	ErrNotFound = &Error{"not_found", "there is no such post, or it has nothing of this kind"}
	// ErrInput: what was imported is no feed.
	ErrInput = &Error{"bad_input", "this cannot be imported"}
	// ErrCursor: a cursor was not made here, or was changed.
	ErrCursor = &Error{"bad_cursor", "this cursor is not one that this server gave out: begin again without a cursor"}
	// ErrExpired: a cursor is too old.
	ErrExpired = &Error{"expired_cursor", "this cursor is too old: begin again without a cursor"}
	// ErrChanged: a post is not as who changes it takes it for; nothing was changed.
	ErrChanged = &Error{"changed", "the post has changed"}
	// ErrDown: a post is taken down.
	ErrDown = &Error{"taken_down", "the post is taken down"}
	// ErrUp: a post that was to be put back is not taken down.
	ErrUp = &Error{"not_taken_down", "the post is not taken down"}
	// ErrBounds: a change is none that can be stored.
	ErrBounds = &Error{"bad_change", "this cannot be stored"}
	// ErrOverloaded: refused to be able to answer others; nothing was tried.
	ErrOverloaded = &Error{"overloaded", "too many requests are under way"}
	// ErrUnavailable: the store does not answer, or is closed. It may pass.
	ErrUnavailable = &Error{"unavailable", "the store of posts does not answer"}
	// ErrMissing: there is no data at the place. Seeding and importing make it.
	ErrMissing = &Error{"missing", "there is no feed"}
	// ErrOccupied: the place holds another data set.
	ErrOccupied = &Error{"occupied", "there is another feed"}
)

// Classify gives an error of a database the identity that Store promises; nil stays nil.
// Ctx is the caller's own: that it ended is no fault of the database. Busy says that too many
// wait for it, gone that it does not answer.
func Classify(ctx context.Context, err error, busy, gone bool) error {
	_, ours := errors.AsType[*Error](err)
	switch cause := ctx.Err(); {
	case err == nil || ours:
		return err
	case cause != nil:
		return fmt.Errorf("%w: %w", cause, err)
	case busy:
		return fmt.Errorf("%w: %w", ErrOverloaded, err)
	case gone:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}
