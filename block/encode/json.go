// Package encode writes what many answers are made of, without allocating.
package encode

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// String appends a JSON string. Like encoding/json it escapes what would
// be dangerous inside HTML (<, >, &, U+2028, U+2029) and replaces invalid UTF-8.
func String(dst []byte, text string) []byte {
	dst = append(dst, '"')
	start := 0 // text[start:i] needs no escape
	for i := 0; i < len(text); {
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
