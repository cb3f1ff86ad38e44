// Package activitytest has the tests that every store of activities passes, and
// the real databases to run them on. It is for tests only.
package activitytest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/system/patterns/activity"
)

// Suite tests a store. open opens the same one each time, empty at first; the suite
// closes what it opened. Every test has ids of its own, so the order does not matter.
func Suite(t *testing.T, open func(t *testing.T) activity.Store) {
	t.Helper()
	s := suite{open}
	t.Run("gives back what was put", s.roundTrip)
	t.Run("the last one of an id wins", s.replaces)
	t.Run("stores many at once", s.many)
	t.Run("keeps what was put when it is opened again", s.reopens)
	t.Run("an ended context ends the wait", s.contextEnds)
	t.Run("after close it is closed", s.closes)
}

type suite struct {
	open func(t *testing.T) activity.Store
}

// Example is a valid activity with the id.
func Example(id string) activity.Activity {
	return activity.Activity{
		ID: id, User: "አበበ", Kind: "page-view",
		At: time.Date(2026, 5, 31, 18, 30, 0, 250e6, time.UTC), Details: "menu of " + id,
	}
}

// Edges are valid activities at the limits of what is valid.
func Edges() []activity.Activity {
	longest := Example(strings.Repeat("x", activity.MaxID))
	longest.User, longest.Kind = strings.Repeat("u", activity.MaxUser), strings.Repeat("k", activity.MaxKind)
	longest.Details = strings.Repeat("d", activity.MaxDetails)
	shortest := activity.Activity{ID: "1", User: "u", Kind: "k", At: activity.Time(1)}
	before := Example("before")
	before.At = time.Date(1066, 10, 14, 9, 0, 0, 1e6, time.UTC)
	after := Example("after")
	after.At = time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)
	odd := Example("odd._-Id")
	odd.User, odd.Details = `'"; DROP TABLE activities; --`, "\x01 \U0001F600 \u2028 \\ % ?"
	return []activity.Activity{longest, shortest, before, after, odd}
}

func (s suite) store(t *testing.T) activity.Store {
	t.Helper()
	store := s.open(t)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// Put stores or fails the test.
func Put(tb testing.TB, store activity.Store, a activity.Activity) {
	tb.Helper()
	if err := put(tb, store, a); err != nil {
		tb.Fatalf("put: %v", err)
	}
}

// Want reads an activity and compares it.
func Want(tb testing.TB, store activity.Store, want activity.Activity) {
	tb.Helper()
	got, err := get(tb, store, want.ID)
	if err != nil || got != want {
		tb.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func (s suite) roundTrip(t *testing.T) {
	store := s.store(t)
	for _, a := range Edges() {
		if err := a.Validate(); err != nil {
			t.Fatal(err)
		}
		Put(t, store, a)
	}
	for _, a := range Edges() {
		Want(t, store, a)
	}
	for _, id := range []string{"nobody", "ONE", "odd._-id"} { // ids are compared byte by byte
		if got, err := get(t, store, id); !errors.Is(err, activity.ErrNotFound) {
			t.Errorf("%s: got %+v, %v, want ErrNotFound", id, got, err)
		}
	}
	if d := store.Durability(); d.How == "" {
		t.Error("got no word on how durable it is")
	}
}

func (s suite) replaces(t *testing.T) {
	store := s.store(t)
	a := Example("replaced")
	Put(t, store, a)
	Put(t, store, a) // sent again
	Want(t, store, a)
	a.User, a.Details = "someone else", ""
	Put(t, store, a)
	Want(t, store, a)
}

func (s suite) many(t *testing.T) {
	store := s.store(t)
	const writers, each = 8, 25
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				a := Example(fmt.Sprintf("many-%d-%d", w, i))
				if err := put(t, store, a); err != nil {
					t.Error(err)
				}
				if got, err := get(t, store, a.ID); err != nil || got != a {
					t.Errorf("what was just put: got %+v, %v", got, err)
				}
			}
		})
	}
	all.Wait()
	for w := range writers {
		for i := range each {
			Want(t, store, Example(fmt.Sprintf("many-%d-%d", w, i)))
		}
	}
}

func put(tb testing.TB, store activity.Store, a activity.Activity) error {
	tb.Helper()
	return again(func() error { return store.Put(tb.Context(), &a) })
}

func get(tb testing.TB, store activity.Store, id string) (got activity.Activity, err error) {
	tb.Helper()
	err = again(func() (err error) { got, err = store.Get(tb.Context(), id); return err })
	return got, err
}

// again does what may be done twice until the store answers: one on a busy machine may not, in
// its time.
func again(do func() error) error {
	for deadline := time.Now().Add(time.Minute); ; {
		if err := do(); !errors.Is(err, activity.ErrUnavailable) || time.Now().After(deadline) {
			return err
		}
	}
}

func (s suite) reopens(t *testing.T) {
	a := Example("reopened")
	first := s.open(t)
	Put(t, first, a)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	Want(t, s.store(t), a)
}

func (s suite) contextEnds(t *testing.T) {
	store := s.store(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := Example("ended")
	if _, err := store.Get(ctx, a.ID); err == nil || errors.Is(err, activity.ErrNotFound) {
		t.Errorf("get: got %v, want that it was not looked up", err)
	}
	// A put may be done or not, and says nil only if it is.
	if err := store.Put(ctx, &a); err == nil {
		Want(t, store, a)
	}
}

func (s suite) closes(t *testing.T) {
	store := s.open(t)
	a := Example("closed")
	for range 2 {
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Put(t.Context(), &a); !errors.Is(err, activity.ErrClosed) {
		t.Errorf("put: got %v, want ErrClosed", err)
	}
	if _, err := store.Get(t.Context(), a.ID); !errors.Is(err, activity.ErrClosed) {
		t.Errorf("get: got %v, want ErrClosed", err)
	}
}
