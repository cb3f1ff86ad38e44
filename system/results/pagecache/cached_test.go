package pagecache

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/dataset"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
	"loadstone/system/results/snapshot"
)

// backing is a store of one data set.
type backing struct {
	results.Store
	pool int
}

func (backing) State() (results.State, bool) { return results.State{Set: 1, Published: true}, true }
func (b backing) Pool() int                  { return b.pool }

func openCached(t *testing.T, store results.Store, pool int) *Cached {
	t.Helper()
	cfg := DefaultTiers()
	cfg.Cache = Memory
	c, err := Open(t.Context(), cfg, backing{store, pool}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A cached store is a store.
func TestCachedStore(t *testing.T) {
	t.Parallel()
	resultstest.Store(t, func(t *testing.T, source dataset.Source[results.Student]) results.Store {
		t.Helper()
		path := filepath.Join(t.TempDir(), "results.snapshot")
		if err := snapshot.Build(t.Context(), path, source, nil); err != nil {
			t.Fatal(err)
		}
		inner, err := snapshot.Follow(path, snapshot.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := inner.Close(); err != nil {
				t.Error(err)
			}
		})
		return openCached(t, inner, 0)
	})
}

// What is looked up while the store closes is unavailable, as it is afterwards.
func TestLookupWhileClosing(t *testing.T) {
	t.Parallel()
	c := openCached(t, memory{}, 0)
	if err := c.pages.Close(); err != nil { // as Close does after the look-up has begun
		t.Fatal(err)
	}
	if _, err := c.Lookup(t.Context(), 7); !errors.Is(err, results.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, results.ErrUnavailable)
	}
}

func TestCachedPagesOwnTheirBytes(t *testing.T) {
	t.Parallel()
	store := memory{7: {Body: []byte("body"), Code: []byte("code"), Tag: 9, Owner: t}}
	c := openCached(t, store, 0)
	defer func() { _ = c.Close() }()
	if _, err := c.Lookup(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	// The store's memory is used for something else.
	copy(store[7].Body, "XXXX")
	copy(store[7].Code, "XXXX")
	got, err := c.Lookup(t.Context(), 7)
	if err != nil || string(got.Body) != "body" || string(got.Code) != "code" || got.Tag != 9 || got.Owner != nil {
		t.Errorf("got %q, %q, tag %d, owner %v and %v, want the page as it was loaded, without an owner",
			got.Body, got.Code, got.Tag, got.Owner, err)
	}
}

func TestEntryBytes(t *testing.T) {
	t.Parallel()
	if want := int(unsafe.Sizeof(Key{})) + int(unsafe.Sizeof(kept{})); entryBytes != want {
		t.Errorf("got %d, want %d", entryBytes, want)
	}
}

// stuck is a store whose look-ups say that they have begun and end when they are told.
type stuck struct{ begun, end chan struct{} }

func (s stuck) Lookup(context.Context, int64) (results.Page, error) {
	s.begun <- struct{}{}
	<-s.end
	return results.Page{}, results.ErrNotFound
}

func (stuck) Close() error { return nil }

// A look-up beyond the pool waits for a while and is then refused, as busy.
func TestPoolIsNotOverrun(t *testing.T) {
	t.Parallel()
	inner := stuck{make(chan struct{}), make(chan struct{})}
	c := openCached(t, inner, 1)
	var first sync.WaitGroup
	first.Go(func() {
		if _, err := c.Lookup(context.Background(), 1); !errors.Is(err, results.ErrNotFound) {
			t.Errorf("the first: got %v, want %v", err, results.ErrNotFound)
		}
	})
	<-inner.begun
	_, err := c.Lookup(t.Context(), 2)
	if busy, ok := errors.AsType[*results.BusyError](err); !ok || busy.RetryAfter < shedWait {
		t.Errorf("the second: got %v, want it refused for at least %v", err, shedWait)
	}
	close(inner.end)
	first.Wait()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// moving is a store that moves to another data set while it is asked.
type moving struct {
	memory
	set   results.Set
	moves int
}

func (m *moving) State() (results.State, bool) {
	return results.State{Set: m.set, Published: true}, true
}
func (*moving) Pool() int { return 0 }

func (m *moving) Lookup(ctx context.Context, id int64) (results.Page, error) {
	page, err := m.memory.Lookup(ctx, id)
	if m.moves > 0 {
		m.moves--
		m.set++
		page, err = results.Page{Body: []byte("new"), Code: []byte("code")}, nil
	}
	return page, err
}

// A page of a data set that came during the look-up is not kept for the one before, which
// may come back.
func TestPageOfADataSetThatCameMeanwhile(t *testing.T) {
	t.Parallel()
	store := &moving{memory: memory{7: {Body: []byte("old"), Code: []byte("code")}}, set: 1, moves: 1}
	cfg := DefaultTiers()
	cfg.Cache = Memory
	c, err := Open(t.Context(), cfg, store, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Lookup(t.Context(), 7); err != nil {
		t.Errorf("while the store moves: %v", err)
	}
	store.set = 1 // the file that was put aside comes back
	if got, err := c.Lookup(t.Context(), 7); err != nil || string(got.Body) != "old" {
		t.Errorf("got %q and %v, want the page of the data set that is served", got.Body, err)
	}
}
