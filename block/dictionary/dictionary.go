// Package dictionary compresses many short texts that resemble each other, each to a
// Zstandard frame of its own, with one dictionary of what they have in common. A dictionary is
// raw content: no tables, no identifier. That is the only kind that RFC 9842 lets browsers use,
// so a frame that is stored can go to a client as it is (Content-Encoding: dcz).
//
// Train makes a dictionary of a sample. A Set is the dictionaries that a process knows, for
// the time in which one replaces another.
package dictionary

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// MaxSize bounds a dictionary, in bytes: a client has to keep it.
const MaxSize = 16 << 20

// HashSize is the length of a dictionary's hash, a SHA-256.
const HashSize = sha256.Size

// ErrFrame says that bytes are not a frame of a dictionary, or one of more bytes than allowed.
var ErrFrame = errors.New("not a frame of this dictionary")

// Dictionary compresses and decompresses. It is safe for concurrent use.
type Dictionary struct {
	content  []byte
	hash     [HashSize]byte
	name     string
	header   []byte
	encoder  func() (*zstd.Encoder, error) // made when it is first used
	decoders sync.Pool                     // of *zstd.Decoder
	max      int
}

// frameMagic begins the header of RFC 9842, which Zstandard takes for a frame to skip.
const frameMagic = "\x5e\x2a\x4d\x18\x20\x00\x00\x00"

// formatted begins a dictionary that has tables.
const formatted = "\x37\xa4\x30\xec"

// New returns the dictionary with the content, which it owns from then on. No text that it
// decompresses to has more than maxText bytes.
func New(content []byte, maxText int) (*Dictionary, error) {
	// The fastest level: the one above takes four times as long for menus that are a seventh
	// smaller.
	return newDictionary(content, maxText, zstd.WithEncoderLevel(zstd.SpeedFastest))
}

// NewEarlier is New for a content that is what a text was before it changed. It is found again wherever it has
// gone: of 10 MB of which a hundredth is new the levels below these two find nothing. Compress has one text at a time.
func NewEarlier(content []byte, maxText int) (*Dictionary, error) {
	level := zstd.SpeedBetterCompression
	if len(content) > large {
		level = zstd.SpeedBestCompression // has tables of 34 MB
	}
	window := max(zstd.MinWindowSize, min(1<<bits.Len(uint(len(content)+maxText)), zstd.MaxWindowSize))
	return newDictionary(content, maxText, zstd.WithEncoderLevel(level), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
}

// large is a content, in bytes, from which the best level finds twice as much as the one below it.
const large = 1 << 20

func newDictionary(content []byte, maxText int, options ...zstd.EOption) (*Dictionary, error) {
	if len(content) > MaxSize {
		return nil, fmt.Errorf("the dictionary has more than %d bytes", MaxSize)
	}
	if bytes.HasPrefix(content, []byte(formatted)) {
		return nil, errors.New("the dictionary has tables, which clients over HTTP cannot use: write one of raw content")
	}
	d := &Dictionary{content: content, hash: sha256.Sum256(content), max: maxText}
	d.name = hex.EncodeToString(d.hash[:])
	d.header = append([]byte(frameMagic), d.hash[:]...)
	d.encoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, append(options, zstd.WithEncoderDictRaw(0, content),
			zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))...)
	})
	return d, nil
}

// Read returns the dictionary in a file, see New.
func Read(path string, maxText int) (*Dictionary, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read a dictionary: %w", err)
	}
	content, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	err = errors.Join(err, file.Close())
	if err == nil && len(content) == 0 {
		err = errors.New("the file is empty")
	}
	var d *Dictionary
	if err == nil {
		d, err = New(content, maxText)
	}
	if err != nil {
		return nil, fmt.Errorf("read the dictionary %s: %w", path, err)
	}
	return d, nil
}

// Content is what clients need; it must not be modified.
func (d *Dictionary) Content() []byte { return d.content }

// Name is the hash in hexadecimal digits.
func (d *Dictionary) Name() string { return d.name }

// Header is what stands before a frame in the content coding dcz: it names the dictionary. It must
// not be modified.
func (d *Dictionary) Header() []byte { return d.header }

// Available is the value of Available-Dictionary of who has it.
func (d *Dictionary) Available() string {
	return ":" + base64.StdEncoding.EncodeToString(d.hash[:]) + ":"
}

// Compress appends the frame of a text. A text that does not compress is a frame with a raw
// block, a dozen bytes larger.
func (d *Dictionary) Compress(dst, text []byte) ([]byte, error) {
	encoder, err := d.encoder()
	if err != nil {
		return dst, fmt.Errorf("compress with a dictionary: %w", err)
	}
	return encoder.EncodeAll(text, dst), nil
}

// Decompress appends the text of a frame, or of what Header stands before. The error wraps
// ErrFrame.
func (d *Dictionary) Decompress(dst, frame []byte) ([]byte, error) {
	decoder, ok := d.decoders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		decoder, err = zstd.NewReader(nil, zstd.WithDecoderDictRaw(0, d.content), zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(uint64(d.max)))
		if err != nil {
			return dst, fmt.Errorf("decompress with a dictionary: %w", err)
		}
	}
	defer d.decoders.Put(decoder)
	text, err := decoder.DecodeAll(frame, dst)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return text, nil
}
