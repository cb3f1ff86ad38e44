package stores

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Name{
		"sqlite:feed.db":          {path: "feed.db"},
		"sqlite:/a:b":             {path: "/a:b"},
		"postgres://u:s3cret@h/d": {address: "postgres://u:s3cret@h/d"},
		"postgresql://h/d":        {address: "postgresql://h/d"},
		"":                        {},
		"sqlite:":                 {},
		"SQLITE:a":                {},
		"pebble:a":                {},
		"redis://u:s3cret@h/d":    {},
		"postgres:s3cret":         {},
		"postgres://u:s3cret@[/d": {},
	} {
		got, err := Parse(text)
		if got != want || (err == nil) != (want != Name{}) {
			t.Errorf("%q: got %+v and %v, want %+v", text, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") || strings.Contains(got.String(), "s3cret") {
			t.Errorf("%q is shown as %s and %v", text, got, err)
		}
	}
}

func TestAMisspeltFileIsNotMade(t *testing.T) {
	t.Parallel()
	name, err := Parse("sqlite:" + filepath.Join(t.TempDir(), "feed.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := name.Open(t.Context(), nil); !errors.Is(err, feed.ErrMissing) {
		t.Errorf("got %v, want ErrMissing", err)
	}
	store, err := name.Make(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Fill(t.Context(), feedtest.Generator(t, 1, 1), nil)
	if err = errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	if store, err = name.Open(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// TestWhatCannotBeAFile: it is told at once, and not waited for as a database is.
func TestWhatCannotBeAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, want := range map[string]string{"none/feed.db": "there is no directory " + dir + "/none: make it first", ".": "open the feed in " + dir} {
		name, err := Parse("sqlite:" + filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), openTimeout/2)
		if _, err := name.Make(ctx, nil); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v, want %s", path, err, ctx.Err(), want)
		}
		cancel()
	}
}

func TestFew(t *testing.T) {
	t.Parallel()
	name, err := Parse("postgres://noor@127.0.0.1/feed")
	if err != nil {
		t.Fatal(err)
	}
	if few, many := name.Few().database(nil), name.database(nil); few.Connections != 2 || many.Connections < 4 || few.URL != many.URL {
		t.Errorf("got %+v and %+v", few, many)
	}
}

// Whoever starts beside a database that does not get to answer asks again, and tells at once what it answers.
func TestAnswer(t *testing.T) {
	asked := 0
	answer, err := Answer(t.Context(), func(context.Context) (string, error) {
		if asked++; asked < 3 {
			return "", fmt.Errorf("%w: timeout", feed.ErrUnavailable)
		}
		return "posts", nil
	})
	if answer != "posts" || err != nil || asked != 3 {
		t.Errorf("got %q and %v after %d attempts, want posts after 3", answer, err, asked)
	}
	asked = 0
	_, err = Answer(t.Context(), func(context.Context) (string, error) {
		asked++
		return "", feed.ErrMissing
	})
	if !errors.Is(err, feed.ErrMissing) || asked != 1 {
		t.Errorf("got %v after %d attempts, want ErrMissing after 1", err, asked)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Answer(ctx, func(context.Context) (string, error) {
		cancel()
		return "", feed.ErrUnavailable
	})
	if !errors.Is(err, feed.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v from who is stopped meanwhile, want both reasons", err)
	}
}
