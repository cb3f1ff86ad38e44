// Package stores knows every kind of store of results by its name, such as
// sqlite:results.db: it opens, describes, fills and corrects what a name names. Beside
// package serve it is the one place where the stores meet; what a store does is its own
// package's business.
package stores

import (
	"fmt"
	"strings"

	"loadstone/block/postgres"
	"loadstone/block/redact"
)

// The kinds of stores, as they begin a name.
const (
	SQLite   = "sqlite"
	Snapshot = "snapshot"
	Postgres = "postgres"
)

// Forms says how the name of a store is written, for people.
const Forms = "sqlite:PATH, snapshot:PATH or postgres://USER@HOST/DATABASE"

// DatabaseForms are the names of those that can be read whole and corrected.
const DatabaseForms = "sqlite:PATH or postgres://USER@HOST/DATABASE"

// Name is the name of a store.
type Name struct {
	Kind string
	// Target is what the kind's package opens: a path that is not empty, or the whole
	// URL of a PostgreSQL database.
	Target string
}

// Parse reads the name of a store: KIND:PATH for files, and the URL of a PostgreSQL
// database. Its error shows no password.
func Parse(text string) (Name, error) {
	kind, target, _ := strings.Cut(text, ":")
	switch {
	case strings.HasPrefix(text, "postgres://"), strings.HasPrefix(text, "postgresql://"):
		if err := postgres.CheckURL(text); err != nil {
			return Name{}, fmt.Errorf("store: %w", err)
		}
		return Name{Postgres, text}, nil
	case (kind != SQLite && kind != Snapshot) || target == "":
		return Name{}, fmt.Errorf("store is %q, must be %s", Redact(text), Forms)
	}
	return Name{kind, target}, nil
}

// String is the name as it is written, without secrets.
func (n Name) String() string {
	if n.Kind == Postgres {
		return redact.Address(n.Target)
	}
	return n.Kind + ":" + n.Target
}

// Place is where it is, without secrets: the path, or the URL.
func (n Name) Place() string {
	if n.Kind == Postgres {
		return n.String()
	}
	return n.Target
}

// Redact returns what was written as the name of a store without its secrets, for
// people. What has none comes back as it is.
func Redact(text string) string {
	if kind, _, _ := strings.Cut(text, ":"); kind == SQLite || kind == Snapshot {
		return text
	}
	return redact.Address(text)
}
