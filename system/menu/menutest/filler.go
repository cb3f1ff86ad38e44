package menutest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// Filled is a place for one store that a data set can be put into. Each call of Fill is
// like a process of its own: it opens what it needs and closes it.
type Filled struct {
	Fill func(ctx context.Context, source dataset.Source[menu.Menu], progress dataset.Progress) (menu.Filled, error)
	// Open opens the store to read. Where there is no data set, either this or the
	// look-ups say so.
	Open func(ctx context.Context) (menu.Store, error)
}

// Fillers says how to come by the places to check.
type Fillers struct {
	// Place makes an empty place, for one check; its cleanup is the caller's.
	Place func(t *testing.T) Filled
	// Menus is how many an interrupted filling is of: so many that the store keeps some
	// before it has read three quarters.
	Menus int64
	// Resumes: the store keeps what an interrupted filling wrote, and goes on there.
	Resumes bool
	// Replaces: another data set takes the place of the first, as with a published file.
	Replaces bool
}

// Of is the place of a store that is filled and read in the same way.
func Of[S interface {
	menu.Store
	menu.Filler
}](open func(ctx context.Context) (S, error)) Filled {
	return Filled{
		Open: func(ctx context.Context) (menu.Store, error) { return open(ctx) },
		Fill: func(ctx context.Context, source dataset.Source[menu.Menu], progress dataset.Progress) (menu.Filled, error) {
			store, err := open(context.WithoutCancel(ctx))
			if err != nil {
				return menu.Filled{}, err
			}
			filled, err := store.Fill(ctx, source, progress)
			return filled, errors.Join(err, store.Close())
		},
	}
}

// Filler runs the checks of menu.Filler.
func Filler(t *testing.T, fillers Fillers) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, Fillers){
		"holds what it was filled with":                fills,
		"a source that fails or lies leaves no store":  badSources,
		"goes on with a filling that was interrupted":  interrupted,
		"does not go on with the filling of another":   notAnothers,
		"takes the menus in any order":                 anyOrder,
		"does not begin when the context has ended":    fillEnded,
		"is filled with menus of all shapes and sizes": extremes,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); check(t, fillers) })
	}
}

// Generator is a made-up data set.
func Generator(tb testing.TB, seed uint64, count int64) *menu.Generator {
	tb.Helper()
	g, err := menu.NewGenerator(seed, count)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// Source is a data set for tests.
type Source struct {
	Of    dataset.Meta
	Menus func(ctx context.Context, yield func(menu.Menu, error) bool)
}

// Meta implements dataset.Source.
func (s Source) Meta() dataset.Meta { return s.Of }

// All implements dataset.Source.
func (s Source) All(ctx context.Context) iter.Seq2[menu.Menu, error] {
	return func(yield func(menu.Menu, error) bool) { s.Menus(ctx, yield) }
}

// list is the source of some menus.
func list(menus ...menu.Menu) Source {
	return Source{
		Of: dataset.Meta{Origin: "a list", Fingerprint: fmt.Sprintf("%d from %d", len(menus), menus[0].ID), Count: int64(len(menus))},
		Menus: func(_ context.Context, yield func(menu.Menu, error) bool) {
			for _, m := range menus {
				if !yield(m, nil) {
					return
				}
			}
		},
	}
}

func mustFill(t *testing.T, place Filled, source dataset.Source[menu.Menu]) menu.Filled {
	t.Helper()
	var last, total int64
	filled, err := place.Fill(t.Context(), source, func(done, of int64) { last, total = done, of })
	if err != nil {
		t.Fatalf("fill: %v", err)
	}
	if count := source.Meta().Count; !filled.Kept && (last != count || total != count) {
		t.Errorf("progress ended with %d of %d, want %d of both", last, total, count)
	}
	return filled
}

// wantHolds looks up every menu of the source, and what is beside them. What was filled
// in has version 1, or 0 where nothing changes.
func wantHolds(t *testing.T, place Filled, source dataset.Source[menu.Menu]) {
	t.Helper()
	store, err := place.Open(t.Context())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer func() { wantError(t, "close", store.Close(), nil) }()
	db, changes := store.(menu.Database)
	version, highest := int64(0), int64(0)
	if changes {
		version = 1
	}
	for m, err := range source.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if Want(t, store, &m, version); t.Failed() {
			return
		}
		highest = max(highest, m.ID)
	}
	for _, id := range []int64{0, -1, highest + 1} {
		wantGone(t, store, id, 0)
	}
	if !changes {
		return
	}
	meta, menus := read(t, db)
	if want := source.Meta(); meta != want || int64(len(menus)) != want.Count {
		t.Errorf("got %d menus of %+v, want %+v", len(menus), meta, want)
	}
}

// wantMissing expects that there is no data set.
func wantMissing(t *testing.T, place Filled) {
	t.Helper()
	store, err := place.Open(t.Context())
	if err != nil {
		wantError(t, "open what is not complete", err, menu.ErrMissing)
		return
	}
	defer func() { wantError(t, "close", store.Close(), nil) }()
	for _, id := range []int64{1, dataset.MaxID} {
		_, err = store.Lookup(t.Context(), id)
		wantError(t, "look up in what is not complete", err, menu.ErrMissing)
	}
	db, changes := store.(menu.Database)
	if !changes {
		return
	}
	m := Example(1, 1)
	_, err = db.Create(t.Context(), &m)
	wantError(t, "create in what is not complete", err, menu.ErrMissing)
	_, _, err = db.Replace(t.Context(), &m, menu.Condition{})
	wantError(t, "replace in what is not complete", err, menu.ErrMissing)
	_, err = db.Delete(t.Context(), 1, menu.Condition{})
	wantError(t, "delete from what is not complete", err, menu.ErrMissing)
	_, err = db.Menus(t.Context())
	wantError(t, "menus of what is not complete", err, menu.ErrMissing)
}

// fills fills, fills again, fills with something else, and changes what was filled in.
func fills(t *testing.T, fillers Fillers) {
	t.Helper()
	place, source := fillers.Place(t), Generator(t, 1, 1000)
	if filled := mustFill(t, place, source); filled != (menu.Filled{}) {
		t.Errorf("got %+v of an empty place", filled)
	}
	wantHolds(t, place, source)
	if filled := mustFill(t, place, source); filled != (menu.Filled{Kept: true}) {
		t.Errorf("fill again: got %+v, want that it was kept", filled)
	}
	if _, err := place.Fill(t.Context(), Generator(t, 2, 1000), nil); !fillers.Replaces || err != nil {
		wantError(t, "fill with another data set", err, menu.ErrOccupied)
		wantHolds(t, place, source)
	}
	change(t, place, source)
}

// change changes what was filled in, which stays that data set nevertheless, so that a
// service that fills its store when it starts can be started again.
func change(t *testing.T, place Filled, source dataset.Source[menu.Menu]) {
	t.Helper()
	store, err := place.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db, changes := store.(menu.Database)
	if !changes {
		wantError(t, "close", store.Close(), nil)
		return
	}
	replaced, chosen := Example(7, 1), Example(0, 2)
	put(t, db, replaced)
	if _, err = db.Create(t.Context(), &chosen); err == nil {
		_, err = db.Delete(t.Context(), 8, menu.Condition{Exists: true})
	}
	if count := source.Meta().Count; err != nil || chosen.ID <= count {
		t.Errorf("got id %d and %v, want one that none of %d menus has", chosen.ID, err, count)
	}
	wantError(t, "close", store.Close(), nil)
	if filled := mustFill(t, place, source); !filled.Kept {
		t.Errorf("fill again after changes: got %+v, want that it was kept", filled)
	}
	if store, err = place.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { wantError(t, "close", store.Close(), nil) }()
	Want(t, store, &replaced, 2)
	wantGone(t, store, 8, 2)
	Want(t, store, &chosen, 1)
	if meta, _ := read(t, store.(menu.Database)); meta.Same(source.Meta()) { //nolint:forcetypeassert // it was one before
		t.Errorf("it was changed, and Menus still says that it is %+v", meta)
	}
}

var errSource = errors.New("the file is broken")

func badSources(t *testing.T, fillers Fillers) {
	t.Helper()
	few := []menu.Menu{Example(1, 1), Example(2, 2), Example(3, 3)}
	short, long, broken := list(few...), list(few...), list(few...)
	short.Of.Count++
	long.Of.Count--
	broken.Menus = func(_ context.Context, yield func(menu.Menu, error) bool) {
		if yield(few[0], nil) {
			yield(menu.Menu{}, errSource)
		}
	}
	for name, source := range map[string]Source{"fewer": short, "more": long, "broken": broken} {
		place := fillers.Place(t)
		_, err := place.Fill(t.Context(), source, nil)
		if err == nil || (name == "broken") != errors.Is(err, errSource) {
			t.Errorf("%s: got %v", name, err)
		}
		wantMissing(t, place)
		mend := list(few...)
		if mend.Of = source.Of; mend.Of.Count == int64(len(few)) { // the same data set, in order at last
			mustFill(t, place, mend)
			wantHolds(t, place, mend)
		}
	}
}

// cut is a source that ends the filling after so many menus, once the store has told of
// progress if it has to. It waits no longer than the store reads: a filling may fail.
func cut(whole *menu.Generator, after int64, progressed <-chan struct{}, stop func()) Source {
	return Source{Of: whole.Meta(), Menus: func(ctx context.Context, yield func(menu.Menu, error) bool) {
		for id := int64(1); id <= whole.Meta().Count; id++ {
			if id == after {
				select {
				case <-progressed:
					stop()
				case <-ctx.Done():
				}
			}
			if !yield(whole.Menu(id), ctx.Err()) || ctx.Err() != nil {
				return
			}
		}
	}}
}

// progress tells of the first progress; of any if it is not to wait for it.
func progress(wait bool) (progressed chan struct{}, tell dataset.Progress) {
	progressed = make(chan struct{}, 1)
	tell = func(done, _ int64) {
		if done > 0 {
			select {
			case progressed <- struct{}{}:
			default:
			}
		}
	}
	if !wait {
		tell(1, 0)
	}
	return progressed, tell
}

// interrupt fills until the context ends in the middle.
func interrupt(t *testing.T, place Filled, whole *menu.Generator, wait bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	progressed, tell := progress(wait)
	_, err := place.Fill(ctx, cut(whole, whole.Meta().Count*3/4, progressed, cancel), tell)
	wantError(t, "an interrupted filling", err, context.Canceled)
}

func interrupted(t *testing.T, fillers Fillers) {
	t.Helper()
	place, whole := fillers.Place(t), Generator(t, 3, fillers.Menus)
	interrupt(t, place, whole, fillers.Resumes)
	wantMissing(t, place)
	interrupt(t, place, whole, false)
	wantMissing(t, place)
	filled := mustFill(t, place, whole)
	if filled.Kept || (filled.Resumed > 0) != fillers.Resumes || filled.Resumed >= fillers.Menus {
		t.Errorf("got %+v of %d, want resumed %v", filled, fillers.Menus, fillers.Resumes)
	}
	wantHolds(t, place, whole)
	if filled := mustFill(t, place, whole); filled != (menu.Filled{Kept: true}) {
		t.Errorf("fill again: got %+v, want that it was kept", filled)
	}
}

// notAnothers fills where the filling of another data set was interrupted: either that is
// refused, or nothing is left of the other.
func notAnothers(t *testing.T, fillers Fillers) {
	t.Helper()
	place, whole := fillers.Place(t), Generator(t, 4, fillers.Menus)
	interrupt(t, place, whole, fillers.Resumes)
	other := Generator(t, 5, 50)
	if filled, err := place.Fill(t.Context(), other, nil); err != nil {
		wantError(t, "fill with another data set", err, menu.ErrOccupied)
		wantMissing(t, place)
		mustFill(t, place, whole)
		wantHolds(t, place, whole)
	} else if wantHolds(t, place, other); filled != (menu.Filled{}) {
		t.Errorf("got %+v", filled)
	}
}

func anyOrder(t *testing.T, fillers Fillers) {
	t.Helper()
	const count = 1200
	menus := make([]menu.Menu, count)
	for i := range menus {
		menus[i] = Example(int64((i*1009)%count+1)*3, int64(i))
	}
	place, source := fillers.Place(t), list(menus...)
	mustFill(t, place, source)
	wantHolds(t, place, source)
}

func fillEnded(t *testing.T, fillers Fillers) {
	t.Helper()
	place, source := fillers.Place(t), Generator(t, 6, 100)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := place.Fill(ctx, source, nil)
	wantError(t, "fill", err, context.Canceled)
	mustFill(t, place, source)
	wantHolds(t, place, source)
}

// extremes fills with the smallest and the largest menus and ids.
func extremes(t *testing.T, fillers Fillers) {
	t.Helper()
	large := menu.Menu{ID: dataset.MaxID, Currency: "KWD"}
	for large.Validate() != nil || len(large.AppendJSON(nil)) < menu.MaxBodyBytes-1000 {
		large.Dishes = append(large.Dishes, menu.Dish{Type: "a", SubType: "b", Name: fmt.Sprint(time.Duration(len(large.Dishes))), Price: menu.MaxPrice, Ingredients: []string{
			fmt.Sprintf("%0199d", len(large.Dishes)),
		}})
		if len(large.Dishes) > menu.MaxDishes {
			t.Fatal("there is no such menu")
		}
	}
	source := list(Example(1, 4), Example(1<<31, 1), Example(1<<32, 2), large)
	place := fillers.Place(t)
	mustFill(t, place, source)
	store, err := place.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { wantError(t, "close", store.Close(), nil) }()
	for m, err := range source.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		page, err := store.Lookup(t.Context(), m.ID)
		if err != nil {
			t.Fatal(err)
		}
		wantPage(t, page, &m, page.Version)
	}
}
