// Package activity is the pattern "SQL to NoSQL": what users did, stored before
// it is acknowledged and read back by its id, over HTTP.
//
//	POST /activities        stores one; 201 when it is on stable storage
//	GET  /activities/{id}   the activity as it was stored, or 404
//
// The package has the activity itself, the interface of a store and the handler.
// Stores are packages of their own: sqlitestore and pebblestore keep activities
// in this process's files, pgstore in PostgreSQL, cassandrastore in Cassandra;
// package stores opens one by its address, and activitytest has the tests that
// all of them pass. The server, its connections and its limits are the caller's;
// the handler owns the store and closes it.
//
// # What a client may rely on
//
// The client chooses the id. Whoever got no answer, or 503, posts the same again:
// storing it twice is storing it once. The store does not look before it writes,
// because in Cassandra that would be a Paxos round for each write; so whoever
// posts something else under a used id replaces what was there, in every store.
//
// 201 means that a SIGKILL of this process loses nothing, and of the database as
// well where Durability says that it synced before its answer. 503 with
// Retry-After means either that nothing was tried (busy) or that nobody knows
// (unavailable); posting again is right after both.
package activity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of an activity, in bytes of UTF-8.
const (
	// MaxID, MaxKind and MaxUser bound the names.
	MaxID   = 64
	MaxKind = 32
	MaxUser = 128
	// MaxDetails bounds the free text: an activity is a line in a history, not a
	// document.
	MaxDetails = 2 << 10
)

// Activity is something that a user did.
type Activity struct {
	// ID is chosen by the client: 1 to MaxID of letters, digits and "._-", the
	// first a letter or digit.
	ID string
	// User is who did it: 1 to MaxUser bytes.
	User string
	// Kind is what was done, as a name of 1 to MaxKind in the alphabet of ID.
	Kind string
	// At is when, in whole milliseconds from the year 0 to 9999, in UTC.
	At time.Time
	// Details is whatever else there is to say, at most MaxDetails bytes.
	Details string
}

// The failures of this pattern, matched with errors.Is. What else a store returns
// is a failure of its own, such as a damaged file.
var (
	// ErrNotFound: no activity has the id.
	ErrNotFound = errors.New("no activity has this id")
	// ErrBusy: too much is under way; nothing was tried.
	ErrBusy = errors.New("too many activities are being stored or read")
	// ErrUnavailable: the store did not answer, or not in time, or its disk is full.
	// Whether something was stored is not known.
	ErrUnavailable = errors.New("the store of activities does not answer")
	// ErrClosed: the store was closed; nothing was tried.
	ErrClosed = errors.New("the store of activities is closed")
)

// Durability is what a store does before it says that an activity is stored.
type Durability struct {
	// Synced: it is on stable storage, as far as the operating system knows, of
	// as many machines as the answer needs.
	Synced bool
	// How says by which settings, in a few words for a person.
	How string
}

// Store keeps activities. It is safe for concurrent use.
type Store interface {
	// Put stores the activity, which is valid, in place of any with the same id.
	// It returns nil when a reader will find it, also after a SIGKILL of this
	// process. The error wraps ErrBusy or ErrClosed if nothing was tried;
	// otherwise, and if ctx ended, it may have been stored.
	Put(ctx context.Context, a *Activity) error
	// Get returns the activity with the id. The error wraps ErrNotFound if there
	// is none, ErrBusy, ErrUnavailable or ErrClosed if that is not known.
	Get(ctx context.Context, id string) (Activity, error)
	// Durability says what Put waits for, as it was when the store was opened.
	Durability() Durability
	// Close waits for what is under way and frees the store. What comes after it
	// fails with ErrClosed.
	Close() error
}

// Validate returns all that is wrong with the activity, joined, or nil. Each is
// one sentence that says what to write instead.
func (a *Activity) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := CheckID(a.ID); err != nil {
		errs = append(errs, err)
	}
	if !isName(a.Kind, MaxKind) {
		bad("kind is not 1 to %d letters, digits and ._- that begin with a letter or digit; write it like page-view", MaxKind)
	}
	if a.User == "" || len(a.User) > MaxUser || !storable(a.User) {
		bad("user is not 1 to %d bytes of text without a zero character; write the user's name or number", MaxUser)
	}
	if len(a.Details) > MaxDetails || !storable(a.Details) {
		bad("details is not at most %d bytes of text without a zero character; write less, or a reference to it", MaxDetails)
	}
	if err := checkTime(a.At); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// CheckID returns what is wrong with an id, or nil.
func CheckID(id string) error {
	if isName(id, MaxID) {
		return nil
	}
	return fmt.Errorf("id is not 1 to %d letters, digits and ._- that begin with a letter or digit; write it like order-4711", MaxID)
}

// isName reports whether a text has 1 to most characters that need no quoting
// in a path. The first is no dot: a path of dots means another one.
func isName(text string, most int) bool {
	if text == "" || len(text) > most || strings.IndexByte("._-", text[0]) >= 0 {
		return false
	}
	for i := range len(text) {
		c := text[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// storable reports whether all stores take the text: PostgreSQL's text has no
// zero character.
func storable(text string) bool { return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 }

// checkTime refuses what a store would not give back as it came.
func checkTime(at time.Time) error {
	switch {
	case at.IsZero():
		return errors.New(`at is missing; write the time like "2026-05-31T18:30:00.250Z"`)
	case at.UTC().Year() < 0 || at.UTC().Year() > 9999:
		return errors.New("at is outside the years 0 to 9999; write the time in one of them")
	case at.Nanosecond()%int(time.Millisecond) != 0:
		return errors.New("at has a part smaller than a millisecond, which is not kept; write at most three digits after the second")
	}
	return nil
}

// Millis is the time as stores keep it: milliseconds since 1970.
func (a *Activity) Millis() int64 { return a.At.UnixMilli() }

// Time is the inverse of Millis.
func Time(millis int64) time.Time { return time.UnixMilli(millis).UTC() }
