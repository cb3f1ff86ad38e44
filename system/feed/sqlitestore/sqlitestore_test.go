package sqlitestore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"loadstone/block/sqlite"
	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
)

func TestMain(m *testing.M) {
	if feedtest.IsWriter() {
		os.Exit(feedtest.Writer(func(path string) (feed.Store, error) { return keep(Open(context.Background(), path)) }))
	}
	goleak.VerifyTestMain(m)
}

func at(t *testing.T, path string) feedtest.Open {
	t.Helper()
	return func() (feed.Store, error) { return keep(Open(t.Context(), path)) }
}

func places() feedtest.Places {
	return feedtest.Places{Large: os.Getenv("LARGE") == "1", Make: func(t *testing.T) feedtest.Open {
		t.Helper()
		return at(t, filepath.Join(t.TempDir(), "feed.db"))
	}}
}

func TestStore(t *testing.T) {
	t.Parallel()
	feedtest.Stores(t, places())
}

func TestDesk(t *testing.T) {
	t.Parallel()
	feedtest.Desks(t, places())
}

func TestKilledEditor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "feed.db")
	feedtest.Kill(t, path, at(t, path))
}

// A database of the first version is brought to the current one, with its posts.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "feed.db")
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	e := feedtest.Odd(1, 1, 2)
	err = db.Make(t.Context(), sqlite.Schema{ApplicationID: schema.ApplicationID, Version: 1, Statements: first})
	for _, statement := range []string{
		`INSERT INTO authors VALUES (5, 'Noor', '', '', '', '')`,
		`INSERT INTO posts VALUES (1, 1, 5, 0, 0, 0, 0, 'Title', 'Text')`,
	} {
		if err == nil {
			_, err = db.Write.ExecContext(t.Context(), statement)
		}
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for round := range 2 { // the second time there is nothing to do
		s, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		k, err := s.Entry(t.Context(), 1)
		if err != nil || round == 0 && (k.Version != 0 || k.Author.Name != "Noor") || round == 1 && k.Version == 0 {
			t.Errorf("got %+v and %v", k, err)
		}
		_, err = s.Apply(t.Context(), feed.Change{Action: feed.Written, Editor: "ada", Post: 1}, &e, feed.Condition{Version: k.Version, HasVersion: true})
		if err := errors.Join(err, s.Close()); err != nil {
			t.Error(err)
		}
	}
}

func keep(s *Store, err error) (feed.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func TestOtherFilesAreRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

// TestQueriesArePlannedOnce: no value that is bound can change a plan, see queries.
func TestQueriesArePlannedOnce(t *testing.T) {
	t.Parallel()
	for name, query := range queries {
		rest := strings.ReplaceAll(strings.ReplaceAll(query, "json_each(?)", ""), "?+0", "")
		if strings.Contains(rest, "?") {
			t.Errorf("%s has a bare ? beside a column or as a limit: write ?+0", name)
		}
	}
}
