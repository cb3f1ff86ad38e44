package dictionary

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
)

// Set is the dictionaries that a process knows. It compresses with the first, and reads what
// was compressed with any. The nil Set knows none, and stores texts as they are.
//
// To replace a dictionary, have all processes know the new one as the second, then as the
// first, and forget the old one when nothing stored has it any more.
type Set struct{ all []*Dictionary }

// NewSet returns the dictionaries as a set, the one to compress with first; nil for none.
func NewSet(all ...*Dictionary) *Set {
	if len(all) == 0 {
		return nil
	}
	return &Set{all}
}

// ReadSet reads the dictionaries of the files, see Read.
func ReadSet(paths []string, maxText int) (*Set, error) {
	var all []*Dictionary
	var errs []error
	for _, path := range paths {
		d, err := Read(path, maxText)
		all, errs = append(all, d), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return NewSet(all...), nil
}

// First is the dictionary to compress with; nil if there is none.
func (s *Set) First() *Dictionary {
	if s == nil {
		return nil
	}
	return s.all[0]
}

// Named is the dictionary whose hash has the hexadecimal digits; nil if it is not known.
func (s *Set) Named(name string) *Dictionary {
	return s.find(func(d *Dictionary) bool { return d.name == name })
}

// Known is the dictionary that an Available-Dictionary names; nil if that is another.
func (s *Set) Known(available []byte) *Dictionary {
	return s.find(func(d *Dictionary) bool { return d.Is(available) })
}

func (s *Set) find(which func(*Dictionary) bool) *Dictionary {
	if s != nil {
		for _, d := range s.all {
			if which(d) {
				return d
			}
		}
	}
	return nil
}

// Is reports whether an Available-Dictionary (RFC 9842, 2.2), a byte sequence of RFC 8941, names
// the dictionary.
func (d *Dictionary) Is(available []byte) bool {
	const coded = (HashSize + 2) / 3 * 4
	available = bytes.Trim(available, " ")
	if len(available) != coded+2 || available[0] != ':' || available[coded+1] != ':' {
		return false
	}
	var hash [coded/4*3 + 1]byte
	n, err := base64.StdEncoding.Decode(hash[:], available[1:coded+1])
	return err == nil && bytes.Equal(hash[:n], d.hash[:])
}

// What is stored of a text is either the text, or a mark that no JSON begins with, the first bytes
// of the dictionary's hash, and the frame.
const (
	mark       = 0
	nameBytes  = 8
	PackedSize = 1 + nameBytes // what a stored frame has before it
)

// Pack appends what is to be stored of a text, whose frame is made if it is nil. A text must not begin
// with a zero byte.
func (s *Set) Pack(dst, text, frame []byte) ([]byte, error) {
	d := s.First()
	if d == nil {
		return append(dst, text...), nil
	}
	dst = append(append(dst, mark), d.hash[:nameBytes]...)
	if frame != nil {
		return append(dst, frame...), nil
	}
	return d.Compress(dst, text)
}

// Split says what is stored: a frame and its dictionary, or, without a dictionary, a text. It is
// false for a frame of a dictionary that is not known.
func (s *Set) Split(stored []byte) (d *Dictionary, rest []byte, ok bool) {
	if len(stored) == 0 || stored[0] != mark {
		return nil, stored, true
	}
	if len(stored) < PackedSize {
		return nil, nil, false
	}
	d = s.find(func(d *Dictionary) bool { return bytes.Equal(d.hash[:nameBytes], stored[1:PackedSize]) })
	return d, stored[PackedSize:], d != nil
}

// Unpack returns the text of what is stored. It may lie in stored. The error wraps ErrFrame.
func (s *Set) Unpack(stored []byte) ([]byte, error) {
	d, rest, ok := s.Split(stored)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: its dictionary is not known", ErrFrame)
	case d == nil:
		return rest, nil
	}
	return d.Decompress(nil, rest)
}
