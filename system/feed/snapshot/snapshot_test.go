package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"loadstone/block/dictionary"
	"loadstone/block/objects"
	"loadstone/block/servertest"
)

func TestMain(m *testing.M) {
	if runAsVictim() {
		return
	}
	goleak.VerifyTestMain(m)
}

func directory(t testing.TB, path string) *objects.Directory {
	t.Helper()
	d, err := objects.OpenDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// places are the stores that a snapshot is kept in.
var places = map[string]func(t *testing.T) objects.Store{
	"directory": func(t *testing.T) objects.Store { return directory(t, t.TempDir()) },
	"s3": func(t *testing.T) objects.Store {
		s := servertest.S3(t)
		cfg := objects.DefaultS3Config()
		cfg.URL, cfg.AccessKey, cfg.SecretKey = s.URL, s.AccessKey, s.SecretKey
		store, err := objects.OpenS3(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	},
}

// clock is a publisher's, which the test moves.
type clock struct{ now time.Time }

func publisher(t testing.TB, store objects.Store, c *clock) *Publisher {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Store = store
	if c != nil {
		c.now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
		cfg.Now = func() time.Time { return c.now }
	}
	p, err := NewPublisher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// always is what a source that never changes returns.
func always(pages ...Page) func(context.Context, *Snapshot) ([]Page, error) {
	return func(context.Context, *Snapshot) ([]Page, error) { return pages, nil }
}

// texts are n pages, each with the word.
func texts(n int, word string) (pages []Page) {
	for i := range n {
		pages = append(pages, Page{fmt.Sprintf("pages/%d.json", i+1), fmt.Appendf(nil, `{"page":%d,"text":"%s"}`, i+1, word)})
	}
	return pages
}

func publish(t testing.TB, p *Publisher, o Options, pages ...Page) *Snapshot {
	t.Helper()
	s, err := p.Publish(t.Context(), always(pages...), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func reads(t testing.TB, r *Reader, version uint64, pages []Page) *Snapshot {
	t.Helper()
	s, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Manifest.Version != version || !slices.EqualFunc(s.Pages(), pages, same) {
		t.Fatalf("got version %d with %.200q, want %d with %d pages that begin with %.60q", s.Manifest.Version, s.Whole(), version, len(pages), pages[0].Body)
	}
	return s
}

func count(t testing.TB, store objects.Store) int {
	t.Helper()
	names, err := store.List(t.Context(), objectsBelow)
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestLifeOfASnapshot(t *testing.T) {
	t.Parallel()
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, c, ctx := place(t), &clock{}, t.Context()
			p, r := publisher(t, store, c), NewReader(store)
			if _, err := r.Read(ctx); !errors.Is(err, ErrNone) {
				t.Errorf("got %v", err)
			}
			a, b := texts(8, "a"), texts(8, "b")
			publish(t, p, Options{}, a...)
			first := reads(t, r, 1, a)
			// Nothing changed, nothing is written.
			if s := publish(t, p, Options{}, a...); s.Manifest.Version != 1 {
				t.Errorf("got version %d", s.Manifest.Version)
			}
			if s, err := r.Read(ctx); err != nil || s != first {
				t.Errorf("it was read again: %v", err)
			}
			// A page that is as it was is not written again.
			mixed := append(slices.Clone(a[:7]), b[7])
			before := count(t, store)
			publish(t, p, Options{}, mixed...)
			reads(t, r, 2, mixed)
			if n := count(t, store) - before; n != 3 { // page, index, delta
				t.Errorf("%d objects were written, want 3", n)
			}
			if s, err := p.RollBack(ctx, 1); err != nil || s.Manifest.Version != 3 {
				t.Errorf("got %v", err)
			}
			third := reads(t, r, 3, a)
			if _, err := p.RollBack(ctx, 7); err == nil || !strings.Contains(err.Error(), "version 7 is not kept") {
				t.Errorf("got %v", err)
			}
			// Another publisher, and a reader who has read nothing, see the same.
			publish(t, publisher(t, store, c), Options{}, b...)
			reads(t, r, 4, b)
			reads(t, NewReader(store), 4, b)
			// Who has version 3, and 1, gets along with a delta.
			now := reads(t, r, 4, b)
			for _, was := range []*Snapshot{first, third} {
				i := slices.IndexFunc(now.Manifest.Deltas, func(d Delta) bool { return d.From == was.Manifest.Whole.SHA256 })
				if i < 0 {
					t.Fatalf("there is no delta from version %d: %+v", was.Manifest.Version, now.Manifest.Deltas)
				}
				delta, err := Fetch(ctx, store, now.Manifest.Deltas[i].Object)
				if err != nil {
					t.Fatal(err)
				}
				got, err := Apply(was.Whole(), delta, now.Manifest.Whole)
				if err != nil || !bytes.Equal(got.Whole(), now.Whole()) || got.Manifest.Index != now.Manifest.Index {
					t.Errorf("got %v", err)
				}
				if _, err := Apply(now.Whole(), delta, now.Manifest.Whole); !errors.Is(err, ErrBroken) {
					t.Errorf("a delta from another version: got %v", err)
				}
			}
		})
	}
}

func TestWhatIsNotPublished(t *testing.T) {
	t.Parallel()
	store := directory(t, t.TempDir())
	p, r := publisher(t, store, nil), NewReader(store)
	for want, pages := range map[string][]Page{
		"at least one page": nil, "a name of its own": append(texts(2, "a"), texts(1, "b")...), `the page "../x"`: {{Name: "../x"}},
		`the page ""`: {{}}, `the page "A.json"`: {{Name: "A.json"}}, `the page "a\nb"`: {{Name: "a\nb"}},
		`the page "manifest.json": give it another name`: {{Name: "manifest.json"}}, `the page "objects/1.json": give it another name`: {{Name: "objects/1.json"}},
		`the page "whole/a": give it another name`: {{Name: "whole/a"}},
	} {
		if _, err := p.Publish(t.Context(), always(pages...), Options{Force: true}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	failed := errors.New("the database is away")
	if _, err := p.Publish(t.Context(), func(context.Context, *Snapshot) ([]Page, error) { return nil, failed }, Options{}); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	many := texts(100, strings.Repeat("text ", 50))
	publish(t, p, Options{}, many...)
	if _, err := p.Publish(t.Context(), always(many[:48]...), Options{}); !errors.Is(err, ErrShrank) || !strings.Contains(err.Error(), "force it") {
		t.Errorf("got %v", err)
	}
	reads(t, r, 1, many)
	publish(t, p, Options{}, many[:60]...)
	publish(t, p, Options{Force: true}, many[:1]...)
	reads(t, r, 3, many[:1])
	for _, cfg := range []Config{{}, {Store: store, Now: time.Now, Keep: 25 * time.Hour}, {Store: store, Now: time.Now, Keep: time.Hour, Deltas: 11}} {
		if _, err := NewPublisher(cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}

// Somebody else publishes between a publisher's look at the manifest and its own publication: it has read what is
// old by then, and changes nothing. The same goes for one who purges.
func TestOnePublisherIsSlower(t *testing.T) {
	t.Parallel()
	store := directory(t, t.TempDir())
	slow, fast := publisher(t, store, nil), publisher(t, store, nil)
	r := NewReader(store)
	for version := uint64(1); version < 6; version++ {
		pages := texts(10, fmt.Sprint(version))
		_, err := slow.Publish(t.Context(), func(context.Context, *Snapshot) ([]Page, error) {
			publish(t, fast, Options{Forget: version == 3}, pages...)
			if _, err := fast.Collect(t.Context()); err != nil {
				t.Error(err)
			}
			return append(texts(9, "x"), pages[:1]...)[:9], nil
		}, Options{})
		if !errors.Is(err, ErrSuperseded) {
			t.Errorf("got %v", err)
		}
		reads(t, r, version, pages)
	}
	// What it wrote in vain is collected, all of it by the one who publishes next.
	publish(t, fast, Options{}, texts(10, "end")...)
	if _, err := fast.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	reads(t, NewReader(store), 6, texts(10, "end"))
	if n, err := fast.Collect(t.Context()); n != 0 || err != nil {
		t.Errorf("got %d and %v", n, err)
	}
}

// Who has read a manifest finds its objects for Config.Keep, whatever is published and collected; then they go.
func TestEarlierVersionsAreKept(t *testing.T) {
	t.Parallel()
	store, c := directory(t, t.TempDir()), &clock{}
	p := publisher(t, store, c)
	var manifests []Manifest
	for n := range 20 {
		manifests = append(manifests, publish(t, p, Options{}, texts(5, fmt.Sprint("version ", n+1))...).Manifest)
		if _, err := p.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, m := range manifests {
			_, err := load(t.Context(), store, m.Edition, nil)
			superseded := time.Duration(n+1-int(m.Version)) * 5 * time.Minute // ago, had it been so before the last
			// It was superseded when the next one came, five minutes after it.
			kept := m.Version >= uint64(n+1-p.cfg.Deltas) || superseded-5*time.Minute < p.cfg.Keep
			if kept && err != nil || !kept && !errors.Is(err, objects.ErrNotFound) {
				t.Fatalf("version %d beside %d: kept %v, %v", m.Version, n+1, kept, err)
			}
		}
		c.now = c.now.Add(5 * time.Minute)
	}
	if _, err := p.RollBack(t.Context(), 2); err == nil {
		t.Error("a version that is gone is back")
	}
	if s, err := p.RollBack(t.Context(), 15); err != nil || s.Manifest.Version != 21 {
		t.Error(err)
	}
	reads(t, NewReader(store), 21, texts(5, "version 15"))
}

// A reader who has an old manifest reads the new one when the objects are gone.
func TestReaderFindsObjectsGone(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	p := publisher(t, directory(t, path), nil)
	publish(t, p, Options{}, texts(5, "old")...)
	replaced := false
	r := NewReader(&faulty{Store: directory(t, path), after: func(name string) {
		if name == manifestName && !replaced {
			replaced = true
			publish(t, p, Options{Forget: true}, texts(5, "new")...)
			if _, err := p.Collect(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}})
	reads(t, r, 2, texts(5, "new"))
}

// Once a post is purged there is no object with it, in no version, and no publisher that looked before brings it back.
func TestPurge(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	store := directory(t, path)
	p, late, r := publisher(t, store, nil), publisher(t, store, nil), NewReader(store)
	secret := []byte("to be taken down")
	for n := range 4 {
		pages := texts(10, fmt.Sprint("version ", n))
		pages[n%2].Body = fmt.Appendf(nil, "%s %d", secret, n)
		publish(t, p, Options{}, pages...)
		reads(t, r, uint64(n+1), pages)
	}
	_, err := late.Publish(t.Context(), func(_ context.Context, last *Snapshot) ([]Page, error) {
		pages := append(last.Pages(), Page{"new.json", []byte("new")})
		_, err := p.Purge(t.Context(), func(page Page) []byte { return bytes.ReplaceAll(page.Body, secret, nil) })
		return pages, err
	}, Options{})
	if !errors.Is(err, ErrSuperseded) {
		t.Errorf("got %v", err)
	}
	if _, err := p.Collect(t.Context()); err != nil { // what late wrote
		t.Fatal(err)
	}
	found := 0
	err = filepath.Walk(path, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		found++
		text, err := os.ReadFile(path)
		if bytes.Contains(text, secret) {
			t.Errorf("it is in %s", path)
		}
		return err
	})
	if err != nil || found < 10 {
		t.Errorf("%d files, %v", found, err)
	}
	if s, err := r.Read(t.Context()); err != nil || bytes.Contains(s.Whole(), secret) || s.Manifest.Version != 5 || len(s.Manifest.Earlier) > 0 {
		t.Errorf("got %v", err)
	}
}

// What is to be taken down may be nearly all there is.
func TestPurgeOfMostOfIt(t *testing.T) {
	t.Parallel()
	store := directory(t, t.TempDir())
	p := publisher(t, store, nil)
	pages := texts(10, strings.Repeat("text ", 1000))
	publish(t, p, Options{}, pages...)
	if _, err := p.Purge(t.Context(), func(Page) []byte { return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range pages {
		pages[i].Body = nil
	}
	reads(t, NewReader(store), 2, pages)
}

// One purges while another has read the manifest: at the beginning, or to collect. Both succeed.
func TestPurgeBesideAnother(t *testing.T) {
	t.Parallel()
	for look := range 2 {
		path, looks := t.TempDir(), 0
		store := directory(t, path)
		other := publisher(t, store, nil)
		publish(t, other, Options{}, texts(5, "one two")...)
		remove := func(word string) func(Page) []byte {
			return func(page Page) []byte { return bytes.ReplaceAll(page.Body, []byte(word), []byte("-")) }
		}
		p := publisher(t, &faulty{Store: store, after: func(name string) {
			if name != manifestName {
				return
			}
			if looks++; looks == look+1 {
				if _, err := other.Purge(t.Context(), remove("two")); err != nil {
					t.Error(err)
				}
			}
		}}, nil)
		if _, err := p.Purge(t.Context(), remove("one")); err != nil {
			t.Errorf("look %d: %v", look, err)
		}
		reads(t, NewReader(store), 3, texts(5, "- -"))
		if n := count(t, store); n != 7 { // pages, index, delta
			t.Errorf("look %d: %d objects are left", look, n)
		}
	}
}

// One rolls back, and another purges what it rolls back to while that is read.
func TestRollBackBesidePurge(t *testing.T) {
	t.Parallel()
	store := directory(t, t.TempDir())
	other := publisher(t, store, nil)
	first := publish(t, other, Options{}, texts(5, "first")...)
	publish(t, other, Options{}, texts(5, "second")...)
	p := publisher(t, &faulty{Store: store, after: func(name string) {
		if name != first.Manifest.Index.Name {
			return
		}
		if _, err := other.Purge(t.Context(), func(page Page) []byte { return append(page.Body, '-') }); err != nil {
			t.Error(err)
		}
	}}, nil)
	if _, err := p.RollBack(t.Context(), 1); !errors.Is(err, ErrSuperseded) {
		t.Errorf("got %v, want %v", err, ErrSuperseded)
	}
	if s, err := NewReader(store).Read(t.Context()); err != nil || s.Manifest.Version != 3 {
		t.Errorf("got %v", err)
	}
}

// Somebody has left an object, under the version that comes; before a publisher that needs it has looked at it, it is
// collected, because another one has published that version.
func TestObjectIsCollectedBesidePublisher(t *testing.T) {
	t.Parallel()
	store := directory(t, t.TempDir())
	other := publisher(t, store, nil)
	publish(t, other, Options{}, texts(1, "first")...)
	pages := texts(1, "second")
	left := objectOf(2, pages[0].Body).Name
	if _, err := store.Put(t.Context(), left, pages[0].Body, objects.Absent); err != nil {
		t.Fatal(err)
	}
	p := publisher(t, &faulty{Store: store, fails: func(what, name string) error {
		if what != "get" || name != left {
			return nil
		}
		_, err := other.Publish(t.Context(), always(texts(1, "another second")...), Options{})
		if err == nil {
			_, err = other.Collect(t.Context())
		}
		return err
	}}, nil)
	if _, err := p.Publish(t.Context(), always(pages...), Options{}); !errors.Is(err, ErrSuperseded) {
		t.Errorf("got %v", err)
	}
	reads(t, NewReader(store), 2, texts(1, "another second"))
}

// What is too large for a dictionary is neither read nor kept to make deltas from it.
func TestLargeVersionsHaveNoDeltas(t *testing.T) {
	t.Parallel()
	store := directory(t, t.TempDir())
	var first Object
	p := publisher(t, &faulty{Store: store, fails: func(what, name string) error {
		if what == "get" && name == first.Name {
			t.Error("the first version was read")
		}
		return nil
	}}, nil)
	for n := range 2 {
		s := publish(t, publisher(t, store, nil), Options{}, Page{"large.json", bytes.Repeat([]byte{byte(n)}, dictionary.MaxSize)})
		if n == 0 {
			first = s.Manifest.Index
		}
	}
	publish(t, p, Options{Force: true}, texts(1, "small")...)
	if len(p.latest) != 0 {
		t.Errorf("%d versions are kept", len(p.latest))
	}
}

// faulty is a store that fails, or tells of what it does.
type faulty struct {
	objects.Store
	after func(name string)             // of a Get
	fails func(what, name string) error // nil: it does not
}

func (f *faulty) Get(ctx context.Context, name string) ([]byte, objects.Tag, error) {
	if f.fails != nil {
		if err := f.fails("get", name); err != nil {
			return nil, "", err
		}
	}
	body, tag, err := f.Store.Get(ctx, name)
	if f.after != nil {
		f.after(name)
	}
	return body, tag, err
}

func (f *faulty) Put(ctx context.Context, name string, body []byte, was objects.Tag) (objects.Tag, error) {
	if f.fails != nil {
		if err := f.fails("put", name); err != nil {
			return "", err
		}
	}
	return f.Store.Put(ctx, name, body, was)
}

// The store fails at each of the requests of a publication in turn, and of a reading: what was current is read on, and
// the next attempt does it.
func TestStoreIsDown(t *testing.T) {
	t.Parallel()
	store, down := directory(t, t.TempDir()), errors.New("the store is down")
	var left atomic.Int64 // requests until one fails; none does below 0
	left.Store(-1)
	f := &faulty{Store: store, fails: func(string, string) error {
		if left.Add(-1) == -1 {
			return down
		}
		return nil
	}}
	p, r, own := publisher(t, f, nil), NewReader(f), NewReader(store)
	p.cfg.Deltas = 1
	version, failed := uint64(0), 0
	p.cfg.Now = time.Now
	for n := 0; ; n++ {
		pages := texts(3, fmt.Sprint(n))
		left.Store(int64(n))
		_, err := p.Publish(t.Context(), always(pages...), Options{})
		if left.Load() >= 0 {
			break
		}
		if !errors.Is(err, down) {
			t.Fatalf("request %d failed: got %v", n, err)
		}
		failed++
		if s, err := own.Read(t.Context()); version > 0 && (err != nil || s.Manifest.Version != version) {
			t.Fatalf("got %v", err)
		}
		left.Store(-1)
		publish(t, p, Options{}, pages...)
		version++
		reads(t, own, version, pages)
		left.Store(int64(n % 5))
		if _, err := r.Read(t.Context()); left.Load() < 0 && !errors.Is(err, down) {
			t.Errorf("got %v", err)
		}
		left.Store(-1)
		reads(t, r, version, pages)
	}
	if failed < 7 { // manifest, three pages, index, delta, manifest
		t.Errorf("only %d requests", failed)
	}
}

// Each file in turn has one bit that is another, or ends early. Nobody reads a byte of it, and the next publication
// makes it good.
func TestFlippedBytes(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	store := directory(t, path)
	publish(t, publisher(t, store, nil), Options{}, texts(4, "first")...)
	publish(t, publisher(t, store, nil), Options{}, texts(4, "second")...)
	names, err := store.List(t.Context(), "")
	if err != nil || len(names) < 10 {
		t.Fatalf("%q, %v", names, err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	broken := 0
	for _, name := range names {
		file := filepath.Join(path, name)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 4 {
			wrong := bytes.Clone(text)
			wrong[random.IntN(len(wrong))] ^= 1 << random.IntN(8)
			if n == 3 {
				wrong = wrong[:random.IntN(len(wrong))]
			}
			if err := os.WriteFile(file, wrong, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, ours := versionOf(name); ours {
				if _, err := Fetch(t.Context(), store, Object{name, len(text)}); !errors.Is(err, ErrBroken) {
					t.Errorf("%s: got %v", name, err)
				}
			}
			s, err := NewReader(store).Read(t.Context())
			switch {
			case err == nil:
				reads(t, NewReader(store), s.Manifest.Version, texts(4, "second")) // it was of an earlier version
			case errors.Is(err, ErrBroken):
				broken++
			default:
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if broken != 4*6 { // manifest, index, pages
		t.Errorf("%d were broken, want 24", broken)
	}
	// Each byte of the manifest counts, but for letters of names, which JSON takes in any case.
	raw, err := os.ReadFile(filepath.Join(path, manifestName))
	if err != nil {
		t.Fatal(err)
	}
	right, err := decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		wrong := bytes.Clone(raw)
		wrong[i] ^= 1 << random.IntN(8)
		if m, err := decode(wrong); err == nil && !reflect.DeepEqual(m, right) {
			t.Errorf("%q was taken for %q", wrong, raw)
		}
	}
	mixed := right.Edition
	mixed.Whole.SHA256 = sum(nil)
	if _, err := load(t.Context(), store, mixed, nil); !errors.Is(err, ErrBroken) {
		t.Errorf("a version of other pages: got %v", err)
	}
	// A publisher that goes on makes good what was damaged meanwhile, though it publishes what was there.
	p := publisher(t, store, nil)
	version := uint64(2)
	for n := range 6 {
		s := reads(t, NewReader(store), version, texts(4, "second"))
		name := []string{manifestName, s.Manifest.Index.Name}[n%2]
		if n > 1 {
			name = s.parts[n-2].Name
		}
		if err := os.WriteFile(filepath.Join(path, name), []byte("wrong"), 0o600); err != nil {
			t.Fatal(err)
		}
		if name == manifestName {
			if _, err := p.Publish(t.Context(), always(texts(4, "second")...), Options{}); !errors.Is(err, ErrBroken) {
				t.Errorf("got %v", err)
			}
		}
		now := publish(t, p, Options{Force: name == manifestName}, texts(4, "second")...)
		if now.Manifest.Version <= version {
			t.Errorf("version %d came after %d", now.Manifest.Version, version)
		}
		version = now.Manifest.Version
	}
	reads(t, NewReader(store), version, texts(4, "second"))
	// What somebody has left half written, under the version that comes, is written over.
	page := texts(4, "fourth")[0].Body
	if _, err := store.Put(t.Context(), objectOf(version+1, page).Name, page[:5], objects.Absent); err != nil {
		t.Fatal(err)
	}
	publish(t, p, Options{}, texts(4, "fourth")...)
	version++
	reads(t, NewReader(store), version, texts(4, "fourth"))
	// A manifest that is lost is not begun anew.
	if err := os.Remove(filepath.Join(path, manifestName)); err != nil {
		t.Fatal(err)
	}
	if s := publish(t, p, Options{}, texts(4, "third")...); s.Manifest.Version <= version {
		t.Errorf("version %d came after %d", s.Manifest.Version, version)
	}
}

// A reader does not go back, whatever the store shows it.
func TestReaderDoesNotGoBack(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	store := directory(t, path)
	p, r := publisher(t, store, nil), NewReader(store)
	file := filepath.Join(path, manifestName)
	publish(t, p, Options{}, texts(4, "first")...)
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, p, Options{}, texts(4, "second")...)
	reads(t, r, 2, texts(4, "second"))
	if err := os.WriteFile(file, old, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(t.Context()); !errors.Is(err, ErrOlder) {
		t.Errorf("got %v", err)
	}
	publish(t, publisher(t, store, nil), Options{}, texts(4, "another second")...)
	if _, err := r.Read(t.Context()); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "two versions 2") {
		t.Errorf("got %v", err)
	}
}
