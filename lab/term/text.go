package term

import (
	"strings"
	"unicode"
)

// wide are the ranges of characters that take two columns in a terminal: the
// East Asian wide and fullwidth blocks, and emoji. Ambiguous ones count as one,
// which is what terminals do outside East Asian locales.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1},
		{Lo: 0x2e80, Hi: 0x303e, Stride: 1},
		{Lo: 0x3041, Hi: 0x33ff, Stride: 1},
		{Lo: 0x3400, Hi: 0x4dbf, Stride: 1},
		{Lo: 0x4e00, Hi: 0x9fff, Stride: 1},
		{Lo: 0xa000, Hi: 0xa4cf, Stride: 1},
		{Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1},
		{Lo: 0xfe30, Hi: 0xfe6f, Stride: 1},
		{Lo: 0xff00, Hi: 0xff60, Stride: 1},
		{Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x1f300, Hi: 0x1f64f, Stride: 1},
		{Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1},
		{Lo: 0x1f900, Hi: 0x1faff, Stride: 1},
		{Lo: 0x20000, Hi: 0x3fffd, Stride: 1},
	},
}

// Columns is the width of s in a terminal, in cells.
func Columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.Is(wide, r):
		return 2
	default:
		return 1
	}
}

// Printable returns s without what could move the cursor, change colours or
// reverse the direction of the line, on one line: names and evidence come from
// files and programs that this package does not know.
func Printable(s string) string {
	line := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return Visible(r)
	}, s)
	return strings.TrimSpace(line)
}

// Visible replaces what no text needs: control characters other than white
// space, the characters that override the direction of a line, and the two
// that are no characters.
func Visible(r rune) rune {
	switch {
	case r == '\n' || r == '\t' || r == '\r':
		return r
	case unicode.IsControl(r), r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069',
		r == '\ufffe' || r == '\uffff':
		return unicode.ReplacementChar
	default:
		return r
	}
}

// Shorten cuts the middle out of s so that it takes at most limit columns:
// names of variants often differ at their ends.
func Shorten(s string, limit int) string {
	if Columns(s) <= limit {
		return s
	}
	if limit < 3 {
		return strings.Repeat("…", min(limit, 1))
	}
	head, tail := limit/2, (limit-1)/2 // and one column for the ellipsis
	runes := []rune(s)
	from := len(runes)
	for used := 0; from > 0; from-- {
		if used += runeColumns(runes[from-1]); used > tail {
			break
		}
	}
	return Front(s, head) + "…" + string(runes[from:])
}

// Front returns the longest start of s that fits into limit columns.
func Front(s string, limit int) string {
	used := 0
	for i, r := range s {
		if used += runeColumns(r); used > limit {
			return s[:i]
		}
	}
	return s
}

// Pad fills s with blanks up to a width.
func Pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-Columns(s)))
}

// Wrap breaks text between words into lines of at most width columns; a word
// that is longer gets a line of its own and is not broken, so that a path or an
// address can still be copied.
func Wrap(text string, width int) []string {
	var lines []string
	line, used := "", 0
	for word := range strings.FieldsSeq(text) {
		n := Columns(word)
		if line != "" && used+1+n > width {
			lines = append(lines, line)
			line, used = "", 0
		}
		if line != "" {
			line, used = line+" ", used+1
		}
		line, used = line+word, used+n
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
