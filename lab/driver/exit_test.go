package driver

import (
	"strings"
	"testing"
)

func FuzzTail(f *testing.F) {
	f.Add([]byte("a\nb\n"), 3)
	f.Add([]byte(strings.Repeat("long line\n", 1000)), 7)
	f.Add([]byte{0xff, 0xfe, '\n'}, 1)
	f.Fuzz(func(t *testing.T, text []byte, step int) {
		step = max(1, min(step, 10_000))
		var l Tail
		for rest := text; len(rest) > 0; rest = rest[min(step, len(rest)):] {
			_, _ = l.Write(rest[:min(step, len(rest))])
		}
		if want := text[max(0, len(text)-TailBytes):]; string(l.buf) != string(want) {
			t.Errorf("got %d bytes, want the last %d", len(l.buf), len(want))
		}
		if n := len(l.Lines()); n > TailLines {
			t.Errorf("got %d lines, want at most %d", n, TailLines)
		}
	})
}
