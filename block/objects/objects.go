// Package objects stores whole objects under names, with writes that depend on what is there: in a
// directory, or in a bucket that speaks S3.
//
// A write names the object that it takes the place of, by its tag, or says that there must be none.
// Of several writers that have seen the same object one succeeds, in whichever processes they are,
// and the others hear ErrChanged. So a small object that names others can be replaced safely, and
// there is no write that does not care: who wants one reads first.
//
// An object is there wholly or not at all, also after a crash, and is read and written in memory:
// MaxSize bounds it. A name is words of letters, digits, "-", "_" and "." with slashes between them; no
// word begins with a dot, and no object has the name of another one's directory.
package objects

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// MaxSize bounds an object, in bytes.
const MaxSize = 64 << 20

// Tag tells the content of an object from others that it had or will have.
type Tag string

// Absent is the tag of an object that is not there.
const Absent Tag = ""

var (
	// ErrNotFound says that there is no object of that name.
	ErrNotFound = errors.New("there is no such object")
	// ErrChanged says that a write did not take place: what is there has not the tag that was named.
	ErrChanged = errors.New("the object is not the one that was to be replaced")
)

// Store is where objects are. All methods are safe for concurrent use, and return an error once their
// context ends; whether a write has taken place then is not known.
type Store interface {
	// Get returns an object and its tag, or ErrNotFound. The caller owns the bytes.
	Get(ctx context.Context, name string) ([]byte, Tag, error)
	// Put writes an object in place of the one with the tag, Absent for none, and returns its own. When it
	// returns, the object is durable, and whoever begins to read gets it. Otherwise the error is ErrChanged:
	// who hears that may still find that another writer has put the very same bytes there.
	Put(ctx context.Context, name string, body []byte, was Tag) (Tag, error)
	// List returns the names that begin with the prefix, sorted.
	List(ctx context.Context, prefix string) ([]string, error)
	// Delete removes an object, whatever its tag. That there is none is no error.
	Delete(ctx context.Context, name string) error
}

const maxName = 512 // what a key of S3 may have, and a prefix

var names = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)

// check refuses what is no object before it is sent anywhere.
func check(name string, body []byte) error {
	switch {
	case len(name) > maxName || !names.MatchString(name):
		return fmt.Errorf("the name is %.80q: write words of letters, digits, - _ and . with slashes between them, at most %d bytes", name, maxName)
	case len(body) > MaxSize:
		return fmt.Errorf("the object has %d bytes, more than %d", len(body), MaxSize)
	}
	return nil
}

// wrap says which object an error is about. It has the form of all errors of a store.
func wrap(what, name, place string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s in %s: %w", what, name, strings.TrimSuffix(place, "/"), err)
}
