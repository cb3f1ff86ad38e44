package snapshot

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// posts are like an app's: half of a post are words that others have too, the rest are names, addresses and numbers
// that only it has.
func posts(n int, seed uint64) (posts []string) {
	random := rand.New(rand.NewPCG(seed, seed))
	words := make([]string, 5000)
	vocabulary := rand.New(rand.NewPCG(1, 1)) // one for all
	for i := range words {
		word := make([]byte, 2+vocabulary.IntN(9))
		for j := range word {
			word[j] = byte('a' + vocabulary.IntN(26))
		}
		words[i] = string(word)
	}
	for i := range n {
		text := make([]string, 100)
		for j := range text {
			text[j] = words[int(float64(len(words))*random.Float64()*random.Float64())]
		}
		posts = append(posts, fmt.Sprintf(`{"id":%d,"author":{"id":%d,"name":"%s %s"},"text":%q,"media":[{"url":"https://cdn.example.org/m/%016x.jpg","width":1080}],"likes":%d}`,
			i, random.IntN(10000), words[random.IntN(len(words))], words[random.IntN(len(words))], strings.Join(text, " "), random.Uint64(), random.IntN(1000)))
	}
	return posts
}

// paged puts the posts on a hundred pages.
func paged(posts []string) (pages []Page) {
	for page := range slices.Chunk(posts, (len(posts)+99)/100) {
		pages = append(pages, Page{fmt.Sprintf("pages/%d.json", len(pages)+1), fmt.Appendf(nil, `{"posts":[%s]}`, strings.Join(page, ","))})
	}
	return pages
}

// changes are what one percent may be: posts here and there, or new ones before all others, which moves every post to
// another place, and many to another page.
func changes(was []string) map[string][]string {
	fresh := posts(len(was)/100, 99)
	edited := append([]string(nil), was...)
	for i, post := range fresh {
		edited[i*97+11] = post
	}
	return map[string][]string{"edited": edited, "new": append(fresh, was...)}
}

// refresh publishes a change, and returns what a client with the version before fetches, beside the whole, compressed as
// well as zstd can.
func refresh(tb testing.TB, was, is []string) (delta, full int) {
	tb.Helper()
	p := publisher(tb, directory(tb, tb.TempDir()), nil)
	publish(tb, p, Options{}, paged(was)...)
	s := publish(tb, p, Options{}, paged(is)...)
	best, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		tb.Fatal(err)
	}
	if len(s.Manifest.Deltas) != 1 {
		tb.Fatalf("there are %d deltas", len(s.Manifest.Deltas))
	}
	return s.Manifest.Deltas[0].Size + len(s.Raw()), len(best.EncodeAll(s.Whole(), nil))
}

// A refresh by delta, with the manifest, takes at most one twentieth of the whole at one percent of change.
func TestDeltaIsSmall(t *testing.T) {
	t.Parallel()
	was := posts(600, 2)
	for what, is := range changes(was) {
		delta, full := refresh(t, was, is)
		t.Logf("%s: %d of %d bytes, %.1f %%", what, delta, full, 100*float64(delta)/float64(full))
		if delta*20 > full {
			t.Errorf("%s: a refresh is %d bytes, the whole %d", what, delta, full)
		}
	}
}

// What a refresh of 2,000 posts takes at one percent of change, and making it.
func BenchmarkRefresh(b *testing.B) {
	was := posts(2000, 2)
	for what, is := range changes(was) {
		b.Run(what, func(b *testing.B) {
			for b.Loop() {
				delta, full := refresh(b, was, is)
				b.ReportMetric(float64(delta), "bytes")
				b.ReportMetric(100*float64(delta)/float64(full), "%")
			}
		})
	}
}
