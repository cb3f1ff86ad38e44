package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
)

// Of whatever bytes there are nothing is taken for a manifest that cannot be, nor more memory than they say.
func FuzzManifest(f *testing.F) {
	p := publisher(f, directory(f, f.TempDir()), nil)
	publish(f, p, Options{}, texts(3, "a")...)
	s := publish(f, p, Options{}, texts(3, "b")...)
	text, err := json.Marshal(s.Manifest)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("{}"))
	f.Add(bytes.Replace(text, []byte(`"size":`), []byte(`"size":-`), 1))
	f.Fuzz(func(t *testing.T, text []byte) {
		// Its hash is right, or a fuzzer would get no further than to that.
		m, err := decode(fmt.Appendf(nil, `{"sha256":"%s","manifest":%s}`, sum(text), text))
		if err != nil {
			return
		}
		if err := m.check(); err != nil || m.Version == 0 || m.Whole.Size > maxWhole {
			t.Errorf("%+v was taken: %v", m, err)
		}
		if again, err := m.encode(); err != nil {
			t.Error(err)
		} else if _, err := decode(again); err != nil {
			t.Error(err)
		}
	})
}

// A text that claims to be a snapshot, with the right hash, is taken apart as it was put together or not at all.
func FuzzParse(f *testing.F) {
	s := publish(f, publisher(f, directory(f, f.TempDir()), nil), Options{}, texts(3, "a")...)
	f.Add(s.Whole())
	f.Add([]byte(`{"version":1,"pages":[{"page":"a","name":"objects/1/e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":-1}]}` + "\n"))
	f.Fuzz(func(t *testing.T, whole []byte) {
		got, err := Parse(whole, sum(whole))
		if err != nil {
			return
		}
		var again []byte
		for part, body := range got.Parts() {
			if part.Size != len(body) {
				t.Errorf("the page %q has %d bytes, not %d", part.Page, len(body), part.Size)
			}
			again = append(again, body...)
		}
		if !bytes.HasSuffix(whole, again) || len(got.Index())+1+len(again) > len(whole) {
			t.Errorf("%q is not what was put together", whole)
		}
	})
}
