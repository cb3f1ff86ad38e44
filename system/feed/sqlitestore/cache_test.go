package sqlitestore

import (
	"context"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
)

// counted counts how often it is asked for its version.
type counted struct {
	*Store

	versions int
}

func (c *counted) Version(ctx context.Context) (int64, error) {
	c.versions++
	return c.Store.Version(ctx)
}

// What is read through a cache is what the store has, whoever changed it last, and what has
// not changed is not asked for again: neither what is there nor what is not. A view asks for the
// version once.
func TestCache(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "feed.db")
	open := func() *Store {
		s, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	served, other := open(), open()
	if _, err := served.Fill(t.Context(), feedtest.Generator(t, 1, feed.Reading+1), nil); err != nil {
		t.Fatal(err)
	}
	asked := &counted{Store: served}
	cache, err := feed.NewCache(asked, 1<<20, prometheus.NewRegistry())
	if err != nil || cache == nil {
		t.Fatal("there is no cache", err)
	}
	queries := 0 // of the store, but for its version
	cursors := feed.NewCursors([]byte("key"), time.Hour)
	cached := &feed.Reader{Store: served, Cursors: cursors, Cache: cache, Asked: func(string) { queries++ }}
	plain := &feed.Reader{Store: other, Cursors: cursors, Asked: func(string) {}}
	ids := []int64{feed.Reading, feed.Reading + 1, 5, 1000} // without media, others, and none
	read := func(r *feed.Reader) (all []any) {
		v := r.View(t.Context())
		page, err := v.Page(t.Context(), nil, 10)
		if err != nil {
			t.Fatal(err)
		}
		notices, err := v.Notices(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Posts, notices)
		for _, part := range feed.Parts() {
			all = append(all, v.Details(t.Context(), part, ids), v.Details(t.Context(), part, ids[:2]))
		}
		return all
	}
	same := func(after string, want int) {
		t.Helper()
		queries, asked.versions = 0, 0
		for range 3 {
			if got, want := read(cached), read(plain); !reflect.DeepEqual(got, want) {
				t.Fatalf("after %s: got %+v, want %+v", after, got, want)
			}
		}
		if queries != want || asked.versions != 3 {
			t.Errorf("after %s: %d queries and %d of the version, want %d and one for each view", after, queries, asked.versions, want)
		}
	}
	const all = 5 // page, notices, and each part once
	same("the start", all)
	same("nothing", 0)
	for i, s := range []*Store{served, other} {
		e := feedtest.Odd(5, 1<<40, i)
		if err := s.Delete(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		same("a deletion", all)
		if err := s.Put(t.Context(), &e); err != nil {
			t.Fatal(err)
		}
		same("a post", all)
		e.Title = "Another one"
		if _, err := s.Apply(t.Context(), feed.Change{Action: feed.Written, Editor: "ada", Post: 5}, &e, feed.Condition{}); err != nil {
			t.Fatal(err)
		}
		same("an edit", all)
	}
}
