// Package compress makes content codings of whole texts: gzip, Brotli (br) and Zstandard (zstd).
package compress

import (
	"bytes"
	"fmt"
	"io"
	"math/bits"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Coding is a content coding with its level.
type Coding struct {
	Name  string
	Level int
}

// Codings are several, the preferred one first. None compresses nothing.
type Codings []Coding

// Forms is what to write for Codings, for people.
const Forms = "none, or zstd, br and gzip in the order of preference, each with a level if wanted, as in br:5,gzip"

// kinds are the codings that there are, with their levels.
var kinds = map[string]struct {
	usual, most int
	encoder     func(level, window int) Encoder
}{
	"gzip": {6, 9, func(level, _ int) Encoder { // it never looks farther back than 32 KiB
		w, err := gzip.NewWriterLevel(nil, level)
		return stream(w, err)
	}},
	"br": {4, 11, func(level, window int) Encoder { // at most 4 MiB, which is also its default
		return stream(brotli.NewWriterOptions(nil, brotli.WriterOptions{Quality: level, LGWin: min(bits.Len(uint(window))-1, 22)}), nil)
	}},
	"zstd": {2, 4, func(level, window int) Encoder {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevel(level)), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err)
		}
		return func(dst, src []byte) []byte { return w.EncodeAll(src, dst) }
	}},
}

// Encoder appends what it compressed. It serves one after the other.
type Encoder func(dst, src []byte) []byte

// stream is the encoder of a writer, whose options are valid.
func stream(w interface {
	io.WriteCloser
	Reset(to io.Writer)
}, err error,
) Encoder {
	if err != nil {
		panic(err)
	}
	return func(dst, src []byte) []byte {
		to := bytes.NewBuffer(dst)
		w.Reset(to)
		_, _ = w.Write(src) // a buffer takes everything
		_ = w.Close()
		return to.Bytes()
	}
}

// MaxWindow is the largest window that clients have to bear (RFC 9659).
const MaxWindow = 8 << 20

// Encoder returns an encoder that looks back at most window bytes, a power of two from 1 KiB to
// MaxWindow, which bounds its memory. It panics if there is no such coding.
func (c Coding) Encoder(window int) Encoder { return kinds[c.Name].encoder(c.Level, window) }

// String is what Parse reads.
func (c Coding) String() string { return c.Name + ":" + strconv.Itoa(c.Level) }

// Parse reads Forms.
func Parse(text string) (Codings, error) {
	if text == "none" {
		return nil, nil
	}
	var all Codings
	for element := range strings.SplitSeq(text, ",") {
		name, digits, given := strings.Cut(strings.TrimSpace(element), ":")
		kind, ok := kinds[name]
		if !ok || slices.Contains(all.Names(), name) {
			return nil, fmt.Errorf("compression is %q: write %s", text, Forms)
		}
		level := kind.usual
		if given {
			var err error
			if level, err = strconv.Atoi(digits); err != nil || level < 1 || level > kind.most {
				return nil, fmt.Errorf("the level of %s is %q: write 1 to %d", name, digits, kind.most)
			}
		}
		all = append(all, Coding{name, level})
	}
	return all, nil
}

// String is what Parse reads.
func (c Codings) String() string {
	if len(c) == 0 {
		return "none"
	}
	var all []string
	for _, coding := range c {
		all = append(all, coding.String())
	}
	return strings.Join(all, ",")
}

// Names are those of the codings.
func (c Codings) Names() []string {
	var names []string
	for _, coding := range c {
		names = append(names, coding.Name)
	}
	return names
}

// Pool is a coding with its encoders: as many as there are processors, for more would take memory
// and compress no faster. It is safe for concurrent use.
type Pool struct {
	Coding

	window   int
	encoders chan Encoder // nil ones are made when they are first needed
}

// NewPool returns a pool of encoders with the window.
func NewPool(c Coding, window int) *Pool {
	p := &Pool{c, window, make(chan Encoder, runtime.GOMAXPROCS(0))}
	for range cap(p.encoders) {
		p.encoders <- nil
	}
	return p
}

// Use calls use with an encoder, once one is free.
func (p *Pool) Use(use func(Encoder)) {
	encode := <-p.encoders
	defer func() { p.encoders <- encode }()
	if encode == nil {
		encode = p.Encoder(p.window)
	}
	use(encode)
}
