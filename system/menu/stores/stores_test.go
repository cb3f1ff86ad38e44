package stores

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"loadstone/block/dataset"
	"loadstone/system/menu"
	"loadstone/system/menu/menutest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Name{
		"pebble:menus":                  {Kind: Pebble, Target: "menus"},
		"record:/a:b":                   {Kind: Record, Target: "/a:b"},
		"postgres://u:s3cret@h/d":       {Kind: Postgres, Target: "postgres://u:s3cret@h/d"},
		"postgresql://h/d":              {Kind: Postgres, Target: "postgresql://h/d"},
		"cassandra://a,b/menus":         {Kind: Cassandra, Target: "cassandra://a,b/menus"},
		"":                              {},
		"pebble:":                       {},
		"record":                        {},
		"PEBBLE:a":                      {},
		"sqlite:a":                      {},
		"redis://u:s3cret@h/d":          {},
		"postgres:s3cret":               {},
		"postgres://u:s3cret@[/d":       {},
		"postgres://:s3cret/":           {},
		"cassandra://u:s3cret@h/menus":  {},
		"cassandra://h/menus?a=s3cret@": {},
		"cassandra://h/":                {},
	} {
		got, err := Parse(text)
		if got != want || (err == nil) != (want != Name{}) {
			t.Errorf("%q: got %+v and %v, want %+v", text, got, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "://") && !strings.Contains(err.Error(), "write")) {
			t.Errorf("%q: got %q, want it to say what to write, without the password", text, err)
		}
		if strings.Contains(got.String(), "s3cret") || strings.Contains(Redact(text), "s3cret") && strings.Contains(text, "://") {
			t.Errorf("%q is shown as %s and %s", text, got, Redact(text))
		}
	}
}

func parse(t *testing.T, text string) Name {
	t.Helper()
	name, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// What is filled is found, in every store: from the generator into a database, from there
// into a file.
func TestFromStoreToStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := menutest.Generator(t, 7, 300)
	from, to := parse(t, "pebble:"+filepath.Join(dir, "menus")), parse(t, "record:"+filepath.Join(dir, "menus.record"))
	if origin, err := from.Imported(t.Context()); origin != "" || err != nil {
		t.Errorf("imported before anything is there: got %q and %v", origin, err)
	}
	if did, err := from.Fill(t.Context(), source, nil); err != nil || did.Kept {
		t.Fatalf("fill the database: got %+v and %v", did, err)
	}
	publish := func() (did menu.Filled) {
		t.Helper()
		if err := from.Read(t.Context(), func(all dataset.Source[menu.Menu]) (err error) {
			did, err = to.Publish(t.Context(), all, nil, nil)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return did
	}
	if did := publish(); did.Kept {
		t.Error("published what was not there: got that it was kept")
	}
	if did := publish(); !did.Kept {
		t.Error("published again: got that it was not kept")
	}
	for _, name := range []Name{from, to} {
		if origin, err := name.Imported(t.Context()); origin != "" || err != nil {
			t.Errorf("%s holds made-up menus: got %q and %v", name, origin, err)
		}
		store, err := name.Open(t.Context(), slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		for id := int64(1); id <= 300; id += 13 {
			want := source.Menu(id)
			if page, err := store.Lookup(t.Context(), id); err != nil || string(page.Body) != string(want.AppendJSON(nil)) {
				t.Errorf("%s, menu %d: got %s and %v", name, id, page.Body, err)
			}
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := from.Publish(t.Context(), source, nil, nil); !errors.Is(err, ErrNoFile) {
		t.Errorf("publish to a database: got %v, want %v", err, ErrNoFile)
	}
	if err := to.Read(t.Context(), func(dataset.Source[menu.Menu]) error { return nil }); !errors.Is(err, ErrNoDatabase) {
		t.Errorf("read a record file: got %v, want %v", err, ErrNoDatabase)
	}
}

// Whose menus are in a store is known, and another's are not put in their place.
func TestImportedStaysWhatItIs(t *testing.T) {
	t.Parallel()
	one := menutest.Generator(t, 1, 1).Menu(1)
	own := menutest.Source{
		Of:    dataset.Meta{Origin: "menus.csv", Fingerprint: "csv 1", Count: 1},
		Menus: func(_ context.Context, yield func(menu.Menu, error) bool) { yield(one, nil) },
	}
	for _, text := range []string{"pebble:" + filepath.Join(t.TempDir(), "menus"), "record:" + filepath.Join(t.TempDir(), "menus")} {
		name := parse(t, text)
		if _, err := name.Fill(t.Context(), own, nil); err != nil {
			t.Fatal(err)
		}
		if origin, err := name.Imported(t.Context()); origin != "menus.csv" || err != nil {
			t.Errorf("%s: got %q and %v, want menus.csv", name, origin, err)
		}
		if _, err := name.Fill(t.Context(), menutest.Generator(t, 1, 10), nil); !errors.Is(err, menu.ErrOccupied) {
			t.Errorf("%s: made-up menus in place of imported ones: got %v, want %v", name, err, menu.ErrOccupied)
		}
	}
}

// Nobody answers, and no password is shown.
func TestADatabaseThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	name := parse(t, "postgres://u:s3cret@127.0.0.1:1/menus?sslmode=disable")
	for _, patience := range []time.Duration{3 * retryPause, 1} { // which ends between attempts, or in the first
		_, err := name.open(t.Context(), patience, prometheus.NewRegistry())
		if !errors.Is(err, menu.ErrUnavailable) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v: got %v, want %v without the password", patience, err, menu.ErrUnavailable)
		}
	}
}

// Whoever serves or reads a database that is not there misspelt it: nothing is made.
func TestADatabaseThatIsNotThere(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "typo")
	name, err := Parse("pebble:" + dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := name.Open(t.Context(), slog.New(slog.DiscardHandler), prometheus.NewRegistry()); !errors.Is(err, menu.ErrMissing) || !strings.Contains(err.Error(), "menu seed") {
		t.Errorf("got %v, want ErrMissing and what makes one", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory: %v, want none", err)
	}
}
