package pgstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/dataset"
	"loadstone/block/servertest"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

// watched is a lazy store with its Run, and what it told.
type watched struct {
	*Store
	mu      sync.Mutex
	opened  []dataset.Meta
	refused []error
}

func lazy(t *testing.T, url string) *watched {
	t.Helper()
	w := &watched{}
	cfg := config(url)
	cfg.Lazy, cfg.CheckInterval = true, 20*time.Millisecond
	cfg.Events.Switched = func(_, meta dataset.Meta) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.opened = append(w.opened, meta)
	}
	cfg.Events.Refused = func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refused = append(w.refused, err)
	}
	w.Store = open(t, cfg)
	ctx, stop := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); run.Wait() })
	return w
}

// last returns the last refusal, nil if there was none.
func (w *watched) last() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.refused) == 0 {
		return nil
	}
	return w.refused[len(w.refused)-1]
}

func (w *watched) checkShut(t *testing.T) {
	t.Helper()
	if _, err := w.Lookup(t.Context(), 1); !errors.Is(err, results.ErrUnavailable) || errors.Is(err, results.ErrNotFound) {
		t.Errorf("look-up: got %v, want ErrUnavailable", err)
	}
	if w.Ready() || w.Meta() != (dataset.Meta{}) {
		t.Errorf("got ready %t with %+v, want neither", w.Ready(), w.Meta())
	}
}

// TestLazy: a store that starts before its database waits for it through all that
// may be wrong with it, says what, and is ready when it is good.
func TestLazy(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 1, 100)
	server := servertest.Postgres(t)
	url := server.Database(t)
	server.Kill()
	w := lazy(t, url)
	poll(t, "refusal of nothing", func() bool { return errors.Is(w.last(), results.ErrUnavailable) })
	w.checkShut(t)
	server.Start()
	poll(t, "refusal of an empty database", func() bool { return errors.Is(w.last(), results.ErrMissing) })
	w.checkShut(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Seed(ctx, url, resultstest.Generator(t, 1, 3*chunkStudents), func(int64, int64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted seed: got %v", err)
	}
	w.checkShut(t)
	execute(t, url, "INSERT INTO results.migrations VALUES (99, 'future')")
	poll(t, "refusal of a newer database", func() bool { return errors.Is(w.last(), results.ErrVersion) })
	w.checkShut(t)
	execute(t, url, "DROP SCHEMA results CASCADE")
	fill(t, url, source)
	poll(t, "readiness", w.Ready)
	student := source.Student(5)
	page, err := w.Lookup(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	resultstest.CheckPage(t, page, &student)
	poll(t, "event", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.opened) == 1 })
	if got, want := w.Meta(), source.Meta(); got != want || w.opened[0] != want {
		t.Errorf("got %+v and told %+v, want %+v", got, w.opened[0], want)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.refused[1:] {
		before, _ := errors.AsType[*results.Error](w.refused[i])
		if now, _ := errors.AsType[*results.Error](w.refused[i+1]); now == before {
			t.Errorf("told the same reason twice: %v and %v", w.refused[i], w.refused[i+1])
		}
	}
}

// TestLazyClosed: a store whose database never came can be closed, and its series
// were there.
func TestLazyClosed(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	cfg := config("postgres://me:secret@127.0.0.1:1/none")
	cfg.Lazy, cfg.Registerer = true, registry
	store, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	const series = 5 + 2 + 2 + 8 // outcomes, sum and count, the state, the pool
	if lines := metricsOf(t, registry); len(lines) != series {
		t.Errorf("got %d series, want %d: %v", len(lines), series, lines)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if _, err := store.Lookup(t.Context(), 1); !errors.Is(err, results.ErrUnavailable) {
		t.Errorf("after Close: got %v, want ErrUnavailable", err)
	}
	if lines := metricsOf(t, registry); len(lines) > 0 {
		t.Errorf("after Close: got %v, want no series", lines)
	}
}
