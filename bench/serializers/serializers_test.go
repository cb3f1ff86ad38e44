package serializers

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bytedance/sonic"
	"github.com/go-faster/jx"
	v2 "github.com/go-json-experiment/json"
	v1 "github.com/go-json-experiment/json/v1"
	goccy "github.com/goccy/go-json"
	jsoniter "github.com/json-iterator/go"
	"github.com/mailru/easyjson"
	segmentio "github.com/segmentio/encoding/json"
	"golang.org/x/sys/unix"

	"loadstone/block/random"
	"loadstone/system/feed"
)

// serializer appends the JSON of a page, as a server does that uses its buffers again.
type serializer struct {
	name string
	// differs says that the bytes are not those of encoding/json for some of odd's pages.
	differs bool
	append  func(dst []byte, p *feed.Page, own *page) ([]byte, error)
}

// marshal is the serializer of a library that returns a buffer of its own.
func marshal(with func(any) ([]byte, error)) func([]byte, *feed.Page, *page) ([]byte, error) {
	return func(dst []byte, p *feed.Page, _ *page) ([]byte, error) {
		text, err := with(p)
		return append(dst, text...), err
	}
}

// written is one of a library that writes.
func written(dst []byte, with func(*bytes.Buffer) error) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	err := with(b)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

var asV1 = v1.DefaultOptionsV1()

var serializers = []serializer{
	{"encoding/json", false, marshal(stdjson.Marshal)},
	{"feed", false, func(dst []byte, p *feed.Page, _ *page) ([]byte, error) { return p.AppendJSON(dst), nil }},
	{"encoding/json/v2 as v1", true, func(dst []byte, p *feed.Page, _ *page) ([]byte, error) {
		return written(dst, func(b *bytes.Buffer) error { return v2.MarshalWrite(b, p, asV1) })
	}},
	{"encoding/json/v2", true, func(dst []byte, p *feed.Page, _ *page) ([]byte, error) {
		return written(dst, func(b *bytes.Buffer) error { return v2.MarshalWrite(b, p) })
	}},
	{"goccy/go-json", false, func(dst []byte, p *feed.Page, _ *page) ([]byte, error) {
		return written(dst, func(b *bytes.Buffer) error { return goccy.NewEncoder(b).Encode(p) })
	}},
	{"bytedance/sonic", true, marshal(sonic.ConfigStd.Marshal)},
	{"segmentio/encoding", false, func(dst []byte, p *feed.Page, _ *page) ([]byte, error) {
		return segmentio.Append(dst, p, segmentio.EscapeHTML)
	}},
	{"json-iterator", true, marshal(jsoniter.ConfigCompatibleWithStandardLibrary.Marshal)},
	{"mailru/easyjson", true, func(dst []byte, _ *feed.Page, own *page) ([]byte, error) {
		text, err := easyjson.Marshal(own)
		return append(dst, text...), err
	}},
	{"go-faster/jx", true, func(dst []byte, p *feed.Page, _ *page) ([]byte, error) {
		var w jx.Writer
		w.Buf = dst
		writeJX(&w, p)
		return w.Buf, nil
	}},
}

// writeJX is written by hand: jx has no reflection.
func writeJX(w *jx.Writer, p *feed.Page) {
	w.RawStr(`{"next":`)
	w.Str(p.Next)
	w.RawStr(`,"posts":[`)
	for i := range p.Posts {
		if i > 0 {
			w.Comma()
		}
		post := &p.Posts[i]
		w.RawStr(`{"author":`)
		w.Int64(post.Author)
		w.RawStr(`,"comments":`)
		w.Int(post.Comments)
		w.RawStr(`,"id":`)
		w.Int64(post.ID)
		w.RawStr(`,"media":`)
		w.Int(post.Media)
		w.RawStr(`,"pinned":`)
		w.Bool(post.Pinned)
		w.RawStr(`,"published":`)
		w.Int64(post.Published)
		w.RawStr(`,"reactions":`)
		w.Int64(post.Reactions)
		w.RawStr(`,"text":`)
		w.Str(post.Text)
		w.RawStr(`,"title":`)
		w.Str(post.Title)
		w.ObjEnd()
	}
	w.RawStr("]}")
}

func owned(p *feed.Page) *page {
	own := &page{Next: p.Next}
	for _, posted := range p.Posts {
		own.Posts = append(own.Posts, post(posted))
	}
	return own
}

// odd are pages of what serializers write differently, and of random bytes.
func odd() []*feed.Page {
	texts := []string{"plain", "\b\f\n\r\t\x00\x1f\x7f", `"\/`, "<>&", "\u2028\u2029", "\xff\xc3\x28\xed\xa0\x80", "é ሽሮ 👩‍👧"}
	draw := random.New(1, 1)
	for range 2000 {
		text := make([]byte, draw.Below(60))
		for i := range text {
			text[i] = byte(draw.Next())
			if draw.Below(2) == 0 {
				text[i] &= 0x7f
			}
		}
		texts = append(texts, string(text))
	}
	all := []*feed.Page{{}, {Posts: []feed.Post{}}}
	for i, text := range texts {
		all = append(all, &feed.Page{Posts: []feed.Post{{ID: math.MinInt64 + int64(i), Published: math.MaxInt64, Pinned: true, Text: text}}})
	}
	return all
}

// Which libraries give the bytes of encoding/json, and which do not.
func TestSameBytes(t *testing.T) {
	for _, s := range serializers {
		var wrong []string
		for _, p := range odd() {
			want, err := stdjson.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.append([]byte("before"), p, owned(p))
			if err != nil {
				wrong = append(wrong, err.Error())
			} else if string(got) != "before"+string(want) {
				wrong = append(wrong, string(got)+"\nwant  "+string(want))
			}
		}
		if len(wrong) > 0 != s.differs {
			t.Errorf("%s: %d pages differ, such as\n%s", s.name, len(wrong), strings.Join(wrong[:min(3, len(wrong))], "\n"))
		}
	}
}

// twelve is a page of the list with about 12 kB.
func twelve(tb testing.TB) *feed.Page {
	tb.Helper()
	g, err := feed.NewGenerator(1, 100)
	if err != nil {
		tb.Fatal(err)
	}
	p := &feed.Page{}
	for id := int64(1); len(p.AppendJSON(nil)) < 12_000; id++ {
		p.Posts = append(p.Posts, g.Entry(id).Post)
	}
	return p
}

// BenchmarkPages compares what CPU a page costs, with the garbage that is left: all take turns of a thousand
// pages, and each has the median of its turns, and of what encoding/json took for the same turn. Those that
// write other bytes may have less to do.
func BenchmarkPages(b *testing.B) {
	p := twelve(b)
	own := owned(p)
	costs, ratios := make([][]float64, len(serializers)), make([][]float64, len(serializers))
	var buffer []byte
	for b.Loop() {
		for i, s := range serializers {
			began := processorTime(b)
			for range 1000 {
				var err error
				if buffer, err = s.append(buffer[:0], p, own); err != nil {
					b.Fatal(err)
				}
			}
			costs[i] = append(costs[i], float64(processorTime(b)-began)/1000)
			ratios[i] = append(ratios[i], costs[0][len(costs[0])-1]/costs[i][len(costs[i])-1])
		}
	}
	fmt.Println() // more lines than a benchmark's log has
	for i, s := range serializers {
		fmt.Printf("%-24s %6.0f ns a page, for which encoding/json takes %.1f times as long\n", s.name, median(costs[i]), median(ratios[i]))
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
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
