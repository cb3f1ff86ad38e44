package objects

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"loadstone/block/servertest"
)

func TestMain(m *testing.M) {
	if runAsWriter() {
		return
	}
	goleak.VerifyTestMain(m)
}

// places are the stores, each opened as often as a test wants.
var places = map[string]func(t *testing.T) (open func() Store){
	"directory": func(t *testing.T) func() Store {
		path := filepath.Join(t.TempDir(), "objects")
		return func() Store {
			d, err := OpenDirectory(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			return d
		}
	},
	"s3": func(t *testing.T) func() Store {
		s := servertest.S3(t)
		return func() Store { return openS3(t, s, s.URL+"/a/prefix") }
	},
}

func openS3(t *testing.T, s *servertest.S3Server, url string) *S3 {
	t.Helper()
	cfg := DefaultS3Config()
	cfg.URL, cfg.AccessKey, cfg.SecretKey = url, s.AccessKey, s.SecretKey
	store, err := OpenS3(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// The suite that each store passes.
func TestStores(t *testing.T) {
	t.Parallel()
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := place(t)
			for what, test := range map[string]func(t *testing.T, open func() Store){
				"writes depend on what is there": testConditions, "lists": testLists, "wrong names": testNames,
				"nobody's write is lost": testCounter, "one creates": testOneCreates, "an ended context": testContext,
			} {
				t.Run(what, func(t *testing.T) { test(t, open) })
			}
		})
	}
}

func put(t *testing.T, s Store, name, body string, was Tag) Tag {
	t.Helper()
	tag, err := s.Put(t.Context(), name, []byte(body), was)
	if err != nil || tag == Absent {
		t.Fatalf("%s: tag %q and %v", name, tag, err)
	}
	return tag
}

func holds(t *testing.T, s Store, name, want string, tag Tag) {
	t.Helper()
	body, now, err := s.Get(t.Context(), name)
	if err != nil || string(body) != want || now != tag {
		t.Errorf("%s: got %.40q with tag %s and %v, want %.40q with %s", name, body, now, err, want, tag)
	}
}

func testConditions(t *testing.T, open func() Store) {
	s, ctx := open(), t.Context()
	if _, _, err := s.Get(ctx, "c/one"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "c/one") {
		t.Errorf("what is not there: got %v", err)
	}
	first := put(t, s, "c/one", "first", Absent)
	for _, was := range []Tag{Absent, "0123456789abcdef0123456789abcdef"} {
		if _, err := s.Put(ctx, "c/one", []byte("wrong"), was); !errors.Is(err, ErrChanged) {
			t.Errorf("in place of %q: got %v", was, err)
		}
	}
	if _, err := s.Put(ctx, "c/none", []byte("wrong"), first); !errors.Is(err, ErrChanged) {
		t.Errorf("in place of one that is not there: got %v", err)
	}
	holds(t, s, "c/one", "first", first)
	second := put(t, s, "c/one", "second", first)
	if second == first {
		t.Error("two contents have one tag")
	}
	holds(t, open(), "c/one", "second", second)
	for range 2 {
		if err := s.Delete(ctx, "c/one"); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Put(ctx, "c/one", []byte("wrong"), second); !errors.Is(err, ErrChanged) {
		t.Errorf("in place of what was deleted: got %v", err)
	}
	large := make([]byte, 5<<20+1)
	rand.Read(large)
	holds(t, s, "c/one", string(large), put(t, s, "c/one", string(large), Absent))
	holds(t, s, "c/empty", "", put(t, s, "c/empty", "", Absent))
}

func testLists(t *testing.T, open func() Store) {
	s := open()
	want := []string{"l/a-b", "l/a/b/c", "l/a/d", "l/ab", "l/b"}
	for _, name := range want {
		put(t, s, name, name, Absent)
	}
	for prefix, want := range map[string][]string{
		"l/": want, "l/a": want[:4], "l/a/": want[1:3], "l/b": want[4:], "l/none/": nil, "l/b/": nil,
	} {
		if got, err := s.List(t.Context(), prefix); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q and %v, want %q", prefix, got, err, want)
		}
	}
	if all, err := s.List(t.Context(), ""); err != nil || !slices.Contains(all, "l/a/d") || slices.ContainsFunc(all, func(name string) bool { return check(name, nil) != nil }) {
		t.Errorf("all: got %q and %v", all, err)
	}
	// A directory is no object.
	if _, _, err := s.Get(t.Context(), "l/a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if err := s.Delete(t.Context(), "l/a"); err != nil {
		t.Error(err)
	}
	holds(t, s, "l/a/d", "l/a/d", put(t, s, "l/a/d", "l/a/d", tag(t, s, "l/a/d")))
}

func tag(t *testing.T, s Store, name string) Tag {
	t.Helper()
	_, tag, err := s.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

func testNames(t *testing.T, open func() Store) {
	s := open()
	for _, name := range []string{"", "/", "/a", "a/", "a//b", "..", "a/../b", "./a", ".lock", "a/.b", "a b", "a\nb", "ä", "a\x00", "a?b", strings.Repeat("a", 513)} {
		_, putErr := s.Put(t.Context(), name, nil, Absent)
		_, _, getErr := s.Get(t.Context(), name)
		for _, err := range []error{putErr, getErr, s.Delete(t.Context(), name)} {
			if err == nil || !strings.Contains(err.Error(), "write words of letters") {
				t.Errorf("%q: got %v", name, err)
			}
		}
	}
	if _, err := s.Put(t.Context(), "large", make([]byte, MaxSize+1), Absent); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v", err)
	}
}

// Several writers, each with a store of its own, add to one number as often as they say they did.
func testCounter(t *testing.T, open func() Store) {
	const writers, each = 6, 8
	put(t, open(), "counter", "0", Absent)
	var group sync.WaitGroup
	for range writers {
		s := open()
		group.Go(func() {
			for range each {
				for {
					body, tag, err := s.Get(t.Context(), "counter")
					if err != nil {
						t.Error(err)
						return
					}
					n, _ := strconv.Atoi(string(body))
					_, err = s.Put(t.Context(), "counter", []byte(strconv.Itoa(n+1)), tag)
					if err == nil {
						break
					}
					if !errors.Is(err, ErrChanged) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	group.Wait()
	holds(t, open(), "counter", strconv.Itoa(writers*each), tag(t, open(), "counter"))
}

// Of several who create an object one succeeds, and who reads meanwhile gets nothing or all of it.
func testOneCreates(t *testing.T, open func() Store) {
	for round := range 5 {
		name := fmt.Sprint("created/", round)
		var mu sync.Mutex
		var made []byte
		var group sync.WaitGroup
		for n := range 4 {
			s := open()
			body := bytes.Repeat([]byte{byte('a' + n)}, 300_000)
			group.Go(func() {
				_, err := s.Put(t.Context(), name, body, Absent)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && made == nil:
					made = body
				case !errors.Is(err, ErrChanged):
					t.Errorf("a second one: %v", err)
				}
			})
			group.Go(func() {
				for {
					body, _, err := s.Get(t.Context(), name)
					if errors.Is(err, ErrNotFound) && !t.Failed() {
						continue
					}
					if err != nil || len(body) != 300_000 || len(bytes.Trim(body, string(body[:1]))) > 0 {
						t.Errorf("read %d bytes and %v", len(body), err)
					}
					return
				}
			})
		}
		group.Wait()
		holds(t, open(), name, string(made), tag(t, open(), name))
	}
}

func testContext(t *testing.T, open func() Store) {
	s := open()
	put(t, s, "context", "it", Absent)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, getErr := s.Get(ctx, "context")
	_, putErr := s.Put(ctx, "new", nil, Absent)
	_, listErr := s.List(ctx, "")
	for _, err := range []error{getErr, putErr, listErr, s.Delete(ctx, "context")} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	holds(t, s, "context", "it", tag(t, s, "context"))
}
