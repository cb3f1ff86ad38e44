package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The errors of a pool. Nothing was tried.
var (
	// ErrBusy: too many wait for a connection, or one waited too long.
	ErrBusy = errors.New("too many wait for the database")
	// ErrClosed: the pool was closed.
	ErrClosed = errors.New("the connections to the database are closed")
)

// ConnectError is why Connect failed, whatever the database answered.
type ConnectError struct{ err error }

// Error implements error.
func (e *ConnectError) Error() string { return "connect: " + e.err.Error() }

// Unwrap returns pgx's error.
func (e *ConnectError) Unwrap() error { return e.err }

// addressError is what is wrong with a URL.
type addressError struct{ error }

// Kind is what an error says of the database.
type Kind string

// All kinds.
const (
	// None: there is no error.
	None Kind = "none"
	// NotFound: there is no row.
	NotFound Kind = "not found"
	// Busy is ErrBusy.
	Busy Kind = "busy"
	// Closed is ErrClosed.
	Closed Kind = "closed"
	// Unavailable: the database does not answer, or says that it cannot now. Whether
	// something was done is not known.
	Unavailable Kind = "unavailable"
	// Conflict: the database ended the transaction because of another one. Nothing was
	// done, and doing it again may succeed.
	Conflict Kind = "conflict"
	// Locked: somebody else had a lock for longer than lock_timeout.
	Locked Kind = "locked"
	// Exists: a row with this key is there.
	Exists Kind = "exists"
	// Failed: the database refused what it was asked, or its answer has another form.
	Failed Kind = "failed"
)

// KindOf returns the kind of an error of this package or of pgx. What is no message of
// the database comes from the way there (no connection, a broken one, a deadline), and
// so is Unavailable: an error of the caller's own must not be asked about.
func KindOf(err error) Kind {
	switch {
	case err == nil:
		return None
	case errors.Is(err, pgx.ErrNoRows):
		return NotFound
	case errors.Is(err, ErrBusy):
		return Busy
	case errors.Is(err, ErrClosed):
		return Closed
	}
	if _, ok := errors.AsType[pgx.ScanArgError](err); ok {
		return Failed
	}
	if _, ok := errors.AsType[addressError](err); ok {
		return Failed
	}
	if message, ok := errors.AsType[*pgconn.PgError](err); ok {
		return kindOfCode(message.Code)
	}
	return Unavailable
}

// kindOfCode reads SQLSTATE codes and their classes (PostgreSQL's manual, appendix A).
func kindOfCode(code string) Kind {
	switch code {
	case "40001", "40P01": // a serialization failure, a deadlock
		return Conflict
	case "55P03":
		return Locked
	case "23505":
		return Exists
	}
	switch code[:min(2, len(code))] {
	case "08", // connection
		"53", // resources: too many connections, no memory, no disk
		"57", // operator: shutting down, starting up, statement_timeout
		"58": // the operating system failed the database
		return Unavailable
	}
	return Failed
}
