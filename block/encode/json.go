// Package encode writes what many answers are made of, without allocating.
package encode

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"
)

// String appends a JSON string. Like encoding/json it escapes what would
// be dangerous inside HTML (<, >, &, U+2028, U+2029) and replaces invalid UTF-8.
func String(dst []byte, text string) []byte {
	return append(Text(append(dst, '"'), text), '"')
}

// Text is String without the quotes, for who writes them with what stands beside them.
func Text(dst []byte, text string) []byte {
	start := 0 // text[start:i] needs no escape
	for i := next(text, 0); i < len(text); i = next(text, i) {
		char := text[i]
		size, escape := 1, ""
		switch {
		case char < utf8.RuneSelf:
			escape = escapes[char]
		case 0xc2 <= char && char < 0xe0 && i+1 < len(text) && text[i+1]&0xc0 == 0x80: // the most frequent ones
			size = 2
		default:
			var wide rune
			wide, size = utf8.DecodeRuneInString(text[i:])
			switch {
			case wide == utf8.RuneError && size == 1:
				escape = `\ufffd`
			case wide == '\u2028':
				escape = `\u2028`
			case wide == '\u2029':
				escape = `\u2029`
			}
		}
		if escape != "" {
			dst = append(append(dst, text[start:i]...), escape...)
			start = i + size
		}
		i += size
	}
	return append(dst, text[start:]...)
}

// wordBytes are looked at together: most of a text is plain, and a byte at a time is most of
// what writing it costs.
const (
	wordBytes  = 8
	blockBytes = 4 * wordBytes
)

// next is where, from i on, the first byte is that is not plain; the length of the text if none is.
func next(text string, i int) int {
	for len(text)-i >= blockBytes {
		block := text[i : i+blockBytes]
		a, b, c, d := load(block), load(block[wordBytes:]), load(block[2*wordBytes:]), load(block[3*wordBytes:])
		if (suspect(a)|suspect(b)|suspect(c)|suspect(d))&highs != 0 {
			for at, word := range [...]uint64{a, b, c, d} {
				if found := special(word); found != 0 {
					return i + at*wordBytes + bits.TrailingZeros64(found)/8
				}
			}
		}
		i += blockBytes
	}
	for ; len(text)-i >= wordBytes; i += wordBytes {
		if found := special(load(text[i:])); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	if len(text) < wordBytes {
		for i < len(text) && text[i] < utf8.RuneSelf && escapes[text[i]] == "" {
			i++
		}
		return i
	}
	// The rest is the end of the last word, before which spaces take the place of what was looked at.
	rest := 8 * uint(len(text)-i)
	word := load(text[len(text)-wordBytes:])>>(64-rest) | ones*' '<<rest
	return min(i+bits.TrailingZeros64(special(word))/8, len(text))
}

func load(text string) uint64 {
	_ = text[wordBytes-1]
	return uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
		uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
}

const ones, highs = 0x0101010101010101, 0x8080808080808080

// special marks bytes of a word that are not plain, by their highest bits. The lowest that is
// marked is the first: what is subtracted borrows from a byte above only where the one below
// is marked, too. '<' and '>' differ in one bit.
func special(word uint64) uint64 {
	angle := (word | ones*0x02) ^ ones*'>'
	slash := word ^ ones*'\\'
	return (word | low(word) | (angle - ones) | (slash - ones)) & highs
}

// suspect marks some byte of a word if one is not plain, and at times if all are, in less than special's
// time: '<', '>' and '\\' have three bits in common with few others.
func suspect(word uint64) uint64 {
	return word | low(word) | (word&(ones*0x1c) + ones*(0x80-0x1c))
}

// low marks control characters, '"' and '&': with these bits turned or left out they are just those from
// 0x5b on, which a search over all such masks found.
func low(word uint64) uint64 { return (word^ones*0x79)&(ones*0x7b) + ones*(0x80-0x5b) }

// escapes are how ASCII characters are written that do not stand for themselves.
var escapes = func() (all [utf8.RuneSelf]string) {
	for char := range all {
		if char < ' ' || strings.ContainsRune("<>&", rune(char)) {
			all[char] = fmt.Sprintf(`\u%04x`, char)
		}
	}
	for char, letter := range map[rune]string{'"': `"`, '\\': `\`, '\b': "b", '\f': "f", '\n': "n", '\r': "r", '\t': "t"} {
		all[char] = `\` + letter
	}
	return all
}()

// counts are the digits of small numbers, most of those that there are, and above them how many.
var counts = func() (all [1000]uint32) {
	for n := range all {
		text := strconv.Itoa(n)
		for i, digit := range []byte(text) {
			all[n] |= uint32(digit) << (8 * i)
		}
		all[n] |= uint32(len(text)) << 24
	}
	return all
}()

// together are digits that are made at once.
const together = 100_000_000

// Int appends a number.
func Int(dst []byte, n int64) []byte {
	all := uint64(n)
	if n < 0 {
		dst, all = append(dst, '-'), -all
	}
	switch {
	case all < uint64(len(counts)):
		made := counts[all]
		dst = binary.LittleEndian.AppendUint32(dst, made)
		return dst[:len(dst)-4+int(made>>24)]
	case all >= together*together:
		return strconv.AppendUint(dst, all, 10)
	}
	first := all
	if all >= together {
		first = all / together
	}
	made := digits(first)
	zeros := bits.TrailingZeros64(made) / 8 // that it begins with
	dst = binary.LittleEndian.AppendUint64(dst, (made|ones*'0')>>(8*zeros))
	dst = dst[:len(dst)-zeros]
	if all >= together {
		dst = binary.LittleEndian.AppendUint64(dst, digits(all-first*together)|ones*'0')
	}
	return dst
}

// digits are the eight of a number below together, a byte for each, the first in the lowest: halves are
// divided in halves, each time all at once.
func digits(n uint64) uint64 {
	n = n/10_000 | n%10_000<<32
	high := n * 10486 >> 20 & 0x0000007f_0000007f // a hundredth
	n = high | (n-high*100)<<16
	high = n * 103 >> 10 & 0x000f000f_000f000f // a tenth
	return high | (n-high*10)<<8
}
