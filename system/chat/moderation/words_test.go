package moderation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

func TestFold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string][2]string{
		"case":             {"NOOR", "noor"},
		"full width":       {"ｂａｄ", "bad"},
		"mathematical":     {"𝔟𝕒𝐝", "bad"},
		"Cyrillic":         {"bаd", "bad"},
		"Greek":            {"βαd", "bad"},
		"digits":           {"b4d", "bad"},
		"accents":          {"bäd", "bad"},
		"a heap of marks":  {"b\u0301\u0302a\u0336d\u20dd", "bad"},
		"zero width":       {"b\u200ba\u200d\u2060d\ufeff", "bad"},
		"soft hyphen":      {"b\u00ada\u034fd", "bad"},
		"direction":        {"b\u202ead\u2066", "bad"},
		"tags":             {"b\U000e0061ad", "bad"},
		"Korean, taken to": {"나쁜", "나쁜"},
		"Korean letters":   {"ㄴㅏ", "나"},
		"dotless":          {"bıt", "bit"},
		"dotted":           {"BİT", "bit"},
	} {
		if got, want := string(Fold(c[0])), string(Fold(c[1])); got != want {
			t.Errorf("%s: %q is %q, want %q", name, c[0], got, want)
		}
	}
	for _, c := range [][2]string{{"bad", "bed"}, {"나쁜", "나쁨"}, {"שָלוֹם", "שלם"}} {
		if string(Fold(c[0])) == string(Fold(c[1])) {
			t.Errorf("%q and %q are the same", c[0], c[1])
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list, text string
		want       bool
	}{
		{"bad", "that is BAD!", true},
		{"bad", "a badger", false},
		{"bad", "forbad", false},
		{"bad*", "a badger", true},
		{"bad*", "forbad", false},
		{"*bad", "forbad", true},
		{"*bad*", "forbaden", true},
		{"bad", "b\u200ba\u0301d", true},
		{"ｂäd", "b4d", true},
		{"나쁜", "아주나쁜놈", true},
		{"나쁜", "나쁨", false},
		{"나쁜", "나쁜", true}, // NFD
		{"悪い", "とても悪いね", true},
		{"bad word", "a bad word, really", true},
		{"bad word", "bad  word", false},
		{"she,he,hers", "ushers", false},
		{"*she,*he*,hers", "usher", true},
		{"*she*", "ushers", true},
		{"abcd,*bc*", "abce", true}, // where the longer one fails the shorter one is found
		{"abc,*b", "ab", true},
		{"💩", "what a 💩", true},
		{"", "anything", false},
	} {
		var list []string
		if c.list != "" {
			list = strings.Split(c.list, ",")
		}
		w, err := NewWords(list)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.In(Fold(c.text)); got != c.want {
			t.Errorf("%q in %q: got %v", c.list, c.text, got)
		}
	}
}

func TestAListThatCannotBe(t *testing.T) {
	t.Parallel()
	many := slices.Repeat([]string{"word"}, MaxWords+1)
	for want, list := range map[string][]string{"has nothing to look for": {"good", " * "}, "characters at most": {strings.Repeat("x", MaxLetter+1)}, "501 words": many} {
		if _, err := NewWords(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// naive is what Words does, without an automaton.
func naive(list []string, text []rune) bool {
	for _, entry := range list {
		one := Words{}
		one.next, one.node = map[step]int32{}, []node{{found: -1}}
		if one.add(entry) != nil {
			return false
		}
		runes := Fold(strings.Trim(strings.TrimSpace(entry), "* "))
		for i := 0; i+len(runes) <= len(text); i++ {
			if slices.Equal(text[i:i+len(runes)], runes) && one.word[0].alone(text, i+len(runes)) {
				return true
			}
		}
	}
	return false
}

// The automaton finds what a search for one word after the other finds, and folding does not
// change what is folded.
func FuzzWords(f *testing.F) {
	f.Add("bad,*he*,hers", "ushers are bad")
	f.Add("나쁜,나", "아주 나쁜 ㄴㅏ")
	f.Add("aab,*ab*,b", "aaab\u200bİſﬁ①ᾳ")
	f.Add("나", strings.Repeat("한하", 100)+norm.NFD.String(strings.Repeat("한하", 100)))
	f.Fuzz(func(t *testing.T, entries, text string) {
		list := strings.Split(entries, ",")
		folded := Fold(text)
		if again := Fold(string(folded)); !slices.Equal(again, folded) {
			t.Errorf("%q is %q, and folded again %q", text, string(folded), string(again))
		}
		for _, form := range []norm.Form{norm.NFC, norm.NFD} {
			if got := Fold(form.String(text)); !slices.Equal(got, folded) {
				t.Errorf("%q is %q, and %q in another form", text, string(folded), string(got))
			}
		}
		w, err := NewWords(list)
		if err != nil {
			return
		}
		if got, want := w.In(folded), naive(list, folded); got != want {
			t.Errorf("%q in %q: got %v, want %v", list, string(folded), got, want)
		}
	})
}

func TestOnlyEmoji(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"👍🏽 👩‍👩‍👧 🇰🇷": true, "❤️": true, "ok 👍": false, "ⓗⓘ": false, "\u200d": false, "⠓⠊": false, "㉠": false, "!": false, "1": false, "🏴󠁧󠁢󠁥󠁮󠁧󠁿": true,
	} {
		if got := onlyEmoji(text); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

// What a message of a room with a long list costs.
func BenchmarkWords(b *testing.B) {
	list := make([]string, MaxWords)
	for i := range list {
		list[i] = fmt.Sprintf("word%dx", i)
	}
	w, err := NewWords(list)
	if err != nil {
		b.Fatal(err)
	}
	for name, text := range map[string]string{"english": strings.Repeat("a word of 40 letters, more than most. ", 2), "korean": strings.Repeat("안녕하세요, 오늘 방송 정말 재미있어요. ", 2)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w.In(Fold(text))
			}
		})
	}
}
