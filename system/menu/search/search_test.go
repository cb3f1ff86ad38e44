package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"loadstone/block/dataset"
	"loadstone/block/sqlite"
	"loadstone/system/menu"
	"loadstone/system/menu/menutest"
)

// toBuild is the variable with the path at which a test's other process builds an index.
const toBuild = "LOADSTONE_TEST_BUILD_INDEX"

func TestMain(m *testing.M) {
	if path := os.Getenv(toBuild); path != "" {
		err := Build(context.Background(), path, &desk{endless: true}, func(int64, int64) { fmt.Println("under way") })
		fmt.Println("ended", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// desk is a desk in memory. What it does not have, an index does not ask for.
type desk struct {
	menu.Desk

	endless bool // its menus never end
	mu      sync.Mutex
	menus   map[int64]menu.Menu
	changes []menu.Change
	err     error
}

func (d *desk) Lookup(_ context.Context, id int64) (menu.Page, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, ok := d.menus[id]
	switch {
	case d.err != nil:
		return menu.Page{}, d.err
	case !ok:
		return menu.Page{}, menu.ErrNotFound
	}
	return menu.Page{Body: m.AppendJSON(nil)}, nil
}

func (d *desk) Menus(context.Context) (dataset.Source[menu.Menu], error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]menu.Menu, 0, len(d.menus))
	for _, m := range d.menus {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b menu.Menu) int { return cmp.Compare(a.ID, b.ID) })
	count := int64(len(all))
	if d.endless {
		count = 1 << 40
	}
	return menutest.Source{Of: dataset.Meta{Count: count}, Menus: func(_ context.Context, yield func(menu.Menu, error) bool) {
		for _, m := range all {
			if !yield(m, nil) {
				return
			}
		}
		for id := int64(1); d.endless && yield(of(id, "Shiro"), nil); id++ {
		}
	}}, nil
}

func (d *desk) Changes(_ context.Context, after menu.Cursor, limit int) ([]menu.Change, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []menu.Change
	for _, c := range d.changes {
		if c.Cursor > after && len(all) < limit {
			all = append(all, c)
		}
	}
	return all, d.err
}

func (d *desk) LastChanges(context.Context, menu.Cursor, int) ([]menu.Change, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changes[max(0, len(d.changes)-1):], d.err
}

// of is a menu with dishes.
func of(id int64, dishes ...string) menu.Menu {
	m := menu.Menu{ID: id, Currency: "EUR"}
	for i, name := range dishes {
		m.Dishes = append(m.Dishes, menu.Dish{Type: "dinner", SubType: "main", Name: name, Price: int64(i)})
	}
	return m
}

// set stores a menu, or removes it if it has no dishes.
func (d *desk) set(m menu.Menu) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.menus == nil {
		d.menus = make(map[int64]menu.Menu)
	}
	d.menus[m.ID] = m
	if len(m.Dishes) == 0 {
		delete(d.menus, m.ID)
	}
	d.changes = append(d.changes, menu.Change{ID: m.ID, Cursor: menu.Cursor(fmt.Sprintf("%09d", len(d.changes)+1))})
}

// example is a desk with a few menus, and its index.
func example(tb testing.TB) (*desk, string) {
	tb.Helper()
	d := &desk{}
	for _, m := range []menu.Menu{
		of(1, "Shiro wot", "Injera with Shiro and salad", "Crème brûlée"),
		of(2, "Shiro", "Ham and eggs"),
		of(3, "Salad", "Eggs Benedict", "ሽሮ", "握り寿司", "L'eau-de-vie", "Straße", "Ελιές", "İçli köfte"),
		of(999_999_999_999_999_999, "Shirotaki noodles"),
	} {
		d.set(m)
	}
	path := filepath.Join(tb.TempDir(), "search")
	if err := Build(tb.Context(), path, d, nil); err != nil {
		tb.Fatal(err)
	}
	return d, path
}

func open(tb testing.TB, path string, d *desk) *Index {
	tb.Helper()
	x, err := Open(tb.Context(), path, d)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := x.Close(); err != nil {
			tb.Error(err)
		}
	})
	return x
}

// find is what a query finds, as ID DISH.
func find(tb testing.TB, x *Index, text string, limit int) (all []string) {
	tb.Helper()
	found, err := x.Search(tb.Context(), text, limit)
	if err != nil {
		tb.Errorf("%.80q: %v", text, err)
	}
	for _, f := range found {
		all = append(all, fmt.Sprint(f.ID, " ", f.Dish.Name))
		if f.Currency != "EUR" || f.Dish.SubType != "main" {
			tb.Errorf("%.80q: got %+v", text, f)
		}
	}
	return all
}

func TestSearch(t *testing.T) {
	t.Parallel()
	d, path := example(t)
	x := open(t, path, d)
	for text, want := range map[string][]string{
		"shiro":              {"2 Shiro", "1 Shiro wot", "1 Injera with Shiro and salad", "999999999999999999 Shirotaki noodles"},
		"SHIRO wot":          {"1 Shiro wot"},
		"wo shiro":           nil, // only the last may be a beginning
		"wot shi":            {"1 Shiro wot"},
		"salad shiro":        {"1 Injera with Shiro and salad"},
		"s":                  {"2 Shiro", "3 Salad", "3 Straße", "1 Shiro wot", "1 Injera with Shiro and salad", "999999999999999999 Shirotaki noodles"},
		"shiro eggs":         nil, // two dishes of one menu
		"creme brulee":       {"1 Crème brûlée"},
		"CRÈME  Brûl":        {"1 Crème brûlée"},
		"eggs":               {"3 Eggs Benedict", "2 Ham and eggs"},
		"ሽ":                  {"3 ሽሮ"},
		"寿司":                 {"3 握り寿司"},
		"leau":               {"3 L'eau-de-vie"},
		"l\u2019eau de-vie":  {"3 L'eau-de-vie"},
		"straß":              {"3 Straße"},
		"ελιες":              {"3 Ελιές"},
		"icli kofte":         {"3 İçli köfte"},
		"":                   nil,
		" \t\n":              nil,
		"nothing like it":    nil,
		"and or not near":    nil,
		"ham AND eggs":       {"2 Ham and eggs"},
		"ham OR shiro":       nil, // or is a word
		`"ham" eggs`:         {"2 Ham and eggs"},
		"words:shiro":        nil,
		"shiro*":             {"2 Shiro", "1 Shiro wot", "1 Injera with Shiro and salad", "999999999999999999 Shirotaki noodles"},
		"NEAR(ham eggs, 5)":  nil,
		"shiro'; DROP TABLE": nil,
	} {
		if got := find(t, x, text, 10); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := find(t, x, "s", 2); len(got) != 2 {
		t.Errorf("got %q, want two", got)
	}
	if got := find(t, x, "s", 0); len(got) != 0 {
		t.Errorf("got %q, want none", got)
	}
	if got := find(t, x, "shiro", 1); !slices.Equal(got, []string{"2 Shiro"}) {
		t.Errorf("the best: got %q", got)
	}
}

// A rare word is found behind many that begin like it.
func TestARareWordAmongCommonOnes(t *testing.T) {
	t.Parallel()
	d := &desk{menus: make(map[int64]menu.Menu)}
	for id := range int64(examined) {
		d.menus[id+1] = of(id+1, "Chocolate", "Cake")
	}
	d.menus[examined+1] = of(examined+1, "Chocolatine")
	path := filepath.Join(t.TempDir(), "search")
	if err := Build(t.Context(), path, d, nil); err != nil {
		t.Fatal(err)
	}
	x := open(t, path, d)
	want := []string{fmt.Sprint(examined+1, " Chocolatine")}
	for _, text := range []string{"chocolatine", "chocolati"} {
		if got := find(t, x, text, 10); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	if got := find(t, x, "chocolate", 10); len(got) != 10 || got[0] != "1 Chocolate" {
		t.Errorf("got %q", got)
	}
	if got := find(t, x, "cake chocolate", 10); len(got) != 0 {
		t.Errorf("got %q, want none: they are two dishes", got)
	}
}

// Whatever is typed, nothing fails, and what is found has all of the words.
func FuzzSearch(f *testing.F) {
	d, path := example(f)
	x := open(f, path, d)
	for _, text := range []string{`"`, `""`, `" OR "`, "*", "^shiro", "-shiro", "{words}:a", "(", "a\x00b", "\xff", "\u202e", "a AND", strings.Repeat("s ", 5000), strings.Repeat("é", 300), "\U0001F336"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, got := range find(t, x, text, 5) {
			_, dish, _ := strings.Cut(got, " ")
			if q := parse(text); len(q) == 0 || !q.suits(words(dish)) {
				t.Errorf("%q: got %q", text, got)
			}
		}
	})
}

func TestFollows(t *testing.T) {
	t.Parallel()
	d, path := example(t)
	x := open(t, path, d)
	d.set(of(2, "Kitfo"))
	d.set(of(4, "Genfo"))
	d.set(of(4, "Shiro of the house"))
	d.set(of(1))
	// What is found is so, also before the index knows.
	if got := find(t, x, "shiro", 10); !slices.Equal(got, []string{"999999999999999999 Shirotaki noodles"}) {
		t.Errorf("before: got %q", got)
	}
	d.err = menu.ErrUnavailable
	if _, err := x.Follow(t.Context()); !errors.Is(err, menu.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, menu.ErrUnavailable)
	}
	d.err = nil
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx, func(err error) { t.Error(err) }) }()
	for deadline := time.Now().Add(time.Minute); len(find(t, x, "house", 10)) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a change is not found")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := find(t, x, "shiro", 10); !slices.Equal(got, []string{"999999999999999999 Shirotaki noodles", "4 Shiro of the house"}) {
		t.Errorf("got %q", got)
	}
	// More than a batch, and from where it was when it is opened again.
	for i := range int64(batch + 1) {
		d.set(of(1000+i, "Doro wot"))
	}
	again := open(t, path, d)
	if more, err := again.Follow(t.Context()); err != nil || !more {
		t.Errorf("got %v and %v, want that there is more", more, err)
	}
	if more, err := again.Follow(t.Context()); err != nil || more {
		t.Errorf("got %v and %v, want no more", more, err)
	}
	if got := find(t, again, "doro", 1000); len(got) != batch+1 {
		t.Errorf("got %d menus, want %d", len(got), batch+1)
	}
}

// What changes while the index is built is in it afterwards.
func TestChangesWhileItIsBuilt(t *testing.T) {
	t.Parallel()
	d := &desk{}
	for id := range int64(5000) {
		d.set(of(id+1, "Shiro"))
	}
	path := filepath.Join(t.TempDir(), "search")
	changed := false
	if err := Build(t.Context(), path, d, func(int64, int64) {
		if !changed {
			changed = true
			d.set(of(1, "Kitfo"))
			d.set(of(5000, "Kitfo"))
		}
	}); err != nil {
		t.Fatal(err)
	}
	x := open(t, path, d)
	if _, err := x.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := find(t, x, "kitfo", 10); !slices.Equal(got, []string{"1 Kitfo", "5000 Kitfo"}) {
		t.Errorf("got %q", got)
	}
}

// What is no whole index is not opened, and what is there is not replaced.
func TestFilesThatAreNoIndex(t *testing.T) {
	t.Parallel()
	d, path := example(t)
	if err := Build(t.Context(), path, d, nil); !errors.Is(err, ErrThere) {
		t.Errorf("a second time: got %v, want %v", err, ErrThere)
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if _, err := Open(t.Context(), at("none"), d); !errors.Is(err, menu.ErrMissing) {
		t.Errorf("got %v, want %v", err, menu.ErrMissing)
	}
	if err := os.WriteFile(at("text"), []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"text", "empty"} {
		if x, err := Open(t.Context(), at(name), d); err == nil {
			_ = x.Close()
			t.Errorf("%s was taken for an index", name)
		}
	}
	if err := Build(t.Context(), at("new"), &desk{}, nil); !errors.Is(err, menu.ErrMissing) {
		t.Errorf("no menus: got %v, want %v", err, menu.ErrMissing)
	}
	left, err := filepath.Glob(at("new*"))
	if err != nil || len(left) > 0 {
		t.Errorf("a build that failed left %q", left)
	}

	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Write.ExecContext(t.Context(), "UPDATE place SET at = at - ?", int(menu.KeptChanges.Seconds())+60); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, d); !errors.Is(err, menu.ErrVersion) || !strings.Contains(err.Error(), "90 days old") {
		t.Errorf("an old one: got %v", err)
	}
}

// A build that is killed leaves no index, and the next one is whole.
func TestABuildThatIsKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "search")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), toBuild+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 64)
	if n, err := out.Read(said); err != nil || !strings.HasPrefix(string(said[:n]), "under way") {
		t.Fatalf("got %q and %v", said[:n], err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) == 0 || slices.Contains(left, path) {
		t.Fatalf("there is %q and %v, want what is not done, and no index", left, err)
	}
	// What a server that was killed leaves of an index that was then removed.
	if err := os.WriteFile(path+"-wal", []byte("of another index"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &desk{}
	d.set(of(7, "Shiro"))
	if err := Build(t.Context(), path, d, nil); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(path + "*"); !slices.Equal(left, []string{path}) {
		t.Errorf("there is %q, want the index alone", left)
	}
	if got := find(t, open(t, path, d), "shiro", 10); !slices.Equal(got, []string{"7 Shiro"}) {
		t.Errorf("got %q", got)
	}
}
