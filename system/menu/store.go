package menu

import (
	"context"

	"loadstone/block/dataset"
)

// Page is one menu's finished answer.
type Page struct {
	// Body is the JSON that clients get. It may lie in memory that the store owns: it
	// is valid for as long as the Page is reachable, and must not be modified.
	Body []byte
	// Tag identifies Body for HTTP validation, see Tag.
	Tag uint64
	// Version counts the changes of this menu, from 1. It goes on from where it was when a
	// menu is deleted and made again, so what a cache holds of an id is the newest if its
	// version is the highest. 0 where a store cannot change: a published file.
	Version int64

	// Owner keeps the memory behind Body alive; nil if it is on the heap.
	Owner any
}

// Store finds pages. It is safe for concurrent use.
//
// Lookup returns an error that wraps ErrNotFound for an id that has no menu. A deleted
// menu is not found either, and the Page that comes with that error has its Version: a
// cache has to know that the menu was deleted after what it holds.
type Store interface {
	Lookup(ctx context.Context, id int64) (Page, error)
	Close() error
}

// Appending is a store that needs no memory of its own for a look-up: bodies go where they are
// wanted.
type Appending interface {
	// Append is Lookup, and waits for nobody. The page's body is dst with the menu's behind it,
	// also in case of an error, when nothing is behind it.
	Append(dst []byte, id int64) (Page, error)
}

// Database is a store whose menus can be changed. What was accepted is on stable storage,
// and found by every look-up that begins later.
//
// Writes to one menu take turns; each sets the next Version. A write whose condition does not hold
// changes nothing, and its error wraps ErrChanged. An error that wraps
// ErrUnavailable leaves open whether the write took place.
type Database interface {
	Store
	// Create stores a menu under an id that was free, which it chooses and sets in m if
	// m.ID is 0. If m.ID is taken, the error wraps ErrExists.
	Create(ctx context.Context, m *Menu) (Page, error)
	// Replace stores a menu in place of the one with its id, or as a new one.
	Replace(ctx context.Context, m *Menu, only Condition) (page Page, created bool, err error)
	// Delete removes a menu, and returns the version that it has as a deleted one. The
	// error wraps ErrNotFound if there is none.
	Delete(ctx context.Context, id int64, only Condition) (version int64, err error)
	// Menus are all, in ascending order of id, as they were at one time. The source is
	// good until ctx ends: so long the store keeps what it needs for it. Meta says what the
	// database was filled with; where menus have changed since, Count is how many there
	// are now, and the fingerprint is another.
	Menus(ctx context.Context) (dataset.Source[Menu], error)
	// Ping asks the database for a sign of life.
	Ping(ctx context.Context) error
}

// Condition is when a write may take place. The zero Condition is always.
type Condition struct {
	// Tag is that of the menu's body as the writer knows it, with HasTag.
	Tag    uint64
	HasTag bool
	// Exists: there must be a menu, whatever it says.
	Exists bool
	// Absent: there must be none.
	Absent bool
}

// Holds reports whether a write may take place where the menu has the tag, or does not
// exist.
func (c Condition) Holds(tag uint64, exists bool) bool {
	switch {
	case c.Absent:
		return !exists
	case c.HasTag:
		return exists && tag == c.Tag
	case c.Exists:
		return exists
	}
	return true
}

// Filler is a store that a whole data set can be put into.
//
// A store that holds the data set already is left alone, and one whose filling was
// interrupted goes on where it was; one that holds anything else is refused. After a
// filling that was interrupted the store says ErrMissing until one has completed.
type Filler interface {
	Fill(ctx context.Context, source dataset.Source[Menu], progress dataset.Progress) (Filled, error)
}

// Filled says what a filling did.
type Filled struct {
	// Kept: the store held the data set already.
	Kept bool
	// Resumed is how many menus an interrupted filling had left behind.
	Resumed int64
}
