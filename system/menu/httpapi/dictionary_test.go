package httpapi_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/block/dictionary"
	"loadstone/system/menu"
	"loadstone/system/menu/httpapi"
	"loadstone/system/menu/menutest"
	"loadstone/system/menu/recordfile"
)

// decoded is the text of what a client with the dictionary f.have got.
func (f fixture) decoded(t *testing.T, body string) string {
	t.Helper()
	if f.have == nil {
		t.Error("a client without a dictionary got dcz")
		return body
	}
	frame, ok := strings.CutPrefix(body, string(f.have.Header()))
	text, err := f.have.Decompress(nil, []byte(frame))
	if !ok || err != nil {
		t.Errorf("what was sent is not of the dictionary: %v", err)
	}
	return string(text)
}

// startRecorded serves a record file of 50 menus, and returns the dictionary and the menus' texts.
func startRecorded(t *testing.T, others ...*dictionary.Dictionary) (fixture, *dictionary.Dictionary, func(id int64) string) {
	t.Helper()
	source, path := menutest.Generator(t, 1, 50), filepath.Join(t.TempDir(), "menus")
	if err := recordfile.Build(t.Context(), path, source, nil, nil); err != nil {
		t.Fatal(err)
	}
	file, err := recordfile.Follow(path, recordfile.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	f := start(t, func(c *httpapi.Config) { c.Store, c.Dictionaries = file, dictionary.NewSet(others...) })
	return f, file.Dictionary(), func(id int64) string {
		m := source.Menu(id)
		return string(m.AppendJSON(nil))
	}
}

func other(t *testing.T, seed uint64) *dictionary.Dictionary {
	t.Helper()
	d, err := menu.TrainDictionary(t.Context(), menutest.Generator(t, seed, 50))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Who has the dictionary gets frames, who could have it learns of it, and the others the text.
func TestDictionaryOnTheWire(t *testing.T) {
	t.Parallel()
	old, foreign := other(t, 2), other(t, 3)
	recorded, now, textOf := startRecorded(t, old)
	database := start(t, func(c *httpapi.Config) { c.Dictionaries = dictionary.NewSet(now, old) })
	const vary = "Accept-Encoding, Available-Dictionary"
	link := "</menu/dictionary/" + now.Name() + `>; rel="compression-dictionary"`
	for _, c := range []struct {
		accept    string
		available *dictionary.Dictionary
		coded     bool
		linked    bool
	}{
		{"", nil, false, false},
		{"", now, false, false},
		{"gzip, br", now, false, false},
		{"gzip, br, zstd", nil, false, true},
		{"dcz", now, true, false},
		{"gzip, br, zstd, dcb, DCZ;q=0.5", now, true, false},
		{"dcz ; q=1", now, true, false},
		{"dcz;q=0", now, false, false},
		{"dcz; q=0.000, zstd", now, false, true},
		{"xdcz", now, false, false},
		{"dcz", nil, false, true},
		{"dcz", old, true, true},
		{"dcz", foreign, false, true},
	} {
		headers := []string{}
		if c.accept != "" {
			headers = append(headers, "Accept-Encoding: "+c.accept)
		}
		if c.available != nil {
			headers = append(headers, "Available-Dictionary: "+c.available.Available())
		}
		for name, f := range map[string]fixture{"record file": recorded, "database": database} {
			f.have = c.available
			want := textOf(7)
			if name == "database" {
				want = seven
			}
			got := f.ask(t, "GET /menu/7", "", headers...)
			coding, tag, linked := "", tagOf(want), ""
			if c.coded {
				coding, tag = "dcz", "W/"+tag
			}
			if c.linked {
				linked = link
			}
			got.want(t, 200, "", "Content-Encoding", coding, "ETag", tag, "Vary", vary, "Link", linked, "Cache-Control", "public, no-cache")
			if c.coded {
				got.Body = f.decoded(t, got.Body)
			}
			if got.Body != want {
				t.Errorf("%s, %q: got %q, want %q", name, c.accept, got.Body, want)
			}
			// A tag of either form is known, whatever the client takes now; and HEAD says what GET would.
			for _, known := range []string{tagOf(want), "W/" + tagOf(want), "*"} {
				f.ask(t, "GET /menu/7", "", append(headers, "If-None-Match: "+known)...).want(t, 304, "", "ETag", tag, "Vary", vary, "Content-Encoding", "")
			}
			head := f.ask(t, "HEAD /menu/7", "", headers...)
			head.want(t, 200, "", "Content-Encoding", coding, "ETag", tag, "Content-Length", got.Header.Get("Content-Length"))
			f.ask(t, "GET /menu/99", "", headers...).want(t, 404, "not_found", "Content-Encoding", "", "Vary", "", "Link", "")
			f.ask(t, "GET /menu/7/metadata", "", headers...).want(t, 200, `"etag"`, "Content-Encoding", "", "Vary", "")
		}
	}
}

// A frame's tag is a condition for writing, as the text's is.
func TestTagOfAFrameIsACondition(t *testing.T) {
	t.Parallel()
	d := other(t, 1)
	f := start(t, func(c *httpapi.Config) { c.Dictionaries = dictionary.NewSet(d) })
	f.have = d
	tag := f.ask(t, "GET /menu/7", "", "Accept-Encoding: dcz", "Available-Dictionary: "+d.Available()).Header.Get("ETag")
	next := strings.Replace(seven, "Shiro", "Tibs", 1)
	f.write(t, "PUT /menu/7", next, "If-Match: "+tag).want(t, 200, "Tibs")
	f.write(t, "PUT /menu/7", next, "If-Match: "+tag).want(t, 412, "")
}

func TestDictionaryIsOffered(t *testing.T) {
	t.Parallel()
	old := other(t, 2)
	recorded, now, _ := startRecorded(t, old)
	for _, d := range []*dictionary.Dictionary{now, old} {
		for _, method := range []string{"GET", "HEAD"} {
			got := recorded.ask(t, method+" /menu/dictionary/"+d.Name(), "")
			got.want(t, 200, "", "Use-As-Dictionary", `match="/menu/*"`, "Cache-Control", "public, max-age=31536000, immutable", "Content-Length", fmt.Sprint(len(d.Content())))
			if method == "GET" && got.Body != string(d.Content()) {
				t.Errorf("got %d bytes, want the dictionary's %d", len(got.Body), len(d.Content()))
			}
		}
	}
	for _, path := range []string{"", strings.ToUpper(now.Name()), now.Name() + "/", strings.Repeat("0", 64)} {
		recorded.ask(t, "GET /menu/dictionary/"+path, "").want(t, 404, "no_such_path")
	}
	// Where there is none, nothing is said of it.
	plain := start(t, nil)
	plain.ask(t, "GET /menu/dictionary/"+now.Name(), "").want(t, 404, "no_such_path")
	plain.ask(t, "GET /menu/7", "", "Accept-Encoding: dcz, zstd", "Available-Dictionary: "+now.Available()).want(t, 200, seven, "Vary", "", "Link", "", "Content-Encoding", "")
}
