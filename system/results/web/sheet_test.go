package web

import (
	"html"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/valyala/fasthttp"
)

// Every hole is where one escape is right: in text, or in a quoted attribute
// that holds no address, no script and no style.
func TestHoles(t *testing.T) {
	t.Parallel()
	attribute := regexp.MustCompile(` (value|width|content)="$`)
	for _, e := range newSite(t, nil).editions {
		for p, s := range e.sheets {
			before := ""
			for i := range s.holes {
				before += s.parts[i]
				switch open := before[strings.LastIndexAny(before, "<>"):]; {
				case open[0] == '>' && !strings.HasSuffix(before, "<style>") && !strings.HasSuffix(before, "<script>"):
				case attribute.MatchString(open):
				default:
					t.Errorf("%s, page %s: hole %s stands after %q", e.code, designs[p].name, holeNames[s.holes[i]], open)
				}
			}
		}
	}
}

func TestNewSheet(t *testing.T) {
	t.Parallel()
	if _, err := newSheet("a @@id@@ b @@nothing@@ c"); err == nil {
		t.Error("got no error for a hole that does not exist")
	}
	if _, err := newSheet("a @@id b"); err == nil {
		t.Error("got no error for an open hole")
	}
	s, err := newSheet("<@@id@@|@@name@@@@id@@>")
	if err != nil {
		t.Fatal(err)
	}
	var r fasthttp.Response
	r.SetBodyString("before")
	s.write(&r, &values{holeID: "7", holeName: "<&>"})
	if got, want := string(r.Body()), "<7|&lt;&amp;&gt;7>"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzEscape: what a browser reads is what was meant, and no character that
// means something in HTML is left.
func FuzzEscape(f *testing.F) {
	for _, seed := range []string{"", "plain", `<a href="x">'&amp;`, "\x00\x1f\x7f\u0085", "\xff\xc0\x80", "ሰላም", "&#0;&#x3c;"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := string(appendEscaped(nil, text))
		if clean(text) && got != text {
			t.Errorf("%q is clean and becomes %q", text, got)
		}
		if strings.ContainsAny(got, "<>\"'\x00") || !utf8.ValidString(got) {
			t.Errorf("%q becomes %q", text, got)
		}
		want := strings.Map(func(c rune) rune {
			if c < ' ' || (c >= 0x7f && c < 0xa0) {
				return utf8.RuneError
			}
			return c
		}, strings.ToValidUTF8(text, "\x00"))
		// ToValidUTF8 makes one of a run of bad bytes, ranging one of each.
		if squeeze(html.UnescapeString(got)) != squeeze(want) {
			t.Errorf("%q is read as %q, want %q", text, html.UnescapeString(got), want)
		}
	})
}

func squeeze(text string) string {
	return regexp.MustCompile("\uFFFD+").ReplaceAllString(text, "\uFFFD")
}
