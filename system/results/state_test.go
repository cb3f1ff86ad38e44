package results_test

import (
	"testing"

	"loadstone/system/results"
)

func TestFresh(t *testing.T) {
	t.Parallel()
	var s results.State
	if !s.Fresh(7, 0) {
		t.Error("a page of a data set that was never corrected is not fresh")
	}
	s = s.Recalling([]results.Mark{{7, 3}, {8, 2}, {7, 1}})
	for _, c := range []struct {
		id, revision int64
		want         bool
	}{{7, 2, false}, {7, 3, true}, {7, 4, true}, {8, 1, false}, {8, 2, true}, {9, 0, true}} {
		if got := s.Fresh(c.id, c.revision); got != c.want {
			t.Errorf("student %d at revision %d: got %t, want %t", c.id, c.revision, got, c.want)
		}
	}
	// More than are kept in mind: what was read before those is not fresh, whosever it is.
	last := make([]results.Mark, results.MaxCorrections+1)
	for i := range last {
		last[i] = results.Mark{ID: int64(i + 1), Revision: int64(len(last) - i)}
	}
	s = s.Recalling(last)
	oldest := int64(len(last))
	for _, c := range []struct {
		id, revision int64
		want         bool
	}{{oldest, 0, false}, {oldest + 1, 0, false}, {oldest + 1, 1, true}, {oldest, 1, true}, {oldest - 1, 1, false}, {oldest - 1, 2, true}} {
		if got := s.Fresh(c.id, c.revision); got != c.want {
			t.Errorf("of many, student %d at revision %d: got %t, want %t", c.id, c.revision, got, c.want)
		}
	}
	if len(s.Corrected) != results.MaxCorrections {
		t.Errorf("%d are kept in mind, want %d", len(s.Corrected), results.MaxCorrections)
	}
}
