package dictionary_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"loadstone/block/dictionary"
	"loadstone/block/servertest"
)

const most = 64 << 10

// text is the nth of many that resemble each other.
func text(n int) []byte {
	var b bytes.Buffer
	for i := range 12 {
		fmt.Fprintf(&b, `{"dishType":"dinner","subType":"main","dish":"Shiro %d","price":%d.50,"ingredients":["chickpeas","garlic %d"]},`, n*i%97, n%40, n*7%89)
	}
	return b.Bytes()
}

func trained(tb testing.TB, first int) *dictionary.Dictionary {
	tb.Helper()
	var sample []byte
	for n := range 200 {
		sample = append(sample, text(first+n)...)
	}
	d, err := dictionary.New(dictionary.Train(sample), most)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// What is compressed is read by the tool of those who made the format.
func TestFramesAreThoseOfZstd(t *testing.T) {
	t.Parallel()
	d, dir := trained(t, 0), t.TempDir()
	if len(d.Content()) != dictionary.Size {
		t.Errorf("the dictionary has %d bytes, want %d", len(d.Content()), dictionary.Size)
	}
	want := text(1000)
	frame, err := d.Compress(nil, want)
	if err != nil || len(frame)*5 > len(want) {
		t.Fatalf("%d bytes became %d, and %v", len(want), len(frame), err)
	}
	whole := append(bytes.Clone(d.Header()), frame...)
	for _, form := range [][]byte{frame, whole} {
		if got, err := d.Decompress([]byte("before "), form); err != nil || string(got) != "before "+string(want) {
			t.Errorf("got %q and %v", got, err)
		}
	}
	tool, err := exec.LookPath("zstd")
	if err != nil {
		servertest.Missing(t, "zstd is not installed: apt-get install zstd")
	}
	path := filepath.Join(dir, "dictionary")
	if err := os.WriteFile(path, d.Content(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), tool, "-d", "-c", "-D", path)
	cmd.Stdin = bytes.NewReader(whole)
	if got, err := cmd.CombinedOutput(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("zstd: got %q and %v", got, err)
	}
}

// Nothing is ever made of wrong bytes, and little memory taken for them.
func TestWhatIsNoFrame(t *testing.T) {
	t.Parallel()
	d, other := trained(t, 0), trained(t, 5000)
	frame, err := other.Compress(nil, text(1))
	if err != nil {
		t.Fatal(err)
	}
	big, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	bomb := big.EncodeAll(make([]byte, 256<<20), nil)
	small, err := d.Compress(nil, make([]byte, most))
	if err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string][]byte{
		"text": text(1), "a bomb": bomb, "several frames that are one together": bytes.Repeat(small, 1000), "half": frame[:len(frame)/2],
		"magic": []byte("\x28\xb5\x2f\xfd"), "a window of 2 GB": []byte("\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00"),
	} {
		if got, err := d.Decompress(nil, wrong); !errors.Is(err, dictionary.ErrFrame) || cap(got) > 4*most {
			t.Errorf("%s: got %d bytes in %d and %v", name, len(got), cap(got), err)
		}
	}
	// Of another dictionary's frame something may come out: who stores frames says which it was.
	if got, err := d.Decompress(nil, frame); err == nil && bytes.Equal(got, text(1)) {
		t.Error("another dictionary did not matter: nothing is tested")
	}
	if got, err := d.Decompress(nil, small); err != nil || len(got) != most {
		t.Errorf("the largest: got %d bytes and %v", len(got), err)
	}
}

func TestDictionariesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	_, err := dictionary.ReadSet([]string{
		write("a", nil), write("b", []byte("\x37\xa4\x30\xec and more")), filepath.Join(dir, "none"), write("c", make([]byte, dictionary.MaxSize+1)),
	}, most)
	for _, want := range []string{"the file is empty", "has tables", "no such file", "more than"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if set, err := dictionary.ReadSet(nil, most); set != nil || err != nil {
		t.Errorf("no files: got %v and %v", set, err)
	}
}

// While one dictionary replaces another, what was stored with either is read, and plain text; what
// was stored with a third is not.
func TestSet(t *testing.T) {
	t.Parallel()
	a, b, c := trained(t, 0), trained(t, 3000), trained(t, 6000)
	want := text(77)
	for name, s := range map[string]struct {
		pack, unpack *dictionary.Set
		fails        bool
	}{
		"none":      {nil, nil, false},
		"plain":     {nil, dictionary.NewSet(a), false},
		"first":     {dictionary.NewSet(a), dictionary.NewSet(a, b), false},
		"second":    {dictionary.NewSet(a), dictionary.NewSet(b, a), false},
		"forgotten": {dictionary.NewSet(a), dictionary.NewSet(b, c), true},
		"lost":      {dictionary.NewSet(a), nil, true},
	} {
		stored, err := s.pack.Pack(nil, want, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.unpack.Unpack(stored)
		if s.fails != errors.Is(err, dictionary.ErrFrame) || !s.fails && !bytes.Equal(got, want) {
			t.Errorf("%s: got %q and %v", name, got, err)
		}
		if name == "none" {
			continue
		}
		if s.pack != nil {
			for cut := 1; cut < len(stored); cut += 7 {
				if got, err := s.unpack.Unpack(stored[:cut]); err == nil {
					t.Fatalf("%s, cut after %d bytes: got %q", name, cut, got)
				}
			}
		}
	}
	set := dictionary.NewSet(a, b)
	if set.First() != a || set.Named(b.Name()) != b || set.Named(c.Name()) != nil || set.Known([]byte(b.Available())) != b {
		t.Error("a dictionary is not found by its name")
	}
	for _, wrong := range []string{"", ":", "::", a.Name(), strings.Trim(a.Available(), ":"), c.Available(), a.Available() + "x", ":" + strings.Repeat("!", 44) + ":", ":" + strings.Repeat("A", 44) + ":"} {
		if set.Known([]byte(wrong)) != nil {
			t.Errorf("%q was taken for a dictionary", wrong)
		}
	}
}

// What a client that does not know dcz costs.
func BenchmarkUnpack(b *testing.B) {
	for name, set := range map[string]*dictionary.Set{"plain": nil, "packed": dictionary.NewSet(trained(b, 0))} {
		b.Run(name, func(b *testing.B) {
			stored, err := set.Pack(nil, text(77), nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := set.Unpack(stored); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
