package stores_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"loadstone/block/dataset"
	"loadstone/block/servertest"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
	"loadstone/system/results/stores"
)

// imported is a source whose students nobody has made up.
func imported(t *testing.T, count int64) dataset.Source[results.Student] {
	t.Helper()
	generator := resultstest.Generator(t, 1, count)
	list := resultstest.List{Description: dataset.Meta{Origin: "students.csv", Fingerprint: "csv 1", Count: count}}
	for student, err := range generator.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		list.Students = append(list.Students, student)
	}
	return list
}

func parse(t *testing.T, text string) stores.Name {
	t.Helper()
	name, err := stores.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func fill(t *testing.T, name stores.Name, source dataset.Source[results.Student]) {
	t.Helper()
	if _, err := name.Fill(t.Context(), source, nil); err != nil {
		t.Fatal(err)
	}
}

// Only what is not there counts as nothing: a file that cannot be read may hold somebody's
// students.
func TestImportedFiles(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{stores.SQLite, stores.Snapshot} {
		path := filepath.Join(t.TempDir(), "results")
		name := parse(t, kind+":"+path)
		check := func(what, origin string, want error) {
			t.Helper()
			if got, err := name.Imported(t.Context()); got != origin || !errors.Is(err, want) {
				t.Errorf("%s, %s: got %q and %v, want %q and %v", kind, what, got, err, origin, want)
			}
		}
		check("no file", "", nil)
		fill(t, name, resultstest.Generator(t, 1, 100))
		check("made up", "", nil)
		fill(t, name, imported(t, 100))
		check("imported", "students.csv", nil)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for what, c := range map[string]struct {
			change func(data []byte) []byte
			want   error
		}{
			"a newer version": {func(d []byte) []byte { d[map[string]int{stores.SQLite: 63, stores.Snapshot: 8}[kind]] = 99; return d }, results.ErrVersion},
			"cut short":       {func(d []byte) []byte { return d[:len(d)/2] }, results.ErrCorrupt},
			"empty":           {func([]byte) []byte { return nil }, results.ErrCorrupt},
			"another program": {func([]byte) []byte { return []byte(strings.Repeat("id,name\n", 1000)) }, results.ErrVersion},
		} {
			if err := os.WriteFile(path, c.change(append([]byte(nil), whole...)), 0o600); err != nil {
				t.Fatal(err)
			}
			check(what, "", c.want)
		}
	}
}

func TestImportedDatabase(t *testing.T) {
	t.Parallel()
	if _, err := parse(t, "postgres://me@127.0.0.1:1/none").Imported(t.Context()); !errors.Is(err, results.ErrUnavailable) {
		t.Errorf("nobody answers: got %v, want %v", err, results.ErrUnavailable)
	}
	url := servertest.Postgres(t).Database(t)
	name := parse(t, url)
	execute := func(statement string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.Exec(t.Context(), statement)
		if err = errors.Join(err, conn.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what, origin string, want error) {
		t.Helper()
		if got, err := name.Imported(t.Context()); got != origin || !errors.Is(err, want) {
			t.Errorf("%s: got %q and %v, want %q and %v", what, got, err, origin, want)
		}
	}
	check("no tables", "", nil)
	const count = 40_000 // a few chunks
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := name.Fill(ctx, imported(t, count), func(int64, int64) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: got %v", err)
	}
	// An import that was interrupted is for its own source alone to go on with.
	check("unfinished", "", nil)
	if _, err := name.Fill(t.Context(), resultstest.Generator(t, 1, count), nil); err == nil || !strings.Contains(err.Error(), "students.csv") {
		t.Errorf("made-up students into an unfinished import: got %v, want it refused", err)
	}
	if did, err := name.Fill(t.Context(), imported(t, count), nil); err != nil || did.Resumed == 0 {
		t.Errorf("the import again: got %+v and %v, want it resumed", did, err)
	}
	check("imported", "students.csv", nil)
	execute(`DROP INDEX results.corrections_revision_idx; DROP TABLE results.schedule;
		ALTER TABLE results.data_set DROP COLUMN identity, DROP COLUMN publish_at, DROP COLUMN publish_zone;
		DELETE FROM results.migrations WHERE version > 6`)
	check("of the version before", "students.csv", nil)
	execute("INSERT INTO results.migrations VALUES (99, 'future')")
	check("of a newer version", "", results.ErrVersion)
	execute("DELETE FROM results.migrations WHERE version = 99; ALTER TABLE results.data_set RENAME TO gone")
	if _, err := name.Imported(t.Context()); err == nil {
		t.Error("a database that is not whole: got no error")
	}
	execute("DROP SCHEMA results CASCADE")
	check("dropped", "", nil)
}
