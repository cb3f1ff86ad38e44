package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"loadstone/lab/term"
)

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
				if term.Columns(line) > width && len(strings.Fields(line)) > 2 && !strings.ContainsAny(line, "✓✗") {
					t.Errorf("%s at %d: got %d columns: %q", name, width, term.Columns(line), line)
				}
			}
		}
	}
}
