package sqlitestore

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"loadstone/block/atomicfile"
	"loadstone/block/dataset"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

func TestCorrect(t *testing.T) {
	t.Parallel()
	resultstest.Correct(t, func(t *testing.T, source dataset.Source[results.Student]) resultstest.Corrector {
		t.Helper()
		path := database(t, source)
		return resultstest.Corrector{
			Correct: func(c results.Corrections) (results.Corrected, error) { return Correct(t.Context(), path, c) },
			Open: func() (results.Store, results.Correctable) {
				store := open(t, path)
				return store, store
			},
			Audit: func() (count int64) {
				db, err := sql.Open("sqlite", path)
				must(t, err)
				must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM corrections").Scan(&count))
				must(t, db.Close())
				return count
			},
		}
	})
}

// TestCorrectReplacesTheFile: who has it open keeps what they have; nothing is left
// beside it; one works on it at a time.
func TestCorrectReplacesTheFile(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 3, 2000)
	path := database(t, source)
	reader := open(t, path)
	before := source.Student(7)
	after := resultstest.OtherStream(before)
	if _, err := Correct(t.Context(), path, resultstest.Corrections(after)); err != nil {
		t.Fatal(err)
	}
	for store, want := range map[*Store]results.Student{reader: before, open(t, path): after} {
		page, err := store.Lookup(t.Context(), 7)
		must(t, err)
		resultstest.CheckPage(t, page, &want)
	}
	pending, err := atomicfile.Create(path)
	must(t, err)
	if _, err := Correct(t.Context(), path, resultstest.Corrections(before)); !errors.Is(err, atomicfile.ErrBusy) {
		t.Errorf("beside a build: got %v, want ErrBusy", err)
	}
	must(t, pending.Discard())
	info, err := os.Stat(path)
	must(t, err)
	if _, err := Correct(t.Context(), path, resultstest.Corrections(after)); err != nil {
		t.Error(err)
	}
	if again, err := os.Stat(path); err != nil || !os.SameFile(info, again) {
		t.Errorf("a correction of nothing replaced the file, %v", err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("got %v and %v, want the database alone", files, err)
	}
	if _, err := Correct(t.Context(), path+"x", resultstest.Corrections(after)); !errors.Is(err, results.ErrMissing) {
		t.Errorf("no file: got %v, want ErrMissing", err)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("got %v and %v, want the database alone", files, err)
	}
}
