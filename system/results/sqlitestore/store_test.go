package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"loadstone/block/dataset"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
	"loadstone/system/results/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func build(tb testing.TB, path string, source dataset.Source[results.Student]) {
	tb.Helper()
	if err := Build(tb.Context(), path, source, nil); err != nil {
		tb.Fatal(err)
	}
}

func open(tb testing.TB, path string) *Store {
	tb.Helper()
	store, err := Open(tb.Context(), path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := store.Close(); err != nil {
			tb.Error(err)
		}
	})
	return store
}

func database(tb testing.TB, source dataset.Source[results.Student]) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "results.db")
	build(tb, path, source)
	return path
}

func TestBuilder(t *testing.T) {
	resultstest.Builder(t, Build, func(path string) (dataset.Meta, error) { return Describe(t.Context(), path) })
}

func TestStore(t *testing.T) {
	t.Parallel()
	resultstest.Store(t, func(t *testing.T, source dataset.Source[results.Student]) results.Store {
		t.Helper()
		return open(t, database(t, source))
	})
}

func TestSource(t *testing.T) {
	t.Parallel()
	const count = 3000
	generator := resultstest.Generator(t, 4, count)
	want := map[int64]results.Student{}
	for id := int64(1); id <= count; id++ {
		want[id] = generator.Student(id)
	}
	store := open(t, database(t, generator))
	if got, want := store.Meta(), generator.Meta(); got != want {
		t.Errorf("meta: got %+v, want %+v", got, want)
	}
	resultstest.Source(t, store, want)
}

// TestPublishing: a snapshot made from a database is the one made from the
// database's own source.
func TestPublishing(t *testing.T) {
	t.Parallel()
	generator := resultstest.Generator(t, 9, 3000)
	store := open(t, database(t, generator))
	directory := t.TempDir()
	var files [2][]byte
	for i, source := range []dataset.Source[results.Student]{generator, store} {
		path := filepath.Join(directory, fmt.Sprint(i))
		if err := snapshot.Build(t.Context(), path, source, nil); err != nil {
			t.Fatal(err)
		}
		var err error
		if files[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("the snapshots differ")
	}
}

func TestLookupEndsWithItsContext(t *testing.T) {
	t.Parallel()
	store := open(t, database(t, resultstest.Generator(t, 1, 10)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Lookup(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if _, err := store.Lookup(t.Context(), 1); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// foreign makes a database that another program could have made.
func foreign(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range append([]string{"CREATE TABLE t (x)"}, statements...) {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(database(t, resultstest.Generator(t, 1, 1000)))
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			t.Helper()
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	changed := func(change func([]byte)) func(*testing.T, string) {
		data := bytes.Clone(whole)
		change(data)
		return write(data)
	}
	ours := []string{fmt.Sprintf("PRAGMA application_id = %d", applicationID), "PRAGMA user_version = 1"}
	for name, test := range map[string]struct {
		make func(*testing.T, string)
		is   error
		want string
	}{
		"absent":          {func(*testing.T, string) {}, results.ErrMissing, "seed or import one first"},
		"a directory":     {func(t *testing.T, path string) { t.Helper(); must(t, os.Mkdir(path, 0o700)) }, results.ErrVersion, "it is not a file"},
		"empty":           {write(nil), results.ErrCorrupt, "it has only 0 bytes"},
		"text":            {write([]byte(strings.Repeat("id,name\n", 100))), results.ErrVersion, "it is not a SQLite database"},
		"another program": {func(t *testing.T, path string) { t.Helper(); foreign(t, path) }, results.ErrVersion, "of another program"},
		"another version": {changed(func(d []byte) { d[userVersionOffset+3] = 7 }), results.ErrVersion, "schema version 7, this program reads version 1"},
		"no description":  {func(t *testing.T, path string) { t.Helper(); foreign(t, path, ours...) }, results.ErrCorrupt, "meta"},
		"a byte short":    {write(whole[:len(whole)-1]), results.ErrCorrupt, fmt.Sprintf("%d bytes instead of %d", len(whole)-1, len(whole))},
		"half":            {write(whole[:len(whole)/2]), results.ErrCorrupt, "instead of"},
		"longer":          {write(append(bytes.Clone(whole), 0)), results.ErrCorrupt, "instead of"},
		"the first page":  {write(whole[:4096]), results.ErrCorrupt, "4096 bytes instead of"},
		"a broken schema": {changed(func(d []byte) { clear(d[100:4096]) }), results.ErrCorrupt, "refused"},
		"a broken page 1": {changed(func(d []byte) { binary.BigEndian.PutUint16(d[pageSizeOffset:], 77) }), results.ErrCorrupt, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "results.db")
			test.make(t, path)
			store, err := Open(t.Context(), path)
			if err == nil {
				t.Fatal(errors.Join(errors.New("it was opened"), store.Close()))
			}
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %v with %q and the path", err, test.is, test.want)
			}
			if _, err := Describe(t.Context(), path); !errors.Is(err, test.is) {
				t.Errorf("describe: got %v, want %v", err, test.is)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamagedPages overwrites pages behind the schema: a query must fail, or give
// what was written, but not end the process.
func TestDamagedPages(t *testing.T) {
	t.Parallel()
	const count = 1000
	source := resultstest.Generator(t, 1, count)
	whole, err := os.ReadFile(database(t, source))
	if err != nil {
		t.Fatal(err)
	}
	corrupt := 0
	for page := 1; page < len(whole)/4096; page++ {
		data := bytes.Clone(whole)
		for i := range 64 {
			data[page*4096+i] = byte(i * 37)
		}
		path := filepath.Join(t.TempDir(), "results.db")
		must(t, os.WriteFile(path, data, 0o600))
		store, err := Open(t.Context(), path)
		if err != nil {
			continue // the page of the description
		}
		for id := int64(1); id <= count; id += 7 {
			_, err := store.Lookup(t.Context(), id)
			if errors.Is(err, results.ErrCorrupt) {
				corrupt++
			} else if err != nil && !errors.Is(err, results.ErrNotFound) {
				t.Errorf("page %d, student %d: got %v, want ErrCorrupt", page, id, err)
			}
		}
		must(t, store.Close())
	}
	if corrupt == 0 {
		t.Error("no look-up noticed a damaged page")
	}
}
