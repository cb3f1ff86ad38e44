package sqlitestore

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

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
	if err := s.writes.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("got journal_mode %q, %v", mode, err)
	}
	if err := s.writes.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&synchronous); err != nil || synchronous != 2 {
		t.Errorf("got synchronous %d, %v, want 2, FULL", synchronous, err)
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
