package menu

import "fmt"

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
	// ErrNotFound: no menu has the id.
	ErrNotFound = &Error{"not_found", "no menu has this id"}
	// ErrMalformedID: the text is not an id at all, see dataset.ParseID.
	ErrMalformedID = &Error{"malformed_id", "an id is 1 to 18 decimal digits without sign, spaces or leading zeros"}
	// ErrInput: what was sent or imported is not a menu.
	ErrInput = &Error{"bad_input", "this is not a menu"}
	// ErrBounds: what was asked of a Desk is not within its bounds.
	ErrBounds = &Error{"out_of_bounds", "this is out of bounds"}
	// ErrExists: the id has a menu.
	ErrExists = &Error{"exists", "a menu has this id already"}
	// ErrChanged: the menu is not what the writer takes it for.
	ErrChanged = &Error{"changed", "the menu has changed in the meantime"}
	// ErrOverloaded: refused to be able to answer others; nothing was tried.
	ErrOverloaded = &Error{"overloaded", "too many requests are under way"}
	// ErrUnavailable: the store does not answer, or is closed. It may pass.
	ErrUnavailable = &Error{"unavailable", "the store of menus does not answer"}
	// ErrUntold: caches cannot be told of a write, so nothing was written. It may pass.
	ErrUntold = &Error{"caches_unavailable", "caches cannot be told of the change"}
	// ErrMissing: there is no data at the place. Seeding, importing or publishing makes it.
	ErrMissing = &Error{"missing", "there is no data set"}
	// ErrOccupied: the place holds another data set.
	ErrOccupied = &Error{"occupied", "there is another data set"}
	// ErrVersion: the data is whole but not of a kind and version that this program reads.
	ErrVersion = &Error{"wrong_version", "the data has another format or version"}
	// ErrCorrupt: the data is damaged: cut short, or bytes have changed.
	ErrCorrupt = &Error{"corrupt", "the data is damaged"}
)

// Malformed is ErrMalformedID with at most 32 bytes of the text: it comes from anywhere, and
// the error goes to logs.
func Malformed[T ~string | ~[]byte](text T) error {
	const quoted = 32
	if len(text) > quoted {
		return fmt.Errorf("id %q... (%d bytes): %w", string(text[:quoted]), len(text), ErrMalformedID)
	}
	return fmt.Errorf("id %q: %w", string(text), ErrMalformedID)
}
