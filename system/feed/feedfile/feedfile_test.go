package feedfile

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
	"loadstone/system/feed/sqlitestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// read returns the posts of a file.
func read(t *testing.T, path string) ([]feed.Entry, error) {
	t.Helper()
	f, err := Open(t.Context(), path)
	if err != nil {
		return nil, err
	}
	var all []feed.Entry
	for e, err := range f.All(t.Context()) {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	if f.Meta().Count != int64(len(all)) || f.Meta().Check() != nil {
		t.Errorf("%d posts, and the file is said to have %+v", len(all), f.Meta())
	}
	return all, nil
}

const (
	header = "id,published,title,text,author_id,author\n"
	row    = `1,2026-01-31T08:00:00Z,Hello,"two
lines, ""quoted""",7,Noor` + "\n"
	line = `{"id":1,"published":"2026-01-31T08:00:00Z","title":"Hello","text":"two\nlines, \"quoted\"","author":{"id":7,"name":"Noor"}}` + "\n"
)

// Both formats say the same.
func TestFormats(t *testing.T) {
	t.Parallel()
	fromCSV, err := read(t, write(t, "a.csv", "\xef\xbb\xbf"+header+row))
	if err != nil || len(fromCSV) != 1 {
		t.Fatalf("got %+v and %v", fromCSV, err)
	}
	fromJSON, err := read(t, write(t, "a.jsonl", "\xef\xbb\xbf\n"+line+" \n"))
	if err != nil || len(fromJSON) != 1 {
		t.Fatalf("got %+v and %v", fromJSON, err)
	}
	if c, j := fromCSV[0], fromJSON[0]; c.Post != j.Post || c.Author != j.Author || c.Published != 1769846400000 {
		t.Errorf("CSV has %+v\nJSON has %+v", c, j)
	}
	whole := strings.Replace(line, `"title"`, `"pinned":true,"media":[{"kind":"video","url":"https://a.example/v","alt":"a"}],`+
		`"reactions":[{"kind":"like","count":3},{"kind":"🎉","count":4}],"comments":[{"author":"Olga","published":"2026-01-31T09:00:00+01:00","text":"❤️"}],"title"`, 1)
	all, err := read(t, write(t, "b.jsonl", whole))
	if err != nil || len(all) != 1 {
		t.Fatalf("got %+v and %v", all, err)
	}
	if e := all[0]; !e.Pinned || e.Post.Media != 1 || e.Post.Comments != 1 || e.Post.Reactions != 7 || e.Comments[0].Published != e.Published || e.Media[0].Kind != "video" {
		t.Errorf("got %+v", e)
	}
	all, err = read(t, write(t, "b.csv", "alt,image,pinned,"+header+"A dog,https://a.example/1.jpg,true,"+row))
	if err != nil || len(all) != 1 || !all[0].Pinned || all[0].Media[0] != (feed.Medium{Kind: "image", URL: "https://a.example/1.jpg", Alt: "A dog"}) {
		t.Errorf("got %+v and %v", all, err)
	}
}

// Each mistake is told with its line, and what to write instead.
func TestMistakes(t *testing.T) {
	t.Parallel()
	second := strings.Replace(row, "1,", "2,", 1)
	for name, c := range map[string]struct{ file, text, want string }{
		"no format":       {"a.txt", "", "name it .jsonl for JSON lines or .csv"},
		"empty":           {"a.csv", "", "there are no posts"},
		"only a header":   {"a.csv", header, "there are no posts"},
		"no column":       {"a.csv", "id,published,title,text,author\n", "line 1: column author_id is missing"},
		"unknown column":  {"a.csv", "colour," + header, `line 1: column "colour" is unknown or there twice`},
		"column twice":    {"a.csv", "id," + header, `line 1: column "id" is unknown or there twice`},
		"fields":          {"a.csv", header + row + "2,3\n", "line 4: the row has 2 fields, the header 6"},
		"quotes":          {"a.csv", header + `1,"a"b` + "\n", "line 2: the quotes are wrong"},
		"no number":       {"a.csv", header + row + strings.Replace(second, "2,", "x,", 1), `line 4: id is "x": write 1 to 18 digits`},
		"no time":         {"a.csv", header + strings.Replace(row, "2026-01-31T08:00:00Z", "yesterday", 1), `line 2: published is "yesterday": write a time such as`},
		"not pinned":      {"a.csv", "pinned," + header + "maybe," + row, `pinned is "maybe": write true or false`},
		"id twice":        {"a.csv", header + row + row, "line 4: post 1 was in line 2 already"},
		"two authors":     {"a.csv", header + row + strings.Replace(second, "Noor", "Olga", 1), "line 4: author 7 is somebody else than in line 2"},
		"no JSON":         {"a.jsonl", line + "nothing\n", "line 2: byte 2: "},
		"a list":          {"a.jsonl", "[]\n", "line 1: this is no post: write one JSON object a line"},
		"unknown name":    {"a.jsonl", strings.Replace(line, "title", "titel", 1), `line 1: "/titel" is not known: leave it out`},
		"wrong kind":      {"a.jsonl", strings.Replace(line, `"id":1`, `"id":"1"`, 1), `line 1: "/id" has the wrong kind of value`},
		"missing time":    {"a.jsonl", strings.Replace(line, `"published":"2026-01-31T08:00:00Z",`, "", 1), "line 1: published of the post or of a comment is missing"},
		"several":         {"a.jsonl", strings.Replace(strings.Replace(line, "Hello", "", 1), "Noor", " Noor", 1), "line 1: title is empty: write one\nline 1: author.name is \" Noor\""},
		"a name twice":    {"a.jsonl", strings.Replace(line, `"id":1`, `"id":1,"id":2`, 1), "line 1: "},
		"behind each":     {"a.jsonl", strings.TrimSpace(line) + line, "line 1: "},
		"nested too deep": {"a.jsonl", strings.Replace(line, `"id":1`, `"media":`+strings.Repeat("[", 20_000), 1), "line 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read(t, write(t, c.file, c.text))
			if !errors.Is(err, feed.ErrInput) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	t.Run("of many the first are told", func(t *testing.T) {
		t.Parallel()
		_, err := read(t, write(t, "a.jsonl", strings.Repeat("x\n", 1000)))
		if err == nil || strings.Count(err.Error(), "\nline ") != maxMistakes {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a quote that is never closed", func(t *testing.T) {
		t.Parallel()
		_, err := read(t, write(t, "a.csv", header+`1,"`+strings.Repeat("x", MaxLineBytes+1<<20)))
		if !errors.Is(err, feed.ErrInput) || !strings.Contains(err.Error(), "look for a quote that is not closed") {
			t.Errorf("got %v", err)
		}
	})
	if _, err := Open(t.Context(), "none.csv"); !errors.Is(err, feed.ErrInput) {
		t.Errorf("no file: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, write(t, "a.csv", header+row)); !errors.Is(err, context.Canceled) {
		t.Errorf("the context has ended: got %v", err)
	}
}

// A file that changes between its two readings is not taken for what was checked.
func TestChangedFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{header, header + row + strings.Replace(row, "1,", "2,", 1), header + strings.Replace(row, "Hello", "Other", 1), header + "x"} {
		path := write(t, "a.csv", header+row)
		f, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var last error
		for _, last = range f.All(t.Context()) {
		}
		if !errors.Is(last, errChanged) {
			t.Errorf("%q: got %v", text, last)
		}
	}
}

// What Write writes is what Open reads, and the other way round.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	desk := func(name string) *sqlitestore.Store {
		s, err := sqlitestore.Open(ctx, filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	first, second := desk("first"), desk("second")
	odd := feedtest.Odd(999, 1234, feed.MaxComments)
	bare := feedtest.Odd(1000, 5, 0)
	bare.Media, bare.Reactions = nil, nil
	_, err := first.Fill(ctx, feedtest.Generator(t, 3, 200), nil)
	if err := errors.Join(err, first.Put(ctx, &odd), first.Put(ctx, &bare), first.Delete(ctx, 17)); err != nil {
		t.Fatal(err)
	}
	text := func(s *sqlitestore.Store) string {
		var b strings.Builder
		if err := Write(ctx, &b, s, nil); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	written := text(first)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(written)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	if strings.Count(written, "\n") != 201 {
		t.Errorf("got %d lines", strings.Count(written, "\n"))
	}
	path := write(t, "posts.jsonl.gz", zipped.String())
	f, err := Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Fill(ctx, f, nil); err != nil {
		t.Fatal(err)
	}
	if again := text(second); again != written {
		t.Errorf("got %.500s\nwant %.500s", again, written)
	}
	for at := feed.Start; ; {
		a, errA := first.Page(ctx, at, 50)
		b, errB := second.Page(ctx, at, 50)
		if errA != nil || errB != nil || !slices.Equal(a, b) {
			t.Fatalf("got %+v and %v\nwant %+v and %v", b, errB, a, errA)
		}
		if len(a) < 50 {
			break
		}
		at = a[49].Position()
	}
	for name, text := range map[string]string{"cut.jsonl.gz": zipped.String()[:zipped.Len()-9], "plain.jsonl.gz": written, "empty.csv.gz": ""} {
		if _, err := Open(ctx, write(t, name, text)); !errors.Is(err, feed.ErrInput) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Whatever a file has, reading it ends, and what is read is valid.
func FuzzFile(f *testing.F) {
	f.Add("a.csv", header+row)
	f.Add("a.jsonl", line)
	f.Fuzz(func(t *testing.T, name, text string) {
		if name != "a.csv" {
			name = "a.jsonl"
		}
		all, err := read(t, write(t, name, text))
		if err == nil && len(all) == 0 {
			t.Error("no posts, and no error")
		}
		for i := range all {
			if err := all[i].Validate(); err != nil {
				t.Error(err)
			}
			line, err := all[i].Line()
			if err != nil {
				t.Fatal(err)
			}
			again, err := feed.ParseLine(line)
			if second, errLine := again.Line(); err != nil || errLine != nil || again.Post != all[i].Post || !bytes.Equal(second, line) {
				t.Errorf("%s became %s, %v, %v", line, second, err, errLine)
			}
		}
	})
}
