package compress_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/valyala/fasthttp"

	"loadstone/block/compress"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"none": "none", "zstd,br:5, gzip:9": "zstd:2,br:5,gzip:9", "gzip": "gzip:6"} {
		if all, err := compress.Parse(text); err != nil || all.String() != want {
			t.Errorf("%q: got %v and %v, want %s", text, all, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "write none, or zstd", "deflate": "write none, or zstd", "gzip,gzip": "write none, or zstd", "none,gzip": "write none, or zstd",
		"gzip:0": `the level of gzip is "0": write 1 to 9`, "br:12": "write 1 to 11", "zstd:x": "write 1 to 4", "gzip:": "write 1 to 9",
	} {
		if _, err := compress.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// Many are compressed at once, more than there are encoders, large and small, at every level and with
// every window, and none gets another's bytes or none.
func TestPools(t *testing.T) {
	t.Parallel()
	texts := [][]byte{nil, []byte("x"), []byte(strings.Repeat("Since Monday the team ", 1000)), bytes.Repeat([]byte("\x00\xff"), 1<<16)}
	for _, text := range []string{"gzip:1,br:1,zstd:1", "gzip:9,br:11,zstd:4", "gzip,br,zstd"} {
		all, err := compress.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, coding := range all {
			for _, window := range []int{1 << 10, 1 << 20, compress.MaxWindow} {
				pool := compress.NewPool(coding, window)
				var asking sync.WaitGroup
				for i := range 12 {
					asking.Go(func() {
						want := texts[i%len(texts)]
						var got []byte
						pool.Use(func(encode compress.Encoder) { got = encode([]byte("before"), want) })
						var r fasthttp.Response
						r.Header.SetContentEncoding(coding.Name)
						r.SetBody(bytes.TrimPrefix(got, []byte("before")))
						text, err := r.BodyUncompressed()
						if err != nil || !bytes.Equal(text, want) || len(want) > 2000 && len(got) > len(want)/15 {
							t.Errorf("%v, window %d: %d bytes became %d, and %d with %v", coding, window, len(want), len(got), len(text), err)
						}
					})
				}
				asking.Wait()
			}
		}
	}
}

// Of whatever is written, only what says the same again is read.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"none", "zstd,br:5,gzip", "gzip:9", "gzip:+1", "gzip:1:1", "br:1_0", "", ","} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := compress.Parse(text)
		if err != nil {
			return
		}
		if again, err := compress.Parse(all.String()); err != nil || again.String() != all.String() || len(all) > 3 {
			t.Errorf("%q was read as %v, and that as %v with %v", text, all, again, err)
		}
		for _, coding := range all {
			if coding.Level < 1 || coding.Level > 11 {
				t.Errorf("%q has the level %d", text, coding.Level)
			}
		}
	})
}
