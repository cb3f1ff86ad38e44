package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

func TestColumnsCountsCells(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 0, "abc": 3, "≥4,310": 6, "キャッシュ": 10, "e\u0301te\u0301": 3, "🚀": 2, "한국": 4, "–·✓✗×": 5,
	} {
		if got := columns(text); got != want {
			t.Errorf("columns(%q): got %d, want %d", text, got, want)
		}
	}
}

func TestShortenKeepsBothEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"short", 10, "short"},
		{"query-with-three-replicas", 11, "query…licas"},
		{"キャッシュ付きの構成", 9, "キャ…構成"},
		{"anything", 1, "…"},
		{"anything", 0, ""},
	} {
		got := shorten(c.text, c.limit)
		if got != c.want {
			t.Errorf("shorten(%q, %d): got %q, want %q", c.text, c.limit, got, c.want)
		}
		if columns(got) > c.limit {
			t.Errorf("shorten(%q, %d): got %d columns", c.text, c.limit, columns(got))
		}
	}
}

func TestPrintableStopsTerminalControl(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"two\nlines\tand\r tabs", "two lines and  tabs"},
		{"\x1b[2Jgone", "\ufffd[2Jgone"},
		{"\u009b31mred", "\ufffd31mred"},
		{"abc\u202edcb", "abc\ufffddcb"},
		{"ok ✓", "ok ✓"},
	} {
		if got := printable(c.text); got != c.want {
			t.Errorf("printable(%q): got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestTextHidesNoControlCharacters(t *testing.T) {
	t.Parallel()
	r := sampleResult()
	setStrings(r, "\x1b]0;title\x07\x1b[2J\u202e")
	var b bytes.Buffer
	if err := Text(&b, r, Options{Width: 100}); err != nil {
		t.Fatalf("Text: %v", err)
	}
	if strings.ContainsAny(b.String(), "\x1b\x07\u202e") {
		t.Errorf("a control character reached the terminal:\n%q", b.String())
	}
}

var sgr = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func TestColoursDoNotMoveAnything(t *testing.T) {
	t.Parallel()
	for name, c := range textCases() {
		var bare, coloured bytes.Buffer
		if err := Text(&bare, c.result, Options{Width: c.options.Width}); err != nil {
			t.Fatalf("Text: %v", err)
		}
		if err := Text(&coloured, c.result, Options{Width: c.options.Width, Color: true}); err != nil {
			t.Fatalf("Text: %v", err)
		}
		if got := sgr.ReplaceAllString(coloured.String(), ""); got != bare.String() {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, bare.String())
		}
		if name != "empty" && !sgr.MatchString(coloured.String()) {
			t.Errorf("%s: no colours although they were asked for", name)
		}
	}
}

// Lines may be longer than the terminal only where a single word is.
func TestTextKeepsToTheWidth(t *testing.T) {
	t.Parallel()
	for name, c := range textCases() {
		for _, width := range []int{MinWidth, 60, 80, 100, 140} {
			var b bytes.Buffer
			if err := Text(&b, c.result, Options{Width: width}); err != nil {
				t.Fatalf("Text: %v", err)
			}
			for line := range strings.SplitSeq(b.String(), "\n") {
				if strings.HasSuffix(line, " ") {
					t.Errorf("%s at %d: line ends in a blank: %q", name, width, line)
				}
				if columns(line) > width && len(strings.Fields(line)) > 2 && !strings.ContainsAny(line, "✓✗") {
					t.Errorf("%s at %d: got %d columns: %q", name, width, columns(line), line)
				}
			}
		}
	}
}
