package dataset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// numbers is a source of 0 to count-1, of which it says that there are promised.
type numbers struct{ count, promised int64 }

func (n numbers) Meta() Meta { return Meta{Origin: "numbers", Fingerprint: "n", Count: n.promised} }

func (n numbers) All(context.Context) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		for i := range n.count {
			if !yield(i, nil) {
				return
			}
		}
	}
}

func TestEachCounts(t *testing.T) {
	t.Parallel()
	const count = 2*progressStep + 1
	sum, told := int64(0), []int64(nil)
	err := Each(t.Context(), numbers{count, count}, func(done, _ int64) { told = append(told, done) }, func(n *int64) error { sum += *n; return nil })
	if err != nil || sum != count*(count-1)/2 || fmt.Sprint(told) != fmt.Sprint([]int64{progressStep, 2 * progressStep, count}) {
		t.Errorf("got the sum %d, progress %v and %v", sum, told, err)
	}
	for _, promised := range []int64{2, 4} {
		if err := Each(t.Context(), numbers{3, promised}, nil, func(*int64) error { return nil }); err == nil || !strings.Contains(err.Error(), "gave 3 records instead of") {
			t.Errorf("%d were promised: got %v", promised, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := Each(ctx, numbers{count, count}, nil, func(*int64) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("the context has ended: got %v", err)
	}
}

// store is where chunks are written; it fails at one of them.
type store struct {
	mu     sync.Mutex
	marks  map[int64]Mark
	got    map[int64]bool
	failAt int64
	open   int
}

var errFull = errors.New("full")

func (s *store) Write(_ context.Context, c *Chunk[int64]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Number == s.failAt {
		return errFull
	}
	if _, ok := s.marks[c.Number]; ok {
		return fmt.Errorf("chunk %d came again", c.Number)
	}
	s.marks[c.Number] = c.Mark
	for _, n := range c.Records {
		s.got[n] = true
	}
	return nil
}

func (s *store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	return nil
}

func (s *store) load(source Source[int64], progress Progress) Load[int64] {
	return Load[int64]{
		Read:         func(ctx context.Context, put func(*int64) error) error { return Each(ctx, source, nil, put) },
		Key:          func(n *int64) int64 { return *n },
		ChunkRecords: 10, Writers: 3, Written: s.marks,
		Open: func(context.Context) (Writer[int64], error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.open++
			return s, nil
		},
		Total: source.Meta().Count, Progress: progress,
	}
}

// A load that failed goes on where it stopped: nothing is written twice, and all of it
// is there in the end.
func TestLoadGoesOn(t *testing.T) {
	t.Parallel()
	s := &store{marks: map[int64]Mark{}, got: map[int64]bool{}, failAt: 5}
	source := numbers{101, 101}
	load := s.load(source, nil)
	load.Written = nil
	if err := load.Run(t.Context()); !errors.Is(err, errFull) {
		t.Fatalf("got %v, want that chunk 5 failed", err)
	}
	if len(s.marks) < 1 || len(s.marks) > 10 || s.open != 0 {
		t.Fatalf("%d chunks are written and %d writers open after a failure", len(s.marks), s.open)
	}
	s.failAt = -1
	written, last := map[int64]Mark{}, int64(0)
	maps.Copy(written, s.marks)
	load = s.load(source, func(done, _ int64) { last = done })
	load.Written = written
	if err := load.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(s.got) != 101 || len(s.marks) != 11 || last != 101 || s.open != 0 {
		t.Errorf("got %d records in %d chunks, progress up to %d, %d writers open; want all", len(s.got), len(s.marks), last, s.open)
	}
}

func TestLoadRefusesAnotherOrder(t *testing.T) {
	t.Parallel()
	s := &store{marks: map[int64]Mark{}, got: map[int64]bool{}, failAt: -1}
	load := s.load(numbers{30, 30}, nil)
	load.Written = map[int64]Mark{1: {10, 11, 20}}
	if err := load.Run(t.Context()); !errors.Is(err, ErrOrder) || !strings.Contains(err.Error(), "chunk 1") {
		t.Errorf("got %v, want ErrOrder of chunk 1", err)
	}
}

// Prepare sees the records in the order of the source, before they are written.
func TestLoadPreparesInOrder(t *testing.T) {
	t.Parallel()
	s := &store{marks: map[int64]Mark{}, got: map[int64]bool{}, failAt: -1}
	load, next := s.load(numbers{95, 95}, nil), int64(0)
	load.Written = nil
	load.Prepare = func(_ context.Context, records []int64) error {
		for i := range records {
			if records[i] != next {
				return fmt.Errorf("got %d, want %d", records[i], next)
			}
			next++
			records[i] += 1000
		}
		return nil
	}
	if err := load.Run(t.Context()); err != nil || len(s.got) != 95 || !s.got[1094] || s.got[94] {
		t.Errorf("got %d records and %v, want 95 that were prepared", len(s.got), err)
	}
}

func TestMeta(t *testing.T) {
	t.Parallel()
	m := Meta{Origin: strings.Repeat("é", MaxOriginBytes/2), Fingerprint: "x", Count: 1}
	r := m.Revised(3, "y")
	if err := r.Check(); err != nil || !strings.HasSuffix(r.Origin, "é, revision 3") || r.Same(m) || m.Revised(0, "y") != m {
		t.Errorf("got %+v and %v", r, err)
	}
	if (Meta{Count: 0}).Check() == nil || (Meta{Count: 1, Fingerprint: strings.Repeat("x", 129)}).Check() == nil {
		t.Error("got no error for what cannot be stored")
	}
}
