package pgstore

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"loadstone/block/dataset"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
	"loadstone/system/results/snapshot"
)

func TestCorrect(t *testing.T) {
	t.Parallel()
	resultstest.Correct(t, func(t *testing.T, source dataset.Source[results.Student]) resultstest.Corrector {
		t.Helper()
		url := filled(t, source)
		return resultstest.Corrector{
			Correct: func(c results.Corrections) (results.Corrected, error) { return Correct(t.Context(), url, c) },
			Open: func() (results.Store, results.Correctable) {
				return open(t, config(url)), openSource(t, url)
			},
			Audit: func() int64 { return one[int64](t, url, "SELECT count(*) FROM results.corrections") },
		}
	})
}

// TestCorrectionUnderReaders: a server that runs shows a correction with the commit,
// and never a part of it.
func TestCorrectionUnderReaders(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 3, 10)
	url := filled(t, source)
	store := open(t, config(url))
	before := source.Student(3)
	after := resultstest.OtherStream(before)
	old, corrected := results.NewPage(&before), results.NewPage(&after)
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				page, err := store.Lookup(context.Background(), 3)
				if err != nil || !resultstest.SamePage(page, old) && !resultstest.SamePage(page, corrected) {
					t.Errorf("got %s and %v, want the page before or after", page.Body, err)
					return
				}
			}
		})
	}
	for range 10 {
		for _, s := range []results.Student{after, before, after} {
			if _, err := Correct(t.Context(), url, resultstest.Corrections(s)); err != nil {
				t.Fatal(err)
			}
			page, err := store.Lookup(t.Context(), 3)
			if err != nil || !resultstest.SamePage(page, results.NewPage(&s)) {
				t.Errorf("when it was done: got %s and %v, want %+v", page.Body, err, s)
			}
		}
	}
	stop()
	readers.Wait()
}

// TestCorrectAtOnce: corrections at a time each are a revision.
func TestCorrectAtOnce(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 3, 10)
	url := filled(t, source)
	var group sync.WaitGroup
	for n := range 6 {
		group.Go(func() {
			student := source.Student(3)
			student.Name = string(rune('A' + n))
			_, err := Correct(t.Context(), url, resultstest.Corrections(student))
			for range 5 { // the machine may be busy
				if err == nil || !strings.Contains(err.Error(), "then run this again") {
					break
				}
				_, err = Correct(t.Context(), url, resultstest.Corrections(student))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := one[int](t, url, "SELECT revision FROM results.data_set"); got != 6 {
		t.Errorf("got revision %d, want 6", got)
	}
}

func TestCorrectRefuses(t *testing.T) {
	t.Parallel()
	student := resultstest.Generator(t, 1, 1).Student(1)
	c := resultstest.Corrections(student)
	_, err := Correct(t.Context(), "postgres://me:secret@127.0.0.1:1/none", c)
	checkError(t, err, results.ErrUnavailable, "connect")
	url := filled(t, resultstest.Generator(t, 1, 10))
	execute(t, url, "UPDATE results.data_set SET completed_at = NULL")
	_, err = Correct(t.Context(), url, c)
	checkError(t, err, results.ErrMissing, "seed or import them again")
	execute(t, url, "DELETE FROM results.migrations WHERE version > 1")
	_, err = Correct(t.Context(), url, c)
	checkError(t, err, results.ErrVersion, "version 1, this program needs")
}

// TestSeedKnowsACorrectedDatabase: the corrections are neither lost nor refused.
func TestSeedKnowsACorrectedDatabase(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 3, 10)
	url := filled(t, source)
	snap := filepath.Join(t.TempDir(), "snapshot")
	publish := func() dataset.Meta {
		t.Helper()
		if err := snapshot.Build(t.Context(), snap, results.Current(openSource(t, url)), nil); err != nil {
			t.Fatal(err)
		}
		meta, err := snapshot.Describe(snap)
		if err != nil {
			t.Fatal(err)
		}
		return meta
	}
	if got, want := publish(), source.Meta(); got != want {
		t.Errorf("published: got %+v, want %+v", got, want)
	}
	student := source.Student(3)
	student.Name = "Corrected"
	opened := openSource(t, url)
	if _, err := Correct(t.Context(), url, resultstest.Corrections(student)); err != nil {
		t.Fatal(err)
	}
	if seeded, err := Seed(t.Context(), url, source, nil); err != nil || !seeded.Already {
		t.Errorf("seed again: got %+v and %v, want that it is there already", seeded, err)
	}
	if got := one[string](t, url, "SELECT name FROM results.students WHERE id = 3"); got != student.Name {
		t.Errorf("after the seed: got %s, want %s", got, student.Name)
	}
	if got := publish(); got.Same(source.Meta()) || got.Origin != source.Meta().Origin+", revision 1" {
		t.Errorf("published again: got %+v, want another data set", got)
	}
	for _, err := range opened.All(t.Context()) {
		if !errors.Is(err, results.ErrVersion) {
			t.Errorf("a source from before: got %v, want ErrVersion", err)
		}
	}
}
