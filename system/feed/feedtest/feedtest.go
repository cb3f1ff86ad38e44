// Package feedtest has the tests that every store of a feed passes. It is for tests only.
package feedtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/dataset"
	"loadstone/block/random"
	"loadstone/system/feed"
)

// Open opens a store at a place, the same store each time. Whoever calls it closes it.
type Open func() (feed.Store, error)

// Places says how to come by the stores to check.
type Places struct {
	// Make makes an empty place for one check.
	Make func(t *testing.T) Open
	// Large has 10,000 walks through a list that changes, instead of 1,000.
	Large bool
}

// Stores runs the checks of feed.Store.
func Stores(t *testing.T, places Places) {
	t.Helper()
	total := int64(1000)
	if places.Large {
		total = 10_000
	}
	run(t, places, map[string]func(*testing.T, Open){
		"has what it was filled with":               filled,
		"is filled once, all or nothing":            fillings,
		"is filled after all was deleted":           refilled,
		"posts come and go":                         putAndDelete,
		"answers as many as asked for, in order":    pages,
		"walks miss nothing and have nothing twice": func(t *testing.T, open Open) { t.Helper(); walks(t, open, total) },
		"notices are what is new":                   notices,
		"the key stays":                             keys,
		"after close it is not available":           closes,
		"an ended context ends the wait":            contextEnds,
	})
}

func run(t *testing.T, places Places, checks map[string]func(*testing.T, Open)) {
	t.Helper()
	for name, check := range checks {
		t.Run(name, func(t *testing.T) { t.Parallel(); check(t, places.Make(t)) })
	}
}

// Generator is a source for tests.
func Generator(tb testing.TB, seed uint64, count int64) *feed.Generator {
	tb.Helper()
	g, err := feed.NewGenerator(seed, count)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// Entries are a source of what they hold.
type Entries []feed.Entry

// Meta implements dataset.Source.
func (e Entries) Meta() dataset.Meta {
	return dataset.Meta{Origin: "a list", Fingerprint: fmt.Sprintf("%x", feed.Tag(fmt.Appendf(nil, "%v", []feed.Entry(e)))), Count: int64(len(e))}
}

// All implements dataset.Source.
func (e Entries) All(context.Context) iter.Seq2[feed.Entry, error] {
	return func(yield func(feed.Entry, error) bool) {
		for i := range e {
			if !yield(e[i], nil) {
				return
			}
		}
	}
}

// Odd is an entry at the bounds, in characters that are hard to store, with so many comments.
func Odd(id, published int64, comments int) feed.Entry {
	e := feed.Entry{
		Post:      feed.Post{ID: id, Published: published, Title: "'; -- <b> \\ % \"", Text: "ሽሮ ❤️ 👩‍👧\n\n{{.}} $1 ?1 \U0001F336"},
		Author:    feed.Author{ID: dataset.MaxID, Name: "Åsa \"O'Neill\"", About: "a\nb", Photo: "https://a.example/?a=ሽሮ&b"},
		Media:     []feed.Medium{{Kind: "video", URL: "https://a.example/v", Width: 1, Height: feed.MaxSide}, {Kind: "image", URL: "https://a.example/i", Alt: "<>", Width: 2, Height: 3}},
		Reactions: []feed.Reaction{{Kind: "🎉", Count: feed.MaxCount}, {Kind: "like", Count: 1}},
	}
	for i := range comments {
		e.Comments = append(e.Comments, feed.Comment{Author: "Ö", Published: published + int64(comments-i), Text: fmt.Sprintf("comment %d & <more>", i)})
	}
	e.Complete()
	return e
}

func opened(t *testing.T, open Open) feed.Store {
	t.Helper()
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func fill(t *testing.T, s feed.Store, source dataset.Source[feed.Entry]) {
	t.Helper()
	if kept, err := s.Fill(t.Context(), source, nil); err != nil || kept {
		t.Fatalf("fill: kept %v, %v", kept, err)
	}
}

// Want compares what the store has of an entry with it, byte for byte.
func Want(tb testing.TB, s feed.Store, e *feed.Entry) {
	tb.Helper()
	want := map[feed.Part]feed.Detail{feed.PartAuthor: &feed.Profile{Author: e.Author, Post: e.ID}}
	if len(e.Media) > 0 {
		want[feed.PartMedia] = &feed.Media{Media: e.Media, Post: e.ID}
	}
	if len(e.Reactions)+len(e.Comments) > 0 {
		shown := e.Comments[:min(len(e.Comments), feed.ShownComments)]
		want[feed.PartResponses] = &feed.Responses{Comments: append([]feed.Comment{}, shown...), Post: e.ID, Reactions: append([]feed.Reaction{}, e.Reactions...)}
	}
	for _, part := range feed.Parts() {
		got, err := s.Details(tb.Context(), part, []int64{e.ID})
		if err != nil {
			tb.Errorf("%s of post %d: %v", part, e.ID, err)
			continue
		}
		var a, b []byte
		if got[e.ID] != nil {
			a = got[e.ID].AppendJSON(nil)
		}
		if want[part] != nil {
			b = want[part].AppendJSON(nil)
		}
		if !bytes.Equal(a, b) {
			tb.Errorf("%s of post %d: got %s\nwant %s", part, e.ID, a, b)
		}
	}
	page, err := s.Page(tb.Context(), feed.Position{Published: e.Published, ID: e.ID + 1}, 1)
	if err != nil || len(page) != 1 || page[0] != e.Post {
		tb.Errorf("post %d: got %+v and %v\nwant %+v", e.ID, page, err, e.Post)
	}
}

func filled(t *testing.T, open Open) {
	t.Helper()
	const count = 70
	g := Generator(t, 7, count)
	s := opened(t, open)
	if _, err := s.Meta(t.Context()); !errors.Is(err, feed.ErrMissing) {
		t.Errorf("before it is filled: got %v", err)
	}
	fill(t, s, g)
	var ids []int64
	for id := range int64(count) {
		e := g.Entry(id + 1)
		Want(t, s, &e)
		ids = append(ids, id+1, count+1+id) // as many that are not there
	}
	// A batch has what single queries have.
	for _, part := range feed.Parts() {
		all, err := s.Details(t.Context(), part, ids)
		want := count
		if part == feed.PartMedia {
			want -= count / feed.Reading
		}
		if err != nil || len(all) != want {
			t.Fatalf("%s: got %d of posts and %v, want %d", part, len(all), err, want)
		}
		for id, d := range all {
			one, err := s.Details(t.Context(), part, []int64{id})
			if err != nil || !bytes.Equal(one[id].AppendJSON(nil), d.AppendJSON(nil)) {
				t.Errorf("%s of post %d: alone %s, in a batch %s, %v", part, id, one[id].AppendJSON(nil), d.AppendJSON(nil), err)
			}
		}
	}
	if meta, err := s.Meta(t.Context()); err != nil || meta != g.Meta() {
		t.Errorf("got %+v and %v", meta, err)
	}
}

func fillings(t *testing.T, open Open) {
	t.Helper()
	s := opened(t, open)
	broken := append(Entries{}, Odd(1, 1, 0), Odd(1, 2, 0)) // one id twice
	if _, err := s.Fill(t.Context(), broken, nil); err == nil {
		t.Fatal("two posts with one id were stored")
	}
	if page, err := s.Page(t.Context(), feed.Start, 10); err != nil || len(page) != 0 {
		t.Errorf("after a filling that failed: got %v and %v", page, err)
	}
	g := Generator(t, 1, 20)
	fill(t, s, g)
	if kept, err := s.Fill(t.Context(), g, nil); err != nil || !kept {
		t.Errorf("again: kept %v, %v", kept, err)
	}
	if _, err := s.Fill(t.Context(), Generator(t, 2, 20), nil); !errors.Is(err, feed.ErrOccupied) {
		t.Errorf("another data set: got %v", err)
	}
}

// refilled has an author whose posts are all deleted, and comes again, as somebody else.
func refilled(t *testing.T, open Open) {
	t.Helper()
	s := opened(t, open)
	e := Odd(1, 1, 1)
	if err := s.Put(t.Context(), &e); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), e.ID); err != nil {
		t.Fatal(err)
	}
	e.Author.Name = "Somebody else"
	fill(t, s, Entries{e})
	Want(t, s, &e)
}

func putAndDelete(t *testing.T, open Open) {
	t.Helper()
	s := opened(t, open)
	for i, e := range []feed.Entry{Odd(1, 0, 0), Odd(dataset.MaxID, 5, feed.MaxComments), Odd(2, 5, feed.ShownComments+1)} {
		if err := s.Put(t.Context(), &e); err != nil {
			t.Fatal(err)
		}
		Want(t, s, &e)
		if err := s.Put(t.Context(), &e); err == nil {
			t.Errorf("entry %d was stored twice", i)
		}
	}
	bare := Odd(3, 4, 0)
	bare.Media, bare.Reactions = nil, nil
	bare.Author.Name = "Somebody else"
	if err := s.Put(t.Context(), &bare); err != nil {
		t.Fatal(err)
	}
	Want(t, s, &bare)
	other := Odd(1, 0, 0)
	other.Author = bare.Author // one id, one author
	Want(t, s, &other)
	if _, err := s.Fill(t.Context(), Generator(t, 1, 1), nil); !errors.Is(err, feed.ErrOccupied) {
		t.Errorf("fill what has posts: got %v", err)
	}
	if err := s.Delete(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for _, part := range feed.Parts() {
		if all, err := s.Details(t.Context(), part, []int64{1}); err != nil || len(all) != 0 {
			t.Errorf("%s of a deleted post: got %v and %v", part, all, err)
		}
	}
	if err := s.Delete(t.Context(), 1); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("delete it again: got %v", err)
	}
}

func pages(t *testing.T, open Open) {
	t.Helper()
	s := opened(t, open)
	var all Entries
	for _, p := range [][2]int64{{5, 50}, {1, 50}, {9, 50}, {2, 40}, {7, 60}} {
		all = append(all, Odd(p[0], p[1], 1))
	}
	fill(t, s, all)
	want := []int64{7, 9, 5, 1, 2}
	for limit := 1; limit <= 6; limit++ {
		var got []int64
		for at := feed.Start; ; {
			page, err := s.Page(t.Context(), at, limit)
			if err != nil || len(page) > limit {
				t.Fatalf("limit %d: got %d posts and %v", limit, len(page), err)
			}
			for i := range page {
				got = append(got, page[i].ID)
			}
			if len(page) < limit || len(got) > len(want) {
				break
			}
			at = page[limit-1].Position()
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: got %v, want %v", limit, got, want)
		}
	}
}

// walks are total walks through a list that another inserts into and deletes from, everywhere.
// Posts that are there all the while are each seen once, and none is seen twice.
func walks(t *testing.T, open Open, total int64) {
	t.Helper()
	const stay, every = 8, 3 // posts that stay, and what their ids are multiples of
	s := opened(t, open)
	var entries Entries
	for id := int64(every); id <= stay*every; id += every {
		entries = append(entries, Odd(id, id/4, 0)) // a few share each time
	}
	fill(t, s, entries)
	w := walkers{t: t, store: s, stay: entries, read: make(chan struct{})}
	cache, err := feed.NewCache(s, 1<<20, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	w.reader = feed.Reader{Store: s, Cursors: feed.NewCursors([]byte("key"), time.Hour), Cache: cache, Asked: func(string) {}}
	var done, changes atomic.Int64
	var walking, writing sync.WaitGroup
	writing.Go(func() {
		draw, there := random.New(3, 1), map[int64]bool{}
		for range w.read {
			if id := 1 + int64(draw.Below(stay*every)); id%every != 0 {
				w.change(id, there[id])
				there[id] = !there[id]
				changes.Add(1)
			}
		}
	})
	for worker := range 2 {
		walking.Go(func() {
			draw := random.New(4, int64(worker))
			// If nothing is changed meanwhile, this shows nothing.
			for (done.Add(1) <= total || changes.Load() == 0) && !t.Failed() {
				w.walk(2 + draw.Below(6))
			}
		})
	}
	walking.Wait()
	close(w.read)
	writing.Wait()
}

// walkers share a store.
type walkers struct {
	t      *testing.T
	store  feed.Store
	reader feed.Reader   // of the store
	stay   Entries       // posts that are not changed
	read   chan struct{} // a page was, and who writes is free: it is time for a change
}

// change deletes a post that is there, or inserts it. A Desk's are taken down and put back as well,
// and those that stay are edited.
func (w *walkers) change(id int64, there bool) {
	if desk, ok := w.store.(feed.Desk); ok {
		stays := w.stay[id%int64(len(w.stay))]
		_, err := desk.Apply(w.t.Context(), feed.Change{Action: feed.Written, Editor: "ada", Post: stays.ID}, &stays, feed.Condition{})
		w.fails(stays.ID, err)
		if id%2 == 0 && w.moves(desk, id, there) {
			return
		}
	}
	var err error
	if there {
		err = w.store.Delete(w.t.Context(), id)
	} else {
		e := Odd(id, id/4, 0)
		e.Media, e.Reactions = nil, nil
		err = w.store.Put(w.t.Context(), &e)
	}
	w.fails(id, err)
}

// moves takes a post down, or puts it back; it reports false if it never was there.
func (w *walkers) moves(desk feed.Desk, id int64, there bool) bool {
	action := feed.PutBack
	if there {
		action = feed.TakenDown
	}
	_, err := desk.Apply(w.t.Context(), feed.Change{Action: action, Editor: "ada", Post: id}, nil, feed.Condition{})
	if errors.Is(err, feed.ErrNotFound) {
		return false
	}
	w.fails(id, err)
	return true
}

func (w *walkers) fails(id int64, err error) {
	if err != nil {
		w.t.Errorf("write post %d: %v", id, err)
	}
}

// walk reads the whole list in pages of so many.
func (w *walkers) walk(limit int) {
	seen, before := map[int64]bool{}, feed.Start
	for next, more := "", true; more; {
		page, err := w.reader.View(w.t.Context()).Page(w.t.Context(), []byte(next), limit)
		if err != nil {
			w.t.Error(err)
			return
		}
		for i := range page.Posts {
			p := page.Posts[i].Position()
			if seen[p.ID] || p.Published > before.Published || p.Published == before.Published && p.ID >= before.ID {
				w.t.Errorf("post %d came behind %v, seen before: %v", p.ID, before, seen[p.ID])
				return
			}
			seen[p.ID], before = true, p
		}
		next, more = page.Next, page.Next != ""
		select {
		case w.read <- struct{}{}:
		default:
		}
	}
	for i := range w.stay {
		if id := w.stay[i].ID; !seen[id] {
			w.t.Errorf("post %d was missed", id)
		}
	}
}

func notices(t *testing.T, open Open) {
	t.Helper()
	s := opened(t, open)
	var all Entries
	for i := range int64(feed.MaxUnread + 20) {
		e := Odd(i+1, 1000+i, 0)
		e.Pinned = i%2 == 0
		all = append(all, e)
	}
	fill(t, s, all)
	last := int64(1000 + len(all) - 1)
	for _, c := range []struct {
		seen           int64
		pinned, unread int
	}{{0, feed.MaxPinned, feed.MaxUnread}, {last - 3, 1, 3}, {last - 1, 0, 1}, {last, 0, 0}} {
		n, err := s.Notices(t.Context(), c.seen)
		if err != nil || len(n.Pinned) != c.pinned || n.Unread != c.unread || n.Pinned == nil {
			t.Errorf("seen %d: got %+v and %v, want %d pinned and %d unread", c.seen, n, err, c.pinned, c.unread)
		}
		if len(n.Pinned) > 0 && n.Pinned[0].Post != int64(len(all)-1) {
			t.Errorf("seen %d: the newest is %+v", c.seen, n.Pinned[0])
		}
	}
}

func keys(t *testing.T, open Open) {
	t.Helper()
	s := opened(t, open)
	key, err := s.Key(t.Context())
	if err != nil || len(key) != 32 {
		t.Fatalf("got %d bytes and %v", len(key), err)
	}
	again := opened(t, open)
	if other, err := again.Key(t.Context()); err != nil || !bytes.Equal(key, other) {
		t.Errorf("opened again: got %x and %v, want %x", other, err, key)
	}
}

func closes(t *testing.T, open Open) {
	t.Helper()
	s := opened(t, open)
	fill(t, s, Generator(t, 1, 3))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	e := Odd(9, 9, 0)
	_, a := s.Page(t.Context(), feed.Start, 1)
	_, b := s.Details(t.Context(), feed.PartResponses, []int64{1})
	_, c := s.Notices(t.Context(), 0)
	_, d := s.Meta(t.Context())
	for i, err := range []error{a, b, c, d, s.Put(t.Context(), &e), s.Delete(t.Context(), 1)} {
		if !errors.Is(err, feed.ErrUnavailable) {
			t.Errorf("call %d: got %v, want ErrUnavailable", i, err)
		}
	}
}

func contextEnds(t *testing.T, open Open) {
	t.Helper()
	s := opened(t, open)
	fill(t, s, Generator(t, 1, 3))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, a := s.Page(ctx, feed.Start, 1)
	_, b := s.Details(ctx, feed.PartMedia, []int64{1})
	for _, err := range []error{a, b, s.Delete(ctx, 1)} {
		if !errors.Is(err, context.Canceled) || errors.Is(err, feed.ErrUnavailable) {
			t.Errorf("got %v, want that the context was cancelled", err)
		}
	}
}
