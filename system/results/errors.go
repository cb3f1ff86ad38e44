package results

import (
	"fmt"
	"time"
)

// Error is a failure that callers tell apart. Errors are compared by identity
// (errors.Is with the variables below); Code is the same fact for machines, in
// lower_snake_case, and never changes once published.
type Error struct {
	Code    string
	Message string
}

// Error returns the message, a sentence part without a full stop.
func (e *Error) Error() string { return e.Message }

// The failures of this system. Everything else that a function returns is an
// internal failure: a broken disk, a cancelled context.
var (
	// ErrNotFound: no student has the id.
	ErrNotFound = &Error{"not_found", "no student has this id"}
	// ErrMalformedID: the text is not an id at all, see ParseID.
	ErrMalformedID = &Error{"malformed_id", "an id is 1 to 18 decimal digits without sign, spaces or leading zeros"}
	// ErrUnavailable: the store is closed.
	ErrUnavailable = &Error{"unavailable", "the store is closed"}
	// ErrMissing: there is no data file at the path. Seeding, importing or
	// publishing makes one.
	ErrMissing = &Error{"missing", "there is no such file"}
	// ErrVersion: the file is whole but not of a kind and version that this
	// program reads.
	ErrVersion = &Error{"wrong_version", "the file has another format or version"}
	// ErrCorrupt: the file is damaged: cut short, or bytes have changed.
	ErrCorrupt = &Error{"corrupt", "the file is damaged"}
	// ErrInput: the file that was to be imported has mistakes, all listed.
	ErrInput = &Error{"bad_input", "the file has mistakes"}
)

// Why a client sees nothing of a student, beside ErrNotFound and ErrUnavailable. All
// of them pass by themselves.
var (
	// ErrEmbargoed: results are not out yet.
	ErrEmbargoed = &Error{"embargoed", "results are not out yet"}
	// ErrRateLimited: the address asks too often.
	ErrRateLimited = &Error{"rate_limited", "too many requests come from this address"}
	// ErrLockedOut: too many wrong codes for the id came from the address.
	ErrLockedOut = &Error{"locked_out", "too many wrong access codes for this id"}
	// ErrOverloaded: the store refused a look-up to be able to answer others.
	ErrOverloaded = &Error{"overloaded", "too many look-ups are under way"}
)

// Decision is what a client may see of a student.
type Decision struct {
	// Err is why there is nothing to see; nil if Page is the student's. It is
	// ErrNotFound, with a wrong code as well; ErrUnavailable if the store failed; or
	// one of those that pass by themselves.
	Err  *Error
	Page Page
	// RetryAfter is the least time to wait if Err passes by itself.
	RetryAfter time.Duration
	// PublishAt is when results come out, with ErrEmbargoed.
	PublishAt time.Time
}

// BusyError is what a store returns that refuses a look-up to be able to answer
// others. It is no failure.
type BusyError struct {
	// RetryAfter is when the refusal should be over.
	RetryAfter time.Duration
	// Err says more.
	Err error
}

// Error implements error.
func (e *BusyError) Error() string { return fmt.Sprintf("refused for %v: %v", e.RetryAfter, e.Err) }

// Unwrap returns the reason.
func (e *BusyError) Unwrap() error { return e.Err }
