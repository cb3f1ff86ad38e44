package sqlite

import (
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Kind is what an error says of the database.
type Kind string

// All kinds.
const (
	// Other is no error of SQLite.
	Other Kind = "other"
	// Full: the disk is. It may pass.
	Full Kind = "full"
	// Unavailable: the disk failed, or somebody else's write took too long. It may pass.
	Unavailable Kind = "unavailable"
	// Corrupt: the file is damaged, or no database.
	Corrupt Kind = "corrupt"
	// Conflict: a constraint, such as a key, forbids it.
	Conflict Kind = "conflict"
	// Failed is any other error of SQLite.
	Failed Kind = "failed"
)

// KindOf returns the kind of an error of a statement.
func KindOf(err error) Kind {
	failure, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return Other
	}
	const primary = 0xff // the rest of a code says more about it
	switch failure.Code() & primary {
	case sqlite3.SQLITE_FULL:
		return Full
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN:
		return Unavailable
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return Corrupt
	case sqlite3.SQLITE_CONSTRAINT:
		return Conflict
	default:
		return Failed
	}
}
