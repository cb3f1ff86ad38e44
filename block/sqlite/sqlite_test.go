package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var schema = Schema{ApplicationID: 7, Version: 1, Statements: []string{"CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT) STRICT"}}

func open(t *testing.T, path string) *DB {
	t.Helper()
	db, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func made(t *testing.T, path string) *DB {
	t.Helper()
	db := open(t, path)
	if err := db.Make(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	return db
}

// Many may ask for the version at a time.
func TestVersionAtOnce(t *testing.T) {
	t.Parallel()
	db := made(t, filepath.Join(t.TempDir(), "a.db"))
	want, err := db.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for range 500 {
				if n, err := db.Version(t.Context()); n != want || err != nil {
					t.Errorf("got %d and %v, want %d", n, err, want)
					return
				}
			}
		})
	}
	asking.Wait()
}

// The version is another one after each commit, of this DB or another one, and only then.
func TestVersion(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	db := made(t, path)
	other := open(t, path)
	version := func() int64 {
		t.Helper()
		n, err := db.Version(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	last := version()
	for i, writes := range []*DB{db, other, db} {
		tx, err := writes.Write.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (?, 'a')", i); err != nil {
			t.Fatal(err)
		}
		if n := version(); n != last {
			t.Errorf("write %d, before the commit: version %d, want %d", i, n, last)
		}
		if err := writes.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		if n := version(); n == last {
			t.Errorf("write %d: version %d as before", i, n)
		}
		last = version()
	}
}

// A reader waits for no writer, sees nothing of what is not committed, and cannot
// write itself.
func TestReadersBesideAWriter(t *testing.T) {
	t.Parallel()
	db := made(t, filepath.Join(t.TempDir(), "a ?#%.db")) // a name that would be something else in a URL
	tx, err := db.Write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (1, 'a')"); err != nil {
		t.Fatal(err)
	}
	count := func() (n int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // less than busy_timeout
		defer cancel()
		if err := db.Read.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := count(); got != 0 {
		t.Errorf("before the commit: got %d rows, want none", got)
	}
	if err := db.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	if got := count(); got != 1 {
		t.Errorf("after the commit: got %d rows, want 1", got)
	}
	if _, err := db.Read.ExecContext(t.Context(), "DELETE FROM t"); err == nil {
		t.Error("a reader wrote")
	}
	d, err := db.Durability(t.Context())
	if want := (Durability{true, "WAL", "FULL"}); d != want || err != nil {
		t.Errorf("got %+v and %v, want %+v", d, err, want)
	}
}

func TestMakeRefusesAnothersDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	db := made(t, path)
	if err := db.Make(t.Context(), schema); err != nil {
		t.Errorf("again: %v", err)
	}
	newer, other := schema, schema
	newer.Version, other.ApplicationID = 2, 8
	for want, s := range map[string]Schema{"of version 1 and this program's of 2": newer, "something else": other} {
		if err := db.Make(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "nowhere", "x.db")); err == nil {
		t.Error("a directory that is not there: got no error")
	}
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := made(t, filepath.Join(dir, "x.db"))
	run := func(statement string) error {
		_, err := db.Write.ExecContext(t.Context(), statement)
		return err
	}
	if err := run("INSERT INTO t VALUES (1, 'a')"); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, damaged := Open(t.Context(), text)
	for _, c := range []struct {
		err  error
		want Kind
	}{
		{run("INSERT INTO t VALUES (1, 'b')"), Conflict},
		{run("PRAGMA max_page_count = 2; INSERT INTO t VALUES (2, hex(zeroblob(100000)))"), Full},
		{damaged, Corrupt},
		{run("SELECT nonsense"), Failed},
		{errors.New("x"), Other},
		{nil, Other},
	} {
		if got := KindOf(c.err); got != c.want {
			t.Errorf("%v: got %s, want %s", c.err, got, c.want)
		}
	}
}

func TestOpenAloneFillsAFileThatOpenImmutableReads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	conn, closeAll, err := OpenAlone(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), schema.Statements[0]+"; INSERT INTO t VALUES (1, 'a')"); err != nil {
		t.Fatal(err)
	}
	if err := closeAll(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	db, err := OpenImmutable(path, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var text string
	if err := db.QueryRowContext(t.Context(), "SELECT text FROM t WHERE id = 1").Scan(&text); err != nil || text != "a" {
		t.Errorf("got %q and %v, want a", text, err)
	}
	if _, err := db.ExecContext(t.Context(), "DELETE FROM t"); err == nil {
		t.Error("a file that nobody changes was changed")
	}
}
