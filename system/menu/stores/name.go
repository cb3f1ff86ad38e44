// Package stores knows every kind of store of menus by its name, such as pebble:menus: it
// opens, fills and reads what a name names. Beside package serve it is the one place where
// the stores meet; what a store does is its own package's business.
package stores

import (
	"fmt"
	"strings"

	"loadstone/block/postgres"
	"loadstone/block/redact"
	"loadstone/system/menu/cqlstore"
)

// The kinds of stores.
const (
	Pebble    = "pebble"
	Record    = "record"
	Postgres  = "postgres"
	Cassandra = "cassandra"
)

// DatabaseForms are the names of stores that can be changed, for people.
const DatabaseForms = "pebble:DIRECTORY, postgres://USER@HOST/DATABASE or " + cassandraForm

// Forms are the names of all stores, for people.
const Forms = "record:FILE, " + DatabaseForms

const cassandraForm = "cassandra://HOST[,HOST]/KEYSPACE"

// Name is the name of a store.
type Name struct {
	Kind string
	// Target is what the kind's package opens: a path that is not empty, or the whole
	// address of a database.
	Target string
	// SortedTables is how to fill a Cassandra.
	SortedTables cqlstore.SortedTables
	// CacheBytes is for menus of a record file that is served, see recordfile.Config.
	CacheBytes int64
}

// Parse reads the name of a store: KIND:PATH for files, and the address of a database.
// Its error shows no password.
func Parse(text string) (Name, error) {
	kind, target, _ := strings.Cut(text, ":")
	switch {
	case kind == "postgres" || kind == "postgresql":
		if err := postgres.CheckURL(text); err != nil {
			return Name{}, fmt.Errorf("store: %w", err)
		}
		return Name{Kind: Postgres, Target: text}, nil
	case kind == Cassandra:
		if _, err := cqlstore.Parse(text); err != nil {
			return Name{}, fmt.Errorf("store: %w", err)
		}
		return Name{Kind: Cassandra, Target: text}, nil
	case (kind != Pebble && kind != Record) || target == "":
		return Name{}, fmt.Errorf("store is %q; write %s", Redact(text), Forms)
	}
	return Name{Kind: kind, Target: target}, nil
}

// String is the name as it is written, without secrets.
func (n Name) String() string {
	if n.Kind == Pebble || n.Kind == Record {
		return n.Kind + ":" + n.Target
	}
	return redact.Address(n.Target)
}

// Redact returns what was written as the name of a store without its secrets, for
// people. The names of files have none and come back as they are.
func Redact(text string) string {
	if kind, _, _ := strings.Cut(text, ":"); kind == Pebble || kind == Record {
		return text
	}
	return redact.Address(text)
}
