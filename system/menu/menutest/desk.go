package menutest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// Desk runs the checks of menu.Desk. What is opened must be one, and a menu.Filler.
func Desk(t *testing.T, stores Databases) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, menu.Desk){
		"a menu has its revisions":                                    history,
		"the log has every write once, in order":                      logs,
		"who pages through the log while others write misses nothing": pages,
		"a filling leaves nothing":                                    fillingLeavesNothing,
		"documents do what a model of them does":                      documents,
		"the log has who changed what is served":                      availabilities,
		"one of several writers of a document wins":                   oneDocument,
		"what is out of bounds is refused":                            outOfBounds,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); check(t, openedDesk(t, stores.Place(t))) })
	}
	t.Run("closed or without a context it does nothing", func(t *testing.T) { t.Parallel(); deskEnds(t, stores.Place(t)) })
	t.Run("all of it outlives the process", func(t *testing.T) { t.Parallel(); deskStays(t, stores.Place(t)) })
}

func openedDesk(t *testing.T, open Open) menu.Desk {
	t.Helper()
	return opened(t, open).(menu.Desk)
}

// by is the context of an editor.
func by(t *testing.T, editor string) context.Context {
	t.Helper()
	return menu.WithEditor(t.Context(), editor)
}

// editors are some, with a name that is as long as can be.
var editors = []string{menu.EditorAPI, "ሰላም", "o'neill@example.org \"%\\", strings.Repeat("e", menu.MaxEditor)}

// writeBy does one write by an editor, every fifth step a deletion, and returns what it should
// leave.
func writeBy(t *testing.T, desk menu.Desk, id, step int64, editor string) menu.Revision {
	t.Helper()
	ctx := menu.WithEditor(t.Context(), editor)
	left := menu.Revision{Change: menu.Change{ID: id, Editor: editor}}
	var err error
	if step%5 == 4 {
		left.Deleted = true
		left.Version, err = desk.Delete(ctx, id, menu.Condition{})
	} else {
		var page menu.Page
		m := Example(id, step)
		page, _, err = desk.Replace(ctx, &m, menu.Condition{})
		left.Version, left.Body = page.Version, page.Body
	}
	if err != nil {
		t.Fatalf("write menu %d: %v", id, err)
	}
	return left
}

// wantChange compares without the cursor, and the time roughly: clocks of servers differ.
func wantChange(t *testing.T, got, want menu.Change) {
	t.Helper()
	const differ = time.Hour
	if age := time.Since(got.At); want.Editor == "" && !got.At.IsZero() || want.Editor != "" && (age > differ || age < -differ) || !got.At.Equal(got.At.Truncate(time.Millisecond)) {
		t.Errorf("version %d of menu %d is of %v by %q", got.Version, got.ID, got.At, got.Editor)
	}
	got.Cursor, got.At, want.Cursor, want.At = "", time.Time{}, "", time.Time{}
	if got != want {
		t.Errorf("got the change %+v, want %+v", got, want)
	}
}

// wantRevisions asks for all revisions, in parts, and compares them with those that there
// were, oldest first.
func wantRevisions(t *testing.T, desk menu.Desk, id int64, were []menu.Revision) {
	t.Helper()
	were = slices.Clone(were[max(0, len(were)-menu.KeptRevisions):])
	slices.Reverse(were)
	for _, limit := range []int{1, 7, menu.MaxListed} {
		var got []menu.Revision
		for before := int64(0); ; before = got[len(got)-1].Version {
			part, err := desk.Revisions(t.Context(), id, before, limit)
			if err != nil || len(part) > limit {
				t.Fatalf("revisions of menu %d below %d: got %d of at most %d and %v", id, before, len(part), limit, err)
			}
			if got = append(got, part...); len(part) == 0 || len(got) > len(were) {
				break
			}
		}
		if len(got) != len(were) {
			t.Fatalf("menu %d: got %d revisions, want %d", id, len(got), len(were))
		}
		for i, want := range were {
			wantChange(t, got[i].Change, want.Change)
			if got[i].Cursor != "" || string(got[i].Body) != string(want.Body) || (got[i].Body == nil) != want.Deleted {
				t.Errorf("menu %d, version %d: got %q of %q, want %q", id, want.Version, got[i].Body, got[i].Cursor, want.Body)
			}
		}
	}
}

// history writes more versions of a menu than are kept, with deleted ones among them, beside
// writes that are refused.
func history(t *testing.T, desk menu.Desk) {
	t.Helper()
	wantRevisions(t, desk, 7, nil)
	var were []menu.Revision
	for step := range int64(menu.KeptRevisions + 8) {
		if step%5 == 4 { // to be refused
			m := Example(7, step)
			_, err := desk.Create(by(t, "nobody"), &m)
			wantError(t, "create again", err, menu.ErrExists)
			_, _, err = desk.Replace(by(t, "nobody"), &m, menu.Condition{HasTag: true, Tag: 1})
			wantError(t, "replace what has changed", err, menu.ErrChanged)
			_, err = desk.Delete(by(t, "nobody"), 7, menu.Condition{HasTag: true, Tag: 1})
			wantError(t, "delete what has changed", err, menu.ErrChanged)
		}
		were = append(were, writeBy(t, desk, 7, step, editors[step%int64(len(editors))]))
		if step < 11 {
			wantRevisions(t, desk, 7, were)
		}
	}
	m := Example(0, 1)
	page, err := desk.Create(t.Context(), &m)
	if err != nil {
		t.Fatal(err)
	}
	wantRevisions(t, desk, 7, were)
	wantRevisions(t, desk, m.ID, []menu.Revision{{Change: menu.Change{ID: m.ID, Version: 1, Editor: menu.EditorAPI}, Body: page.Body}})
	for _, id := range []int64{-1, 0, 6, 8, dataset.MaxID + 1} {
		wantRevisions(t, desk, id, nil)
	}
	if got, err := desk.Revisions(t.Context(), 7, 1, 9); err != nil || len(got) > 0 {
		t.Errorf("below version 1: got %+v and %v", got, err)
	}
	readLog(t, desk, "", len(were)+1) // what was refused is not there
}

// changesAfter reads a part of the log, moves the cursor behind it, and checks the order of the cursors.
func changesAfter(t *testing.T, desk menu.Desk, after *menu.Cursor, most int) []menu.Change {
	t.Helper()
	part, err := desk.Changes(t.Context(), *after, most)
	if err != nil || len(part) > most {
		t.Fatalf("changes after %q: got %d of at most %d and %v", *after, len(part), most, err)
	}
	for _, c := range part {
		if c.Cursor <= *after {
			t.Fatalf("the cursor %q comes after %q", c.Cursor, *after)
		}
		*after = c.Cursor
	}
	return part
}

// readLog reads the log behind a cursor until it has as many entries, in parts of some size,
// and checks the order of the cursors. Nothing comes behind them.
func readLog(t *testing.T, desk menu.Desk, after menu.Cursor, want int) []menu.Change {
	t.Helper()
	var got []menu.Change
	deadline := time.Now().Add(limit)
	for parts := 0; len(got) < want || parts == 0; parts++ {
		size := 1 + parts%9
		part := changesAfter(t, desk, &after, size)
		if got = append(got, part...); len(part) > 0 {
			continue
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %d changes in %v, want %d", len(got), limit, want)
		}
		time.Sleep(time.Millisecond) // a change may take FeedDelay to appear
	}
	if more, err := desk.Changes(t.Context(), after, 1); len(got) != want || len(more) > 0 || err != nil {
		t.Fatalf("got %d changes, %d more and %v, want %d", len(got), len(more), err, want)
	}
	return got
}

// wantLastChanges reads the log backwards, which is all, in parts.
func wantLastChanges(t *testing.T, desk menu.Desk, all []menu.Change) {
	t.Helper()
	for _, size := range []int{1, 7, menu.MaxListed} {
		left := slices.Clone(all)
		for before := menu.Cursor(""); ; {
			part, err := desk.LastChanges(t.Context(), before, size)
			if err != nil || len(part) != min(size, len(left)) {
				t.Fatalf("changes before %q: got %d and %v, want %d", before, len(part), err, min(size, len(left)))
			}
			if len(part) == 0 {
				break
			}
			slices.Reverse(part)
			for i, want := range left[len(left)-len(part):] {
				if c := part[i]; c.Cursor != want.Cursor || !c.At.Equal(want.At) {
					t.Errorf("got %+v, want %+v", c, want)
				}
				wantChange(t, part[i], want)
			}
			before, left = part[0].Cursor, left[:len(left)-len(part)]
		}
	}
}

func logs(t *testing.T, desk menu.Desk) {
	t.Helper()
	readLog(t, desk, "", 0)
	wantLastChanges(t, desk, nil)
	var were []menu.Change
	for step := range int64(20) {
		id := []int64{5, 1, dataset.MaxID, 2}[step%4] // each deleted once, after a menu
		were = append(were, writeBy(t, desk, id, step+step/4, editors[step/4%int64(len(editors))]).Change)
	}
	got := readLog(t, desk, "", len(were))
	wantSame(t, got, were)
	wantLastChanges(t, desk, got)
	for i, c := range got {
		if rest := readLog(t, desk, c.Cursor, len(got)-i-1); len(rest) > 0 && rest[0] != got[i+1] {
			t.Errorf("after %q: got %+v, want %+v", c.Cursor, rest[0], got[i+1])
		}
	}
}

// wantSame compares logs menu by menu: what happened to different ones at once has no order
// but that of the cursors.
func wantSame(t *testing.T, got, want []menu.Change) {
	t.Helper()
	byMenu := func(log []menu.Change) map[int64][]menu.Change {
		menus := map[int64][]menu.Change{}
		for _, c := range log {
			menus[c.ID] = append(menus[c.ID], c)
		}
		return menus
	}
	have := byMenu(got)
	for id, wanted := range byMenu(want) {
		if len(have[id]) != len(wanted) {
			t.Errorf("menu %d: got %d changes, want %d", id, len(have[id]), len(wanted))
			continue
		}
		for i := range wanted {
			wantChange(t, have[id][i], wanted[i])
		}
	}
}

// pages has writers, each with a menu of its own and all with one, and readers who go on
// from the last change that they have.
func pages(t *testing.T, desk menu.Desk) {
	t.Helper()
	const writers, each, readers = 5, 12, 2
	var all sync.WaitGroup
	for w := range int64(writers) {
		all.Go(func() {
			for n := range int64(each) {
				id := 1 + w*(n%2) // every other time the menu that all have
				m := Example(id, n)
				if _, _, err := desk.Replace(by(t, fmt.Sprintf("writer %d", id)), &m, menu.Condition{}); err != nil {
					t.Errorf("write: %v", err)
				}
			}
		})
	}
	logs := make([][]menu.Change, readers)
	for r := range logs {
		all.Go(func() {
			after := menu.Cursor("")
			for deadline := time.Now().Add(limit); len(logs[r]) < writers*each && time.Now().Before(deadline) && !t.Failed(); {
				part, err := desk.Changes(t.Context(), after, 1+r*6)
				if err != nil {
					t.Errorf("changes: %v", err)
				}
				if logs[r] = append(logs[r], part...); len(part) > 0 {
					after = part[len(part)-1].Cursor
				}
			}
		})
	}
	all.Wait()
	want := readLog(t, desk, "", writers*each)
	versions := map[int64]int64{}
	for _, c := range want {
		if versions[c.ID]++; versions[c.ID] != c.Version || c.Editor != fmt.Sprintf("writer %d", c.ID) {
			t.Errorf("got %+v, want version %d", c, versions[c.ID])
		}
	}
	for _, got := range logs {
		if !slices.Equal(got, want) {
			t.Errorf("while others wrote a reader got\n%+v, now\n%+v", got, want)
		}
	}
	wantLastChanges(t, desk, want)
}

func fillingLeavesNothing(t *testing.T, desk menu.Desk) {
	t.Helper()
	source := Generator(t, 3, 20)
	if _, err := desk.(menu.Filler).Fill(t.Context(), source, nil); err != nil {
		t.Fatal(err)
	}
	m := source.Menu(9)
	first := menu.Revision{Change: menu.Change{ID: 9, Version: 1}, Body: m.AppendJSON(nil)}
	wantRevisions(t, desk, 9, []menu.Revision{first})
	readLog(t, desk, "", 0)
	second := writeBy(t, desk, 9, 1, "ada")
	third := writeBy(t, desk, 9, 4, "bob")
	wantRevisions(t, desk, 9, []menu.Revision{first, second, third})
	wantSame(t, readLog(t, desk, "", 2), []menu.Change{second.Change, third.Change})
}

// deskStays opens a store again.
func deskStays(t *testing.T, open Open) {
	t.Helper()
	db, err := open()
	if err != nil {
		t.Fatal(err)
	}
	desk := db.(menu.Desk)
	were := []menu.Revision{writeBy(t, desk, 1, 1, "ada"), writeBy(t, desk, 1, 2, "bob")}
	first := readLog(t, desk, "", 2)
	d := menu.Document{Kind: menu.Drafts, ID: 1, Editor: "ada", Body: []byte("draft")}
	wantError(t, "set", desk.SetDocument(t.Context(), &d, menu.Condition{}), nil)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	desk = openedDesk(t, open)
	wantDocument(t, desk, d)
	were = append(were, writeBy(t, desk, 1, 3, "eve"))
	wantRevisions(t, desk, 1, were)
	if again := readLog(t, desk, "", 3); !slices.Equal(again[:2], first) {
		t.Errorf("got %+v, want %+v first", again, first)
	}
}

func wantDocument(t *testing.T, desk menu.Desk, want menu.Document) {
	t.Helper()
	got, err := desk.Document(t.Context(), want.Kind, want.ID)
	wantError(t, "document", err, nil)
	sameDocument(t, got, want)
}

func sameDocument(t *testing.T, got, want menu.Document) {
	t.Helper()
	if string(got.Body) != string(want.Body) || got.Tag != menu.Tag(want.Body) || got.Kind != want.Kind || got.ID != want.ID || got.Editor != want.Editor || !got.At.Equal(want.At) {
		t.Errorf("got the document %+v, want %+v", got, want)
	}
}

// documents of two kinds, and some writes whose conditions do not hold.
func documents(t *testing.T, desk menu.Desk) {
	t.Helper()
	kinds := []menu.Kind{menu.Drafts, menu.Deliveries, menu.Availability}
	ids := []int64{1, 2, 300, 1 << 40, dataset.MaxID}
	have := map[menu.Kind]map[int64]menu.Document{}
	for i := range 60 {
		kind, id := kinds[i%2], ids[i*7/3%len(ids)] // none of the third
		if have[kind] == nil {
			have[kind] = map[int64]menu.Document{}
		}
		before, exists := have[kind][id]
		only := []menu.Condition{{}, {Absent: true}, {Exists: true}, {HasTag: true, Tag: before.Tag}, {HasTag: true, Tag: 5}}[i%5]
		d := menu.Document{Kind: kind, ID: id, Editor: editors[i%len(editors)], Body: fmt.Appendf(nil, "{\"n\":%d,\"ሽሮ\":\"\\\"\"}", i)}
		if i%8 == 3 {
			d.Body = nil
		}
		began := time.Now()
		err := desk.SetDocument(t.Context(), &d, only)
		if !only.Holds(before.Tag, exists) {
			wantError(t, "set what is not as the condition says", err, menu.ErrChanged)
		} else if wantError(t, "set", err, nil); d.Body == nil {
			delete(have[kind], id)
		} else {
			if d.Tag != menu.Tag(d.Body) || d.At.Sub(began).Abs() > time.Hour || !d.At.Equal(d.At.Truncate(time.Millisecond)) {
				t.Errorf("set %s: got tag %x, at %v", d.Body, d.Tag, d.At)
			}
			have[kind][id] = d
		}
		if d, exists := have[kind][id]; exists {
			wantDocument(t, desk, d)
		} else {
			_, err := desk.Document(t.Context(), kind, id)
			wantError(t, "a document that is not there", err, menu.ErrNotFound)
		}
	}
	for _, kind := range kinds {
		wantDocuments(t, desk, kind, have[kind])
	}
	readLog(t, desk, "", 0)
	wantGone(t, desk, 1, 0)
}

// availabilities are set and removed between versions of their menu, beside what leaves
// nothing in the log: what is refused, what removes nothing, and drafts.
func availabilities(t *testing.T, desk menu.Desk) {
	t.Helper()
	const id, racers = 7, 4
	var were, said []menu.Change
	set := func(editor, body string, only menu.Condition, want error) {
		t.Helper()
		d := menu.Document{Kind: menu.Availability, ID: id, Editor: editor, Body: []byte(body)}
		if body == "" {
			d.Body = nil
		}
		if wantError(t, "set", desk.SetDocument(t.Context(), &d, only), want); want == nil && body != "" {
			wantDocument(t, desk, d)
		}
	}
	says := func(editor, body string) {
		t.Helper()
		set(editor, body, menu.Condition{}, nil)
		said = append(said, menu.Change{ID: id, Editor: editor, Deleted: body == "", Availability: true})
	}
	set("nobody", "", menu.Condition{}, nil)
	says("ada", "first") // before there is a menu
	were = append(were, writeBy(t, desk, id, 1, "ada").Change)
	says("bob", "second")
	set("nobody", "third", menu.Condition{Absent: true}, menu.ErrChanged)
	set("nobody", "third", menu.Condition{HasTag: true, Tag: 1}, menu.ErrChanged)
	says(editors[1], "")
	set("nobody", "", menu.Condition{}, nil)
	set("nobody", "third", menu.Condition{Exists: true}, menu.ErrChanged)
	wantError(t, "a draft", desk.SetDocument(t.Context(), &menu.Document{Kind: menu.Drafts, ID: id, Editor: "nobody", Body: []byte("x")}, menu.Condition{}), nil)
	wantDocuments(t, desk, menu.Availability, nil)
	says("ada", "first") // as it was at first
	were = append(were, writeBy(t, desk, id, 4, "eve").Change)
	before := menu.Condition{HasTag: true, Tag: menu.Tag([]byte("first"))}
	won := together(t, racers, menu.ErrChanged, func(i int) error {
		return desk.SetDocument(t.Context(), &menu.Document{Kind: menu.Availability, ID: id, Editor: fmt.Sprint("racer ", i), Body: []byte("won")}, before)
	})
	if len(won) != 1 {
		t.Fatalf("%d set the same availability, want 1", len(won))
	}
	said = append(said, menu.Change{ID: id, Editor: fmt.Sprint("racer ", won[0]), Availability: true})
	says("bob", "last")
	log := readLog(t, desk, "", len(were)+len(said))
	wantLastChanges(t, desk, log)
	ofMenu := slices.DeleteFunc(slices.Clone(log), func(c menu.Change) bool { return c.Availability })
	wantSame(t, ofMenu, were)
	wantSame(t, slices.DeleteFunc(log, func(c menu.Change) bool { return !c.Availability }), said)
}

// wantDocuments lists all of a kind, in parts.
func wantDocuments(t *testing.T, desk menu.Desk, kind menu.Kind, want map[int64]menu.Document) {
	t.Helper()
	for _, size := range []int{1, 2, menu.MaxListed} {
		seen := 0
		for after := int64(0); ; {
			part, err := desk.Documents(t.Context(), kind, after, size)
			if err != nil || len(part) != min(size, len(want)-seen) {
				t.Fatalf("%s documents after %d: got %d and %v, want %d of %d", kind, after, len(part), err, min(size, len(want)-seen), len(want))
			}
			if len(part) == 0 {
				break
			}
			for _, d := range part {
				if d.ID <= after {
					t.Errorf("document %d comes after %d", d.ID, after)
				}
				after = d.ID
				sameDocument(t, d, want[d.ID])
			}
			seen += len(part)
		}
	}
}

// oneDocument has several set a document that they took for the same, and then remove it.
func oneDocument(t *testing.T, desk menu.Desk) {
	t.Helper()
	const writers = 6
	only := menu.Condition{Absent: true}
	for round := range 4 {
		bodies := make([]menu.Document, writers)
		won := together(t, writers, menu.ErrChanged, func(i int) error {
			bodies[i] = menu.Document{Kind: menu.Drafts, ID: 1, Editor: "ada", Body: fmt.Appendf(nil, "%d %d", round, i)}
			return desk.SetDocument(t.Context(), &bodies[i], only)
		})
		if len(won) != 1 {
			t.Fatalf("%d set the same document, want 1", len(won))
		}
		wantDocument(t, desk, bodies[won[0]])
		only = menu.Condition{HasTag: true, Tag: bodies[won[0]].Tag}
	}
	won := together(t, writers, menu.ErrChanged, func(int) error {
		return desk.SetDocument(t.Context(), &menu.Document{Kind: menu.Drafts, ID: 1, Editor: "ada"}, only)
	})
	if len(won) != 1 {
		t.Errorf("%d removed the same document, want 1", len(won))
	}
	wantDocuments(t, desk, menu.Drafts, nil)
}

func outOfBounds(t *testing.T, desk menu.Desk) {
	t.Helper()
	refused := func(what string, err error) {
		t.Helper()
		if wantError(t, what, err, menu.ErrBounds); err != nil && (!strings.Contains(err.Error(), ": write ") && !strings.Contains(err.Error(), ": save ") || len(err.Error()) > 400) {
			t.Errorf("%s: the error does not say what to write: %v", what, err)
		}
	}
	for _, size := range []int{-1, 0, menu.MaxListed + 1} {
		_, err := desk.Revisions(t.Context(), 1, 0, size)
		refused("revisions", err)
		_, err = desk.Changes(t.Context(), "", size)
		refused("changes", err)
		_, err = desk.LastChanges(t.Context(), "", size)
		refused("last changes", err)
		_, err = desk.Documents(t.Context(), menu.Drafts, 0, size)
		refused("documents", err)
	}
	for _, cursor := range []menu.Cursor{"x", "-1", " ", "\x00", "\xff", "'; --", menu.Cursor(strings.Repeat("9", 1000))} {
		_, err := desk.Changes(t.Context(), cursor, 1)
		refused("changes", err)
		_, err = desk.LastChanges(t.Context(), cursor, 1)
		refused("last changes", err)
	}
	m := Example(1, 1)
	for _, editor := range []string{"", strings.Repeat("e", menu.MaxEditor+1), "a\nb", "\xff", "a\x00"} {
		ctx := by(t, editor)
		_, err := desk.Create(ctx, &m)
		refused("create", err)
		_, _, err = desk.Replace(ctx, &m, menu.Condition{})
		refused("replace", err)
		_, err = desk.Delete(ctx, 1, menu.Condition{})
		refused("delete", err)
		refused("an editor", desk.SetDocument(t.Context(), &menu.Document{Kind: menu.Drafts, ID: 1, Editor: editor, Body: []byte("x")}, menu.Condition{}))
	}
	largest := strings.Repeat("x", menu.MaxDocumentBytes)
	for _, kind := range []menu.Kind{"", "Draft", "a/b", "a\x00", menu.Kind(strings.Repeat("a", 33))} {
		refused("a kind", desk.SetDocument(t.Context(), &menu.Document{Kind: kind, ID: 1, Editor: "a", Body: []byte("x")}, menu.Condition{}))
		_, err := desk.Document(t.Context(), kind, 1)
		refused("a kind", err)
		_, err = desk.Documents(t.Context(), kind, 1, 1)
		refused("a kind", err)
	}
	for _, id := range []int64{-1, 0, dataset.MaxID + 1} {
		refused("an id", desk.SetDocument(t.Context(), &menu.Document{Kind: menu.Drafts, ID: id, Editor: "a", Body: []byte("x")}, menu.Condition{}))
		_, err := desk.Document(t.Context(), menu.Drafts, id)
		wantError(t, "a document that cannot be", err, menu.ErrNotFound)
	}
	for _, body := range []string{"", "\xff", "a\x00b", largest + "x"} {
		refused("a body", desk.SetDocument(t.Context(), &menu.Document{Kind: menu.Drafts, ID: 1, Editor: "a", Body: []byte(body)}, menu.Condition{}))
	}
	wantDocuments(t, desk, menu.Drafts, nil)
	readLog(t, desk, "", 0)
	d := menu.Document{Kind: menu.Drafts, ID: 1, Editor: "a", Body: []byte(largest)}
	wantError(t, "the largest document", desk.SetDocument(t.Context(), &d, menu.Condition{}), nil)
	wantDocument(t, desk, d)
}

// deskEnds asks everything of a desk with an ended context, and of a closed one.
func deskEnds(t *testing.T, open Open) {
	t.Helper()
	db, err := open()
	if err != nil {
		t.Fatal(err)
	}
	desk := db.(menu.Desk)
	writeBy(t, desk, 1, 1, "ada")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	asked := func(ctx context.Context) []error {
		_, revisions := desk.Revisions(ctx, 1, 0, 1)
		_, changes := desk.Changes(ctx, "", 1)
		_, last := desk.LastChanges(ctx, "", 1)
		_, document := desk.Document(ctx, menu.Drafts, 1)
		_, documents := desk.Documents(ctx, menu.Drafts, 0, 1)
		return []error{revisions, changes, last, document, documents}
	}
	for _, err := range asked(ctx) {
		wantError(t, "after the end of the context", err, context.Canceled)
	}
	d := menu.Document{Kind: menu.Drafts, ID: 1, Editor: "ada", Body: []byte("x")}
	if err := desk.SetDocument(ctx, &d, menu.Condition{}); err == nil || errors.Is(err, menu.ErrChanged) {
		t.Errorf("set after the end of the context: got %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range append(asked(t.Context()), desk.SetDocument(t.Context(), &d, menu.Condition{})) {
		wantError(t, "after close", err, menu.ErrUnavailable)
	}
}
