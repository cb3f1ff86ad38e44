// Package menutest has the tests that every store of menus passes: Database for stores
// that can be changed, Desk for those that also know what menus were and who changed them,
// Filler for those that a whole data set can be put into, and Kill for what is left when the
// process is killed. It is for tests only.
package menutest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// limit bounds a check; a store does its part in milliseconds, the first time and beside
// other work in some seconds.
const limit = 2 * time.Minute

// killLimit is how long a process that is to be killed may take to have written: it begins by
// making a keyspace, where the database has such, on a machine that may be busy.
const killLimit = 10 * time.Minute

// Open opens a store at a place, the same store each time. Whoever calls it closes the
// store, before it is opened again.
type Open func() (menu.Database, error)

// Databases says how to come by the stores to check.
type Databases struct {
	// Place makes an empty place for a store of its own, for one check; its cleanup is
	// the caller's.
	Place func(t *testing.T) Open
	// Spread is for a store whose Menus cannot be those of one moment while others write:
	// each menu is then one that it was during the reading.
	Spread bool
}

// Database runs the checks of menu.Database.
func Database(t *testing.T, stores Databases) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, Open){
		"does what a model of it does":                  likeTheModel,
		"finds no ids that cannot be":                   impossibleIDs,
		"chooses ids that are free":                     choosesIDs,
		"lets one of several writers with one tag win":  oneWins,
		"lets one of several create":                    oneCreates,
		"writes to one menu take turns":                 turns,
		"menus are all, in order":                       all,
		"an ended context ends the wait":                contextEnds,
		"a page stays what it was":                      pagesStay,
		"after close it is not available":               closes,
		"can be closed while it is read and written to": closesBusy,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); check(t, stores.Place(t)) })
	}
	if !stores.Spread {
		t.Run("menus are those of one moment", func(t *testing.T) { t.Parallel(); oneMoment(t, stores.Place(t)) })
	}
}

// Example is a valid menu with the id; menus of other steps are others.
func Example(id, step int64) menu.Menu {
	if step%5 == 4 {
		return menu.Menu{ID: id, Link: fmt.Sprintf("https://restaurant-%d.example/%d", id, step), Currency: "EUR"}
	}
	return menu.Menu{ID: id, Currency: "ETB", Dishes: []menu.Dish{
		{Type: "dinner", SubType: "main", Name: "ሽሮ \"<&>\" \\ % ? '; --", Price: step, Ingredients: []string{"chickpeas", "\U0001F336"}},
		{Type: "dinner", SubType: "sweet", Name: fmt.Sprintf("Cake of %d", id), Price: menu.MaxPrice, Photo: "https://a.example/?a=ሽሮ&b"},
	}}
}

// stepOf is the step of an Example without a link.
func stepOf(m *menu.Menu) int64 { return m.Dishes[0].Price }

// opened opens a store and closes it at the end of the test.
func opened(t *testing.T, open Open) menu.Database {
	t.Helper()
	db, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

// lookUp looks a menu up, again where the store does not answer: its deadlines are those of
// guests, and a machine that runs other tests may miss them.
func lookUp(tb testing.TB, store menu.Store, id int64) (page menu.Page, err error) {
	tb.Helper()
	for late := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		page, err = store.Lookup(tb.Context(), id)
		if !errors.Is(err, menu.ErrUnavailable) || time.Now().After(late) {
			return page, err
		}
	}
}

// Want looks the menu up, and compares the page with it byte for byte.
func Want(tb testing.TB, store menu.Store, m *menu.Menu, version int64) {
	tb.Helper()
	page, err := lookUp(tb, store, m.ID)
	if err != nil {
		tb.Errorf("look up menu %d: %v, want version %d", m.ID, err, version)
		return
	}
	wantPage(tb, page, m, version)
}

func wantPage(tb testing.TB, page menu.Page, m *menu.Menu, version int64) {
	tb.Helper()
	body := m.AppendJSON(nil)
	if string(page.Body) != string(body) || page.Tag != menu.Tag(body) || page.Version != version {
		tb.Errorf("menu %d: got version %d with tag %016x, %s\nwant version %d with tag %016x, %s",
			m.ID, page.Version, page.Tag, page.Body, version, menu.Tag(body), body)
	}
}

// wantGone looks an id up that has no menu; its version is that of the deleted one, or 0.
func wantGone(tb testing.TB, store menu.Store, id, version int64) {
	tb.Helper()
	page, err := lookUp(tb, store, id)
	if !errors.Is(err, menu.ErrNotFound) || page.Version != version || page.Body != nil {
		tb.Errorf("look up menu %d: got version %d, %s and %v; want ErrNotFound with version %d", id, page.Version, page.Body, err, version)
	}
}

// wantError compares identities; a nil want is no error.
func wantError(tb testing.TB, what string, got, want error) {
	tb.Helper()
	if !errors.Is(got, want) {
		tb.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// put replaces or fails the test.
func put(tb testing.TB, db menu.Database, m menu.Menu) menu.Page {
	tb.Helper()
	page, _, err := db.Replace(tb.Context(), &m, menu.Condition{})
	if err != nil {
		tb.Fatalf("put menu %d: %v", m.ID, err)
	}
	return page
}

// model is what a database should be. A version without a menu is that of a deleted one.
type model struct {
	versions map[int64]int64
	menus    map[int64]menu.Menu
	past     []uint64 // tags that menus had
}

// tag is that of the menu, and whether there is one.
func (m *model) tag(id int64) (uint64, bool) {
	have, exists := m.menus[id]
	if !exists {
		return 0, false
	}
	return menu.Tag(have.AppendJSON(nil)), true
}

// condition draws one; half of those with a tag have the right one.
func (m *model) condition(draw *rand.Rand, id int64) menu.Condition {
	tag, exists := m.tag(id)
	switch draw.IntN(8) {
	case 0:
		return menu.Condition{Exists: true}
	case 1:
		return menu.Condition{Absent: true}
	case 2:
		return menu.Condition{HasTag: true} // the tag 0
	case 3, 4:
		if exists {
			return menu.Condition{HasTag: true, Tag: tag}
		}
	case 5:
		if len(m.past) > 0 {
			return menu.Condition{HasTag: true, Tag: m.past[draw.IntN(len(m.past))]}
		}
	}
	return menu.Condition{}
}

// set is a write that took place.
func (m *model) set(next menu.Menu) int64 {
	m.menus[next.ID] = next
	m.versions[next.ID]++
	m.past = append(m.past, menu.Tag(next.AppendJSON(nil)))
	return m.versions[next.ID]
}

func (m *model) check(t *testing.T, db menu.Database, id int64) {
	t.Helper()
	if have, exists := m.menus[id]; exists {
		Want(t, db, &have, m.versions[id])
	} else {
		wantGone(t, db, id, m.versions[id])
	}
}

// likeTheModel does the same to a database and to the model, and opens it again in between.
func likeTheModel(t *testing.T, open Open) {
	t.Helper()
	draw := rand.New(rand.NewPCG(1, 2))
	m := &model{versions: map[int64]int64{}, menus: map[int64]menu.Menu{}}
	ids := []int64{1, 2, 255, 256, 1 << 31, dataset.MaxID}
	for range 2 {
		db, err := open()
		if err != nil {
			t.Fatal(err)
		}
		for range 150 {
			m.step(t, db, draw, ids[draw.IntN(len(ids))])
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	db := opened(t, open)
	for _, id := range ids {
		m.check(t, db, id)
	}
	wantError(t, "ping", db.Ping(t.Context()), nil)
}

func (m *model) step(t *testing.T, db menu.Database, draw *rand.Rand, id int64) {
	t.Helper()
	tag, exists := m.tag(id)
	next := Example(id, draw.Int64N(50)) // some are the same again: that is a new version, too
	only := m.condition(draw, id)
	switch draw.IntN(5) {
	case 0:
		page, err := db.Create(t.Context(), &next)
		if exists {
			wantError(t, "create again", err, menu.ErrExists)
		} else if wantError(t, "create", err, nil); err == nil {
			wantPage(t, page, &next, m.set(next))
		}
	case 1:
		version, err := db.Delete(t.Context(), id, only)
		switch {
		case !exists:
			wantError(t, "delete nothing", err, menu.ErrNotFound)
		case !only.Holds(tag, exists):
			wantError(t, "delete what has changed", err, menu.ErrChanged)
		default:
			delete(m.menus, id)
			m.versions[id]++
			if err != nil || version != m.versions[id] {
				t.Errorf("delete: got version %d and %v, want %d", version, err, m.versions[id])
			}
		}
	default:
		page, created, err := db.Replace(t.Context(), &next, only)
		if !only.Holds(tag, exists) {
			wantError(t, "replace what has changed", err, menu.ErrChanged)
		} else if wantError(t, "replace", err, nil); err == nil {
			wantPage(t, page, &next, m.set(next))
			if created == exists {
				t.Errorf("replace: got created %v, want %v", created, !exists)
			}
		}
	}
	m.check(t, db, id)
}

func impossibleIDs(t *testing.T, open Open) {
	t.Helper()
	db := opened(t, open)
	put(t, db, Example(1, 1))
	for _, id := range []int64{0, -1, 2, dataset.MaxID + 1, math.MaxInt64, math.MinInt64, 1<<32 + 1} {
		wantGone(t, db, id, 0)
	}
}

// pagesStay keeps pages while what they were made of changes.
func pagesStay(t *testing.T, open Open) {
	t.Helper()
	db := opened(t, open)
	var pages []menu.Page
	for step := range int64(40) {
		m := Example(7, step)
		if step%2 == 0 {
			pages = append(pages, put(t, db, m))
		} else {
			put(t, db, m)
			page, err := db.Lookup(t.Context(), 7)
			if err != nil {
				t.Fatal(err)
			}
			pages = append(pages, page)
		}
		for i := range m.Dishes { // what was given to the store is the caller's again
			m.Dishes[i] = menu.Dish{}
		}
	}
	for step, page := range pages {
		m := Example(7, int64(step))
		wantPage(t, page, &m, int64(step)+1)
	}
}

// read reads a whole source, and checks its order and its count.
func read(t *testing.T, db menu.Database) (dataset.Meta, []menu.Menu) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	source, err := db.Menus(ctx)
	if err != nil {
		t.Fatalf("menus: %v", err)
	}
	var menus []menu.Menu
	if err := dataset.Each(ctx, source, nil, func(m *menu.Menu) error { menus = append(menus, *m); return nil }); err != nil {
		t.Fatalf("menus: %v", err)
	}
	for i := 1; i < len(menus); i++ {
		if menus[i-1].ID >= menus[i].ID {
			t.Fatalf("menus: %d comes before %d", menus[i-1].ID, menus[i].ID)
		}
	}
	return source.Meta(), menus
}

func all(t *testing.T, open Open) {
	t.Helper()
	db := opened(t, open)
	if _, menus := read(t, db); len(menus) != 0 {
		t.Errorf("an empty store has %d menus", len(menus))
	}
	const count = 700
	var want []menu.Menu
	for i := range int64(count) {
		m := Example((count-i)*1_000_003, i)
		put(t, db, m)
		if i%7 == 0 {
			if _, err := db.Delete(t.Context(), m.ID, menu.Condition{}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want = append(want, m)
	}
	slices.Reverse(want)
	meta, got := read(t, db)
	if len(got) != len(want) {
		t.Fatalf("got %d menus, want %d", len(got), len(want))
	}
	for i := range want {
		if g, w := got[i].AppendJSON(nil), want[i].AppendJSON(nil); string(g) != string(w) {
			t.Errorf("got %s, want %s", g, w)
		}
	}
	put(t, db, Example(want[0].ID, 77))
	if changed, _ := read(t, db); changed.Same(meta) {
		t.Errorf("a menu has changed, and the data set still is %+v", meta)
	}
	source, err := db.Menus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range source.All(t.Context()) { // who stops early leaves nothing open: the store can be closed
		wantError(t, "menus", err, nil)
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var last error
	for _, err := range source.All(ctx) {
		last = err
	}
	wantError(t, "menus after the end of the context", last, context.Canceled)
}

func contextEnds(t *testing.T, open Open) {
	t.Helper()
	db := opened(t, open)
	put(t, db, Example(1, 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, id := range []int64{1, 2} {
		if _, err := db.Lookup(ctx, id); err == nil || errors.Is(err, menu.ErrNotFound) {
			t.Errorf("look up %d: got %v, want that it was not looked up", id, err)
		}
	}
	// A write is done or not, and says nil only if it is.
	m := Example(3, 3)
	if _, err := db.Create(ctx, &m); err == nil {
		Want(t, db, &m, 1)
	}
	n := Example(1, 2)
	if _, _, err := db.Replace(ctx, &n, menu.Condition{}); err == nil {
		Want(t, db, &n, 2)
	}
}

func closes(t *testing.T, open Open) {
	t.Helper()
	db, err := open()
	if err != nil {
		t.Fatal(err)
	}
	put(t, db, Example(1, 1))
	for range 2 {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	m := Example(2, 2)
	_, err = db.Lookup(t.Context(), 1)
	wantError(t, "look up", err, menu.ErrUnavailable)
	_, err = db.Create(t.Context(), &m)
	wantError(t, "create", err, menu.ErrUnavailable)
	_, _, err = db.Replace(t.Context(), &m, menu.Condition{})
	wantError(t, "replace", err, menu.ErrUnavailable)
	_, err = db.Delete(t.Context(), 1, menu.Condition{})
	wantError(t, "delete", err, menu.ErrUnavailable)
	_, err = db.Menus(t.Context())
	wantError(t, "menus", err, menu.ErrUnavailable)
	wantError(t, "ping", db.Ping(t.Context()), menu.ErrUnavailable)
	again := opened(t, open)
	first := Example(1, 1)
	Want(t, again, &first, 1)
	wantGone(t, again, 2, 0)
}
