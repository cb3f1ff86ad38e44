package snapshot

import (
	"context"
	"errors"
	"iter"
	"math"
	"path/filepath"
	"testing"

	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

// renumbered is a source whose students have other ids.
type renumbered struct {
	*results.Generator
	id func(int64) int64
}

func (r renumbered) All(ctx context.Context) iter.Seq2[results.Student, error] {
	return func(yield func(results.Student, error) bool) {
		for s, err := range r.Generator.All(ctx) {
			s.ID = r.id(s.ID)
			if !yield(s, err) {
				return
			}
		}
	}
}

func contentsOf(t *testing.T, id func(int64) int64) *contents {
	t.Helper()
	path := filepath.Join(t.TempDir(), "results.snapshot")
	build(t, path, renumbered{resultstest.Generator(t, 1, 500), id})
	c, _, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Both indexes must say the same of every id, those that nobody has included.
func TestDenseAgreesWithTheFilesIndex(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]func(int64) int64{
		"from 1":    func(n int64) int64 { return n },
		"backwards": func(n int64) int64 { return 9000 - n },
		"with gaps": func(n int64) int64 { return 100_000 + 3*n },
	} {
		c := contentsOf(t, id)
		if c.dense == nil {
			t.Fatalf("%s: no table", name)
		}
		hashed := *c
		hashed.dense = nil
		ids := []int64{math.MinInt64, -1, 0, results.MaxID, math.MaxInt64}
		for n := range int64(2000) {
			ids = append(ids, n, 8000+n, 99_000+n, 101_000+n)
		}
		found := 0
		for _, id := range ids {
			a, errA := c.lookup(id)
			b, errB := hashed.lookup(id)
			if !errors.Is(errA, errB) || !resultstest.SamePage(a, b) {
				t.Fatalf("%s: id %d: %v and %v", name, id, errA, errB)
			}
			if errA == nil {
				found++
			}
		}
		if found < 500 {
			t.Errorf("%s: only %d of 500 students were looked for", name, found)
		}
	}
}

func TestNoTableForDistantIDs(t *testing.T) {
	t.Parallel()
	c := contentsOf(t, func(n int64) int64 { return n * 1_000_000_007 })
	if c.dense != nil {
		t.Errorf("a table of %d places for 500 students", len(c.dense.at))
	}
	if _, err := c.lookup(1_000_000_007); err != nil {
		t.Error(err)
	}
	if _, err := c.lookup(5); !errors.Is(err, results.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}
