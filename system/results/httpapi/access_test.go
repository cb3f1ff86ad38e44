package httpapi

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestCodeOpens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given, stored string
		want          bool
	}{
		{"ABC", "ABC", true},
		{"abc", "ABC", true},
		{"ABC", "abc", true},
		{" a-b c ", "ABC", true},
		{"ABC", "A-B-C", true},
		{"ABD", "ABC", false},
		{"AB", "ABC", false},
		{"ABCD", "ABC", false},
		{"ABC\x00", "ABC", false},
		{"", "ABC", false},
		{"ABC", "", false},
		{"", "", false},
		{"- -", "", false},
		{strings.Repeat("A", maxCode), strings.Repeat("a", maxCode), true},
		{strings.Repeat("A", maxCode+1), strings.Repeat("A", maxCode+1), false},
		{strings.Repeat("A", maxCode+1), strings.Repeat("A", maxCode), false},
		{"{bc", "[BC", false}, // only letters have two cases
		{"\xe1", "\xc1", false},
	} {
		if got := codeOpens([]byte(c.given), []byte(c.stored)); got != c.want {
			t.Errorf("code %q for %q: got %v, want %v", c.given, c.stored, got, c.want)
		}
	}
}

// FuzzCodeOpens compares with the rule written down plainly.
func FuzzCodeOpens(f *testing.F) {
	f.Add("7QX4-M2KD-90AZ", "7QX4M2KD90AZ")
	f.Add("", "")
	f.Add("a\x00", "a")
	f.Add("\xc3\xa4", "\xc3\x84")
	f.Fuzz(func(t *testing.T, given, stored string) {
		g, s := plainly(given), plainly(stored)
		want := g == s && g != "" && len(g) <= maxCode
		if got := codeOpens([]byte(given), []byte(stored)); got != want {
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

// Who is one connection too many is told so, and not that his request is no HTTP.
func TestOneConnectionTooManyHasABodyOfItsOwn(t *testing.T) {
	t.Parallel()
	if got := tooMany(); !strings.Contains(got, `{"error":{"code":"too_many_connections"`) {
		t.Errorf("got %s", got)
	}
}

func tooMany() string {
	var ctx fasthttp.RequestCtx
	answers.Unreadable(&ctx, fasthttp.StatusServiceUnavailable)
	return string(ctx.Response.Body())
}
