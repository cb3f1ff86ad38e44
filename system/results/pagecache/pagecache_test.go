package pagecache

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func FuzzDecode(f *testing.F) {
	student := resultstest.Generator(f, 1, 10).Student(3)
	good := encode(nil, kept{results.NewPage(&student), 300})
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte{})
	f.Add([]byte("\x01........\xff"))
	f.Add([]byte("{\"id\":3}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		page, err := decode(data)
		if err != nil {
			return
		}
		again, err := decode(encode(nil, page))
		if results.Tag(page.Body) != page.Tag || err != nil || again.revision != page.revision || !resultstest.SamePage(again.Page, page.Page) {
			t.Errorf("%q is read as %+v", data, page)
		}
	})
}

func TestDecode(t *testing.T) {
	t.Parallel()
	student := resultstest.Generator(t, 1, 10).Student(3)
	page := results.NewPage(&student)
	good := encode([]byte("before"), kept{page, 3})[len("before"):]
	got, err := decode(bytes.Clone(good))
	if err != nil || !resultstest.SamePage(got.Page, page) || got.revision != 3 {
		t.Errorf("got %+v and %v, want the page as it was", got, err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x40
		// The revision's and the code's own bytes are not covered: whoever writes them
		// into Redis can write pages, too.
		if i >= header && i < header+1+len(page.Code) {
			continue
		}
		if _, err := decode(bad); err == nil {
			t.Errorf("byte %d changed: got no error", i)
		}
		if _, err := decode(good[:i]); err == nil {
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
