// Package encode writes what many answers are made of, without allocating.
package encode

import (
	"math/bits"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// String appends a JSON string. Like encoding/json it escapes what would
// be dangerous inside HTML (<, >, &, U+2028, U+2029) and replaces invalid UTF-8.
func String(dst []byte, text string) []byte {
	dst = append(dst, '"')
	start := 0 // text[start:i] needs no escape
	for i := 0; i < len(text); {
		if len(text)-i >= 2*wordBytes && special(load(text[i:]))|special(load(text[i+wordBytes:])) == 0 {
			i += 2 * wordBytes
			continue
		}
		if len(text)-i >= wordBytes {
			rest := special(load(text[i:]))
			if rest == 0 {
				i += wordBytes
				continue
			}
			i += bits.TrailingZeros64(rest) / 8
		}
		char := text[i]
		if char < utf8.RuneSelf {
			if plain(char) {
				i++
				continue
			}
			dst = append(dst, text[start:i]...)
			dst = appendEscape(dst, char)
			i++
			start = i
			continue
		}
		wide, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case wide == utf8.RuneError && size == 1:
			dst = append(dst, text[start:i]...)
			dst = append(dst, `\ufffd`...)
			start = i + size
		case wide == '\u2028' || wide == '\u2029':
			dst = append(dst, text[start:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[wide&0xf])
			start = i + size
		}
		i += size
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"')
}

// wordBytes are looked at together: most of a text is plain, and a byte at a time is most of
// what writing it costs.
const wordBytes = 8

func load(text string) uint64 {
	_ = text[wordBytes-1]
	return uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
		uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
}

// special marks bytes of a word that are not plain, by their highest bits. The lowest that is
// marked is the first: what is subtracted borrows from a byte above only where the one below
// is marked, too. '<' and '>', and '"' and '&', differ in one bit.
func special(word uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	angle := (word | ones*0x02) ^ ones*'>'
	quote := (word | ones*0x04) ^ ones*'&'
	slash := word ^ ones*'\\'
	return (word | (word - ones*' ') | (angle - ones) | (quote - ones) | (slash - ones)) & highs
}

// plain reports whether an ASCII character stands for itself in a JSON string.
func plain(char byte) bool {
	return char >= ' ' && char != '"' && char != '\\' && char != '<' && char != '>' && char != '&'
}

func appendEscape(dst []byte, char byte) []byte {
	switch char {
	case '"', '\\':
		return append(dst, '\\', char)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[char>>4], hexDigits[char&0xf])
}
