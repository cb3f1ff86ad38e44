package pagecache

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"loadstone/block/dataset"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSets(t *testing.T) {
	t.Parallel()
	meta := dataset.Meta{Origin: "four.csv (0a1b)", Fingerprint: "f", Count: 4}
	revised := meta.Revised(12, "g")
	if SetOf(meta) != SetOf(revised) {
		t.Error("a correction in place makes another data set of a database")
	}
	if SnapshotSetOf(meta) == SnapshotSetOf(revised) {
		t.Error("a corrected snapshot is taken for the one before")
	}
	more, other := meta, meta
	more.Count++
	other.Origin = "five.csv (0a1b)"
	if SetOf(meta) == SetOf(more) || SetOf(meta) == SetOf(other) || SetOf(meta) == SnapshotSetOf(meta) {
		t.Error("different data sets are taken for the same")
	}
}

func TestParseKeyRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", ":", "1", "1:", ":1", "1:0", "1:-1", "1:01", "A:1", "01:1", "1:2:3", "1:9999999999999999999", "zzzzzzzzzzzzzzz:1", "!:1"} {
		if got, err := ParseKey(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func FuzzKey(f *testing.F) {
	f.Add("0:1")
	f.Add("3w5e11264sgsf:999999999999999999")
	f.Add("3w5e11264sgsg:1")
	f.Fuzz(func(t *testing.T, text string) {
		if key, err := ParseKey(text); err == nil && key.Text() != text {
			t.Errorf("got %q, want %q", key.Text(), text)
		}
	})
}

func FuzzDecode(f *testing.F) {
	student := resultstest.Generator(f, 1, 10).Student(3)
	good := Encode(nil, results.NewPage(&student))
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte{})
	f.Add([]byte("\x01........\xff"))
	f.Add([]byte("{\"id\":3}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		page, err := Decode(data)
		if err != nil {
			return
		}
		if results.Tag(page.Body) != page.Tag || !bytes.Equal(Encode(nil, page), data) {
			t.Errorf("%q is read as %+v", data, page)
		}
	})
}

func TestDecode(t *testing.T) {
	t.Parallel()
	student := resultstest.Generator(t, 1, 10).Student(3)
	page := results.NewPage(&student)
	good := Encode([]byte("before"), page)[len("before"):]
	got, err := Decode(bytes.Clone(good))
	if err != nil || string(got.Body) != string(page.Body) || string(got.Code) != string(page.Code) || got.Tag != page.Tag {
		t.Errorf("got %+v and %v, want the page as it was", got, err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x40
		// A code's own bytes are not covered: whoever writes codes into Redis can
		// write pages, too.
		if i >= header && i < header+len(page.Code) {
			continue
		}
		if _, err := Decode(bad); err == nil {
			t.Errorf("byte %d changed: got no error", i)
		}
		if _, err := Decode(good[:i]); err == nil {
			t.Errorf("cut after %d bytes: got no error", i)
		}
	}
}

func TestRedisURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][3]string{
		"redis://cache":                    {"cache:6379", "", ""},
		"redis://cache:7000/":              {"cache:7000", "", ""},
		"redis://u:se%2Fcret@[::1]:7000":   {"[::1]:7000", "u", "se/cret"},
		"redis://:secret@127.0.0.1":        {"127.0.0.1:6379", "", "secret"},
		"redis://u:secret@cache/0":         {},
		"redis://u:secret@cache?db=1":      {},
		"rediss://u:secret@cache":          {},
		"cache:6379":                       {},
		"":                                 {},
		"redis://u:secret@":                {},
		"redis://u:secret@h:port":          {},
		"redis://u:se%cret@h":              {},
		"redis://u:secret@cache/#fragment": {},
	} {
		cfg, err := TierConfig(text, prometheus.NewRegistry())
		if (err == nil) != (want[0] != "") || [3]string{cfg.Addr, cfg.Username, cfg.Password} != want {
			t.Errorf("%s: got %s, %s, %s and %v, want %q", text, cfg.Addr, cfg.Username, cfg.Password, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "cret") || !strings.Contains(err.Error(), RedisForm)) {
			t.Errorf("%s: got %q, want it to say how a Redis is written, without the password", text, err)
		}
		if shown := Redact(text); strings.Contains(shown, "cret") {
			t.Errorf("%s is shown as %s", text, shown)
		}
	}
}
