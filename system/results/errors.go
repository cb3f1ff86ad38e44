package results

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
