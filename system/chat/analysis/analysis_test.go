package analysis

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// What other languages must reproduce is written by this one:
//
//	go test ./system/chat/analysis -update
var update = flag.Bool("update", false, "write the golden records again")

const contract = "../contract"

// golden compares records with those of a file of the contract.
func golden[T any](t *testing.T, file string, records []T) {
	t.Helper()
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.SetEscapeHTML(false)
	for _, r := range records {
		if err := lines.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(contract, file)
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%s differs from what is computed", file)
	}
}

// texts are of all kinds that the folding knows, beside ordinary ones.
var texts = []string{
	"", " ", "\u3000\u200b", "a", "lol", "LOL", "ＬＯＬ！", "so good", "  so\t\u00a0good  ", "so good" + strings.Repeat("!", 40),
	"Café crème", "Cafe\u0301 cre\u0300me", "naïve Ærø þing", "MOCKBA МОСКВА Ёлка", "ΑΘΗΝΑ ς",
	"하하하하하", strings.Repeat("\u1112\u1161", 5), "안녕하세요", "\u110b\u1161\u11ab\u1102\u1167\u11bc\u1112\u1161\u1109\u1166\u110b\u116d", "ㅋㅋㅋㅋㅋㅋ", "ﾻﾻﾻ ￇ", "가\u11a8 각\u11a8 \u1100\u1100\u1100\u1100\u1161",
	"오늘 방송 정말 재미있어요", "이 노래 제목이 뭐예요?", "불 좀 줄이세요", "진짜 못하네", "아 웃겨 ㅋㅋㅋ",
	"what is this song called?", "you should turn the heat down", "worst stream ever", "love this", "hahahahaha",
	"level 12 in 3 minutes", "레벨 １２", "👍🏽", "👍", "👩‍👩‍👧 family", "❤️", "❤", "🇰🇷",
	"\u200fשלום", "مرحبا ١٢٣", "“quoted” it’s", "soft\u00adhyphen", "zero\u200bwidth\ufeff",
	"<script>alert(1)</script>", `"\/`, "\ufffd", strings.Repeat("ab ", 100), strings.Repeat("가나", 100), strings.Repeat("😀", 500),
	strings.Repeat("x", Longest-1) + "yz", "日本語もある", "ẞ ß ſ", "\U000e0041tag", "ｶﾞ",
}

// labelled is a record of labels.jsonl.
type labelled struct {
	Text   string        `json:"text"`
	Normal string        `json:"normal"`
	Sums   [Labels]int32 `json:"sums"`
	Label  string        `json:"label"`
}

func TestLabelsAgreeWithTheContract(t *testing.T) {
	t.Parallel()
	var all []labelled
	for _, text := range texts {
		all = append(all, labelled{text, string(Normalise(nil, text)), own.Sums(text), Classify(text).String()})
	}
	golden(t, "labels.jsonl", all)
}

func TestNormalise(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": " ", "  ": " ", "So  GOOD\u3000": " so good ", "ㅋㅋㅋㅋㅋ": " ㅋㅋㅋ ", "ﾻﾻ": " ㅋㅋ ", "Cafe\u0301": " cafe ", "Café": " cafe ",
		"\u1112\u1161\u11ab": " 한 ", "\ud55c": " 한 ", "가\u11a8": " 각 ", "각\u11a8": " 각\u11a8 ", "ＡＢ１２": " ab00 ", "👍🏽": " 👍 ",
		"a\u200bb": " ab ", "\xff": " \ufffd ", strings.Repeat("ab", Longest): " " + strings.Repeat("ab", Longest/2) + " ",
	} {
		if got := string(Normalise(nil, text)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// Whether syllables are whole or in letters makes no difference, to runs and to the bound neither.
func TestNormaliseOfLetters(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		strings.Repeat("하", 5): " 하하하 ", strings.Repeat("한", 200): " 한한한 ", "하하하하한": " 하하하한 ", "하하하하\u11ab": " 하하하한 ", "가\u11a8가\u11a8가\u11a8각각": " 각각각 ",
		strings.Repeat("가나", Longest/2-1) + "하하하하각": " " + strings.Repeat("가나", Longest/2-1) + "하하 ",
		strings.Repeat("한국", Longest):               " " + strings.Repeat("한국", Longest/2) + " ",
	} {
		for name, form := range map[string]string{"as it is": text, "NFC": norm.NFC.String(text), "NFD": norm.NFD.String(text)} {
			if got := string(Normalise(nil, form)); got != want {
				t.Errorf("%.30q, %s: got %q, want %q", text, name, got, want)
			}
		}
	}
}

// A normal form has one: nothing in it would be folded again, but for syllables that come about.
func FuzzNormalise(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all := Normalise(nil, text)
		if len(all) > Longest+2 || all[0] != ' ' || all[len(all)-1] != ' ' {
			t.Errorf("%q: got %q", text, string(all))
		}
		for _, c := range all {
			if folded.lookUp(c) != c {
				t.Errorf("%q: %q is in the normal form", text, c)
			}
		}
		_ = Classify(text)
	})
}

// So it is with any Korean text.
func FuzzNormaliseOfLetters(f *testing.F) {
	for _, text := range texts {
		f.Add(text, uint(1))
	}
	f.Add("한하", uint(1000))
	f.Fuzz(func(t *testing.T, text string, times uint) {
		korean := strings.Map(func(r rune) rune {
			if r < utf8.RuneSelf || unicode.Is(unicode.Hangul, r) {
				return r
			}
			return firstSyllable + r%(lastSyllable-firstSyllable+1)
		}, strings.Repeat(text, int(times%64)))
		want := Normalise(nil, korean)
		for _, form := range []norm.Form{norm.NFC, norm.NFD} {
			if got := Normalise(nil, form.String(korean)); !slices.Equal(got, want) {
				t.Errorf("%q: got %q, want %q", form.String(korean), string(got), string(want))
			}
		}
	})
}

func TestOfEqualSumsTheFirstWins(t *testing.T) {
	t.Parallel()
	weights := make([]byte, Buckets*Labels)
	load := func() *Model {
		m, err := Load(weights)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if got := load().Classify("anything"); got != Praise {
		t.Errorf("without weights: got %s", got)
	}
	const minusOne = 0xff
	copy(weights[bucket(hashBasis)*Labels:], []byte{minusOne, minusOne, 3, 2, 3})
	if got := load().Classify("anything"); got != Laughter {
		t.Errorf("got %s, want %s", got, Laughter)
	}
}

func TestAModelOfAnotherSizeIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := Load(make([]byte, Buckets*Labels-1)); err == nil {
		t.Error("a model without its last weight was read")
	}
}

// summarised is a record of summaries.jsonl.
type summarised struct {
	Name  string   `json:"name"`
	Texts []string `json:"texts"`
	Lines []int    `json:"lines"`
}

func TestSummariesAgreeWithTheContract(t *testing.T) {
	t.Parallel()
	room := readLines(t, "testdata/room.txt")
	all := []summarised{
		{Name: "nothing"}, {Name: "too_short", Texts: []string{"lol", "ㅋㅋㅋㅋㅋㅋㅋ", "abcd"}}, {Name: "one", Texts: []string{"hello there"}},
		{Name: "equal", Texts: []string{"hello there", "HELLO  there", "Hello there"}},
		{Name: "nothing_in_common", Texts: []string{"abcdefg", "hijklmn", "opqrstu", "vwxyzab"}},
		{Name: "alike", Texts: []string{"the sauce looks great", "that sauce looks great!", "the sauce looks great today", "who is that?", "who is that man?"}},
		{Name: "room", Texts: room},
	}
	for i := range all {
		all[i].Lines = Summarise(all[i].Texts)
	}
	golden(t, "summaries.jsonl", all)
	for _, s := range all {
		for _, l := range s.Lines {
			if len(Normalise(nil, s.Texts[l])) < fewest+2 {
				t.Errorf("%s: %q is too short", s.Name, s.Texts[l])
			}
		}
	}
	if got := all[5].Lines; !slices.Equal(got, []int{0, 3}) {
		t.Errorf("of those alike: got %v", got)
	}
}

func readLines(t *testing.T, path string) (all []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		all = append(all, lines.Text())
	}
	return all
}

// show is a timeline of spans with so many messages of a label.
func show(spans ...[2]int) (found []string) {
	t := &Timeline{}
	var offset uint64
	note := func(h *Highlight) {
		if h != nil {
			found = append(found, fmt.Sprintf("%d %s %s %d/%d @%d", h.Video/SpanMillis, h.Why, h.Label, h.Messages, h.Usual, h.Offset))
		}
	}
	for at, s := range spans {
		for i := range s[0] {
			note(t.Add(int64(at)*SpanMillis+int64(i), offset, Label(s[1])))
			offset++
		}
	}
	note(t.Add(int64(len(spans))*SpanMillis, offset, Praise))
	return found
}

func TestHighlights(t *testing.T) {
	t.Parallel()
	const laughs = int(Laughter)
	calm := func(n int) [][2]int { return slices.Repeat([][2]int{{5, 0}}, n) }
	for name, c := range map[string]struct {
		spans [][2]int
		want  []string
	}{
		"calm":            {calm(40), nil},
		"much at once":    {append(calm(10), [2]int{15, laughs}), []string{"10 rate laughter 15/5 @50"}},
		"not three times": {append(calm(10), [2]int{14, 0}), nil},
		"other labels":    {append(calm(10), [2]int{14, laughs}), []string{"10 labels laughter 14/5 @50"}},
		"too early":       {append(calm(2), [2]int{50, 0}), nil},
		"too few":         {append(slices.Repeat([][2]int{{1, 0}}, 20), [2]int{9, 0}), nil},
		"told once":       {append(calm(10), [2]int{50, 0}, [2]int{90, 0}, [2]int{99, 0}, [2]int{99, 0}), []string{"10 rate praise 50/5 @50"}},
		"after a silence": {append(slices.Repeat([][2]int{{0, 0}}, 50), [2]int{10, 0}), []string{"50 rate praise 10/0 @0"}},
		"usual is forgotten": {append(append(slices.Repeat([][2]int{{90, 0}}, 10), slices.Repeat([][2]int{{2, 0}}, 30)...), [2]int{10, 0}),
			[]string{"40 rate praise 10/2 @960"}},
	} {
		if got := show(c.spans...); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestATimelineDoesNotGoBack(t *testing.T) {
	t.Parallel()
	tl := &Timeline{}
	tl.Add(25_000, 0, Praise)
	tl.Add(3_000, 1, Praise)
	if tl.Now.At != 2 || tl.Now.Counts[Praise] != 2 || tl.Video != 25_000 {
		t.Errorf("got %+v", tl)
	}
}

// What a message costs: 5 µs at most are wanted, of any.
func BenchmarkClassify(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"english", "the sauce looks incredible, what did you put in?"},
		{"korean", "오늘 방송 정말 재미있어요 다음에 또 올게요"},
		{"longest", strings.Repeat("오늘 방송 정말 재미있어요 ", 40)},
		{"laughter", strings.Repeat("ㅋ", 500)},
		{"unseen", strings.Repeat("\u200b", 500)},
		{"spaces", strings.Repeat("\u3000", 500)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = Classify(c.text)
			}
		})
	}
}

func BenchmarkSummarise(b *testing.B) {
	data, err := os.ReadFile("testdata/room.txt")
	if err != nil {
		b.Fatal(err)
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	for b.Loop() {
		_ = Summarise(all)
	}
}

// The hash is the known one over UTF-8, and a bucket what it is said to be.
func TestFeaturesAreHashedAsSaid(t *testing.T) {
	t.Parallel()
	for _, c := range []rune{'a', 'é', 'Ж', '가', '\ufffd', '😀', utf8.MaxRune} {
		h := fnv.New32a()
		h.Write([]byte("x" + string(c)))
		var all hashes
		all.add('x')
		if all.add(uint32(c)); all.two != h.Sum32() {
			t.Errorf("%q: got %x, want %x", c, all.two, h.Sum32())
		}
	}
	// " a " has the features "", " a", " a ", "a" and "a ".
	if got := len(Features(nil, "a")); got != 5 {
		t.Errorf("got %d features", got)
	}
}
