package summary

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style is how text looks.
type Style struct {
	// Color has colours set by escape sequences, as terminals understand them.
	Color bool
	// ASCII keeps to the letters that every terminal and every pipe can carry.
	ASCII bool
	// Width is how many columns there are. Fewer than 60 count as 60: a table
	// needs that many.
	Width int
}

// DefaultStyle is for pipes and files: no colour, UTF-8, 80 columns.
func DefaultStyle() Style { return Style{Width: 80} }

const leastWidth = 60

// The colours, as SGR parameters.
const (
	plain  = ""
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// page is a text in the making.
type page struct {
	style Style
	b     strings.Builder
}

func newPage(style Style) *page {
	style.Width = max(style.Width, leastWidth)
	return &page{style: style}
}

// line writes one line, without what would be blank at its end.
func (p *page) line(parts ...string) {
	p.b.WriteString(strings.TrimRight(strings.Join(parts, ""), " "))
	p.b.WriteByte('\n')
}

// heading begins a section.
func (p *page) heading(title string) {
	p.line()
	p.line(p.paint(bold, title))
}

// paint puts text into a colour.
func (p *page) paint(colour, text string) string {
	if !p.style.Color || colour == plain || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// mark is the sign for what holds and what does not, in its colour.
func (p *page) mark(ok bool) string {
	colour, sign, word := red, "✗", "FAIL"
	if ok {
		colour, sign, word = green, "✓", "PASS"
	}
	if p.style.ASCII {
		sign = word
	}
	return p.paint(colour, sign)
}

// or is one of two ways to write the same: the second if only ASCII will do.
func (p *page) or(text, ascii string) string {
	if p.style.ASCII {
		return ascii
	}
	return text
}

// clean makes text of others fit for a terminal: a server must not be able to
// move the cursor by what it answers.
func (p *page) clean(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case unicode.IsPrint(r) && r != utf8.RuneError && (r < utf8.RuneSelf || !p.style.ASCII):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return strings.TrimSpace(b.String())
}

// wrapped writes text on as many lines as it takes, the first of them after
// first, the others below it after indent.
func (p *page) wrapped(colour, first, indent, text string) {
	room := p.style.Width - max(width(first), width(indent))
	for {
		part := text
		if width(text) > room {
			cut := fitting(text, room)
			if space := strings.LastIndexByte(text[:min(cut+1, len(text))], ' '); space > 0 {
				cut = space
			}
			part = text[:cut]
		}
		p.line(p.paint(colour, first+part))
		text = strings.TrimLeft(text[len(part):], " ")
		if text == "" {
			return
		}
		first = indent
	}
}

// width is how many columns text takes, its colours not counted.
func width(text string) int {
	n := utf8.RuneCountInString(text)
	for {
		_, rest, found := strings.Cut(text, "\x1b[")
		if !found {
			return n
		}
		code, rest, _ := strings.Cut(rest, "m")
		n -= len("\x1b[") + len(code) + len("m")
		text = rest
	}
}

// fitting is how many bytes of text fit into so many columns.
func fitting(text string, columns int) int {
	for i := range text {
		if columns == 0 {
			return i
		}
		columns--
	}
	return len(text)
}

// cut shortens text to so many columns.
func (p *page) cut(text string, columns int) string {
	if width(text) <= columns {
		return text
	}
	dots := p.or("…", "...")
	return text[:fitting(text, max(columns-width(dots), 1))] + dots
}

// pad fills text up to so many columns.
func pad(text string, columns int) string {
	return text + strings.Repeat(" ", max(columns-width(text), 0))
}

// table writes rows in columns. align has a letter for each column: l or r.
// The first column is cut if the table would be wider than the page.
func (p *page) table(align string, rows [][]string) {
	const indent, gap, leastName = 2, "  ", 8
	widths := make([]int, len(align))
	total := indent - len(gap)
	for column := range widths {
		for _, row := range rows {
			widths[column] = max(widths[column], width(row[column]))
		}
		total += widths[column] + len(gap)
	}
	if over := total - p.style.Width; over > 0 {
		widths[0] = max(widths[0]-over, min(widths[0], leastName))
	}
	for _, row := range rows {
		cells := make([]string, len(row))
		for column, text := range row {
			if column == 0 {
				text = p.cut(text, widths[0])
			}
			cells[column] = pad(text, widths[column])
			if align[column] == 'r' {
				cells[column] = strings.Repeat(" ", widths[column]-width(text)) + text
			}
		}
		p.line(strings.Repeat(" ", indent), strings.Join(cells, gap))
	}
}
