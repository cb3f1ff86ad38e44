package report

import (
	"slices"
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

// columns is the width of s in a terminal, in cells.
func columns(s string) int {
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

// printable returns s without what could move the cursor, change colours or
// reverse the direction of the line, on one line: names and evidence come from
// files and programs that this package does not know.
func printable(s string) string {
	line := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return visible(r)
	}, s)
	return strings.TrimSpace(line)
}

// visible replaces what no text needs: control characters other than white
// space, the characters that override the direction of a line, and the two
// that are no characters.
func visible(r rune) rune {
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

// shorten cuts the middle out of s so that it takes at most limit columns:
// names of variants often differ at their ends.
func shorten(s string, limit int) string {
	if columns(s) <= limit {
		return s
	}
	if limit < 3 {
		return strings.Repeat("…", min(limit, 1))
	}
	head, tail := limit/2, (limit-1)/2 // and one column for the ellipsis
	runes := []rune(s)
	front := takeColumns(runes, head)
	back := slices.Clone(runes)
	slices.Reverse(back)
	end := back[:len(takeColumns(back, tail))]
	slices.Reverse(end)
	return string(front) + "…" + string(end)
}

// takeColumns returns the longest start of runes that fits into limit columns.
func takeColumns(runes []rune, limit int) []rune {
	used := 0
	for i, r := range runes {
		used += runeColumns(r)
		if used > limit {
			return runes[:i]
		}
	}
	return runes
}

// wrap breaks text between words into lines of at most width columns; a word
// that is longer gets a line of its own and is not broken, so that a path or an
// address can still be copied.
func wrap(text string, width int) []string {
	var lines []string
	line, used := "", 0
	for word := range strings.FieldsSeq(text) {
		n := columns(word)
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

// cell is one field of a table. Style is applied after padding, so that colour
// codes do not count as columns.
type cell struct {
	text  string
	style style
}

// column says how the cells of one column stand.
type column struct {
	right bool
	gap   int // blanks before it
}

// grid is a table of cells that is aligned by columns and not by bytes.
type grid struct {
	columns []column
	rows    [][]cell
}

func (g *grid) add(row ...cell) { g.rows = append(g.rows, row) }

func (g *grid) widths() []int {
	widths := make([]int, len(g.columns))
	for _, row := range g.rows {
		for i, c := range row {
			widths[i] = max(widths[i], columns(c.text))
		}
	}
	return widths
}

// width is the number of columns that the widest row takes.
func (g *grid) width() int {
	total := 0
	for i, w := range g.widths() {
		if w > 0 {
			total += g.columns[i].gap + w
		}
	}
	return total
}

// lines returns the rows, painted. A column without any text takes no room.
func (g *grid) lines(paint func(style, string) string) []string {
	widths := g.widths()
	lines := make([]string, 0, len(g.rows))
	for _, row := range g.rows {
		var b strings.Builder
		blanks := 0
		for i, c := range row {
			if widths[i] == 0 {
				continue
			}
			blanks += g.columns[i].gap
			pad := widths[i] - columns(c.text)
			if g.columns[i].right {
				blanks, pad = blanks+pad, 0
			}
			if c.text != "" { // blanks are written late, so that no line ends in them
				b.WriteString(strings.Repeat(" ", blanks) + paint(c.style, c.text))
				blanks = 0
			}
			blanks += pad
		}
		lines = append(lines, b.String())
	}
	return lines
}
