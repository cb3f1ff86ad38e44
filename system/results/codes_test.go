package results

import (
	"strings"
	"testing"
)

func TestCodeOpens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given, stored string
		want          bool
	}{
		{"ABCDEFGH", "ABCDEFGH", true},
		{"abcdefgh", "ABCDEFGH", true},
		{"ABCDEFGH", "abcdefgh", true},
		{" abcd-ef gh ", "ABCDEFGH", true},
		{"ABCDEFGH", "A-B-C-D-E-F-G-H", true},
		{"ABCDEFGI", "ABCDEFGH", false},
		{"ABCDEFG", "ABCDEFGH", false},
		{"ABCDEFGHI", "ABCDEFGH", false},
		{"ABCDEFGH\x00", "ABCDEFGH", false},
		{"", "ABCDEFGH", false},
		{"ABCDEFGH", "", false},
		{"", "", false},
		{"- -", "", false},
		{"1", "1-------", false},
		{"1-------", "1-------", false},
		{"ABCDEFG", "ABCDEFG", false},
		{"----------", "----------", false},
		{strings.Repeat("A", MaxCodeBytes), strings.Repeat("a", MaxCodeBytes), true},
		{strings.Repeat("A", MaxCodeBytes+1), strings.Repeat("A", MaxCodeBytes+1), false},
		{strings.Repeat("A", MaxCodeBytes+1), strings.Repeat("A", MaxCodeBytes), false},
		{"{bcdefgh", "[BCDEFGH", false}, // only letters have two cases
		{"\xe1bcdefgh", "\xc1BCDEFGH", false},
	} {
		if got := CodeOpens([]byte(c.given), []byte(c.stored)); got != c.want {
			t.Errorf("code %q for %q: got %v, want %v", c.given, c.stored, got, c.want)
		}
	}
}

// FuzzCodeOpens compares with the rule written down plainly.
func FuzzCodeOpens(f *testing.F) {
	f.Add("7QX4-M2KD-90AZ", "7QX4M2KD90AZ")
	f.Add("", "")
	f.Add("a\x00", "a")
	f.Add("1-------", "1")
	f.Add("\xc3\xa4", "\xc3\x84")
	f.Fuzz(func(t *testing.T, given, stored string) {
		g, s := plainly(given), plainly(stored)
		want := g == s && len(g) >= MinCodeChars && len(g) <= MaxCodeBytes
		if got := CodeOpens([]byte(given), []byte(stored)); got != want {
			t.Errorf("code %q for %q: got %v, want %v", given, stored, got, want)
		}
	})
}

func plainly(code string) string {
	code = strings.ReplaceAll(strings.ReplaceAll(code, " ", ""), "-", "")
	for c := 'a'; c <= 'z'; c++ {
		code = strings.ReplaceAll(code, string(c), string(c-'a'+'A'))
	}
	return code
}
