package feedtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"loadstone/block/dataset"
	"loadstone/system/feed"
)

// Desks runs the checks of feed.Desk, beside those of feed.Store.
func Desks(t *testing.T, places Places) {
	t.Helper()
	run(t, places, map[string]func(*testing.T, Open){
		"posts are written and edited":           edits,
		"posts are taken down and put back":      downs,
		"comments are taken down":                commentDown,
		"profiles are not changed by the way":    profiles,
		"what cannot be stored is not":           bounds,
		"nobody overwrites what he has not seen": races,
		"new ids are nobody else's":              ids,
		"the log has everything, page by page":   logs,
		"all are read as they were at one time":  all,
		"nothing is left of what was erased":     erased,
	})
}

// checked is a desk that a check uses.
type checked struct {
	feed.Desk

	t *testing.T
}

func desk(t *testing.T, open Open) checked {
	t.Helper()
	d, ok := opened(t, open).(feed.Desk)
	if !ok {
		t.Fatal("the store is no Desk")
	}
	return checked{d, t}
}

// apply wants a change to take place.
func (d checked) apply(action feed.Action, id int64, e *feed.Entry, only feed.Condition) feed.Change {
	d.t.Helper()
	c, err := d.Apply(d.t.Context(), feed.Change{Action: action, Editor: "ada", Post: id}, e, only)
	if err != nil {
		d.t.Fatalf("%s of post %d: %v", action, id, err)
	}
	return c
}

// refused wants a change not to take place, and everything to be as before.
func (d checked) refused(want error, action feed.Action, id int64, e *feed.Entry, only feed.Condition) {
	d.t.Helper()
	before := everything(d.t, d)
	if _, err := d.Apply(d.t.Context(), feed.Change{Action: action, Editor: "ada", Post: id}, e, only); !errors.Is(err, want) {
		d.t.Errorf("%s of post %d: got %v, want %v", action, id, err, want)
	}
	if after := everything(d.t, d); after != before {
		d.t.Errorf("%s of post %d was refused, and changed\n%s\nto\n%s", action, id, before, after)
	}
}

// everything is what a desk has, as text.
func everything(t *testing.T, d feed.Desk) string {
	t.Helper()
	var b bytes.Buffer
	if err := d.Each(t.Context(), nil, func(e *feed.Entry) error {
		line, err := e.Line()
		fmt.Fprintf(&b, "%s\n", line)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for what, list := range map[string]func() ([]feed.Change, error){
		"down": func() ([]feed.Change, error) { return d.Down(t.Context(), 0, 1000) },
		"log":  func() ([]feed.Change, error) { return d.Changes(t.Context(), 0, 0, 1000) },
	} {
		all, err := list()
		if err != nil {
			t.Fatal(err)
		}
		if what == "down" {
			fmt.Fprintf(&b, "%+v\n", all)
		} else {
			fmt.Fprintf(&b, "%d changes\n", len(all))
		}
	}
	return sorted(b.String())
}

// sorted has the lines in one order.
func sorted(text string) string {
	lines := bytes.Split([]byte(text), []byte("\n"))
	slices.SortFunc(lines, bytes.Compare)
	return string(bytes.Join(lines, []byte("\n")))
}

// wantEntry compares all of a post.
func wantEntry(t *testing.T, d feed.Desk, e *feed.Entry, version int64, down bool) {
	t.Helper()
	got, err := d.Entry(t.Context(), e.ID)
	if err != nil || got.Version != version || got.Down != down {
		t.Fatalf("post %d: got version %d, down %v and %v, want %d and %v", e.ID, got.Version, got.Down, err, version, down)
	}
	a, errA := got.Line()
	b, errB := e.Line()
	if errA != nil || errB != nil || !bytes.Equal(a, b) || got.Post != e.Post {
		t.Errorf("post %d: got %s and %v\nwant %s and %v", e.ID, a, errA, b, errB)
	}
}

func at(version int64) feed.Condition { return feed.Condition{Version: version, HasVersion: true} }

var absent = feed.Condition{Absent: true}

func edits(t *testing.T, open Open) {
	t.Helper()
	d := desk(t, open)
	e := Odd(5, 50, feed.ShownComments+3)
	c := d.apply(feed.Written, 5, &e, absent)
	if c.Action != feed.Written || c.Post != 5 || c.Editor != "ada" || c.Title != e.Title || c.At == 0 || c.Number < 1 {
		t.Errorf("got %+v", c)
	}
	Want(t, d, &e)
	wantEntry(t, d, &e, c.Number, false)
	d.refused(feed.ErrChanged, feed.Written, 5, &e, absent)
	d.refused(feed.ErrChanged, feed.Written, 5, &e, at(c.Number+1))

	next := Odd(5, 50, 1)
	next.Title, next.Media, next.Author = "Another", nil, feed.Author{ID: 3, Name: "Noor"}
	next.Complete()
	edited := d.apply(feed.Written, 5, &next, at(c.Number))
	if edited.Action != feed.Edited || edited.Number <= c.Number || edited.Title != "Another" {
		t.Errorf("got %+v after %+v", edited, c)
	}
	Want(t, d, &next)
	wantEntry(t, d, &next, edited.Number, false)
	d.refused(feed.ErrChanged, feed.Written, 5, &e, at(c.Number)) // a lost update
	if _, err := d.Entry(t.Context(), 6); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("no post: got %v", err)
	}
	filled := desk(t, open) // the same place
	wantEntry(t, filled, &next, edited.Number, false)
}

func downs(t *testing.T, open Open) {
	t.Helper()
	d := desk(t, open)
	g := Generator(t, 1, 5)
	fill(t, d, g)
	e := Odd(9, 1_704_067_200_000+3*60_000, feed.MaxComments) // between others
	e.Pinned = true
	written := d.apply(feed.Written, 9, &e, absent)
	d.refused(feed.ErrNotFound, feed.TakenDown, 10, nil, feed.Condition{})
	d.refused(feed.ErrNotFound, feed.PutBack, 10, nil, feed.Condition{})
	d.refused(feed.ErrUp, feed.PutBack, 9, nil, feed.Condition{})
	d.refused(feed.ErrChanged, feed.TakenDown, 9, nil, at(written.Number-1))
	before, err := d.Page(t.Context(), feed.Start, 10)
	if err != nil || len(before) != 6 {
		t.Fatalf("got %d posts and %v", len(before), err)
	}
	down := d.apply(feed.TakenDown, 9, nil, at(written.Number))
	if down.Title != e.Title || down.Action != feed.TakenDown {
		t.Errorf("got %+v", down)
	}
	wantEntry(t, d, &e, down.Number, true)
	wantUnseen(t, d, 9, 5)
	if n, err := d.Notices(t.Context(), 0); err != nil || n.Unread != 5 || len(n.Pinned) != 0 {
		t.Errorf("got %+v and %v", n, err)
	}
	if all, err := d.Down(t.Context(), 0, 10); err != nil || len(all) != 1 || all[0] != down {
		t.Errorf("got %+v and %v, want %+v", all, err, down)
	}
	d.refused(feed.ErrDown, feed.TakenDown, 9, nil, feed.Condition{})
	d.refused(feed.ErrDown, feed.Written, 9, &e, feed.Condition{})
	d.refused(feed.ErrChanged, feed.Written, 9, &e, absent)

	other := Odd(8, 7, 0) // its author is another one by now
	other.Author.Name, other.Author.Role = "Somebody else", "Cook"
	d.apply(feed.Written, 8, &other, absent)
	e.Author = other.Author
	back := d.apply(feed.PutBack, 9, nil, at(down.Number))
	Want(t, d, &e)
	wantEntry(t, d, &e, back.Number, false)
	after, err := d.Page(t.Context(), feed.Start, 6)
	if err != nil || !slices.Equal(after, before) {
		t.Errorf("put back: got %+v and %v\nwant %+v", after, err, before)
	}
	if all, err := d.Down(t.Context(), 0, 10); err != nil || len(all) != 0 {
		t.Errorf("got %+v and %v", all, err)
	}
}

// wantUnseen wants a post to be out of what is read, and so many others in it.
func wantUnseen(t *testing.T, d feed.Desk, id int64, others int) {
	t.Helper()
	page, err := d.Page(t.Context(), feed.Start, others+1)
	if err != nil || len(page) != others || slices.ContainsFunc(page, func(p feed.Post) bool { return p.ID == id }) {
		t.Errorf("the list has %+v and %v", page, err)
	}
	for _, part := range feed.Parts() {
		if all, err := d.Details(t.Context(), part, []int64{id}); err != nil || len(all) != 0 {
			t.Errorf("%s of post %d, which is down: got %v and %v", part, id, all, err)
		}
	}
}

func commentDown(t *testing.T, open Open) {
	t.Helper()
	d := desk(t, open)
	e := Odd(1, 1, 3)
	c := d.apply(feed.Written, 1, &e, absent)
	less := e
	less.Comments = slices.Delete(slices.Clone(e.Comments), 1, 2)
	less.Complete()
	done := d.apply(feed.CommentDown, 1, &less, at(c.Number))
	if done.Action != feed.CommentDown {
		t.Errorf("got %+v", done)
	}
	Want(t, d, &less)
	d.refused(feed.ErrChanged, feed.CommentDown, 1, &less, at(c.Number))
	none := Odd(2, 2, 0)
	d.refused(feed.ErrNotFound, feed.CommentDown, 2, &none, feed.Condition{})
}

// profiles has a profile changed while others, who have seen the one before, change posts of the author.
func profiles(t *testing.T, open Open) {
	t.Helper()
	d := desk(t, open)
	one, two := Odd(1, 1, 1), Odd(2, 2, 0)
	two.Author = one.Author
	first := d.apply(feed.Written, 1, &one, absent)
	d.apply(feed.Written, 2, &two, absent)
	seen := one.Author
	two.Author.Role = "Chef"
	d.apply(feed.Written, 2, &two, feed.Condition{Author: &seen})
	less := one
	less.Comments = nil
	done := d.apply(feed.CommentDown, 1, &less, at(first.Number))
	want := less
	want.Author = two.Author
	want.Complete()
	Want(t, d, &want)
	less.Title, want.Title = "New", "New"
	only := at(done.Number)
	only.Author = &seen
	d.apply(feed.Written, 1, &less, only)
	Want(t, d, &want)
	less.Author.Team = "Kitchen" // nor is it lost that somebody else has changed it
	d.refused(feed.ErrChanged, feed.Written, 1, &less, feed.Condition{Author: &seen})
	d.apply(feed.Written, 1, &less, feed.Condition{Author: &two.Author})
	less.Complete()
	Want(t, d, &less)
}

func bounds(t *testing.T, open Open) {
	t.Helper()
	d := desk(t, open)
	e := Odd(1, 1, 0)
	d.apply(feed.Written, 1, &e, absent)
	moved, empty, strange := Odd(1, 2, 0), Odd(1, 1, 0), Odd(1, 1, 0)
	empty.Title, strange.Media = "", []feed.Medium{{Kind: "image", URL: "javascript:alert(1)"}}
	for _, wrong := range []*feed.Entry{&moved, &empty, &strange, nil} {
		d.refused(feed.ErrBounds, feed.Written, 1, wrong, feed.Condition{})
	}
	d.refused(feed.ErrBounds, feed.Written, 7, &e, feed.Condition{})
	d.refused(feed.ErrBounds, feed.TakenDown, 1, &e, feed.Condition{})
	d.refused(feed.ErrBounds, feed.Edited, 1, &e, feed.Condition{})
	if _, err := d.Apply(t.Context(), feed.Change{Action: feed.TakenDown, Post: 1}, nil, feed.Condition{}); !errors.Is(err, feed.ErrBounds) {
		t.Errorf("nobody's change: got %v", err)
	}
	last := Odd(dataset.MaxID, 1, 0)
	d.apply(feed.Written, last.ID, &last, absent)
	next := Odd(0, 1, 0) // there is no id behind
	next.Author.ID = 0
	if c := d.apply(feed.Written, 0, &next, absent); c.Post != 2 {
		t.Errorf("it was given the id %d", c.Post)
	}
}

// races has several who edit one post, each what he has read: every edit that took place was of the one
// before it.
func races(t *testing.T, open Open) {
	t.Helper()
	const editors, each = 4, 10
	d := desk(t, open)
	e := Odd(1, 1, 0)
	e.Text = "0"
	first := d.apply(feed.Written, 1, &e, absent)
	var lost atomic.Int64
	var all sync.WaitGroup
	for range editors {
		all.Go(func() {
			for done := 0; done < each && !t.Failed(); {
				k, err := d.Entry(t.Context(), 1)
				if err != nil {
					t.Error(err)
					return
				}
				var n int
				if _, err := fmt.Sscan(k.Text, &n); err != nil {
					t.Error(err)
				}
				k.Text = fmt.Sprint(n + 1)
				switch _, err := d.Apply(t.Context(), feed.Change{Action: feed.Written, Editor: "ada", Post: 1}, &k.Entry, at(k.Version)); {
				case err == nil:
					done++
				case errors.Is(err, feed.ErrChanged):
					lost.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	k, err := d.Entry(t.Context(), 1)
	if err != nil || k.Text != fmt.Sprint(editors*each) {
		t.Errorf("after %d edits, and %d that were refused, it is %q, %v", editors*each, lost.Load(), k.Text, err)
	}
	log, err := d.Changes(t.Context(), 1, 0, 1000)
	if err != nil || len(log) != editors*each+1 || log[0].Number != k.Version || log[len(log)-1].Number != first.Number {
		t.Errorf("the log has %d entries, %v", len(log), err)
	}
}

// ids has several who write new posts at once.
func ids(t *testing.T, open Open) {
	t.Helper()
	const writers, each = 4, 5
	d := desk(t, open)
	fill(t, d, Generator(t, 1, 3))
	d.apply(feed.TakenDown, 3, nil, feed.Condition{}) // the last id is not free
	var mu sync.Mutex
	got := map[int64]string{}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				e := Odd(0, int64(i), 0)
				e.Title, e.Author = fmt.Sprintf("%d of %d", i, w), feed.Author{Name: fmt.Sprintf("Writer %d of %d", i, w)}
				c, err := d.Apply(t.Context(), feed.Change{Action: feed.Written, Editor: "ada"}, &e, absent)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				got[c.Post] = e.Title
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(got) != writers*each {
		t.Errorf("got %d ids", len(got))
	}
	wantTitles(t, d, got)
	names, err := d.Authors(t.Context(), "Writer 1 of 2", 2)
	if err != nil || len(names) != 1 || names[0].ID < 1 {
		t.Errorf("got %+v and %v", names, err)
	}
	if names, err = d.Authors(t.Context(), "", 3); err != nil || len(names) != 3 || names[0].Name > names[1].Name {
		t.Errorf("got %+v and %v", names, err)
	}
}

// wantTitles wants each of some new posts to be who wrote it left it.
func wantTitles(t *testing.T, d feed.Desk, got map[int64]string) {
	t.Helper()
	for id, title := range got {
		k, err := d.Entry(t.Context(), id)
		if err != nil || id < 4 || id > int64(3+len(got)) || k.Title != title || k.Author.Name != "Writer "+title {
			t.Errorf("post %d, %q, is %+v, %v", id, title, k.Entry, err)
		}
	}
}

func logs(t *testing.T, open Open) {
	t.Helper()
	d := desk(t, open)
	var want []feed.Change // the latest first
	note := func(c feed.Change) { want = append([]feed.Change{c}, want...) }
	for id := int64(1); id <= 4; id++ {
		e := Odd(id, id, 0)
		note(d.apply(feed.Written, id, &e, absent))
		note(d.apply(feed.TakenDown, id, nil, feed.Condition{}))
	}
	note(d.apply(feed.PutBack, 2, nil, feed.Condition{}))
	walk := func(what string, want []feed.Change, list func(before int64, limit int) ([]feed.Change, error)) {
		t.Helper()
		for limit := 1; limit <= len(want)+1; limit++ {
			var got []feed.Change
			for before := int64(0); ; before = got[len(got)-1].Number {
				page, err := list(before, limit)
				if err != nil || len(page) > limit {
					t.Fatalf("%s: got %d and %v", what, len(page), err)
				}
				if got = append(got, page...); len(page) < limit {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, %d at a time: got %+v\nwant %+v", what, limit, got, want)
			}
		}
	}
	walk("log", want, func(before int64, limit int) ([]feed.Change, error) { return d.Changes(t.Context(), 0, before, limit) })
	ascending := slices.Clone(want)
	slices.Reverse(ascending)
	walk("log since", ascending, func(number int64, limit int) ([]feed.Change, error) { return d.Since(t.Context(), number, limit) })
	of := func(keep func(c feed.Change) bool) (some []feed.Change) {
		for _, c := range want {
			if keep(c) {
				some = append(some, c)
			}
		}
		return some
	}
	walk("log of 2", of(func(c feed.Change) bool { return c.Post == 2 }), func(before int64, limit int) ([]feed.Change, error) {
		return d.Changes(t.Context(), 2, before, limit)
	})
	walk("down", of(func(c feed.Change) bool { return c.Post != 2 && c.Action == feed.TakenDown }), func(before int64, limit int) ([]feed.Change, error) {
		return d.Down(t.Context(), before, limit)
	})
}

// all are read while one writes: what is read fits together.
func all(t *testing.T, open Open) {
	t.Helper()
	const count = 250 // several batches
	d := desk(t, open)
	g := Generator(t, 1, count)
	fill(t, d, g)
	var last int64
	var progress [2]int64
	err := d.Each(t.Context(), func(done, total int64) { progress = [2]int64{done, total} }, func(e *feed.Entry) error {
		if last++; e.ID != last {
			return fmt.Errorf("post %d came as number %d", e.ID, last)
		}
		if last == 1 {
			d.apply(feed.TakenDown, count, nil, feed.Condition{}) // seen by those who read later
		}
		a, errA := e.Line()
		want := g.Entry(e.ID)
		b, errB := want.Line()
		if !bytes.Equal(a, b) {
			t.Errorf("got %s\nwant %s", a, b)
		}
		return errors.Join(errA, errB)
	})
	if err != nil || last != count || progress != [2]int64{count, count} {
		t.Errorf("got %d posts, progress %v and %v", last, progress, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop := errors.New("stop")
	if err := d.Each(ctx, nil, func(*feed.Entry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	cancel()
	if err := d.Each(ctx, nil, func(*feed.Entry) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func erased(t *testing.T, open Open) {
	t.Helper()
	d := desk(t, open)
	for id := int64(1); id <= 2; id++ {
		e := Odd(id, 1, 1)
		d.apply(feed.Written, id, &e, absent)
	}
	d.apply(feed.TakenDown, 2, nil, feed.Condition{})
	for id := int64(1); id <= 2; id++ {
		d.apply(feed.Erased, id, nil, feed.Condition{})
		if _, err := d.Entry(t.Context(), id); !errors.Is(err, feed.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		d.refused(feed.ErrNotFound, feed.Erased, id, nil, feed.Condition{})
	}
	log, err := d.Changes(t.Context(), 0, 0, 10)
	if err != nil || len(log) != 5 || slices.ContainsFunc(log, func(c feed.Change) bool { return c.Title != "" }) {
		t.Errorf("the log has %+v, %v", log, err)
	}
	e := Odd(1, 9, 0) // the id is free
	d.apply(feed.Written, 1, &e, absent)
	Want(t, d, &e)
}
