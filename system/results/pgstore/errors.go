package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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

// SQLSTATE codes and classes (PostgreSQL's manual, appendix A).
const (
	codeUndefinedTable  = "42P01"
	codeUniqueViolation = "23505"
	codeLockNotFree     = "55P03"

	classConnection = "08"
	classResources  = "53" // too many connections, no memory, no disk
	classOperator   = "57" // shutting down, starting up, statement_timeout
	classSystem     = "58" // the operating system failed the database
)

// classify gives an error of a query its kind. Ctx is the caller's own: that it
// ended is no fault of the database.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return results.ErrNotFound
	}
	if cause := ctx.Err(); cause != nil {
		return errors.Join(cause, err)
	}
	if errors.Is(err, results.ErrUnavailable) {
		return err
	}
	if unavailable(err) {
		return kind{results.ErrUnavailable, fmt.Errorf("the database does not answer: %w", err)}
	}
	return err
}

// unavailable reports whether an error says that the database cannot answer now,
// rather than that it answered with a refusal. What is no message of the
// database comes from the way there: no connection, a broken one, a deadline.
func unavailable(err error) bool {
	var ours *results.Error
	var scan pgx.ScanArgError
	if errors.As(err, &ours) || errors.As(err, &scan) || errors.Is(err, ErrHolds) {
		return false
	}
	var message *pgconn.PgError
	if !errors.As(err, &message) {
		return true
	}
	switch message.Code[:min(2, len(message.Code))] {
	case classConnection, classResources, classOperator, classSystem:
		return true
	}
	return false
}

func hasCode(err error, code string) bool {
	var message *pgconn.PgError
	return errors.As(err, &message) && message.Code == code
}
