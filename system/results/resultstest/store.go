package resultstest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"testing"

	"loadstone/block/dataset"
	"loadstone/system/results"
)

// Store tests a store. Open makes one that serves the source; the suite closes it.
func Store(t *testing.T, open func(t *testing.T, source dataset.Source[results.Student]) results.Store) {
	t.Helper()
	suite := storeSuite{open, Generator(t, 11, storeCount)}
	t.Run("finds every student and nobody else", suite.finds)
	t.Run("serves many at once", suite.servesMany)
	t.Run("is unavailable after close while pages stay", suite.closes)
	t.Run("closes under look-ups", suite.closesUnderLookups)
}

const storeCount = 2000

type storeSuite struct {
	open   func(t *testing.T, source dataset.Source[results.Student]) results.Store
	source *results.Generator
}

// check looks a student up and compares the page.
func (s storeSuite) check(t *testing.T, store results.Store, id int64) error {
	t.Helper()
	page, err := store.Lookup(t.Context(), id)
	if err != nil {
		return fmt.Errorf("look up %d: %w", id, err)
	}
	student := s.source.Student(id)
	CheckPage(t, page, &student)
	return nil
}

func (s storeSuite) finds(t *testing.T) {
	t.Parallel()
	store := s.open(t, s.source)
	defer closeStore(t, store)
	for id := int64(1); id <= storeCount; id++ {
		if err := s.check(t, store, id); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []int64{0, -1, storeCount + 1, 1 << 40, results.MaxID, 1<<63 - 1, -1 << 63} {
		if _, err := store.Lookup(t.Context(), id); !errors.Is(err, results.ErrNotFound) {
			t.Errorf("look up %d: got %v, want ErrNotFound", id, err)
		}
	}
}

func (s storeSuite) servesMany(t *testing.T) {
	t.Parallel()
	store := s.open(t, s.source)
	defer closeStore(t, store)
	var readers sync.WaitGroup
	for reader := range int64(8) {
		readers.Go(func() {
			for id := 1 + reader; id <= storeCount; id += 5 {
				if err := s.check(t, store, id); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	readers.Wait()
}

func (s storeSuite) closes(t *testing.T) {
	t.Parallel()
	store := s.open(t, s.source)
	page, err := store.Lookup(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, store)
	closeStore(t, store)
	if _, err := store.Lookup(t.Context(), 7); !errors.Is(err, results.ErrUnavailable) {
		t.Errorf("look up after close: got %v, want ErrUnavailable", err)
	}
	runtime.GC()
	student := s.source.Student(7)
	CheckPage(t, page, &student)
}

func (s storeSuite) closesUnderLookups(t *testing.T) {
	t.Parallel()
	store := s.open(t, s.source)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				err := s.check(t, store, 9)
				if errors.Is(err, results.ErrUnavailable) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 100 {
		if err := s.check(t, store, 10); err != nil {
			t.Error(err)
		}
	}
	closeStore(t, store)
	readers.Wait()
}

func closeStore(t *testing.T, store results.Store) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// Source tests a source that must yield exactly the wanted students, in any order.
func Source(t *testing.T, source dataset.Source[results.Student], want map[int64]results.Student) {
	t.Helper()
	t.Run("yields every student once, each time", func(t *testing.T) {
		if got := source.Meta().Count; got != int64(len(want)) {
			t.Errorf("meta: got %d students, want %d", got, len(want))
		}
		for pass := range 2 {
			seen := map[int64]bool{}
			for student, err := range source.All(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if seen[student.ID] {
					t.Fatalf("pass %d: student %d came twice", pass, student.ID)
				}
				seen[student.ID] = true
				if student != want[student.ID] {
					t.Fatalf("pass %d: got %+v, want %+v", pass, student, want[student.ID])
				}
			}
			if len(seen) != len(want) {
				t.Errorf("pass %d: got %d students, want %d", pass, len(seen), len(want))
			}
		}
	})

	t.Run("stops with its consumer", func(t *testing.T) {
		next, stop := iter.Pull2(source.All(t.Context()))
		if _, err, ok := next(); err != nil || !ok {
			t.Errorf("first student: got %v, %t", err, ok)
		}
		stop()
	})

	t.Run("ends with the error of its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var last error
		count := 0
		for _, err := range source.All(ctx) {
			last = err
			count++
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("got %v after %d students, want context.Canceled", last, count)
		}
	})
}
