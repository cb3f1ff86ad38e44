package pgstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

// TestOutage kills the database under readers. Each look-up ends in its time,
// with a page or with ErrUnavailable, and when the database is back all succeed
// again, with nobody doing anything. Readiness follows.
func TestOutage(t *testing.T) {
	t.Parallel()
	const count = 1000
	source := resultstest.Generator(t, 3, count)
	server := servertest.Postgres(t)
	url := server.Database(t)
	fill(t, url, source)
	cfg := config(url)
	cfg.CheckInterval = 20 * time.Millisecond
	store := open(t, cfg)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := store.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	r := reader{store: store, source: source}
	for first := range int64(6) {
		group.Go(func() { r.readOn(ctx, t, first) })
	}
	defer group.Wait()
	defer stop()

	more := func(counter *atomic.Int64) {
		t.Helper()
		from := counter.Load()
		poll(t, "more look-ups", func() bool { return counter.Load() > from+200 })
	}
	more(&r.good)
	if !store.Ready() || r.failed.Load() > 0 {
		t.Errorf("before: ready %t with %d failures", store.Ready(), r.failed.Load())
	}
	for range 2 {
		server.Kill()
		more(&r.failed)
		poll(t, "end of readiness", func() bool { return !store.Ready() })
		server.Start()
		more(&r.good)
		poll(t, "readiness", store.Ready)
		for i := range r.each { // then nobody has still to count a failure of before
			from := r.each[i].Load()
			poll(t, "a good look-up of each", func() bool { return r.each[i].Load() > from+1 })
		}
		before := r.failed.Load()
		more(&r.good)
		if after := r.failed.Load(); after != before {
			t.Errorf("%d look-ups failed after the recovery", after-before)
		}
	}
}

// reader looks up and counts what became of it.
type reader struct {
	store        *Store
	source       *results.Generator
	good, failed atomic.Int64
	each         [6]atomic.Int64 // of the good
}

// readOn looks up until ctx ends.
func (r *reader) readOn(ctx context.Context, t *testing.T, first int64) {
	t.Helper()
	for id := first; ctx.Err() == nil; {
		id = id%r.source.Meta().Count + 1
		page, err := r.store.Lookup(context.Background(), id)
		switch {
		case err == nil:
			student := r.source.Student(id)
			resultstest.CheckPage(t, page, &student)
			r.good.Add(1)
			r.each[first].Add(1)
		case errors.Is(err, results.ErrUnavailable) && !errors.Is(err, results.ErrNotFound):
			r.failed.Add(1)
		default:
			t.Errorf("got %v, want a page or ErrUnavailable", err)
			return
		}
	}
}

// TestSilence: a database that stops answering without a word costs its callers no
// more than the configured times, and comes back.
func TestSilence(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t)
	url := server.Database(t)
	fill(t, url, resultstest.Generator(t, 3, 100))
	cfg := config(url)
	cfg.Connections, cfg.CheckInterval = 2, 20*time.Millisecond
	cfg.AcquireTimeout, cfg.QueryTimeout, cfg.StatementTimeout = time.Second, 2*time.Second, time.Second
	store := open(t, cfg)
	ctx, stop := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() { _ = store.Run(ctx) })
	defer watch.Wait()
	defer stop()
	server.Pause()
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			_, err := store.Lookup(context.Background(), 5)
			if !errors.Is(err, results.ErrUnavailable) || !strings.Contains(err.Error(), "student 5") {
				t.Errorf("got %v, want ErrUnavailable", err)
			}
		})
	}
	callers.Wait() // ends at all: nobody gave these a deadline but the store
	poll(t, "end of readiness", func() bool { return !store.Ready() })
	server.Resume()
	poll(t, "answer", func() bool { _, err := store.Lookup(t.Context(), 5); return err == nil })
	poll(t, "readiness", store.Ready)
}

// TestStatementTimeout: the database itself ends what takes too long, and the
// connection stays.
func TestStatementTimeout(t *testing.T) {
	t.Parallel()
	url := filled(t, resultstest.Generator(t, 3, 100))
	cfg := config(url)
	cfg.Connections = 1
	cfg.QueryTimeout, cfg.StatementTimeout = time.Minute, time.Second
	store := open(t, cfg)
	opened := store.stat().NewConnsCount()
	holder := dial(t, url)
	if _, err := holder.Exec(t.Context(), "BEGIN; LOCK TABLE results.students"); err != nil {
		t.Fatal(err)
	}
	_, err := store.Lookup(t.Context(), 5)
	checkError(t, err, results.ErrUnavailable, "57014")
	if _, err := holder.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	poll(t, "answer", func() bool { // a busy database may take its second once more
		_, err := store.Lookup(t.Context(), 5)
		if err != nil {
			checkError(t, err, results.ErrUnavailable, "57014")
		}
		return err == nil
	})
	if got := store.stat().NewConnsCount(); got != opened {
		t.Errorf("%d connections were made, want %d", got, opened)
	}
}

func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	store := open(t, config(filled(t, resultstest.Generator(t, 3, 100))))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := store.Lookup(ctx, 5)
	if !errors.Is(err, context.Canceled) || errors.Is(err, results.ErrUnavailable) {
		t.Errorf("got %v, want context.Canceled and not ErrUnavailable", err)
	}
}

// TestBrokenTables: what is wrong with the tables is not called unavailable.
func TestBrokenTables(t *testing.T) {
	t.Parallel()
	url := filled(t, resultstest.Generator(t, 3, 100))
	store := open(t, config(url))
	execute(t, url, "DELETE FROM results.natural_results; DELETE FROM results.social_results")
	_, err := store.Lookup(t.Context(), 5)
	if err == nil || errors.Is(err, results.ErrUnavailable) || errors.Is(err, results.ErrNotFound) {
		t.Errorf("a student without marks: got %v, want another error", err)
	}
	execute(t, url, "DROP SCHEMA results CASCADE")
	_, err = store.Lookup(t.Context(), 5)
	if err == nil || errors.Is(err, results.ErrUnavailable) || errors.Is(err, results.ErrNotFound) {
		t.Errorf("without tables: got %v, want another error", err)
	}
}
