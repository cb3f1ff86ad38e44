package sqlitestore

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"loadstone/block/sqlite"
	"loadstone/system/patterns/activity"
	"loadstone/system/patterns/activity/activitytest"
)

func TestMain(m *testing.M) {
	if activitytest.IsWriter() {
		os.Exit(activitytest.Writer(func(path string) (activity.Store, error) {
			return Open(activitytest.WriterContext(), path, prometheus.NewRegistry())
		}))
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestIsAStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a ?#%.db") // a name that would be something else in a URL
	activitytest.Suite(t, func(t *testing.T) activity.Store { t.Helper(); return open(t, path) })
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestKilledItLosesNothing(t *testing.T) {
	t.Parallel()
	activitytest.Kill(t, filepath.Join(t.TempDir(), "activities.db"), func(path string) (activity.Store, error) {
		return Open(t.Context(), path, prometheus.NewRegistry())
	})
}

// Durability is what is said; this is what the connection that writes was told.
func TestTheLogIsSynced(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "activities.db"))
	defer func() { _ = s.Close() }()
	var mode string
	var synchronous int
	if err := s.db.Write.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("got journal_mode %q, %v", mode, err)
	}
	if err := s.db.Write.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&synchronous); err != nil || synchronous != 2 {
		t.Errorf("got synchronous %d, %v, want 2, FULL", synchronous, err)
	}
}

// What is said is what the connection does, and not what it should do.
func TestDurabilityIsWhatTheConnectionDoes(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "activities.db"))
	defer func() { _ = s.Close() }()
	if got, want := s.Durability(), (activity.Durability{Synced: true, How: "SQLite: WAL, synchronous=FULL, group commit"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, c := range []struct {
		statement string
		want      activity.Durability
	}{
		{"PRAGMA synchronous = NORMAL", activity.Durability{How: "SQLite: WAL, synchronous=NORMAL, group commit"}},
		{"PRAGMA synchronous = OFF", activity.Durability{How: "SQLite: WAL, synchronous=OFF, group commit"}},
		{"PRAGMA synchronous = EXTRA", activity.Durability{Synced: true, How: "SQLite: WAL, synchronous=EXTRA, group commit"}},
	} {
		if _, err := s.db.Write.ExecContext(t.Context(), c.statement); err != nil {
			t.Fatal(err)
		}
		if got, err := durability(t.Context(), s.db); got != c.want || err != nil {
			t.Errorf("%s: got %+v, %v, want %+v", c.statement, got, err, c.want)
		}
	}
	memory, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = memory.Close() }()
	if got, err := durability(t.Context(), &sqlite.DB{Write: memory}); got.Synced || err != nil {
		t.Errorf("got %+v, %v of a database in memory", got, err)
	}
}

// A bound of the database's pages is a disk of that size, as SQLite tells it.
func TestAFullDiskIsSaidAndPasses(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "activities.db"))
	defer func() { _ = s.Close() }()
	bound := func(pages int) {
		t.Helper()
		if _, err := s.db.Write.ExecContext(t.Context(), fmt.Sprint("PRAGMA max_page_count = ", pages)); err != nil {
			t.Fatal(err)
		}
	}
	bound(20)
	var stored []string
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		a := activitytest.Example(fmt.Sprint("a", i))
		a.Details = strings.Repeat("x", activity.MaxDetails)
		if err = s.Put(t.Context(), &a); err == nil {
			stored = append(stored, a.ID)
		}
	}
	if !errors.Is(err, activity.ErrUnavailable) || !strings.Contains(err.Error(), "the disk is full") {
		t.Fatalf("got %v after %d, want that the disk is full", err, len(stored))
	}
	if _, err := s.Get(t.Context(), stored[0]); err != nil {
		t.Errorf("read: %v", err)
	}
	bound(1000)
	activitytest.Put(t, s, activitytest.Example("after"))
	activitytest.Want(t, s, activitytest.Example("after"))
	for _, id := range stored {
		if _, err := s.Get(t.Context(), id); err != nil {
			t.Errorf("%s was acknowledged: %v", id, err)
		}
	}
}

func TestAnotherDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := func(name, statement, want string) {
		t.Helper()
		path := filepath.Join(dir, name)
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), path, prometheus.NewRegistry()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	f("other", "CREATE TABLE orders (id INTEGER)", "holds something else")
	f("newer", "PRAGMA application_id = 0x4c534143; PRAGMA user_version = 2; CREATE TABLE activities (id TEXT)", "of version 2 and this program's of 1")
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), text, prometheus.NewRegistry()); err == nil || !strings.Contains(err.Error(), "not a database") {
		t.Errorf("got %v", err)
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "nowhere", "a.db"), prometheus.NewRegistry()); err == nil {
		t.Error("a directory that is not there: got no error")
	}
}
