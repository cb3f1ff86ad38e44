package feed

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"loadstone/block/random"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wantGenerated is the sum of some posts.
const wantGenerated = 0xd54b30bb5f3138b6

func generator(tb testing.TB, count int64) *Generator {
	tb.Helper()
	g, err := NewGenerator(1, count)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// Invented posts are valid, the same each time, newer the higher their number, and of any
// Reading that follow each other one has no media.
func TestGenerator(t *testing.T) {
	t.Parallel()
	const count = 5000
	g, bare := generator(t, count), 0
	next := int64(1)
	for e, err := range g.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Validate(); err != nil || e.ID != next {
			t.Fatalf("post %d: %v in %+v", next, err, e)
		}
		if before := g.Entry(next - 1); next > 1 && before.Published >= e.Published {
			t.Errorf("post %d is not newer than the one before", next)
		}
		if len(e.Media) == 0 {
			bare++
		}
		if len(e.Media) == 0 != (next%Reading == 0) || e.Post.Reactions == 0 {
			t.Errorf("post %d has %d media and %d reactions", next, len(e.Media), e.Post.Reactions)
		}
		next++
	}
	if bare != count/Reading {
		t.Errorf("%d posts have no media, want %d", bare, count/Reading)
	}
	var before bytes.Buffer
	for _, e := range []Entry{g.Entry(1), g.Entry(63), g.Entry(4999)} {
		fmt.Fprintf(&before, "%+v", e)
	}
	if sum := Tag(before.Bytes()); sum != wantGenerated {
		t.Errorf("the same seed gives other posts than before (%#x): raise generatorVersion", sum)
	}
	for _, n := range []int64{0, -1, MaxGenerated + 1} {
		if _, err := NewGenerator(1, n); err == nil {
			t.Errorf("%d posts: got no error", n)
		}
	}
	last := generator(t, MaxGenerated).Entry(MaxGenerated)
	if err := last.Validate(); err != nil || time.UnixMilli(last.Published).UTC().Year() > 2025 {
		t.Errorf("the last post: %v, %v", time.UnixMilli(last.Published), err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Entry)
		want   string
	}{
		"id":          {func(e *Entry) { e.ID = 0 }, "id is 0: write 1 to"},
		"published":   {func(e *Entry) { e.Published = -1 }, "published is -1"},
		"title":       {func(e *Entry) { e.Title = "a\nb" }, "title is"},
		"text":        {func(e *Entry) { e.Text = strings.Repeat("x", MaxText+1) }, "text has 4001 bytes: write at most 4000"},
		"no text":     {func(e *Entry) { e.Text = "" }, "text is empty"},
		"no UTF-8":    {func(e *Entry) { e.Text = "\xff" }, "text is not UTF-8"},
		"turned":      {func(e *Entry) { e.Text = "a\u202eb" }, "text has U+202E"},
		"control":     {func(e *Entry) { e.Text = "a\x00b" }, "text has U+0000"},
		"author":      {func(e *Entry) { e.Author.ID, e.Author.Name = -1, "" }, "author.id is -1"},
		"photo":       {func(e *Entry) { e.Author.Photo = "http://a.example/1.jpg" }, "author.photo is"},
		"many media":  {func(e *Entry) { e.Media = make([]Medium, MaxMedia+1) }, "the number of media is 11"},
		"script":      {func(e *Entry) { e.Media[0].URL = "javascript:alert(1)" }, "media[0].url is"},
		"kind":        {func(e *Entry) { e.Media[0].Kind = "sound" }, "media[0].kind is \"sound\": write image or video"},
		"wide":        {func(e *Entry) { e.Media[0].Width = MaxSide + 1 }, "media[0].width is 20001"},
		"no count":    {func(e *Entry) { e.Reactions[0].Count = 0 }, "reactions[0].count is 0: write 1 to"},
		"kind twice":  {func(e *Entry) { e.Reactions = []Reaction{{1, "a"}, {1, "a"}} }, "reactions[1].kind is \"a\", which is there already"},
		"comment":     {func(e *Entry) { e.Comments = []Comment{{}} }, "comments[0].author is empty"},
		"many comms":  {func(e *Entry) { e.Comments = make([]Comment, MaxComments+1) }, "the number of comments is 1001"},
		"several":     {func(e *Entry) { e.ID, e.Title = 0, "" }, "title is empty"},
		"a long name": {func(e *Entry) { e.Author.Name = strings.Repeat("x", MaxName+1) }, "author.name has 101 bytes"},
	} {
		e := generator(t, 1).Entry(1)
		c.change(&e)
		if err := e.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestCursors(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000_000, 0)
	c := NewCursors([]byte("key"), time.Hour)
	c.now = func() time.Time { return now }
	for _, p := range []Position{{}, {1, 2}, Start, {math.MinInt64, -1}} {
		text := c.Write(p)
		if got, err := c.Read([]byte(text)); got != p || err != nil {
			t.Errorf("%v: got %v and %v", p, got, err)
		}
	}
	if got, err := c.Read(nil); got != Start || err != nil {
		t.Errorf("no cursor: got %v and %v", got, err)
	}
	text := c.Write(Position{5, 6})
	now = now.Add(time.Hour)
	if _, err := c.Read([]byte(text)); err != nil {
		t.Errorf("after its time: %v", err)
	}
	now = now.Add(time.Hour)
	if _, err := c.Read([]byte(text)); !errors.Is(err, ErrExpired) {
		t.Errorf("after another hour: got %v, want ErrExpired", err)
	}
	if _, err := NewCursors([]byte("other"), time.Hour).Read([]byte(text)); !errors.Is(err, ErrCursor) {
		t.Errorf("with another key: got %v, want ErrCursor", err)
	}
	// Each character counts, and each bit of it.
	now = now.Add(-2 * time.Hour)
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=\n+/"
	for i := range text {
		for _, char := range []byte(alphabet) {
			forged := text[:i] + string(char) + text[i+1:]
			if _, err := c.Read([]byte(forged)); forged != text && !errors.Is(err, ErrCursor) {
				t.Fatalf("%q in place of %q: got %v, want ErrCursor", forged, text, err)
			}
		}
	}
}

// broken is a cursor that ends in a zero byte, with line breaks in place of that.
func broken(tb testing.TB, c *Cursors) string {
	tb.Helper()
	for id := range int64(100_000) {
		text := c.Write(Position{1, id})
		if raw, err := cursorForm.DecodeString(text); err == nil && raw[len(raw)-1] == 0 {
			return cursorForm.EncodeToString(raw[:len(raw)-1]) + "\n\r"
		}
	}
	tb.Fatal("no cursor ends in a zero byte")
	return ""
}

// A text of the right length that says less is no cursor, whatever the rest would be.
func TestCursorLineBreaks(t *testing.T) {
	t.Parallel()
	c := NewCursors([]byte("key"), time.Hour)
	if text := broken(t, c); len(text) != len(c.Write(Start)) {
		t.Errorf("%q has another length than a cursor: this shows nothing", text)
	} else if p, err := c.Read([]byte(text)); !errors.Is(err, ErrCursor) {
		t.Errorf("%q: got %v and %v, want ErrCursor", text, p, err)
	}
}

// No text but those that Write gave out is a cursor.
func FuzzCursor(f *testing.F) {
	c := NewCursors([]byte("key"), time.Hour)
	f.Add([]byte(c.Write(Position{1, 2})))
	f.Add([]byte(broken(f, c)))
	f.Add([]byte(base64.RawURLEncoding.EncodeToString(make([]byte, cursorBody+cursorMAC))))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := c.Read(text)
		if err != nil || len(text) == 0 {
			return
		}
		raw, err := cursorForm.DecodeString(string(text))
		if err != nil || cursorForm.EncodeToString(raw) != string(text) || !strings.HasPrefix(c.Write(p), string(text[:20])) {
			t.Errorf("%q is taken for %v", text, p)
		}
	})
}

// values are one of each kind, filled from a stream.
func values(draw *random.Stream, text string) []Value {
	number := func() int64 {
		if draw.Below(8) == 0 {
			return []int64{0, -1, math.MinInt64, math.MaxInt64, maxTime, maxTime + 1, math.MinInt32, 1e16 - 1}[draw.Below(8)]
		}
		return int64(draw.Next()) >> draw.Below(64)
	}
	word := func() string {
		if len(text) == 0 {
			return ""
		}
		from := draw.Below(len(text))
		return text[from : from+draw.Below(len(text)-from+1)]
	}
	many := func(add func()) {
		for range draw.Below(4) {
			add()
		}
	}
	a := Author{word(), number(), word(), word(), word(), word()}
	page, media, responses, notices := Page{Next: word()}, Media{Post: number()}, Responses{Post: number()}, Notices{Unread: int(number())}
	if draw.Below(2) == 0 { // an empty list is not null
		page.Posts, media.Media, responses.Comments, responses.Reactions, notices.Pinned = []Post{}, []Medium{}, []Comment{}, []Reaction{}, []Notice{}
	}
	many(func() {
		page.Posts = append(page.Posts, Post{number(), int(number()), number(), int(number()), draw.Below(2) == 0, number(), number(), word(), word()})
	})
	many(func() {
		media.Media = append(media.Media, Medium{word(), int(number()), word(), word(), int(number())})
	})
	many(func() { responses.Comments = append(responses.Comments, Comment{word(), number(), word()}) })
	many(func() { responses.Reactions = append(responses.Reactions, Reaction{number(), word()}) })
	many(func() { notices.Pinned = append(notices.Pinned, Notice{number(), number(), word()}) })
	return []Value{&page, &media, &responses, &notices, &Profile{a, number()}}
}

// All serializers give the same bytes, whatever a value holds.
func FuzzSerializers(f *testing.F) {
	f.Add(uint64(1), "plain")
	f.Add(uint64(2), "\x00\x1f\b\f\n\r\t\"\\/<>& \u2028\u2029\u00e9\ufffd \xff\xc3\x28 👩‍👧 \x7f")
	f.Add(uint64(3), "")
	for i, text := range hard {
		f.Add(uint64(i), "some text of more than eight bytes "+text+" and more")
	}
	f.Fuzz(func(t *testing.T, seed uint64, text string) {
		draw := random.New(seed, 1)
		sameBytes(t, values(&draw, text))
	})
}

func sameBytes(t *testing.T, values []Value) {
	t.Helper()
	for _, v := range values {
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []Serializer{Append, Goccy, Standard, Maps} {
			got, err := s.Append([]byte("before"), v)
			if err != nil || string(got) != "before"+string(want) {
				t.Errorf("%s of %T: got %s and %v\nwant %s", s, v, got, err, want)
			}
		}
	}
}

// hard are texts that serializers write differently unless care is taken: control characters, what HTML and
// JavaScript take for theirs, invalid UTF-8 and lone surrogates, and the ends of what UTF-8 can say.
var hard = []string{
	"\x00\b\f\n\r\t\x1f\x7f", `"\/`, "<script>&amp;'", "\u2028\u2029\u2027\u202a", "\ufffd\ufeff\U0010ffff\ue000",
	"\xed\xa0\x80", "\xed\xbf\xbf\xed\xa0\xbd\xed\xb8\x80", "\xc0\x80\xc1\xbf", "\xf4\x90\x80\x80", "\xe2\x80", "\xe2\x80<", "é ሽሮ 👩‍👧", "",
}

// Random values of characters that need care; with LARGE=1 a million of them.
func TestSerializers(t *testing.T) {
	t.Parallel()
	draw, rounds := random.New(9, 9), 300
	if os.Getenv("LARGE") == "1" {
		rounds = 1_000_000 / len(values(&draw, ""))
	}
	for range rounds {
		text := make([]byte, 40, 80)
		for i := range text {
			text[i] = byte(draw.Next())
			if draw.Below(2) == 0 {
				text[i] &= 0x7f
			}
		}
		text = append(text, pick(&draw, hard)...)
		sameBytes(t, values(&draw, string(text)))
	}
	if err := Serializer("xml").Check(); err == nil || !strings.Contains(err.Error(), Serializers) {
		t.Errorf("got %v", err)
	}
}

// twelve is a page of the list with about 12 kB.
func twelve(tb testing.TB) *Page {
	tb.Helper()
	g, page := generator(tb, 100), &Page{}
	for id := int64(1); len(page.AppendJSON(nil)) < 12_000; id++ {
		page.Posts = append(page.Posts, g.Entry(id).Post)
	}
	return page
}

// BenchmarkSerializers compares what a page of 12 kB costs.
func BenchmarkSerializers(b *testing.B) {
	page := twelve(b)
	for _, s := range []Serializer{Append, Goccy, Standard, Maps} {
		b.Run(string(s), func(b *testing.B) {
			var buffer []byte
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if buffer, err = s.Append(buffer[:0], page); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(buffer)))
		})
	}
}

// BenchmarkRatio says how many times as much CPU as AppendJSON encoding/json takes for a page of 12 kB, with
// the garbage that it leaves: the median of turns of a thousand pages each.
func BenchmarkRatio(b *testing.B) {
	page := twelve(b)
	var buffer []byte
	cpu := func(s Serializer) float64 {
		began := processorTime(b)
		for range 1000 {
			buffer, _ = s.Append(buffer[:0], page)
		}
		return float64(processorTime(b) - began)
	}
	var ratios, own []float64
	for b.Loop() {
		took := cpu(Append)
		own, ratios = append(own, took/1000), append(ratios, cpu(Standard)/took)
	}
	slices.Sort(ratios)
	slices.Sort(own)
	b.ReportMetric(ratios[len(ratios)/2], "times")
	b.ReportMetric(own[len(own)/2], "ns/page")
}

// processorTime is what the process has had, in nanoseconds.
func processorTime(b *testing.B) int64 {
	b.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return t.Nano()
}
